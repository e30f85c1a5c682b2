"""Facts of a cluster in manifests: the output of `rollcall facts` or of `kubectl get KIND -A -o yaml`, or files
written by hand.

A part of the facts is known once there is a document of its kind, or an empty typed list (`kind: ElasticQuotaList`,
`items: []`). Until then it is unknown. Kinds that no rule reads are ignored.

Field names come from CustomResourceDefinitions, or from `field_lists.json`, which `scripts/field-lists` makes. It has
names only: no types, no descriptions, no values. Equal parts, such as the fields of a pod, are stored once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.backends.registry import installed_backends
from webhook.errors import InputError
from webhook.model import grove, known_kinds
from webhook.model.bounds import name_text
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import ROOT, SPEC, FieldPath, Item, KindFields, Names, kind_names
from webhook.model.findings import shown
from webhook.model.keys import SHAPED_WORKLOADS, Api
from webhook.model.known_kinds import POD
from webhook.model.node_pods import NODE_PODS, RESERVATIONS, read_node_pod
from webhook.model.nodes import NODES, OVERSUBSCRIPTION, amount_of, taint_of
from webhook.model.projections import Missing, Projection, key_of, labels_of, required, spec_fields
from webhook.model.reading import Malformed, Manifest, flag, mapping, sequence, text
from webhook.offline.judgement import kind_of, objects_in
from webhook.offline.manifests import Document, document_of, files_of, read_file
from webhook.workloads.known_workloads import EVERY_GENERAL
from webhook.workloads.known_workloads import PROJECTIONS as OF_OPTED_IN_KINDS
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds

_METADATA, _STATUS = ROOT / "metadata", ROOT / "status"


class _Field(NamedTuple):
    at: FieldPath
    value: Any
    read: Callable[[Any], object]


def _require_readable_fields(node: FactObject) -> None:
    """Raises `InputError` for the first field of a Node that cannot be read."""
    for field in _fields(node.manifest):
        try:
            field.read(field.value)
        except Malformed as error:
            quoted = "" if isinstance(field.value, dict | list) else f" ({shown(field.value)})"
            raise node.error(field.at, f"{field.at}: {error}{quoted}") from None


def _fields(raw: Manifest) -> Iterator[_Field]:
    """Yields the fields that are read of a Node, each after those that it is in."""
    for part in ("metadata", "spec", "status"):
        yield _Field(ROOT / part, raw.get(part), mapping)
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    for part in ("labels", "annotations"):
        yield _Field(_METADATA / part, metadata.get(part), mapping)
    for key, value in mapping(metadata.get("labels")).items():
        yield _Field(_METADATA / "labels" / key, value, text)
    annotations = mapping(metadata.get("annotations"))
    for key in OVERSUBSCRIPTION.values():
        yield _Field(_METADATA / "annotations" / key, annotations.get(key), name_text)
    for part in ("allocatable", "capacity"):
        yield _Field(_STATUS / part, status.get(part), mapping)
        for resource, quantity in mapping(status.get(part)).items():
            yield _Field(_STATUS / part / resource, quantity, partial(amount_of, resource))
    yield from _each(SPEC / "taints", spec.get("taints"), taint_of)
    yield from _each(_STATUS / "conditions", status.get("conditions"), mapping)
    yield _Field(SPEC / "unschedulable", spec.get("unschedulable"), flag)


def _each(at: FieldPath, value: Any, read: Callable[[Any], object]) -> Iterator[_Field]:
    yield _Field(at, value, sequence)
    for index, entry in enumerate(sequence(value)):
        yield _Field(at / Item(index), entry, read)


LISTS = Path(__file__).parent / "field_lists.json"
_CRD = ("apiextensions.k8s.io", "CustomResourceDefinition")


@cache
def known_fields() -> Mapping[Api, KindFields]:
    stored = json.loads(LISTS.read_text(encoding="utf-8"))
    nodes: list[Names | None] = [None]
    for scalars, objects in stored["nodes"]:
        names: dict[str, Any] = dict.fromkeys(scalars.split())
        names.update((name, nodes[index]) for name, index in objects.items())
        nodes.append(MappingProxyType(names))
    kinds: dict[Api, KindFields] = {}
    for written_kind, index in stored["kinds"].items():
        group, version, kind, product = written_kind.split()
        # `core` is the core group in the lists, which separate by blanks.
        api = Api("" if group == "core" else group, version, kind)
        kinds[api] = KindFields(nodes[index] or {}, f"{product} {stored['releases'][product]}")
    return MappingProxyType(kinds)


def load_schemas(paths: Iterable[Path]) -> Mapping[Api, KindFields]:
    """Returns the field names in CustomResourceDefinitions in files and folders. Raises `InputError`."""
    fields_by_kind: dict[Api, KindFields] = {}
    for path in files_of(paths):
        read: dict[Api, KindFields] = {}
        for document in read_file(path):
            for raw, at in objects_in(document.manifest):
                try:
                    if kind_of(raw)[::2] == _CRD:
                        read.update((api, KindFields(names, document.source)) for api, names in versions_of(raw))
                except Malformed as error:
                    why = f"CustomResourceDefinition: {error}"
                    raise InputError(document.source, why, *document.position(at)) from None
        if not read:
            raise InputError(str(path), "has no CustomResourceDefinition with a schema")
        fields_by_kind |= read
    return fields_by_kind


def versions_of(raw: Manifest) -> Iterator[tuple[Api, Names]]:
    """Yields each version of a CustomResourceDefinition that lists its fields. Raises `Malformed`."""
    spec = mapping(raw.get("spec"))
    group, kind = text(spec.get("group")) or "", text(mapping(spec.get("names")).get("kind")) or ""
    for version in map(mapping, sequence(spec.get("versions"))):
        names = kind_names(mapping(version.get("schema")).get("openAPIV3Schema"))
        if names is not None:
            yield Api(group, text(version.get("name")) or "", kind), names


class FactObject(NamedTuple):
    """One object of a document, which may be a list of many."""

    document: Document
    at: FieldPath
    manifest: Manifest

    def error(self, path: FieldPath, why: str) -> InputError:
        line, column = self.document.position(FieldPath((*self.at.parts, *path.parts)))
        return InputError(self.document.source, why, line, column)

    @property
    def place(self) -> str:
        return ":".join(map(str, (self.document.source, *self.document.position(self.at))))

    @property
    def order(self) -> tuple[str, int, tuple[str, ...]]:
        """The order of objects by place, without a search for the column."""
        return self.document.source, self.document.line, tuple(map(str, self.at.parts))


class _Origin(NamedTuple):
    order: tuple[str, int, tuple[str, ...]]
    text: str
    version: str
    value: Any


# By part of the facts, kind, namespace and name.
_Origins = dict[tuple[str, str, str, str], _Origin]


def load_facts(paths: Sequence[Path], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Returns the facts in files and folders. Raises `InputError`, also for an empty file: the command that was to
    write it has failed, and what is missing would only be unknown.
    """
    documents = (document for path in files_of(paths) for document in read_file(path, may_be_empty=False))
    return facts_of(fact_objects(documents), kinds=kinds, origins={})


