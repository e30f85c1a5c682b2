"""A first draft of a WorkloadShape, from the CustomResourceDefinition of its kind.

A person completes it: a schema shows where templates and counts are, and not what the controller does with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.reading import Malformed, Manifest, mapping, sequence, text

API_VERSION = "rollcall.dev/v1alpha1"
# Deeper schemas describe volumes and the like.
_DEEPEST = 12
_MOST_PARTS = 16
# Fields that hold numbers of pods, the most likely first, and the names of those that hold a lower bound.
_COUNTS = ("replicas", "numReplicas", "instances", "count", "size", "parallelism", "numNodes")
_MINIMUMS = ("minAvailable", "minMember", "minReplicas")
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


class Draft(NamedTuple):
    """The draft, and what must be checked before it is used."""

    shape: Manifest
    checks: tuple[str, ...]


class _Template(NamedTuple):
    """A pod template: its path, the schema beside it, and the path of its entry if it is one of many."""

    path: str
    name: str
    holder: Mapping[str, Any]
    holder_path: str
    each: str | None


def draft_of(crd: Manifest, kind: str) -> Draft | None:
    """Returns the draft for a kind, None if the CRD is of another kind. Raises `Malformed`."""
    spec = mapping(crd.get("spec"))
    names = mapping(spec.get("names"))
    if kind.lower() not in {str(names.get(key)).lower() for key in ("kind", "plural", "singular")}:
        return None
    every = map(mapping, sequence(spec.get("versions")))
    versions = [version for version in every if version.get("served") is True]
    if not versions:
        raise Malformed(spec.get("versions"), "a list with a served version")
    # The stored version is the one that its controller reads.
    versions.sort(key=lambda version: version.get("storage") is not True)
    schema = mapping(mapping(versions[0].get("schema")).get("openAPIV3Schema"))
    body = mapping(mapping(schema.get("properties")).get("spec"))
    templates = list(_templates(body, "$.spec", None, _DEEPEST))[:_MOST_PARTS]
    label = f"{text(spec.get('group'))}/part"
    parts = [_part(template, label, alone=len(templates) == 1) for template in templates]
    declared: Manifest = {
        "for": {
            "group": text(spec.get("group")),
            "kind": text(names.get("kind")),
            "plural": text(names.get("plural")),
            "versions": [text(version.get("name")) for version in versions[:1]],
        },
        "source": "",
        **_switches(body),
        "parts": parts,
        "gang": {"over": "all"},
    }
    shape = {
        "apiVersion": API_VERSION,
        "kind": "WorkloadShape",
        "metadata": {"name": text(names.get("singular")) or str(names.get("kind")).lower()},
        "spec": declared,
    }
    return Draft(shape, tuple(_checks(templates, label)))


def _switches(body: Mapping[str, Any]) -> Manifest:
    fields = mapping(body.get("properties"))
    policy = mapping(mapping(fields.get("runPolicy")).get("properties"))
    switches: Manifest = {}
    for prefix, properties in (("$.spec", fields), ("$.spec.runPolicy", policy)):
        if mapping(properties.get("suspend")).get("type") == "boolean":
            switches["suspended"] = {"path": f"{prefix}.suspend", "is": True}
        if mapping(properties.get("managedBy")).get("type") == "string":
            switches["elsewhere"] = {"path": f"{prefix}.managedBy", "is": "kueue.x-k8s.io/multikueue"}
    return switches


def _templates(schema: Mapping[str, Any], path: str, each: str | None, depth: int) -> Iterator[_Template]:
    """Yields the pod templates below a schema, but not those of an entry of an entry: a part has one `each`."""
    if depth == 0:
        return
    for name, raw in mapping(schema.get("properties")).items():
        below, place = mapping(raw), f"{path}.{name}"
        if _is_template(name, below):
            yield _Template(place, name, schema, path, each)
        elif below.get("type") == "array":
            if each is None:
                yield from _templates(mapping(below.get("items")), "@", f"{place}[*]", depth - 1)
        elif isinstance(below.get("additionalProperties"), dict) and each is None:
            yield from _templates(mapping(below["additionalProperties"]), "@", f"{place}[*]", depth - 1)
        elif below.get("type") == "object":
            yield from _templates(below, place, each, depth - 1)


def _is_template(name: str, schema: Mapping[str, Any]) -> bool:
    fields = mapping(schema.get("properties"))
    if "containers" in mapping(mapping(fields.get("spec")).get("properties")):
        return True
    # Many CRDs leave out the schema of a pod, because it is large.
    return name.lower().endswith("template") and schema.get(_PRESERVES) is True


def _part(template: _Template, label: str, *, alone: bool) -> Manifest:
    fields = mapping(template.holder.get("properties"))
    name = _name(template, fields)
    part: Manifest = {} if alone and template.each is None else {"name": name}
    if template.each is not None:
        part["each"] = template.each
    part["template"] = template.path
    counted = next((key for key in _COUNTS if mapping(fields.get(key)).get("type") == "integer"), None)
    default = mapping(fields.get(counted or "")).get("default", 1)
    part["pods"] = 1 if counted is None else {"path": f"{template.holder_path}.{counted}", "default": default}
    least = next((key for key in _MINIMUMS if mapping(fields.get(key)).get("type") == "integer"), None)
    if least is not None:
        path = f"{template.holder_path}.{least}"
        part["minimum"] = {"when": {"path": path, "exists": True}, "count": {"path": path}}
    if template.each is not None:
        part["pod"] = {"nameLabel": label}
    elif not alone:
        part["pod"] = {"labels": {label: name}}
    return part


def _name(template: _Template, fields: Mapping[str, Any]) -> Any:
    if template.each is not None:
        name_field = next((key for key in ("name", "groupName", "role") if key in fields), None)
        return {"key": "lower"} if name_field is None else {"path": f"@.{name_field}"}
    holder = template.holder_path.rpartition(".")[2]
    stem = template.name if holder in {"$", "spec"} else holder
    for ending in ("PodTemplate", "Template", "GroupSpec", "Spec"):
        stem = stem.removesuffix(ending) or stem
    return stem.lower()


def _checks(templates: list[_Template], label: str) -> Iterator[str]:
    if not templates:
        yield "no pod template was found in the schema: write where the templates are, or objects with their fields"
    if len(templates) > 1 or any(template.each is not None for template in templates):
        yield f"replace {label} by the labels that the controller writes on the pods of each part"
    yield "list in pod.chain what controls the pods below the workload, such as a Job or a StatefulSet"
    yield "a part whose pods wait for others to run or to be ready, such as a submitter, is no member: outside: true"
    yield "podLabel is the pod label that has the name of the workload, if there is one"
    yield "write in source where these facts come from, and test the shape: rollcall shapes test FILE SAMPLE..."
