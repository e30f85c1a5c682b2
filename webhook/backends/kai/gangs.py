"""PodGang to KAI's PodGroup: one PodGroup with a tree of subgroups.

The leaves are the PodGang's members; KAI counts pods per leaf. A set stands for a group of members with its own
topology. With subgroups the root's minMember has no meaning (and up to v0.17.0 must not be 0), so it is left out. The
root's minSubGroup is left out as well: without it, KAI requires every child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webhook.backends.inexpressible import NoTopology, UnknownTopology, inexpressible, refuse_twins
from webhook.backends.kai import keys
from webhook.backends.kai.podgrouper import holders_of
from webhook.backends.kai.settings import KaiSettings
from webhook.backends.kai.topology import levels_of, topology_name
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS
from webhook.model.frozen_changes import Frozen, Stage
from webhook.model.gang_object import RESTORED_ANNOTATION, gang_metadata, is_restored
from webhook.model.go_values import nanoseconds
from webhook.model.grove import TOPOLOGY_NAME
from webhook.model.keys import Record
from webhook.model.naming import label_name
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import PackConstraint, PodGang
from webhook.model.workloads.topology_request import KAI_TOPOLOGY, of_workload
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_names import first_named


def gang_objects(podgang: PodGang, record: Record, settings: KaiSettings, facts: ClusterFacts) -> list[Manifest]:
    """The PodGroup of `podgang`; none for a PodGang without members. Raises `Inexpressible`.

    A member that Grove has released (minReplicas 0) has minMember 0 here; `adopt` keeps the last positive one.
    """
    if not podgang.members:
        return []
    refuse_twins(podgang, "kai/tree")
    workload = podgang.workload if isinstance(podgang, OptedInGang) else None
    queue = (
        record.queue(settings.queueLabelKey)
        or (named_queue(workload, settings) if workload else None)
        or settings.defaultQueue
    )
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
    spec |= _durations(podgang, facts)
    spec |= _topology(podgang.constraint, podgang, facts) if workload is None else _asked(workload)
    spec["subGroups"] = _subgroups(podgang, facts)
    pool = text(podgang.labels.get(settings.nodePoolLabelKey))
    labels = {settings.nodePoolLabelKey: pool} if pool is not None else {}
    metadata = gang_metadata(podgang, keys.pod_group(podgang.namespace, podgang.gang), labels)
    api = keys.POD_GROUP
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def _durations(podgang: PodGang, facts: ClusterFacts) -> Manifest:
    """The times that the workload asks for. One that KAI could not read is left out: its scheduler could then read no
    PodGroup of the cluster.
    """
    asked = {field: text(podgang.annotations.get(key)) for key, field in keys.DURATIONS.items()}
    return {
        field.name: written
        for field, written in asked.items()
        if written is not None and nanoseconds(written) is not None and not facts.lacks_field(field)
    }


def adopt(desired: Manifest, live: Manifest | None, settings: KaiSettings) -> Manifest:
    """`desired` with the queue and the node pool that others set on the existing PodGroup, and with the minimums from
    before Grove released its members to 0 (at least one pod each), or those that it was restored with.

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
        own = settings.nodePoolLabelKey
        labels = {key: label for key, label in metadata["labels"].items() if key != own}
        pool = text(mapping(mapping(live.get("metadata")).get("labels")).get(own))
        # This includes the default pool: a PodGroup without the label is not moved into another pool.
        metadata = {**metadata, "labels": labels if pool is None else {**labels, own: pool}}
    return {**desired, "metadata": metadata, "spec": {**desired["spec"], "queue": queue}}


def restore(desired: Manifest, present: Mapping[str, int]) -> Manifest:
    """`desired` with minimums that the pods on nodes meet. With its own minimums the gang would be stale at once, and
    KAI would evict all of its pods 60 seconds later.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """
    return _restored(desired, {keys.leaf(member): number for member, number in present.items()})


def _restored(desired: Manifest, most: Mapping[str, int]) -> Manifest:
    """`desired` with at most these minimums, by leaf."""
    groups = [
        {**group, "minMember": min(group["minMember"], most.get(group["name"], 0))} if "minMember" in group else group
        for group in desired["spec"]["subGroups"]
    ]
    metadata = desired["metadata"]
    annotations = {**mapping(metadata.get("annotations")), RESTORED_ANNOTATION: "true"}
    spec = {**desired["spec"], "subGroups": groups}
    return {**desired, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """The minimums that were raised, and the leaves that were added. If a pod is on a node, either change makes the
    gang stale at once, and KAI evicts all of its pods 60 seconds later. A minimum that a user lowered by hand is not
    raised again either.

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
    """The minimum of each leaf, by name."""
    groups = map(mapping, sequence(mapping(pod_group.get("spec")).get("subGroups")))
    return {text(group.get("name")) or "": integer(group.get("minMember")) or 0 for group in groups}


def _subgroups(podgang: PodGang, facts: ClusterFacts) -> list[Manifest]:
    """The sets, then the leaves."""
    leaves = {member.name: keys.leaf(member.name) for member in podgang.members}
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
    """The queue that an opted-in workload or one of its templates names."""
    keys_of_queue = (("labels", settings.queueLabelKey),)
    return first_named(workload, keys_of_queue, keys_of_queue)


def project_queue(workload: OptedInWorkload, settings: KaiSettings) -> str | None:
    """The queue that podgrouper makes of the label `project`, and of the pods' node pool, if nothing names a queue."""
    labels = [template.labels for template in workload.templates]
    holders = (*(holder.labels for holder in holders_of(workload)), *labels)
    project = next((name for holder in holders if (name := text(holder.get("project")))), None)
    pool = next((name for one in labels if (name := text(one.get(settings.nodePoolLabelKey)))), None)
    return project if project is None or pool is None else f"{project}-{pool}"


def _asked(workload: OptedInWorkload) -> Manifest:
    """`topologyConstraint` from the annotations that podgrouper reads on workloads. KAI would ignore one that names no
    Topology.
    """
    fields = {use.path.parts[-1]: use.value for use in of_workload(workload).asks(*keys.TOPOLOGY_FIELDS)}
    found = {name: fields[key] for key, name in keys.TOPOLOGY_FIELDS.items() if key in fields}
    return {"topologyConstraint": found} if KAI_TOPOLOGY in fields else {}


def _topology(constraint: PackConstraint, podgang: PodGang, facts: ClusterFacts) -> Manifest:
    """`topologyConstraint` if there is one. Without the Topology's name, KAI would ignore it."""
    wanted = {"requiredTopologyLevel": constraint.required, "preferredTopologyLevel": constraint.preferred}
    levels = {field: key for field, key in wanted.items() if key is not None}
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
        known = levels_of(binding, facts)
    except UnknownTopology:
        return
    except NoTopology as missing:
        raise _no_level(constraint, topology_name(binding, facts), missing.why) from None
    for key in levels.values():
        if key not in known:
            raise _no_level(
                constraint, key, "the Topology has no such level, so kai-scheduler would never start the gang"
            )
    required, preferred = constraint.required, constraint.preferred
    if required and preferred and known.index(preferred) < known.index(required):
        raise _no_level(constraint, preferred, "the preferred level is broader than the required one")


def _no_level(constraint: PackConstraint, found: str, why: str) -> Inexpressible:
    return inexpressible("kai/topology", constraint.path, found, why)
