"""PodGang to KAI's PodGroup with its tree of subgroups, the marks of its pods, and KAI's Topology objects.

The leaves are the PodGang's members; KAI counts pods per leaf. A set stands for a group of members with its own
topology. With subgroups the root's minMember has no meaning (and up to v0.17.0 must not be 0), so it is left out. The
root's minSubGroup is left out as well: without it, KAI requires every child. A PodGroup without subgroups is one leaf.

A constraint names a Topology, and a level by its node label key. KAI reports a missing Topology. It does not report a
missing level; the gang stays pending (seen with v0.16.8).

All marks of a pod must be there when it is stored. Podgrouper watches every pod of the scheduler, and overwrites the
group of a pod without the skip annotation (pkg/podgrouper/pod_controller.go).

Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.kai import keys
from webhook.backends.kai.keys import KaiSettings, is_queue_name
from webhook.backends.kai.podgrouper import holders_of
from webhook.backends.topologies import NoTopology, UnknownTopology, inexpressible, refuse_twins, topology_metadata
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath, Item
from webhook.model.gang_objects import RESTORED_ANNOTATION, Frozen, Stage, gang_metadata, is_restored
from webhook.model.grove import TOPOLOGY_NAME, ClusterTopologyBinding, PackConstraint, PodGang
from webhook.model.keys import LABEL_VALUE_LIMIT, Needed, Record, label_name
from webhook.model.quantity import nanoseconds
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.topology_tree import DriftReason, TopologyDrift
from webhook.validators.shared_checks import first_name
from webhook.workloads.opted_in_gang import KAI_TOPOLOGY, OptedInGang, annotations_of_workload
from webhook.workloads.opted_in_workload import OptedInWorkload


def topology_name(binding: str, facts: ClusterFacts) -> str:
    """Returns the Topology that a ClusterTopologyBinding refers to, else the one with the binding's name."""
    topology_binding = (facts.topology_bindings or {}).get(binding)
    return binding if topology_binding is None else topology_binding.references.get(keys.NAME, binding)


def levels_of(binding: str, facts: ClusterFacts) -> tuple[str, ...]:
    """Returns the node label keys of the Topology for `binding`, broadest first: its existing levels, or those it will
    be made with.

    Raises `UnknownTopology` and `NoTopology`.
    """
    name = topology_name(binding, facts)
    if facts.kai_topologies is not None and (levels := facts.kai_topologies.get(name)) is not None:
        return levels
    topology_binding = (facts.topology_bindings or {}).get(binding)
    if topology_binding is not None and keys.NAME not in topology_binding.references:
        levels = tuple(topology_binding.keys.values())
        if (problem := _problem(levels)) is None:
            return levels
        if facts.kai_topologies is not None:
            raise _missing(name, problem)
    if facts.kai_topologies is None:
        raise UnknownTopology("the KAI Topologies", "kai_topologies")
    if not facts.is_whole("topology_bindings"):
        raise UnknownTopology("the ClusterTopologyBinding", "topology_bindings")
    raise _missing(name)


def _missing(name: str, problem: str | None = None) -> NoTopology:
    """Returns the error for a Topology that is missing and, because of `problem`, not made from a binding."""
    why = f"the cluster has no KAI Topology {name[:LABEL_VALUE_LIMIT]}{'' if problem is None else f', and {problem}'}"
    return NoTopology(why, Needed("kai_topologies", name))


def topology_objects(binding: ClusterTopologyBinding) -> list[Manifest]:
    """Returns the Topology for `binding`; none if someone else manages it. Raises `Inexpressible`."""
    if keys.NAME in binding.references:
        return []
    levels = [level.key or "" for level in binding.levels]
    if problem := _problem(levels):
        remedy = "change the levels of the ClusterTopologyBinding"
        raise inexpressible("kai/topology", SPEC / "levels", levels, problem, remedy=remedy)
    api, metadata = keys.TOPOLOGY, topology_metadata(binding.name, binding)
    spec = {"levels": [{"nodeLabel": key} for key in levels]}
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def adopt_topology(desired: Manifest, live: Manifest | None) -> Manifest:
    """Returns `desired` with the aliases that other authors gave its levels. KAI lets any user edit aliases. The list
    of levels is written as a whole, so an alias that is not sent would be lost.
    """
    live_levels = _levels(live)
    levels = desired["spec"]["levels"]
    if [text(level.get("nodeLabel")) for level in live_levels] != [level["nodeLabel"] for level in levels]:
        return desired
    aliases = [text(level.get("alias")) for level in live_levels]
    aliased = [
        level if alias is None else {**level, "alias": alias} for level, alias in zip(levels, aliases, strict=True)
    ]
    return {**desired, "spec": {**desired["spec"], "levels": aliased}}


