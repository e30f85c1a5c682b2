"""Where PodGroups of other authors run: their queue, node pool, name, priority class and topology. KAI's own webhook
checks none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kai.examples import pod_group, subgroup
from webhook.backends.kai.keys import LABEL_NODE_POOL, LABEL_QUEUE, NON_PREEMPTIBLE, WHOLE
from webhook.backends.kai.pod_group_rules import pod_group_rule
from webhook.backends.kai.queue import judge_line, judge_queue, unserved_pool
from webhook.backends.kai.rules import Rules
from webhook.backends.kai.subgroups import Tree
from webhook.backends.queue_tree import leaves, offered
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import KaiLevels, KaiQueue, PriorityClass, QueuedGroup, QueuedGroups
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results

_QUEUES = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "pools": KaiQueue(None, {LABEL_NODE_POOL: "h100"}),
        "pooled": KaiQueue("pools", {LABEL_NODE_POOL: "h100"}),
    },
    kai_shards={"default": None, "h100": "h100"},
)


@pod_group_rule(
    "kai/group-queue",
    passes=Example(pod_group(queue="team-a"), facts=_QUEUES),
    fails=Example(pod_group(queue="research"), facts=_QUEUES),
)
def group_queue(found: StoredObject, context: Rules) -> Results:
    """kai-scheduler never tries a PodGroup in a queue that has children, and says only "unable to schedule". One that
    is missing, or that is below a missing one, counts as not there.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """
    if (name := text(found.spec.get("queue"))) is not None:
        yield from judge_queue(name, SPEC / "queue", "it", context.facts)


@pod_group_rule(
    "kai/group-no-queue",
    passes=Example(pod_group(queue="team-a")),
    fails=Example(pod_group(queue="")),
)
def group_no_queue(found: StoredObject, context: Rules) -> Results:
    """A PodGroup that names no queue waits for the queue of no name. The queue `default-queue` is what podgrouper
    writes into the PodGroups that it makes itself, and nothing that the scheduler would fall back to.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8.
    """
    if text(found.spec.get("queue")) is None:
        yield Finding(
            at=SPEC / "queue",
            found=None,
            why="kai-scheduler starts no PodGroup without a queue, and has none by default",
            remedy="name a leaf Queue",
            instead=offered(leaves(context.facts.kai_queues or {})),
        )


@pod_group_rule(
    "kai/group-queue-label",
    default=Action.WARN,
    passes=Example(pod_group(queue="team-a", labels={LABEL_QUEUE: "team-a"})),
    fails=Example(pod_group(queue="team-a", labels={LABEL_QUEUE: "team-b"})),
)
def group_queue_label(found: StoredObject, context: Rules) -> Results:
    """The label names the queue of a workload for which podgrouper makes a PodGroup. Of a PodGroup itself the scheduler
    reads `spec.queue` alone.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; pkg/podgrouper.
    """
    key, queue = context.settings.queueLabelKey, text(found.spec.get("queue"))
    label = text(found.labels.get(key))
    if label is not None and queue is not None and label != queue:
        yield Finding(
            at=LABELS / key,
            found=label,
            why=f"spec.queue says {shown(queue[:63])}, and that alone counts",
            remedy="name the same queue in both, or remove the label",
        )


@pod_group_rule(
    "kai/group-node-pool",
    passes=Example(pod_group(queue="pooled", labels={LABEL_NODE_POOL: "h100"}), facts=_QUEUES),
    fails=Example(pod_group(queue="team-a", labels={LABEL_NODE_POOL: "default"}), facts=_QUEUES),
)
def group_node_pool(found: StoredObject, context: Rules) -> Results:
    """Each scheduler shard sees the PodGroups and Queues that bear its own node-pool label, and the default shard those
    without one. A pool that no shard serves (`default` is none) is seen by nobody, and a queue of another pool does not
    exist for the PodGroup's shard; neither leaves a condition or an event.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), the SchedulingShard CRD; seen with
    v0.16.8.
    """
    key = context.settings.nodePoolLabelKey
    pool = text(found.labels.get(key))
    path = LABELS / key if pool is not None else LABELS
    if (problem := unserved_pool(pool, path, context.facts)) is not None:
        yield problem
        if isinstance(problem, Finding):
            return
    if context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues")
    yield from judge_line(text(found.spec.get("queue")), pool, path, "the PodGroup", context)


@pod_group_rule(
    "kai/group-name",
    default=Action.WARN,
    passes=Example(
        pod_group(name="demo"),
        facts=ClusterFacts(kai_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup(None)})),
    ),
    fails=Example(
        pod_group(name="demo"), facts=ClusterFacts(kai_pod_groups=QueuedGroups({("other", "demo"): QueuedGroup(None)}))
    ),
)
def group_name(found: StoredObject, context: Rules) -> Results:
    """kai-scheduler tells PodGroups by their bare names. Two of one name in two namespaces are taken for one, and the
    pods of both together count for either: each gang starts in half.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8; fixed by #2095 (2026-08).
    """
    path, groups = METADATA / "name", context.facts.kai_pod_groups
    if groups is None:
        yield Unjudged(path, "the KAI PodGroups")
        return
    other = next((namespace for namespace, _ in groups.called(found.name) if namespace != found.key[0]), None)
    if other is not None and found.name:
        yield Finding(
            at=path,
            found=found.name,
            why=f"namespace {other} has one of that name, and before KAI's #2095 both gangs start in half",
            remedy="use a name that is unique in the cluster",
        )


_DEFAULTED = ClusterFacts(
    priority_classes={
        "inference": PriorityClass(125, is_default=False),
        "normal": PriorityClass(1000, is_default=True),
    }
)


@pod_group_rule(
    "kai/group-priority-class",
    passes=Example(pod_group(priorityClassName="inference"), facts=_DEFAULTED),
    fails=Example(pod_group(priorityClassName="inferrence"), facts=_DEFAULTED),
)
def group_priority_class(found: StoredObject, context: Rules) -> Results:
    """A class that does not exist counts as the cluster's default one, without a word. Where that is 100 or more the
    PodGroup may not be preempted, may only use its queue's quota, and with a quota of 0 never starts. Without such a
    default nothing comes of it.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/podgroup (priority and preemptibility); seen with v0.16.8.
    """
    path, name = SPEC / "priorityClassName", text(found.spec.get("priorityClassName"))
    known = context.facts.priority_classes
    if name is None or text(found.spec.get("preemptibility")) is not None:
        return
    if known is None:
        yield Unjudged(path, "the PriorityClasses")
    elif name not in known:
        default = max((one.value for one in known.values() if one.is_default), default=0)
        if default >= NON_PREEMPTIBLE:
            yield Finding(
                at=path,
                found=name,
                why=f"there is no such PriorityClass, and by the cluster's default one of {default} the gang may use "
                "nothing beyond its queue's quota",
                remedy="name a PriorityClass that exists, or say preemptibility",
                absent=Needed("priority_classes", name),
            )


_RACKS = ClusterFacts(kai_topologies={"dc": KaiLevels(("example.com/zone", "example.com/rack"), {})})


def _near(topology: str | None = "dc", **levels: str) -> dict[str, str]:
    return levels if topology is None else {"topology": topology, **levels}


@pod_group_rule(
    "kai/group-topology",
    passes=Example(
        pod_group(
            subgroup("decode", 4, topologyConstraint=_near(requiredTopologyLevel="example.com/rack")),
            topologyConstraint=_near(requiredTopologyLevel="example.com/zone"),
        ),
        facts=_RACKS,
    ),
    fails=Example(pod_group(topologyConstraint=_near(requiredTopologyLevel="rack")), facts=_RACKS),
)
def group_topology(found: StoredObject, context: Rules) -> Results:
    """A level that the Topology lacks, no level at all, or a preferred level that is broader than the required one
    blocks the PodGroup with no more than "unable to schedule"; a Topology that does not exist blocks it, too.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/topology; seen with v0.16.8.
    """
    known = context.facts.kai_topologies
    instead = offered(sorted(known or ()))
    for constraint, path in _constraints(found):
        name = text(constraint.get("topology"))
        if name is None:
            continue
        if known is None:
            yield Unjudged(path, "the KAI Topologies")
        elif (levels := known.get(name)) is None:
            yield Finding(
                at=path / "topology",
                found=name,
                why="the cluster has no such Topology, so kai-scheduler would never start the gang",
                remedy="name a Topology that exists, or create it first",
                absent=Needed("kai_topologies", name),
                instead=instead,
            )
        else:
            yield from _judge_levels(constraint, path, levels)


@pod_group_rule(
    "kai/group-topology-unnamed",
    passes=Example(pod_group(topologyConstraint=_near(requiredTopologyLevel="example.com/rack")), facts=_RACKS),
    fails=Example(pod_group(topologyConstraint=_near(None, requiredTopologyLevel="example.com/rack"))),
)
def group_topology_unnamed(found: StoredObject, _: Rules) -> Results:
    """A constraint that names no Topology is ignored, and the gang starts anywhere.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go; seen with v0.16.8.
    """
    for constraint, path in _constraints(found):
        for field in ("requiredTopologyLevel", "preferredTopologyLevel"):
            if (level := text(constraint.get(field))) is not None and text(constraint.get("topology")) is None:
                yield Finding(
                    at=path / field,
                    found=level,
                    why="kai-scheduler ignores a constraint that names no Topology",
                    remedy="name the Topology beside it",
                )


def _constraints(found: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """The PodGroup's own constraint and those of its subgroups."""
    tree = Tree(found.spec)
    for group in (tree.root, *tree.by_name.values()):
        if group.topology is not None:
            yield group.topology, group.path / "topologyConstraint"


