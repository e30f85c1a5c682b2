"""Trees of gang objects and pods written by hand, for the Workload API in any of its versions or for Koordinator:
built from manifests, with the verdict on each and the place of its first object.

All added objects belong together: a group finds its parent and its pods in any file. A tree is drawn from its root
down to twice the maximum depth; groups further below are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webhook.backends.koordinator import gang_groups, keys
from webhook.backends.koordinator.gang_groups import Gang
from webhook.backends.kube import groups as kube
from webhook.backends.kube.groups import GroupMembership
from webhook.backends.kube.workload_api import GROUP as API_GROUP
from webhook.errors import InputError
from webhook.fit.verdict import sentence_list
from webhook.model.capabilities import Disruption
from webhook.model.claims import SYSTEM_OF_SCHEDULER
from webhook.model.gang_objects import StoredObject
from webhook.model.keys import ObjectKey
from webhook.model.pod_groups import MAX_DEPTH, Groups, TreeGroup, WorkloadTemplates, circles
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.offline.judgement import requests_in
from webhook.offline.report import Position, Source, position_in
from webhook.offline.satisfiability import Branch, BranchFault, BranchKind, Standing, TreeVerdict, judge_tree, walk
from webhook.workloads.job import pods_at_once
from webhook.workloads.workload_kinds import REPLICATED, replicas_of

# Kinds that have pods: pods, and objects that make pods from a template.
POD_KINDS = REPLICATED | {("batch", "Job"), ("", "Pod")}
GROUP_KINDS = frozenset(
    {
        (API_GROUP, "Workload"),
        (API_GROUP, "PodGroup"),
        (API_GROUP, "CompositePodGroup"),
        (keys.POD_GROUP.group, keys.POD_GROUP.kind),
    }
)
# In this version the entries of a Workload are the groups; later versions have PodGroups, made from templates.
_FIRST = "v1alpha1"
# Deep enough to show what is wrong with a tree that is too deep, or with a cycle.
_DRAWN = 2 * MAX_DEPTH
# How many names of objects that refer to a missing one are shown.
_NAMED = 3


class GroupForest:
    """The objects that were added so far. `where` is a value by which the caller finds an object again."""

    def __init__(self) -> None:
        self._composites = Groups()
        self._groups = Groups()
        self._workloads: dict[ObjectKey, WorkloadTemplates] = {}
        self._first: dict[ObjectKey, WorkloadTemplates] = {}
        self._gangs: dict[str, Gang] = {}
        # Each object that has pods, by its kind and name: the group that its pods name, and their number.
        self._pods: dict[Hashable, tuple[str, GroupMembership, int]] = {}
        self._gang_pods: dict[Hashable, tuple[str, int]] = {}
        self._described: dict[str, Gang] = {}
        self._where: dict[tuple[BranchKind, str, str], Any] = {}

    def add(self, group: str, version: str, manifest: Manifest, where: Any = None) -> None:
        """Adds an object of one of GROUP_KINDS or POD_KINDS. Raises `Malformed` for an unreadable gang object."""
        kind = manifest.get("kind")
        if (group, kind) in POD_KINDS:
            try:
                self._add_pods(str(kind), manifest, where)
            except Malformed:
                # The API server refuses such a pod, and nothing about a group can be read from it.
                return
        elif (group, kind) == (API_GROUP, "Workload"):
            key, workload = kube.read_workload(manifest)
            (self._first if version == _FIRST else self._workloads)[key] = workload
            self._where[BranchKind.WORKLOAD, *key] = where
        elif (group, kind) == (API_GROUP, "CompositePodGroup"):
            key, composite = kube.read_composite_pod_group(manifest)
            self._composites[key] = composite
            self._where[BranchKind.COMPOSITE, *key] = where
        elif (group, kind) == (API_GROUP, "PodGroup"):
            key, pod_group = kube.read_pod_group(manifest)
            self._groups[key] = pod_group
            self._where[BranchKind.POD_GROUP, *key] = where
        elif (group, kind) == (keys.POD_GROUP.group, keys.POD_GROUP.kind):
            key, gang = gang_groups.read_gang(manifest)
            self._gangs["/".join(key)] = gang
            self._where[BranchKind.GANG, *key] = where

    def trees(self) -> Iterator[tuple[Branch, Any]]:
        """Yields every tree, and the `where` of its first object."""
        for tree in (*_Trees(self._composites, self._groups, self._counted()).all(), *self._workload_trees()):
            yield tree, self._place(tree)
        counts: Counter[str] = Counter()
        for name, count in self._gang_pods.values():
            counts[name] += count
        # A PodGroup takes precedence over the annotations of pods.
        described = {name: gang for name, gang in self._described.items() if name not in self._gangs}
        for tree in _gang_groups(self._gangs | described, counts):
            yield tree, self._place(tree)

    def _add_pods(self, kind: str, manifest: Manifest, where: Any) -> None:
        metadata, spec, count = mapping(manifest.get("metadata")), mapping(manifest.get("spec")), 1
        namespace, name = text(metadata.get("namespace")) or "default", text(metadata.get("name"))
        # Without a name each object is separate: the API server will generate its name.
        identity = (kind, namespace, name) if name else object()
        if kind != "Pod":
            count = pods_at_once(spec) if kind == "Job" else replicas_of(spec)
            metadata, spec = (mapping(mapping(spec.get("template")).get(part)) for part in ("metadata", "spec"))
        membership = kube.membership_of(spec)
        if membership is not None:
            self._pods[identity] = namespace, membership, count
            if membership.workload is None:
                self._where.setdefault((BranchKind.POD_GROUP, namespace, membership.group), where)
            else:
                self._where.setdefault((BranchKind.WORKLOAD, namespace, membership.workload), where)
        gang = gang_groups.gang_of_pod(StoredObject({"metadata": metadata}, "Pod", "v1", namespace))
        # Another gang scheduler does not read Koordinator's keys.
        system = SYSTEM_OF_SCHEDULER.get(text(spec.get("schedulerName")) or "", "Koordinator")
        if gang is not None and system == "Koordinator":
            name, described = gang
            full = f"{namespace}/{name}"
            self._gang_pods[identity] = full, count
            self._where.setdefault((BranchKind.GANG, namespace, name), where)
            if described is not None:
                self._described.setdefault(full, described)

    def _counted(self) -> Counter[ObjectKey] | None:
        """Returns how many pods name each PodGroup; None if no pods were added."""
        counts: Counter[ObjectKey] = Counter()
        for namespace, membership, count in self._pods.values():
            if membership.workload is None:
                counts[namespace, membership.group] += count
        return counts if self._pods else None

    def _workload_trees(self) -> Iterator[Branch]:
        """Yields the groups that are entries of Workloads, and Workloads that no group was made from yet."""
        pods: dict[ObjectKey, Counter[tuple[str, str | None]]] = {key: Counter() for key in self._first}
        for namespace, membership, count in self._pods.values():
            if membership.workload is not None:
                counts = pods.setdefault((namespace, membership.workload), Counter())
                counts[membership.group, membership.replica] += count
        for key, counts in pods.items():
            yield _entries(key, self._first.get(key), counts, pods_known=bool(self._pods))
        groups = (*self._composites.items(), *self._groups.items())
        instantiated = {(key[0], group.workload) for key, group in groups}
        for key, workload in self._workloads.items():
            if key not in instantiated:
                yield Branch(BranchKind.WORKLOAD, *key, below=_templates(key[0], workload, None, 1))

    def _place(self, tree: Branch) -> Any:
        for branch, _ in walk(tree):
            namespace, name = branch.namespace, branch.name
            if branch.kind is BranchKind.GANG:
                namespace, _, name = branch.name.rpartition("/")
            if (where := self._where.get((branch.kind, namespace, name))) is not None:
                return where
        return None


class _Trees:
    def __init__(self, composites: Groups, groups: Groups, pods: Counter[ObjectKey] | None) -> None:
        self._composites = composites
        self._groups = groups
        self._pods = pods

    def all(self) -> Iterator[Branch]:
        """Yields each tree once: in the order of their roots, then the cycles."""
        reached: set[ObjectKey] = set()
        absent: dict[ObjectKey, None] = {}
        for groups in (self._composites, self._groups):
            for key, group in groups.items():
                if group.parent is not None and (key[0], group.parent) not in self._composites:
                    absent[key[0], group.parent] = None
                elif group.parent is None and group.composite:
                    reached |= self._reached(key)
                    yield self._composite(key, 1)
                elif group.parent is None:
                    yield self._leaf(key, 1)
        for key in absent:
            reached |= self._reached(key)
            yield self._missing(key)
        # Composites that no root reaches are in or below a cycle.
        for key in sorted(self._composites.keys() - reached):
            if key not in reached:
                around = circles([key], lambda child: (child[0], self._composites[child].parent or ""))[0]
                reached |= self._reached(around[0])
                way = " -> ".join(name for _, name in (*around[:_DRAWN], around[0]))
                yield replace(self._composite(around[0], 1, around[0]), fault=BranchFault.CYCLE, named_by=way)
        for key, count in (self._pods or {}).items():
            if key not in self._groups:
                named_by, fault = _pods_name_it(count), BranchFault.ABSENT
                yield Branch(BranchKind.POD_GROUP, *key, pods=count, fault=fault, named_by=named_by)

    def _reached(self, key: ObjectKey, start: ObjectKey | None = None) -> set[ObjectKey]:
        """Returns a composite and every composite below it, without `start`."""
        reached, waiting = {key}, [key]
        while waiting:
            fresh = {
                below for below in self._composites.below(waiting.pop()) if below not in reached and below != start
            }
            reached |= fresh
            waiting += fresh
        return reached

    def _composite(self, key: ObjectKey, level: int, start: ObjectKey | None = None) -> Branch:
        """Returns a composite with everything below it. `start` is the top of a tree that is a cycle."""
        below, hidden = self._children(key, level, start)
        fault = BranchFault.TOO_DEEP if start is None and level > MAX_DEPTH else None
        branch = _branch(BranchKind.COMPOSITE, key, self._composites[key])
        return replace(branch, fault=fault, below=below, hidden=hidden)

    def _children(self, key: ObjectKey, level: int, start: ObjectKey | None) -> tuple[tuple[Branch, ...], int]:
        """Returns the branches directly below, and how many groups below them are not drawn."""
        if level == _DRAWN:
            composites = self._reached(key, start)
            return (), len(composites) - 1 + sum(1 for composite in composites for _ in self._groups.below(composite))
        parts = (
            # The end of the cycle is drawn once more, with its name only.
            Branch(BranchKind.COMPOSITE, *below, self._composites[below].minimum, fault=BranchFault.CYCLE)
            if below == start
            else self._composite(below, level + 1, start)
            for below in self._composites.below(key)
        )
        leaves = (self._leaf(below, level + 1, start) for below in self._groups.below(key))
        return (*parts, *leaves), 0

    def _leaf(self, key: ObjectKey, level: int, start: ObjectKey | None = None) -> Branch:
        pods = None if self._pods is None else self._pods[key]
        fault = BranchFault.TOO_DEEP if start is None and level > MAX_DEPTH else None
        return replace(_branch(BranchKind.POD_GROUP, key, self._groups[key]), pods=pods, fault=fault)

    def _missing(self, key: ObjectKey) -> Branch:
        below, _ = self._children(key, 1, None)
        names = [f"{branch.kind} {branch.name}" for branch in below]
        verb = "names it as its parent" if len(names) == 1 else "name it as their parent"
        named_by, fault = f"{_some(names)} {verb}", BranchFault.ABSENT
        return Branch(BranchKind.COMPOSITE, *key, fault=fault, named_by=named_by, below=below)


def _branch(kind: BranchKind, key: ObjectKey, group: TreeGroup) -> Branch:
    notes = ("preempted as a whole",) if group.disruption is Disruption.ALL else ()
    return Branch(kind, *key, minimum=group.minimum, topology=group.topology, notes=notes)


def _entries(
    key: ObjectKey, workload: WorkloadTemplates | None, counts: Counter[tuple[str, str | None]], *, pods_known: bool
) -> Branch:
    """Returns a Workload of the first version: each entry, or each replica of one that pods name, is a gang."""
    entries = {} if workload is None else dict(workload.templates)
    below = []
    for name, group in entries.items():
        replicas = [replica for entry, replica in counts if entry == name]
        for replica in replicas or [None]:
            pods = counts[name, replica] if pods_known else None
            title = name if replica is None else f"{name}, replica {replica}"
            below.append(Branch(BranchKind.ENTRY, key[0], title, minimum=group.minimum, pods=pods))
    for (name, _), count in counts.items():
        if workload is not None and name not in entries:
            named_by, fault = _pods_name_it(count), BranchFault.ABSENT
            below.append(Branch(BranchKind.ENTRY, key[0], name, pods=count, fault=fault, named_by=named_by))
    if workload is not None:
        return Branch(BranchKind.WORKLOAD, *key, below=tuple(below))
    return Branch(BranchKind.WORKLOAD, *key, fault=BranchFault.ABSENT, named_by=_pods_name_it(counts.total()))


def _templates(namespace: str, workload: WorkloadTemplates, parent: str | None, level: int) -> tuple[Branch, ...]:
    if level > _DRAWN:
        return ()
    branches = []
    for name, group in workload.templates.items():
        if group.parent == parent:
            kind = BranchKind.COMPOSITE_TEMPLATE if group.composite else BranchKind.TEMPLATE
            below = _templates(namespace, workload, name, level + 1) if group.composite else ()
            branches.append(replace(_branch(kind, (namespace, name), group), below=below))
    return tuple(branches)


def _gang_groups(gangs: Mapping[str, Gang], pods: Counter[str]) -> Iterator[Branch]:
    """Yields gangs that list each other, as one group. A gang that only pods name counts too."""
    listing: dict[str, list[str]] = {}
    # Lists by content, in any order: koord-scheduler distinguishes GangGroups in this way.
    numbers: dict[tuple[str, ...], int] = {}
    lists: dict[str, int] = {}
    for gang_name, gang in gangs.items():
        lists[gang_name] = numbers.setdefault(tuple(sorted(gang.listed)), len(numbers))
        for name in dict.fromkeys(gang.listed):
            listing.setdefault(name, []).append(gang_name)
    reached: set[str] = set()
    for gang_name in dict.fromkeys((*gangs, *pods)):
        if gang_name in reached:
            continue
        together = [gang_name]
        reached.add(gang_name)
        for name in together:
            near = (*(gangs[name].listed if name in gangs else ()), *listing.get(name, ()))
            fresh = [neighbour for neighbour in dict.fromkeys(near) if neighbour not in reached]
            reached.update(fresh)
            together += fresh
        below = tuple(_gang(name, gangs.get(name), listing.get(name, []), pods, lists) for name in together)
        yield Branch(BranchKind.GANG_GROUP, *_split(gang_name), below=below)


def _gang(
    name: str, gang: Gang | None, listed_by: Sequence[str], pods: Counter[str], lists: Mapping[str, int]
) -> Branch:
    namespace, count = _split(name)[0], pods[name] if pods else None
    if gang is None:
        verb = "lists it" if len(listed_by) == 1 else "list it"
        named_by = f"{_some(listed_by)} {verb}" if listed_by else _pods_name_it(count or 0)
        fault = BranchFault.ABSENT if name.count("/") == 1 and all(name.split("/")) else BranchFault.NO_NAMESPACE
        return Branch(BranchKind.GANG, namespace, name or '""', pods=count, fault=fault, named_by=named_by)
    if gang.minimum is None:
        return Branch(BranchKind.GANG, namespace, name, pods=count, fault=BranchFault.NOT_DESCRIBED)
    notes = []
    if name not in gang.listed:
        notes.append("leaves itself out of its list")
    if any(lists.get(other, lists[name]) != lists[name] for other in gang.listed):
        notes.append("its list differs from theirs")
    return Branch(BranchKind.GANG, namespace, name, minimum=gang.minimum, pods=count, notes=tuple(notes))


def _split(full: str) -> tuple[str, str]:
    namespace, _, name = full.rpartition("/")
    return namespace, name


def _some(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return sentence_list(names)


def _pods_name_it(count: int) -> str:
    return "one pod names it" if count == 1 else f"{count:,} pods name it"


@dataclass(frozen=True, slots=True)
class JudgedTree:
    """A tree, the verdict on it, and the place of its first object."""

    place: Position
    tree: Branch
    verdict: TreeVerdict

    @property
    def missing_facts(self) -> str:
        if any(branch.kind is BranchKind.TEMPLATE for branch, _ in walk(self.tree)):
            return "no group here was made from its templates"
        return "no pods here name a group"

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": str(self.tree.kind), "name": self.tree.full_name}
        fields["answer"] = str(self.verdict.standing)
        fields["why"] = [cause.as_json() for cause in self.verdict.causes]
        if self.verdict.standing is Standing.UNKNOWN:
            fields["needs"] = self.missing_facts
        return fields | {"tree": self.tree.as_json()} | self.place._asdict()


def trees_in(documents: Iterable[Source]) -> list[JudgedTree]:
    """Returns the trees that all `documents` make together. Raises `InputError`, `ReviewError`."""
    world = GroupForest()
    for document in documents:
        for request, at in requests_in(document.manifest, judged=GROUP_KINDS | POD_KINDS):
            try:
                world.add(request.kind.group, request.kind.version, request.object or {}, (document, at))
            except Malformed as error:
                why = f"{request.kind.kind} {request.namespace}/{request.name}: {error}"
                raise InputError(document.source, why, *document.position(at)) from None
    return [JudgedTree(position_in(document, at), tree, judge_tree(tree)) for tree, (document, at) in world.trees()]
