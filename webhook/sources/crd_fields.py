"""The field names of kinds, as CustomResourceDefinitions that have nothing else: no types, descriptions or defaults.

Made from the OpenAPI document, which every authenticated user may read. To list CustomResourceDefinitions takes more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.model.projections import Resource
from webhook.model.reading import Manifest

# The schemas of real kinds are less deep.
_DEEPEST = 40
_ANY_FIELD = "x-kubernetes-preserve-unknown-fields"
_OPEN: Manifest = {"type": "object", _ANY_FIELD: True}


def definitions(schemas: Iterable[tuple[Resource, Mapping[str, Any]]]) -> Manifest:
    """Return a list with one CustomResourceDefinition for each kind, with the field names of its served versions."""
    kinds: dict[tuple[str, str], Manifest] = {}
    for resource, schema in sorted(schemas, key=lambda entry: entry[0]):
        api = resource.api
        found = kinds.setdefault((api.group, api.kind), _definition(resource))
        version = {"name": api.version, "served": True, "schema": {"openAPIV3Schema": _kind(schema)}}
        found["spec"]["versions"].append(version)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinitionList",
        "items": list(kinds.values()),
    }


def _definition(resource: Resource) -> Manifest:
    api = resource.api
    return {
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": api.group,
            "names": {"kind": api.kind, "plural": resource.plural},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [],
        },
    }


def _kind(schema: Mapping[str, Any]) -> Manifest:
    found = _names(schema, _DEEPEST)
    properties = found.get("properties")
    if isinstance(properties, dict):
        # Every kind has the same metadata, and no rule reads the status.
        properties |= {name: {"type": "object"} for name in ("metadata",) if name in properties}
        properties |= {name: dict(_OPEN) for name in ("status",) if name in properties}
    return found


def _names(schema: object, deepest: int) -> Manifest:
    """Return a schema with its structure and field names only."""
    if not isinstance(schema, Mapping) or not deepest:
        return dict(_OPEN)
    if schema.get(_ANY_FIELD):
        return dict(_OPEN)
    found: Manifest = {"type": "object"} if schema.get("type") == "object" else {}
    if isinstance(properties := schema.get("properties"), Mapping):
        found["properties"] = {str(name): _names(below, deepest - 1) for name, below in properties.items()}
    if "items" in schema:
        found["items"] = _names(schema["items"], deepest - 1)
    each = schema.get("additionalProperties")
    if isinstance(each, bool) or each is None:
        found |= {} if each is None else {"additionalProperties": each}
    else:
        found["additionalProperties"] = _names(each, deepest - 1)
    return found