def facts_from(
    documents: Iterable[Document], facts: ClusterFacts = NO_FACTS, kinds: WorkloadKinds = PYTHON_KINDS
) -> ClusterFacts:
    """Returns the facts in `documents`, added to `facts`. Raises `InputError`."""
    return facts_of(fact_objects(documents), facts, kinds)


def facts_of(
    items: Iterable[FactObject],
    facts: ClusterFacts = NO_FACTS,
    kinds: WorkloadKinds = PYTHON_KINDS,
    origins: _Origins | None = None,
) -> ClusterFacts:
    """Returns the facts in objects. With `origins`, which is filled, an object may stand twice if both are equal."""
    parts: dict[str, Any] = {}
    cut: set[str] = set()
    for item in items:
        group, version, kind = kind_of(item.manifest)
        is_list = kind.endswith("List")
        try:
            for part in parts_of(group, kind.removesuffix("List"), kinds):
                objects = parts.setdefault(part, begun_part(facts, part))
                if (is_list and is_page(item.manifest)) or is_unread(group, version, kind, kinds):
                    cut.add(part)
                if not is_list and not is_nameless(part, item.manifest):
                    _add(part, item, objects, kinds, origins)
        except Missing as error:
            raise item.error(error.path, str(error)) from None
        except Malformed as error:
            raise item.error(FieldPath(), f"{kind}: {error}") from None
    for part in _SETS & parts.keys():
        parts[part] = frozenset(parts[part])
    if not parts.get(NODE_PODS.part, True):
        # Pods without a node, and those that were cut down to their name and gang, do not tell what the others use.
        del parts[NODE_PODS.part]
    if cut:
        parts["partial"] = (facts.partial or frozenset()) | cut
    if origins:
        parts["origins"] = MappingProxyType({key: origin.text for key, origin in origins.items()})
    return replace(facts, **parts)


