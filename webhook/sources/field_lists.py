"""Read the field names of kinds: from CustomResourceDefinitions, or from the lists of known releases in the package.

The package has names only, in `field_lists.json`: no types, no descriptions, no values. `scripts/field-lists` makes it.
Equal parts, such as the fields of a pod, are stored once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from webhook.errors import InputError
from webhook.model.field_names import KindFields, Names, kind_names
from webhook.model.keys import Api
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.offline.judgement import kind_of, objects_in
from webhook.sources.manifests import Document, files_of, read_file

LISTS = Path(__file__).parent / "field_lists.json"
_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")


@cache
def known_fields() -> Mapping[Api, KindFields]:
    """Return the field names of the kinds of known releases."""
    stored = json.loads(LISTS.read_text(encoding="utf-8"))
    nodes: list[Names | None] = [None]
    for scalars, objects in stored["nodes"]:
        found: dict[str, Any] = dict.fromkeys(scalars.split())
        found.update((name, nodes[index]) for name, index in objects.items())
        nodes.append(MappingProxyType(found))
    kinds: dict[Api, KindFields] = {}
    for named, index in stored["kinds"].items():
        group, version, kind, product = named.split()
        kinds[api_of(group, version, kind)] = KindFields(nodes[index] or {}, f"{product} {stored['releases'][product]}")
    return MappingProxyType(kinds)


def load_schemas(paths: Iterable[Path]) -> Mapping[Api, KindFields]:
    """Return the field names in CustomResourceDefinitions in files and folders. Raises `InputError`."""
    found: dict[Api, KindFields] = {}
    for path in files_of(paths):
        read = fields_in(read_file(path))
        if not read:
            raise InputError(str(path), "has no CustomResourceDefinition with a schema")
        found |= read
    return found


def fields_in(documents: Iterable[Document]) -> dict[Api, KindFields]:
    """Return the field names in the CustomResourceDefinitions among the documents. Raises `InputError`."""
    found: dict[Api, KindFields] = {}
    for document in documents:
        for raw, at in objects_in(document.manifest):
            if kind_of(raw)[::2] != _CRD:
                continue
            try:
                found.update((api, KindFields(names, document.source)) for api, names in versions_of(raw))
            except Malformed as error:
                place = document.position(at)
                raise InputError(document.source, f"CustomResourceDefinition: {error}", *place) from None
    return found


def versions_of(raw: Manifest) -> Iterator[tuple[Api, Names]]:
    """Yield each version of a CustomResourceDefinition that lists its fields. Raises `Malformed`."""
    spec = mapping(raw.get("spec"))
    group, kind = text(spec.get("group")) or "", text(mapping(spec.get("names")).get("kind")) or ""
    for version in map(mapping, sequence(spec.get("versions"))):
        names = kind_names(mapping(version.get("schema")).get("openAPIV3Schema"))
        if names is not None:
            yield Api(group, text(version.get("name")) or "", kind), names


def api_of(group: str, version: str, kind: str) -> Api:
    """Return the kind; `core` is the core group in the lists, which separate by blanks."""
    return Api("" if group == "core" else group, version, kind)
