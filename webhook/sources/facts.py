"""Read facts of a cluster from manifests: the output of `rollcall facts` or of `kubectl get KIND -A -o yaml`, or files
written by hand.

A part of the facts is known once there is a document of its kind, or an empty typed list (`kind: ElasticQuotaList`,
`items: []`). Until then it is unknown. Kinds that no rule reads are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from webhook.backends.registry import installed_backends
from webhook.backends.volcano.keys import OPEN
from webhook.errors import InputError
from webhook.model import grove, served_kinds
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.field_names import KindFields
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.general import EVERY_GENERAL
from webhook.model.keys import SHAPED_WORKLOADS, Api
from webhook.model.known_objects import VolcanoQueue
from webhook.model.kueue.projections import KUEUE_PROJECTIONS
from webhook.model.node_pods import NODE_PODS, RESERVATIONS, read_node_pod
from webhook.model.nodes import NODES
from webhook.model.projections import NAMESPACES, Missing, Projection, key_of, labels_of, required, spec_fields
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workloads.facts import PROJECTIONS as OF_OPTED_IN_KINDS
from webhook.model.workloads.shapes.kinds import PYTHON_KINDS, WorkloadKinds
from webhook.offline.group_sizes import file_groups, group_sizes
from webhook.offline.judgement import kind_of
from webhook.offline.operator_groups import operator_groups, sizes_of_owners
from webhook.offline.stock_runtimes import with_stock_runtimes
from webhook.sources.field_lists import known_fields, load_schemas, versions_of
from webhook.sources.manifests import Document, files_of, read_file
from webhook.sources.node_fields import unreadable_field
from webhook.sources.places import Lines, Root


@dataclass(frozen=True, slots=True)
class _Object:
    """One object of a document, which may be a list of many."""

    document: Document
    at: FieldPath
    manifest: Manifest

    def error(self, path: FieldPath, why: str) -> InputError:
        line, column = self.document.position(FieldPath((*self.at.parts, *path.parts)))
        return InputError(self.document.source, why, line, column)


def load_facts(paths: Sequence[Path], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return the facts in files and folders. Raises `InputError`, also for an empty file: the command that was to write
    it has failed, and what is missing would only be unknown.
    """
    documents = (document for path in files_of(paths) for document in read_file(path, may_be_empty=False))
    return facts_from(documents, kinds=kinds)


def facts_from(
    documents: Iterable[Document], known: ClusterFacts = NOTHING_KNOWN, kinds: WorkloadKinds = PYTHON_KINDS
) -> ClusterFacts:
    """Return the facts in `documents`, added to those `known`. Raises `InputError` for a document that cannot be
    understood.
    """
    return _facts_of(_objects(documents), known, kinds)


def _facts_of(
    items: Iterable[_Object], known: ClusterFacts = NOTHING_KNOWN, kinds: WorkloadKinds = PYTHON_KINDS
) -> ClusterFacts:
    found: dict[str, Any] = {}
    cut: set[str] = set()
    for item in items:
        group, version, kind = kind_of(item.manifest)
        is_list = kind.endswith("List")
        try:
            for part in _parts(group, kind.removesuffix("List"), kinds):
                known_part = found.setdefault(part, _start(known, part))
                if (is_list and _goes_on(item.manifest)) or _is_unread(group, version, kind, kinds):
                    cut.add(part)
                if not is_list and not _nameless(part, item.manifest):
                    _add(part, item, known_part, kinds)
        except Missing as error:
            raise item.error(error.path, str(error)) from None
        except Malformed as error:
            raise item.error(FieldPath(), f"{kind}: {error}") from None
    for part in _SETS & found.keys():
        found[part] = frozenset(found[part])
    if not found.get(NODE_PODS.part, True):
        # Pods without a node, and those that were cut down to their name and gang, do not tell what the others use.
        del found[NODE_PODS.part]
    if cut:
        found["partial"] = _both(known.partial, frozenset(cut))
    return replace(known, **found)


def _goes_on(found: Manifest) -> bool:
    """Return whether a list is one page of several. Raises `Malformed`."""
    metadata = mapping(found.get("metadata"))
    return bool(metadata.get("continue") or metadata.get("remainingItemCount"))