def is_page(manifest: Manifest) -> bool:
    """Returns whether a list is one page of several. Raises `Malformed`."""
    metadata = mapping(manifest.get("metadata"))
    return bool(metadata.get("continue") or metadata.get("remainingItemCount"))


def facts_in(manifests: Iterable[Manifest], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Returns the facts in manifests that were read from a cluster. Raises `InputError`."""
    return facts_from((document_of(manifest, "the cluster") for manifest in manifests), kinds=kinds)


class FactRemark(NamedTuple):
    """What is to be said of an object among the files, and where it stands."""

    message: str
    document: Document
    at: FieldPath
    # Kind, namespace (empty if it has none) and name.
    subject: tuple[str, str, str]

    def __str__(self) -> str:
        line, column = self.document.position(self.at)
        return f"{self.document.source}:{line}:{column}: {self.message}"


class FactEntry(NamedTuple):
    """What one object says to a part of the facts."""

    item: FactObject
    key: Any
    value: Any


def add_field_names(facts: ClusterFacts, schemas: Sequence[Path] = ()) -> ClusterFacts:
    """Returns `facts` with the field names of all kinds: of the CRDs in `schemas`, else of `facts`, else of the known
    releases. Raises `InputError`.
    """
    return replace(facts, field_names={**known_fields(), **(facts.field_names or {}), **load_schemas(schemas)})


# What limits gangs in a namespace: a folder often has it beside the workloads. Objects that get their names at creation
# are left out.
LIMITS = frozenset({"resource_quotas", "limit_ranges", "resource_claim_templates", "resource_claims", "device_classes"})
OPTED_IN = frozenset({SHAPED_WORKLOADS, *(projection.part for projection in OF_OPTED_IN_KINDS)})


def is_nameless(part: str, raw: Manifest) -> bool:
    """Returns whether an object gets its name at creation, as Jobs often do: nothing can name it before."""
    metadata = raw.get("metadata")
    return (part in OPTED_IN or part in LIMITS) and not (isinstance(metadata, dict) and metadata.get("name"))


def begun_part(facts: ClusterFacts, part: str) -> Any:
    before = getattr(facts, part)
    if part in _SETS:
        return set(before or ())
    fresh: dict[Any, Any] = _entries().get(part, dict)()
    fresh.update(before or {})
    return fresh


@cache
def _entries() -> dict[str, Callable[[], dict[Any, Any]]]:
    return {projection.part: projection.entries for projection in (NODE_PODS, *_projections().values())}


def fact_objects(documents: Iterable[Document]) -> Iterator[FactObject]:
    """Yields the objects of documents: lists, and each object in them."""
    for document in documents:
        yield from _unpack(FactObject(document, FieldPath(), document.manifest))


def _unpack(item: FactObject) -> Iterator[FactObject]:
    kind, items = item.manifest.get("kind"), item.manifest.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        # The list itself too: a typed list shows that its kind is known.
        yield item
        for index, inner in enumerate(items):
            if isinstance(inner, dict):
                # The items of a typed list may omit apiVersion and kind.
                typed = {"apiVersion": item.manifest.get("apiVersion"), "kind": kind.removesuffix("List"), **inner}
                yield from _unpack(FactObject(item.document, item.at / "items" / Item(index), typed))
    else:
        yield item


# The parts that are sets. Neither is a projection of one kind: APIs come from CRDs, bound gangs from pods.
_SETS = frozenset({"apis", "bound_gangs"})


@cache
def _projections() -> dict[tuple[str, str], Projection]:
    """Returns the projections by group and kind: those of admission itself, and those of each backend."""
    backends = installed_backends().values()
    of_backends = (projection for backend in backends for projection in backend.projections)
    every = (RESERVATIONS, *EVERY_GENERAL, *of_backends)
    return {projection.resource.api.group_kind: projection for projection in every}


def projection_of(group: str, kind: str, kinds: WorkloadKinds) -> Projection | None:
    return _projections().get((group, kind)) or kinds.projection(group, kind)


def is_unread(group: str, version: str, kind: str, kinds: WorkloadKinds) -> bool:
    """Returns whether a document has a version that its projection does not understand, so it is not read."""
    projection = projection_of(group, kind.removesuffix("List"), kinds)
    return projection is not None and bool(projection.versions) and version not in projection.versions


def parts_of(group: str, kind: str, kinds: WorkloadKinds) -> Iterator[str]:
    """Yields the parts of the facts that documents of a kind belong to."""
    projection = projection_of(group, kind, kinds)
    if projection is not None:
        yield projection.part
    if (group, kind) == ("", "Pod"):
        yield "bound_gangs"
        yield NODE_PODS.part
    elif (group, kind) == (known_kinds.GROUP, known_kinds.KIND):
        yield "apis"
    elif (group, kind) == _CRD:
        yield "apis"
        yield "spec_fields"
        yield "field_names"


def _add(part: str, item: FactObject, objects: Any, kinds: WorkloadKinds, origins: _Origins | None = None) -> None:
    raw = item.manifest
    if part == "apis":
        discovered = kind_of(raw).kind == known_kinds.KIND
        objects.update((served.api for served in known_kinds.kinds_of(raw)) if discovered else dict(_served(raw)))
    elif part == "spec_fields":
        objects.update((api, fields) for api, fields in _served(raw) if fields is not None)
    elif part == "field_names":
        objects.update((api, KindFields(names, item.document.source)) for api, names in versions_of(raw))
    elif part == NODE_PODS.part:
        if (pod := read_node_pod(raw)) is not None:
            objects[pod[0]] = pod[1]
    elif part == "bound_gangs":
        podgang = text(labels_of(raw).get(grove.LABEL_PODGANG))
        if podgang is not None and text(mapping(raw.get("spec")).get("nodeName")):
            objects.add((key_of(raw)[0], podgang))
    else:
        group, version, kind = kind_of(raw)
        projection = projection_of(group, kind, kinds)
        if projection is None or is_unread(group, version, kind, kinds):
            return
        entry = entry_of(item, projection)
        if entry is None:
            return
        objects[entry.key] = entry.value
        if origins is not None and (group, kind) != POD:
            _note_origin(part, entry, projection, origins)


def entry_of(item: FactObject, projection: Projection) -> FactEntry | None:
    """Returns what one object says; None if no rule needs it. Raises `Malformed`, `InputError`."""
    read = projection.read(item.manifest)
    if read is None:
        return None
    # A cluster has no such Node: the API server refuses it.
    if projection.part == NODES.part and read[1].problem:
        _require_readable_fields(item)
    return FactEntry(item, *read)


def _note_origin(part: str, entry: FactEntry, projection: Projection, origins: _Origins) -> None:
    """Keeps where an object stands. Raises `InputError` if another version of it stands elsewhere."""
    subject, item = subject_of(entry.item.manifest, projection), entry.item
    # Where it stands, without a search: in a long list, its index.
    place = f"{item.document.source}:{item.document.line}{f' ({item.at})' if item.at.parts else ''}"
    origin = _Origin(item.order, place, kind_of(item.manifest).version, entry.value)
    before = origins.setdefault((part, *subject), origin)
    if before.version == origin.version and before.value != origin.value:
        first, second = sorted((before, origin), key=lambda place: place.order)
        why = f"{subject_words(subject)} differs from the one in {second.text}: keep the one that the cluster has"
        raise InputError(first.order[0], why, first.order[1], 1)


def subject_of(raw: Manifest, projection: Projection) -> tuple[str, str, str]:
    """Returns kind, namespace and name of an object; the namespace is empty for one of a cluster."""
    namespaced = projection.resource.namespaced
    return projection.resource.api.kind, key_of(raw)[0] if namespaced else "", name_of(raw)


def name_of(raw: Manifest) -> str:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def subject_words(subject: tuple[str, str, str]) -> str:
    kind, namespace, name = subject
    return f"{kind} {shown(f'{namespace}/{name}' if namespace else name)}"


def _served(raw: Manifest) -> Iterator[tuple[Api, frozenset[str] | None]]:
    """Yields the kinds that a CustomResourceDefinition serves, with the fields of their spec, None if it lists none."""
    spec = mapping(raw.get("spec"))
    group = required(text(spec.get("group")), SPEC / "group")
    kind = required(text(mapping(spec.get("names")).get("kind")), SPEC / "names" / "kind")
    for version in sequence(spec.get("versions")):
        if mapping(version).get("served") is True:
            schema = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
            yield Api(group, text(version.get("name")) or "", kind), spec_fields(schema)
