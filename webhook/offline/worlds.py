"""The facts that each of several files is judged with: objects in the files count, the nearest first.

`fact_files` reads the facts of one file or folder; here those of several are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from webhook.backends.volcano.keys import OPEN
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.known_objects import VolcanoQueue
from webhook.model.kueue_objects import KUEUE_PROJECTIONS
from webhook.model.node_pods import NODE_PODS, RESERVATIONS
from webhook.model.nodes import GROWTH, NODES
from webhook.model.projections import NAMESPACES, Missing, Projection
from webhook.model.reading import Malformed
from webhook.offline import fact_files
from webhook.offline.folders import EVERYWHERE, OF_CLUSTERS, GroupFolders, NodeFolders, scopes_of
from webhook.offline.judgement import add_stock_runtimes, kind_of
from webhook.offline.manifests import Document
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds

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
# These objects are only read here and never judged.
_NOT_JUDGED = frozenset({NAMESPACES.part, "training_runtimes", "cluster_training_runtimes", *_OF_KUEUE})
# Nor are these, and one that cannot be read is left out of the facts.
_SOFT = frozenset(
    {
        "elastic_quotas",
        "network_topologies",
        "topology_bindings",
        "priority_classes",
        "kai_shards",
        "resource_slices",
        *(projection.part for projection in GROWTH),
    }
)
_NODE = NODES.resource.api.kind
# What counts only with nodes, and what is whole where there are nodes.
_OF_NODES = frozenset({NODES.part, RESERVATIONS.part})
_WITH_NODES = _OF_NODES | {"resource_slices", "hyper_nodes"}
_OF_CLUSTER = _IN_PART | fact_files.LIMITS | _SOFT | _OF_NODES
# Gangs and what belongs to them, such as the TrainJob of a JobSet. Files that have some of a namespace have all of it.
_BY_NAMESPACE = frozenset(
    {
        "workloads",
        "pod_groups",
        "composite_pod_groups",
        "group_pods",
        "koordinator_pod_groups",
        "kai_pod_groups",
        "volcano_pod_groups",
        *(fact_files.OPTED_IN - _IN_PART),
    }
)
# Parts of the facts that are also taken from the documents being judged.
_TOGETHER = _OF_CLUSTER | _BY_NAMESPACE | {NAMESPACES.part}


# What is to be said, with its place in the order.
_OrderedRemark = tuple[tuple[Any, ...], str, fact_files.FactObject, tuple[str, str, str]]
# More remarks are counted.
_MOST_REMARKS = 20


@dataclass(slots=True)
class _Identity:
    """The objects of one kind, namespace and name. `variants` are their different contents."""

    part: str
    subject: tuple[str, str, str]
    entries: list[fact_files.FactEntry] = field(default_factory=list)
    variants: list[list[fact_files.FactEntry]] = field(default_factory=list)
    # The variants by their text, as very many must not be compared with each other.
    _by_text: dict[str, list[fact_files.FactEntry]] = field(default_factory=dict)

    def add(self, entry: fact_files.FactEntry) -> None:
        self.entries.append(entry)
        written = repr(entry.value)
        variant = self._by_text.get(written)
        if variant is None:
            equal = [other for other in self.variants[:_MOST_COMPARED] if other[0].value == entry.value]
            if not equal:
                self.variants.append([])
            variant = self._by_text[written] = equal[0] if equal else self.variants[-1]
        variant.append(entry)

    def places(self, scopes: Mapping[str, Sequence[str]]) -> dict[str, set[int]]:
        """Returns the variants that stand in each file, and below each folder. `scopes` are those of each file."""
        indexes: dict[str, set[int]] = {}
        for index, variant in enumerate(self.variants):
            for source in {entry.item.document.source for entry in variant}:
                for scope in scopes[source]:
                    indexes.setdefault(scope, set()).add(index)
        return indexes


_MOST_COMPARED = 64
# The variant of each object that differs; None if it is unknown.
_Choice = tuple[int | None, ...]


def _only(variants: set[int]) -> int | None:
    """Returns the one of equally near variants; None if they are several."""
    return next(iter(variants)) if len(variants) == 1 else None


def _agree(old: Any, new: Any) -> bool:
    """Returns whether an object in a file says what is known of it. A Queue has its state only in a cluster."""
    if isinstance(old, VolcanoQueue) and isinstance(new, VolcanoQueue) and new.state is None:
        new = replace(new, state=old.state)
    return bool(old == new)


class Worlds:
    """The facts that each document is judged with: those that are given, and what stands among the documents, which
    counts more. An object of which the documents have different ones is the nearest one: of the same file, else of the
    same folder, else of the one above. If two are equally near it is unknown.

    Nothing depends on the order of the documents. `remarks` says which objects differ.
    """

    def __init__(self, facts: ClusterFacts, documents: Iterable[Document], kinds: WorkloadKinds = PYTHON_KINDS) -> None:
        """Reads the documents. Raises `InputError`."""
        self._facts = facts
        self._objects = list(fact_files.fact_objects(documents))
        self._kinds = kinds
        self._whole: dict[str, fact_files.FactObject] = {}
        self._unread: set[str] = set()
        self._identities: dict[tuple[str, str, str, str], _Identity] = {}
        self.remarks: list[fact_files.FactRemark] = []
        # Nodes among the documents are a cluster: they are all of its nodes.
        self._has_nodes = any(
            kind_of(item.manifest)[::2] in {("", _NODE), ("", f"{_NODE}List")} for item in self._objects
        )
        self._collect()
        self._differing = [identity for identity in self._identities.values() if len(identity.variants) > 1]
        # The choice where no variant is nearest.
        self._nowhere: _Choice = (None,) * len(self._differing)
        self._scopes = {source: scopes_of(source) for source in {item.document.source for item in self._objects}}
        # Below each folder, and in each file, the objects that differ, with their variants there.
        self._held: dict[str, dict[int, set[int]]] = {}
        for index, identity in enumerate(self._differing):
            for scope, variants in identity.places(self._scopes).items():
                self._held.setdefault(scope, {})[index] = variants
        self._choices: dict[str, _Choice] = {}
        self._clusters = NodeFolders(
            (
                (identity.part, entry)
                for identity in self._identities.values()
                for entry in (identity.entries if identity.part in OF_CLUSTERS else ())
            ),
            self._scopes,
            cut=NODES.part in self._unread,
        )
        singles = [item for item in self._objects if not kind_of(item.manifest).kind.endswith("List")]
        self._groups = GroupFolders(singles, self._scopes, self._kinds)
        self.remarks += [*self._clusters.remarks, *self._groups.remarks]
        self._settled = self._settle()
        self._by_choice: dict[_Choice, ClusterFacts] = {}
        self._by_place: dict[tuple[str, str | None, str | None], ClusterFacts] = {}
        self._remark()

    def facts_for(self, document: Document) -> ClusterFacts:
        scopes = self._scopes.get(document.source) or scopes_of(document.source)
        nearest = next((scope for scope in scopes if scope in self._held), EVERYWHERE)
        area, cluster = self._groups.area_of(document.source), self._clusters.cluster_of(scopes)
        place = (nearest, area, cluster)
        if place not in self._by_place:
            facts = self._groups.area_facts(area, self._chosen(self._choice_of(scopes)))
            self._by_place[place] = self._clusters.cluster_facts(cluster, facts)
        return self._by_place[place]

    def _choice_of(self, scopes: Sequence[str]) -> _Choice:
        """Returns the nearest variants for a file. Each folder decides once, and only what it holds."""
        choice = self._nowhere
        for scope in reversed(scopes):
            held = self._held.get(scope)
            if held and scope not in self._choices:
                changed = list(choice)
                for index, variants in held.items():
                    changed[index] = _only(variants)
                self._choices[scope] = tuple(changed)
            choice = self._choices.get(scope, choice)
        return choice

    @property
    def common(self) -> ClusterFacts:
        """The facts without the objects that differ."""
        return self._chosen(self._nowhere)

    def _collect(self) -> None:
        for item in self._objects:
            group, version, kind = kind_of(item.manifest)
            is_list = kind.endswith("List")
            for part in fact_files.parts_of(group, kind.removesuffix("List"), self._kinds):
                if part not in _TOGETHER or (part in _OF_NODES and not self._has_nodes):
                    continue
                if is_list and part in _OF_CLUSTER:
                    self._list(part, item)
                elif not (is_list or fact_files.is_nameless(part, item.manifest)):
                    if fact_files.is_unread(group, version, kind, self._kinds):
                        self._unread.add(part)
                    else:
                        self._read(part, item)

    def _list(self, part: str, item: fact_files.FactObject) -> None:
        """Takes a typed list as all objects of its kind, unless it is one page of several."""
        try:
            goes_on = fact_files.is_page(item.manifest)
        except Malformed:
            goes_on = True
        if goes_on:
            self._unread.add(part)
        else:
            self._whole.setdefault(part, item)

    def _read(self, part: str, item: fact_files.FactObject) -> None:
        group, _, kind = kind_of(item.manifest)
        projection = fact_files.projection_of(group, kind, self._kinds)
        if projection is None or projection.part != part:
            return
        try:
            entry = fact_files.entry_of(item, projection)
            subject = ("", "", "") if entry is None else fact_files.subject_of(item.manifest, projection)
        except Missing as error:
            if part not in _SOFT:
                raise item.error(error.path, str(error)) from None
            self._leave_out(projection, item, str(error))
            return
        except Malformed as error:
            if part in _NOT_JUDGED:
                raise item.error(FieldPath(), f"{kind}: {error}") from None
            # Other objects are judged themselves, and that reports more.
            if part in _SOFT:
                self._leave_out(projection, item, str(error))
            return
        if entry is None:
            return
        self._identities.setdefault((part, *subject), _Identity(part, subject)).add(entry)

    def _leave_out(self, projection: Projection, item: fact_files.FactObject, why: str) -> None:
        if projection.only_name is not None and fact_files.name_of(item.manifest) != projection.only_name:
            return
        self._unread.add(projection.part)
        kind, name = kind_of(item.manifest).kind, fact_files.name_of(item.manifest)
        message = f"this {kind} is left out of the facts: {why}"
        self.remarks.append(fact_files.FactRemark(message, item.document, item.at, (kind, "", name)))

    def _settle(self) -> dict[str, Any]:
        parts: dict[str, Any] = dict(self._groups.parts)
        if self._has_nodes:
            pods = (item for item in self._objects if kind_of(item.manifest)[::2] in {("", "Pod"), ("", "PodList")})
            before = self._facts.node_pods if self._facts.nodes is None else None
            parts[NODE_PODS.part] = fact_files.facts_of(pods).node_pods or before
        for part in self._whole:
            parts.setdefault(part, self._begun(part))
        for identity in self._identities.values():
            objects = parts.setdefault(identity.part, self._begun(identity.part))
            if len(identity.variants) == 1:
                objects[identity.entries[0].key] = identity.entries[0].value
        return parts

    def _begun(self, part: str) -> Any:
        return fact_files.begun_part(NO_FACTS if part in self._whole or part == NODES.part else self._facts, part)

    def _chosen(self, choice: _Choice) -> ClusterFacts:
        """Returns the facts with one variant of each object that differs; None if it is unknown."""
        if choice not in self._by_choice:
            parts = dict(self._settled)
            for part in {identity.part for identity in self._differing}:
                parts[part] = type(parts[part])(parts[part])
            unknown: list[_Identity] = []
            for identity, index in zip(self._differing, choice, strict=True):
                objects = parts[identity.part]
                for entry in identity.entries:
                    if entry.key in objects:
                        del objects[entry.key]
                if index is None:
                    unknown.append(identity)
                else:
                    entry = identity.variants[index][0]
                    objects[entry.key] = entry.value
            self._by_choice[choice] = self._completed(parts, unknown)
        return self._by_choice[choice]

    def _completed(self, parts: dict[str, Any], unknown: list[_Identity]) -> ClusterFacts:
        """Returns the facts with these parts. `unknown` are the objects of which none is the nearest."""
        before = self._facts
        if queues := parts.get("volcano_queues"):
            # In a file a Queue has the state of the cluster's Queue, and Volcano opens a new one.
            stored = before.volcano_queues or {}
            parts["volcano_queues"] = {
                name: replace(queue, state=queue.state or (stored[name].state if name in stored else None) or OPEN)
                for name, queue in queues.items()
            }
        whole = {*self._whole, *(_WITH_NODES if self._has_nodes else ())}
        some = {part for part in _TOGETHER & parts.keys() if getattr(before, part) is None} - whole
        cut = ((before.partial or frozenset()) - whole) | self._unread
        partial = cut | some | {identity.part for identity in unknown}
        doubted = {(identity.part, identity.subject[1]) for identity in unknown}
        namespaces = {
            part: frozenset(key[-2] for key in parts[part] if (part, key[-2]) not in doubted)
            for part in (_BY_NAMESPACE & partial) - cut
        }
        return add_stock_runtimes(
            replace(before, **parts, partial=partial or None, whole_namespaces=namespaces or None)
        )

    def _remark(self) -> None:
        remarks = [
            *sorted(self._differences(), key=lambda remark: remark[0]),
            *sorted(self._replacements(), key=lambda remark: remark[0]),
            *self._repetitions(),
        ]
        for _, message, item, subject in remarks[:_MOST_REMARKS]:
            self.remarks.append(fact_files.FactRemark(message, item.document, item.at, subject))
        if len(remarks) > _MOST_REMARKS:
            last = self.remarks[-1]
            more = f"{last.message}; and {len(remarks) - _MOST_REMARKS:,} more objects that differ or stand twice"
            self.remarks[-1] = last._replace(message=more)

    def _differences(self) -> Iterator[_OrderedRemark]:
        for identity in self._differing:
            first, second = sorted((variant[0].item for variant in identity.variants), key=lambda item: item.order)[:2]
            more = len(identity.variants) - 2
            others = f" and {more:,} more places" if more else ""
            yield (
                (0, *first.order),
                f"{fact_files.subject_words(identity.subject)} differs in {first.place} and {second.place}{others}: "
                "each file is judged with the nearest one, and without it where two are equally near",
                first,
                identity.subject,
            )

    def _replacements(self) -> Iterator[_OrderedRemark]:
        origins = self._facts.origins or {}
        for part, item in self._whole.items():
            if part != NODES.part and (before := getattr(self._facts, part)) and before != self._settled[part]:
                kind = kind_of(item.manifest).kind
                yield (1, *item.order), f"this {kind} replaces what else is known of its kind", item, (kind, "", "")
        nodes = [identity for identity in self._identities.values() if identity.part == NODES.part]
        if nodes and self._facts.nodes and self._facts.nodes != self._settled[NODES.part]:
            item = min((identity.entries[0].item for identity in nodes), key=lambda item: item.order)
            message = "the nodes of these files are judged, and not the other known nodes"
            yield (1, *item.order), message, item, nodes[0].subject
        for key, identity in self._identities.items():
            part, entry = identity.part, identity.entries[0]
            if part in self._whole or part == NODES.part or part not in _OF_CLUSTER:
                continue
            old = (getattr(self._facts, part) or {}).get(entry.key)
            if old is not None and not _agree(old, entry.value):
                other = origins.get(key, "the other facts")
                message = (
                    f"{fact_files.subject_words(identity.subject)} differs from the one in {other}; this one is judged"
                )
                yield (1, *entry.item.order), message, entry.item, identity.subject

    def _repetitions(self) -> Iterator[_OrderedRemark]:
        identities = self._identities.values()
        twice = [identity for identity in identities if len(identity.variants) == 1 < len(identity.entries)]
        if twice:
            identity = min(twice, key=lambda identity: min(entry.item.order for entry in identity.entries))
            first, second = sorted((entry.item for entry in identity.entries), key=lambda item: item.order)[:2]
            many = f", as {len(twice) - 1:,} more objects do" if len(twice) > 1 else ""
            message = f"{fact_files.subject_words(identity.subject)} stands in {first.place} and {second.place}{many}"
            yield (2, *first.order), message, first, identity.subject


def one_world(facts: ClusterFacts, documents: Iterable[Document], kinds: WorkloadKinds = PYTHON_KINDS) -> ClusterFacts:
    """Returns `facts` with those from `documents` that are judged together. An object of which they have different ones
    is unknown. Raises `InputError`.
    """
    return Worlds(facts, documents, kinds).common