def topology_drift(binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
    name = binding.references.get(keys.NAME, binding.name)
    live_keys = None if live is None else level_keys(live)
    return _drift(binding.name, name, [level.key or "" for level in binding.levels], live_keys)


def known_drifts(facts: ClusterFacts) -> Iterator[TopologyDrift]:
    """Yields every drift that `facts` show. A Topology that is not yet made from its binding is not a drift."""
    if facts.kai_topologies is None:
        return
    for binding, topology_binding in sorted((facts.topology_bindings or {}).items()):
        name = topology_name(binding, facts)
        topology = facts.kai_topologies.get(name)
        if topology is None and keys.NAME not in topology_binding.references:
            continue
        levels = None if topology is None else list(topology)
        if (drift := _drift(binding, name, list(topology_binding.keys.values()), levels)) is not None:
            yield drift


def _levels(live: Manifest | None) -> list[Mapping[str, Any]]:
    return list(map(mapping, sequence(mapping(mapping(live).get("spec")).get("levels"))))


def level_keys(live: Manifest) -> list[str]:
    return [text(level.get("nodeLabel")) or "" for level in _levels(live)]


def _drift(binding: str, name: str, desired: list[str], live: list[str] | None) -> TopologyDrift | None:
    if live is None:
        return TopologyDrift(name, DriftReason.NOT_FOUND, f"Topology {name} is missing")
    if live == desired:
        return None
    differs = f"has the levels {', '.join(live)}, and ClusterTopologyBinding {binding} has {', '.join(desired)}"
    return TopologyDrift(name, DriftReason.DRIFT, f"Topology {name} {differs}")


def _problem(levels: Sequence[str]) -> str | None:
    """Returns why KAI's CRD would refuse these levels, or None."""
    if not 1 <= len(levels) <= keys.MAX_LEVELS:
        return f"a KAI Topology must have 1 to {keys.MAX_LEVELS} levels"
    if not all(levels):
        return "each level of a KAI Topology must be a node label key"
    if len(set(levels)) < len(levels):
        return "a KAI Topology must not have a node label key twice"
    if keys.HOSTNAME in levels[:-1]:
        return f"{keys.HOSTNAME} can only be the narrowest level of a KAI Topology"
    return None


class SubGroup(NamedTuple):
    """One subgroup; the root of the tree has no name. `pods` is its minMember, `groups` its minSubGroup."""

    name: str
    parent: str | None
    pods: int | None
    groups: int | None
    topology: Mapping[str, Any] | None
    path: FieldPath

    @property
    def states_both(self) -> bool:
        return bool(self.pods) and self.groups is not None


class Tree:
    """The subgroups of one PodGroup by name, and the children of each."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises `Malformed`."""
        self.root = _subgroup(spec, "", None, SPEC)
        self.by_name: dict[str, SubGroup] = {}
        self.below: dict[str, list[SubGroup]] = {}
        # Those whose name an earlier one has.
        self.twins: list[SubGroup] = []
        for index, raw in enumerate(sequence(spec.get("subGroups"))):
            entry = mapping(raw)
            name, parent = text(entry.get("name")) or "", text(entry.get("parent"))
            group = _subgroup(entry, name, parent, SPEC / "subGroups" / Item(index, name))
            if name in self.by_name:
                self.twins.append(group)
            self.by_name[name] = group
            self.below.setdefault(parent or "", []).append(group)

    @property
    def sets(self) -> list[SubGroup]:
        """The subgroups with children, and the root if it has children."""
        return [group for group in (self.root, *self.by_name.values()) if group.name in self.below]

    @property
    def leaves(self) -> list[SubGroup]:
        return [group for group in self.by_name.values() if group.name not in self.below]

    @property
    def minimums(self) -> dict[str, int]:
        """The minimum of each leaf. A PodGroup without subgroups needs one pod if it states no minimum."""
        if not self.by_name:
            return {"": 1 if self.root.pods is None else self.root.pods}
        return {leaf.name: leaf.pods or 0 for leaf in self.leaves}

    def demanding(self) -> set[str]:
        """Returns the sets that have, at any depth, a leaf that needs pods."""
        sets: set[str] = set()
        for leaf in self.leaves:
            above = leaf.parent or ""
            # If a set is already in the result, its ancestors are as well.
            while leaf.pods and above not in sets and (not above or above in self.by_name):
                sets.add(above)
                above = (self.by_name[above].parent or "") if above else ""
        return sets

    def lost(self) -> set[str]:
        """Returns the subgroups without a way from the root: with a missing parent, or in a cycle."""
        reached: set[str] = set()
        waiting = [""]
        while waiting:
            for group in self.below.get(waiting.pop(), ()):
                if group.name not in reached:
                    reached.add(group.name)
                    waiting.append(group.name)
        return self.by_name.keys() - reached


def _subgroup(raw: Mapping[str, Any], name: str, parent: str | None, path: FieldPath) -> SubGroup:
    topology = raw.get("topologyConstraint")
    constraint = None if topology is None else mapping(topology)
    return SubGroup(name, parent, integer(raw.get("minMember")), integer(raw.get("minSubGroup")), constraint, path)


def prepare_pod(member: GangMember, settings: KaiSettings) -> PodChanges:
    """Returns the changes for a pod. The queue label is for KAI's check of shared GPU claims; a group names its own
    queue.

    For most pods of opted-in workloads podgrouper makes the group. It reads the queue from this label if the pod's
    owners name none (pkg/podgrouper/podgrouper/plugins/defaultgrouper).
    """
    stated_queue = member.record.queue(settings.queueLabelKey)
    queue = stated_queue or settings.defaultQueue
    labels = {settings.queueLabelKey: queue} if queue is not None and is_queue_name(queue) else {}
    # The own value of a pod that is not Grove's wins over the configuration.
    always, default = ({}, labels) if member.opted_in and stated_queue is None else (labels, {})
    if not member.gang_by_rollcall:
        return PodChanges(scheduler_name=keys.NAME, inputs=(), labels=always, default_labels=default, stamped=False)
    group, leaf = keys.pod_group_name(member.namespace, member.podgang), keys.leaf_name(member.podclique)
    return PodChanges(
        scheduler_name=keys.NAME,
        inputs=(f"podGroup={group}", f"subGroup={leaf}", f"queue={settings.queueLabelKey}={queue or ''}"),
        labels={keys.LABEL_SUBGROUP: leaf, **always},
        default_labels=default,
        annotations={keys.ANNOTATION_GROUP: group, keys.ANNOTATION_SKIP: "true"},
    )


def gang_objects(podgang: PodGang, record: Record, settings: KaiSettings, facts: ClusterFacts) -> list[Manifest]:
    """Returns the PodGroup of `podgang`; none for a PodGang without members. Raises `Inexpressible`.

    A member that Grove has released (minReplicas 0) has minMember 0 here; `adopt` keeps the last positive one.
    """
    if not podgang.members:
        return []
    refuse_twins(podgang, "kai/tree")
    workload = podgang.workload if isinstance(podgang, OptedInGang) else None
    of_workload = None if workload is None else named_queue(workload, settings)
    queue = record.queue(settings.queueLabelKey) or of_workload or settings.defaultQueue
    if queue is None:
        why = "kai-scheduler does not start a gang without a queue"
        rule = "kai/no-queue" if workload is None else "kai/owner-no-queue"
        raise inexpressible(rule, LABELS / settings.queueLabelKey, None, why)
    spec: Manifest = {"queue": queue}
    if record.priority_class is not None:
        spec["priorityClassName"] = record.priority_class
    if (preemptibility := podgang.labels.get(keys.LABEL_PREEMPTIBILITY)) is not None:
        if preemptibility not in keys.PREEMPTIBILITIES:
            path = LABELS / keys.LABEL_PREEMPTIBILITY
            raise inexpressible("kai/preemptibility", path, preemptibility, "KAI's CRD does not allow this value")
        spec["preemptibility"] = preemptibility
    # A time that KAI could not read is left out: its scheduler could then read no PodGroup of the cluster.
    for key, field in keys.DURATIONS.items():
        written = text(podgang.annotations.get(key))
        if written is not None and nanoseconds(written) is not None and not facts.lacks_field(field):
            spec[field.name] = written
    spec |= _topology(podgang.constraint, podgang, facts) if workload is None else _owner_topology(workload)
    spec["subGroups"] = _subgroups(podgang, facts)
    pool = text(podgang.labels.get(settings.nodePoolLabelKey))
    labels = {settings.nodePoolLabelKey: pool} if pool is not None else {}
    metadata = gang_metadata(podgang, keys.pod_group_name(podgang.namespace, podgang.gang), labels)
    api = keys.POD_GROUP
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def adopt(desired: Manifest, live: Manifest | None, settings: KaiSettings) -> Manifest:
    """Returns `desired` with the queue and the node pool that others set on the existing PodGroup, and with the
    minimums from before Grove released its members to 0 (at least one pod each), or those that it was restored with.

    Fields outside `desired` (markUnschedulable, schedulingBackoff, the scheduler's annotations, status) are not sent
    and so stay.
    """
    recorded = mapping(mapping(live).get("spec"))
    before = {
        text(mapping(group).get("name")) or "": integer(mapping(group).get("minMember")) or 0
        for group in sequence(recorded.get("subGroups"))
    }
    groups = [
        {**group, "minMember": max(before.get(group["name"], 0), 1)} if group.get("minMember") == 0 else group
        for group in desired["spec"]["subGroups"]
    ]
    desired = {**desired, "spec": {**desired["spec"], "subGroups": groups}}
    if is_restored(live):
        desired = _restored(desired, before)
    queue = text(recorded.get("queue")) or desired["spec"]["queue"]
    metadata = desired["metadata"]
    if live is not None:
        pool_key = settings.nodePoolLabelKey
        labels = {key: label for key, label in metadata["labels"].items() if key != pool_key}
        pool = text(mapping(mapping(live.get("metadata")).get("labels")).get(pool_key))
        # This includes the default pool: a PodGroup without the label is not moved into another pool.
        metadata = {**metadata, "labels": labels if pool is None else {**labels, pool_key: pool}}
    return {**desired, "metadata": metadata, "spec": {**desired["spec"], "queue": queue}}


def restore(desired: Manifest, present: Mapping[str, int]) -> Manifest:
    """Returns `desired` with minimums that the pods on nodes meet. With its own minimums the gang would be stale at
    once, and KAI would evict all of its pods 60 seconds later.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """
    return _restored(desired, {keys.leaf_name(member): number for member, number in present.items()})


def _restored(desired: Manifest, most: Mapping[str, int]) -> Manifest:
    """Returns `desired` with at most these minimums, by leaf."""
    groups = [
        {**group, "minMember": min(group["minMember"], most.get(group["name"], 0))} if "minMember" in group else group
        for group in desired["spec"]["subGroups"]
    ]
    metadata = desired["metadata"]
    annotations = {**mapping(metadata.get("annotations")), RESTORED_ANNOTATION: "true"}
    spec = {**desired["spec"], "subGroups": groups}
    return {**desired, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """Returns the minimums that were raised, and the leaves that were added. If a pod is on a node, either change makes
    the gang stale at once, and KAI evicts all of its pods 60 seconds later. A minimum that a user lowered by hand is
    not raised again either.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """
    if not desired or not live:
        return None
    before, now = _minimums(live[0]), _minimums(desired[0])
    raised = [
        f"the minimum of {name} goes from {before.get(name, 0)} to {minimum}"
        for name, minimum in now.items()
        if minimum > before.get(name, 0)
    ]
    why = "kai-scheduler evicts a running gang that is below its minimum"
    return Frozen("; ".join(raised), why, Stage.WAITING) if raised else None


def _minimums(pod_group: Manifest) -> dict[str, int]:
    groups = map(mapping, sequence(mapping(pod_group.get("spec")).get("subGroups")))
    return {text(group.get("name")) or "": integer(group.get("minMember")) or 0 for group in groups}


def _subgroups(podgang: PodGang, facts: ClusterFacts) -> list[Manifest]:
    """Returns the sets, then the leaves."""
    leaves = {member.name: keys.leaf_name(member.name) for member in podgang.members}
    parents: dict[str, str] = {}
    sets = []
    for config in podgang.group_configs:
        # A replica of a scaling group may have the same name as a clique.
        name = label_name(config.name, "group", taken=leaves.values())
        for member in config.members:
            if member not in leaves or member in parents:
                why = "this member is not in the PodGang, or another group has it too"
                raise inexpressible("kai/tree", config.path / "podGroupNames", member, why)
            parents[member] = name
        sets.append({"name": name, "minSubGroup": len(config.members), **_topology(config.constraint, podgang, facts)})
    pods = [
        {
            "name": leaves[member.name],
            **({"parent": parents[member.name]} if member.name in parents else {}),
            "minMember": max(member.min_replicas, 0),
            **_topology(member.constraint, podgang, facts),
        }
        for member in podgang.members
    ]
    return [*sets, *pods]


def named_queue(workload: OptedInWorkload, settings: KaiSettings) -> str | None:
    """Returns the queue that an opted-in workload or one of its templates names."""
    keys_of_queue = (("labels", settings.queueLabelKey),)
    return first_name(workload, keys_of_queue, keys_of_queue)


def project_queue(workload: OptedInWorkload, settings: KaiSettings) -> str | None:
    """Returns the queue that podgrouper makes of the label `project` and the pods' node pool."""
    labels = [template.labels for template in workload.templates]
    holders = (*(holder.labels for holder in holders_of(workload)), *labels)
    project = next((name for holder in holders if (name := text(holder.get("project")))), None)
    pool = next((name for pod_labels in labels if (name := text(pod_labels.get(settings.nodePoolLabelKey)))), None)
    return project if project is None or pool is None else f"{project}-{pool}"


def _owner_topology(workload: OptedInWorkload) -> Manifest:
    """Returns the `topologyConstraint` that a workload's annotations ask for; none without a Topology."""
    fields = {use.path.parts[-1]: use.value for use in annotations_of_workload(workload).asks(*keys.TOPOLOGY_FIELDS)}
    constraint = {name: fields[key] for key, name in keys.TOPOLOGY_FIELDS.items() if key in fields}
    return {"topologyConstraint": constraint} if KAI_TOPOLOGY in fields else {}


def _topology(constraint: PackConstraint, podgang: PodGang, facts: ClusterFacts) -> Manifest:
    """Returns the `topologyConstraint`, if there is one. Without the Topology's name, KAI would ignore it."""
    stated = {"requiredTopologyLevel": constraint.required, "preferredTopologyLevel": constraint.preferred}
    levels = {field: key for field, key in stated.items() if key is not None}
    if not levels:
        return {}
    binding = podgang.topology_name
    if binding is None:
        path = ANNOTATIONS / TOPOLOGY_NAME
        raise inexpressible("kai/topology", path, None, "kai-scheduler ignores a constraint that names no Topology")
    _refuse_unknown(constraint, levels, binding, facts)
    return {"topologyConstraint": {"topology": topology_name(binding, facts), **levels}}


def _refuse_unknown(constraint: PackConstraint, levels: dict[str, str], binding: str, facts: ClusterFacts) -> None:
    """Raises `Inexpressible` if the levels are known to be missing. Unknown levels may exist and are accepted."""
    try:
        existing_levels = levels_of(binding, facts)
    except UnknownTopology:
        return
    except NoTopology as missing:
        raise _no_level(constraint, topology_name(binding, facts), missing.why) from None
    for key in levels.values():
        if key not in existing_levels:
            why = "the Topology has no such level, so kai-scheduler would never start the gang"
            raise _no_level(constraint, key, why)
    required, preferred = constraint.required, constraint.preferred
    if required and preferred and existing_levels.index(preferred) < existing_levels.index(required):
        raise _no_level(constraint, preferred, "the preferred level is broader than the required one")


def _no_level(constraint: PackConstraint, level: str, why: str) -> Inexpressible:
    return inexpressible("kai/topology", constraint.path, level, why)