def facts_in(manifests: Iterable[Manifest], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return the facts in manifests that were read from a cluster. Raises `InputError`."""
    documents = (Document("the cluster", one, 1, Lines(""), lambda: Root(0, None)) for one in manifests)
    return facts_from(documents, kinds=kinds)


def one_world(known: ClusterFacts, documents: Iterable[Document], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Return `known` with facts from `documents` that are judged together: labels of namespaces, and objects that gang
    objects refer to. Where nothing tells the runtimes of TrainJobs, Trainer's own are added. Raises `InputError`.
    """
    found: dict[str, Any] = {}
    objects = list(_objects(documents))
    if any(kind_of(item.manifest).kind == "PodGroup" for item in objects):
        single = [item.manifest for item in objects if not kind_of(item.manifest).kind.endswith("List")]
        sizes = found["group_sizes"] = group_sizes(single, kinds)
        found["file_groups"] = file_groups(single, sizes, kinds)
        found["gang_sizes"] = sizes_of_owners(operator_groups(single), single, kinds)
    unread = set()
    for item in objects:
        group, version, kind = kind_of(item.manifest)
        for part in _parts(group, kind, kinds):
            if part not in _TOGETHER or _nameless(part, item.manifest):
                continue
            if _is_unread(group, version, kind, kinds):
                unread.add(part)
            try:
                _add(part, item, found.setdefault(part, _start(known, part)), kinds)
            except Missing as error:
                raise item.error(error.path, str(error)) from None
            except Malformed as error:
                if part in _NOT_JUDGED:
                    raise item.error(FieldPath(), f"{kind}: {error}") from None
                # The object is judged itself, and that reports more.
    if queues := found.get("volcano_queues"):
        found["volcano_queues"] = _opened(queues, known.volcano_queues or {})
    partial = frozenset(part for part in (_IN_PART | _LIMITS) & found.keys() if getattr(known, part) is None)
    return with_stock_runtimes(replace(known, **found, partial=_both(known.partial, partial | unread)))


def _both(some: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    """Return the parts of which only some objects are known, by either; None if there are none."""
    return (some or frozenset()) | (others or frozenset()) or None


def with_nodes(known: ClusterFacts, documents: Sequence[Document]) -> ClusterFacts:
    """Return `known` with the nodes, and the pods on them, that stand among manifests. These nodes are taken to be all
    of them. Nodes that are known already count alone. Raises `InputError`.
    """
    if known.nodes is not None:
        return known
    items = [item for item in _objects(documents) if _is_on_nodes(*kind_of(item.manifest)[::2])]
    if not any(kind_of(item.manifest).kind == NODES.resource.api.kind for item in items):
        return known
    told = _facts_of(items)
    partial = _both(known.partial, told.partial)
    return replace(known, nodes=told.nodes, node_pods=known.node_pods or told.node_pods, partial=partial)


def _is_on_nodes(group: str, kind: str) -> bool:
    """Return whether it is a node or a pod, or a list of them: that says whether it is one page of several."""
    return (group, kind.removesuffix("List")) in _ON_NODES


def _opened(queues: Mapping[str, VolcanoQueue], known: Mapping[str, VolcanoQueue]) -> dict[str, VolcanoQueue]:
    """Return the Queues with a state each: in a file, that of the cluster's Queue, and Volcano opens a new Queue."""
    return {
        name: replace(queue, state=queue.state or (known[name].state if name in known else None) or OPEN)
        for name, queue in queues.items()
    }


def with_field_names(known: ClusterFacts, schemas: Sequence[Path] = ()) -> ClusterFacts:
    """Return `known` with the field names of all kinds: those of CRDs in `schemas`, else those `known`, else those of
    the known releases. Raises `InputError`.
    """
    return replace(known, field_names={**known_fields(), **(known.field_names or {}), **load_schemas(schemas)})


_ON_NODES = frozenset({("", NODES.resource.api.kind), ("", "Pod")})
_OF_KUEUE = frozenset(projection.part for projection in KUEUE_PROJECTIONS)
# Objects that belong to a cluster rather than to its users: a folder may have some, and seldom has all.
_IN_PART = frozenset(
    {
        "kai_queues",
        "kai_topologies",
        "volcano_queues",
        "hyper_nodes",
        "training_runtimes",
        "cluster_training_runtimes",
        *_OF_KUEUE,
    }
)
# What limits gangs in a namespace: a folder often has it beside the workloads. Objects that get their names at creation
# are left out.
_LIMITS = frozenset(
    {"resource_quotas", "limit_ranges", "resource_claim_templates", "resource_claims", "device_classes"}
)
_OPTED_IN = frozenset({SHAPED_WORKLOADS, *(projection.part for projection in OF_OPTED_IN_KINDS)})
# These objects are only read here and never judged.
_NOT_JUDGED = frozenset({NAMESPACES.part, "training_runtimes", "cluster_training_runtimes", *_OF_KUEUE})
# Parts of the facts that are also taken from the documents being judged.
_TOGETHER = (
    _IN_PART
    | _LIMITS
    | {
        NAMESPACES.part,
        "workloads",
        "pod_groups",
        "composite_pod_groups",
        "group_pods",
        "koordinator_pod_groups",
        "kai_pod_groups",
        "volcano_pod_groups",
        # The TrainJob of a JobSet, and the workload of a pod.
        *_OPTED_IN,
    }
)


def _nameless(part: str, raw: Manifest) -> bool:
    """Return whether it is an object that gets its name at creation, as Jobs often do: no other object can name it
    before.
    """
    metadata = raw.get("metadata")
    return (part in _OPTED_IN or part in _LIMITS) and not (isinstance(metadata, dict) and metadata.get("name"))


def _start(known: ClusterFacts, part: str) -> Any:
    before = getattr(known, part)
    if part in _SETS:
        return set(before or ())
    fresh: dict[Any, Any] = _entries().get(part, dict)()
    fresh.update(before or {})
    return fresh


@cache
def _entries() -> dict[str, Callable[[], dict[Any, Any]]]:
    """Return the mapping type for the entries of each part."""
    return {projection.part: projection.entries for projection in (NODE_PODS, *_projections().values())}


def _objects(documents: Iterable[Document]) -> Iterator[_Object]:
    for document in documents:
        yield from _unpack(_Object(document, FieldPath(), document.manifest))


def _unpack(item: _Object) -> Iterator[_Object]:
    kind, items = item.manifest.get("kind"), item.manifest.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        # The list itself too: a typed list shows that its kind is known.
        yield item
        for index, inner in enumerate(items):
            if isinstance(inner, dict):
                # The items of a typed list may omit apiVersion and kind.
                own = {"apiVersion": item.manifest.get("apiVersion"), "kind": kind.removesuffix("List"), **inner}
                yield from _unpack(_Object(item.document, item.at / "items" / Item(index), own))
    else:
        yield item


# The parts that are sets. Neither is a projection of one kind: APIs come from CRDs, bound gangs from pods.
_SETS = frozenset({"apis", "bound_gangs"})


@cache
def _projections() -> dict[tuple[str, str], Projection]:
    """Return the projections by group and kind: those of admission itself, and those of each backend."""
    every = (
        RESERVATIONS,
        *EVERY_GENERAL,
        *(found for backend in installed_backends().values() for found in backend.projections),
    )
    return {(projection.resource.api.group, projection.resource.api.kind): projection for projection in every}


def _projection(group: str, kind: str, kinds: WorkloadKinds) -> Projection | None:
    return _projections().get((group, kind)) or kinds.projection(group, kind)


def _is_unread(group: str, version: str, kind: str, kinds: WorkloadKinds) -> bool:
    """Return whether a document has a version that its projection does not understand: it is not read, and may be what
    another object names.
    """
    projection = _projection(group, kind.removesuffix("List"), kinds)
    return projection is not None and bool(projection.versions) and version not in projection.versions


def _parts(group: str, kind: str, kinds: WorkloadKinds) -> Iterator[str]:
    """Yield the parts of the facts that documents of a kind belong to."""
    projection = _projection(group, kind, kinds)
    if projection is not None:
        yield projection.part
    if (group, kind) == ("", "Pod"):
        yield "bound_gangs"
        yield NODE_PODS.part
    elif (group, kind) == (served_kinds.GROUP, served_kinds.KIND):
        yield "apis"
    elif (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        yield "apis"
        yield "spec_fields"
        yield "field_names"


def _add(part: str, item: _Object, known: Any, kinds: WorkloadKinds) -> None:
    """Add what one object says to its part of the facts."""
    raw = item.manifest
    if part == "apis":
        discovered = kind_of(raw).kind == served_kinds.KIND
        known |= {found.api for found in served_kinds.kinds_of(raw)} if discovered else {api for api, _ in _served(raw)}
    elif part == "spec_fields":
        known.update((api, fields) for api, fields in _served(raw) if fields is not None)
    elif part == "field_names":
        known.update((api, KindFields(names, item.document.source)) for api, names in versions_of(raw))
    elif part == NODE_PODS.part:
        if (pod := read_node_pod(raw)) is not None:
            known[pod[0]] = pod[1]
    elif part == "bound_gangs":
        podgang = text(labels_of(raw).get(grove.LABEL_PODGANG))
        if podgang is not None and text(mapping(raw.get("spec")).get("nodeName")):
            known.add((key_of(raw)[0], podgang))
    else:
        group, version, kind = kind_of(raw)
        projection = _projection(group, kind, kinds)
        if projection is None or _is_unread(group, version, kind, kinds):
            return
        read = projection.read(raw)
        if read is None:
            return
        known[read[0]] = read[1]
        # A cluster has no such Node: the API server refuses it.
        if part == NODES.part and read[1].problem and (unreadable := unreadable_field(raw)) is not None:
            raise item.error(*unreadable)


def _served(raw: Manifest) -> Iterator[tuple[Api, frozenset[str] | None]]:
    """Yield the kinds that a CustomResourceDefinition serves, with the fields of their spec, None if it lists none."""
    spec = mapping(raw.get("spec"))
    group = required(text(spec.get("group")), SPEC / "group")
    kind = required(text(mapping(spec.get("names")).get("kind")), SPEC / "names" / "kind")
    for version in sequence(spec.get("versions")):
        if mapping(version).get("served") is True:
            schema = mapping(mapping(version.get("schema")).get("openAPIV3Schema"))
            yield Api(group, text(version.get("name")) or "", kind), spec_fields(schema)