def _judge_levels(constraint: Mapping[str, Any], path: FieldPath, levels: tuple[str, ...]) -> Results:
    """Checks that the levels of a constraint are levels of its Topology, by key or by alias."""
    aliases = levels.aliases if isinstance(levels, KaiLevels) else {}
    places: dict[str, int] = {}
    unknown = False
    for field in ("requiredTopologyLevel", "preferredTopologyLevel"):
        level = text(constraint.get(field))
        if level is None:
            continue
        key = aliases.get(level, level)
        if key not in (WHOLE, *levels):
            yield Finding(
                at=path / field,
                found=level,
                why="the Topology has no such level, so kai-scheduler would never start the gang, and not say why",
                remedy="name one of its levels by its node label key",
                instead=offered(levels),
            )
            unknown = True
        else:
            places[field] = -1 if key == WHOLE else levels.index(key)
    if unknown:
        return
    if not places:
        why = "it names neither a required nor a preferred level, and kai-scheduler never starts such a gang"
        yield Finding(at=path / "topology", found=constraint.get("topology"), why=why, remedy="name a level")
    elif places.get("preferredTopologyLevel", len(levels)) < places.get("requiredTopologyLevel", -1):
        yield Finding(
            at=path / "preferredTopologyLevel",
            found=constraint.get("preferredTopologyLevel"),
            why="it is broader than the required level, which kai-scheduler takes for an unknown one",
            remedy="prefer a narrower level, or leave it out",
        )
