"""Rules about PodGroups and Queues of other authors, which KAI's own webhook does not check, or checks only at
creation or with its flag `enable-quota-validation`: minimums, queue, node pool, name, priority class and topology.

PodGroups made by podgrouper are not judged: its user is exempt. Those of Grove's own backend are judged by where they
run, and a change that makes a running gang stale is a warning: Grove makes trees with branches that may stay empty,
and needs a scheduler that evicts no gang as stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from webhook.backends import families
from webhook.backends.kai import keys
from webhook.backends.kai.gangs import SubGroup, Tree
from webhook.backends.kai.keys import RuleContext
from webhook.backends.kai.pod_clique_sets import (
    QUEUES,
    judge_node_pools,
    pod_group,
    queue_object,
    subgroup,
    unserved_pool,
)
from webhook.backends.queues import QueueObjects, leaves, suggested
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import StoredObject
from webhook.model.keys import LABEL_VALUE_LIMIT, Needed
from webhook.model.known_objects import KaiLevels, KaiQueue, PriorityClass, QueuedGroup, QueuedGroups
from webhook.model.reading import integer, mapping, text
from webhook.validators.registry import Example, Results, Rule, rule

pod_group_rule = partial(rule, kinds=(keys.POD_GROUPS,))
_shape_rule = partial(pod_group_rule, of_grove=Action.OFF)

_TWO = (subgroup("prefill", 2), subgroup("decode", 4))


@_shape_rule(
    "kai/group-parent",
    passes=Example(pod_group(subgroup("serve"), subgroup("prefill", 2, "serve"), subgroup("decode", 4, "serve"))),
    fails=Example(pod_group(subgroup("prefill", 2, "serve"), subgroup("decode", 4))),
)
def group_parent(stored: StoredObject, _: RuleContext) -> Results:
    """kai-scheduler cannot read a PodGroup if the parent of a subgroup does not exist. If subgroups form a cycle, they
    are not part of the tree. In both cases their pods are never scheduled. KAI's own webhook refuses both, where it
    runs.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go,
    pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    tree = Tree(stored.spec)
    lost = tree.lost()
    missing = [
        group for group in tree.by_name.values() if group.parent is not None and group.parent not in tree.by_name
    ]
    for group in missing:
        why = "no subgroup has that name, so kai-scheduler cannot read the PodGroup and starts none of its pods"
        yield Finding(
            at=group.path / "parent", value=group.parent, why=why, remedy="name an existing subgroup, or remove parent"
        )
    if lost and not missing:
        first = tree.by_name[min(lost)]
        why = "its ancestors form a cycle, so the scheduler never counts the pods below"
        remedy = "remove the parent of one subgroup in the cycle"
        yield Finding(at=first.path / "parent", value=first.parent, why=why, remedy=remedy)


@_shape_rule(
    "kai/group-minimum", passes=Example(pod_group(*_TWO, minSubGroup=2)), fails=Example(pod_group(*_TWO, minSubGroup=3))
)
def group_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A PodGroup, or a set of subgroups, that requires more groups than it has below it is admitted but never
    scheduled, without a message. KAI's own webhook only warns about it.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/subgroupset.go; seen with
    v0.16.8.
    """
    tree = Tree(stored.spec)
    # Without subgroups, all pods form one group.
    counted = [(group, len(tree.below[group.name])) for group in tree.sets]
    for group, below in counted or [(tree.root, 1)]:
        if group.groups is not None and group.groups > below:
            yield Finding(
                at=group.path / "minSubGroup",
                value=group.groups,
                why=f"only {below} {'group is' if below == 1 else 'groups are'} below it, "
                "so this minimum is never reached",
                remedy=f"set it to at most {below}, or remove it to require all",
                instead=(below,),
            )


@_shape_rule(
    "kai/group-optional",
    passes=Example(pod_group(*_TWO, minSubGroup=2)),
    fails=Example(pod_group(*_TWO, minSubGroup=1)),
)
def group_optional(stored: StoredObject, _: RuleContext) -> Results:
    """A gang with fewer groups than exist can start, but it is evicted later. If a leaf has fewer pods than its
    minMember, the gang is stale, even if minSubGroup is reached. 60 seconds later all of its pods are evicted.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/job_info.go (`IsStale`),
    pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """
    tree = Tree(stored.spec)
    demanding = set() if _stays(stored) else tree.demanding()
    for group in tree.sets:
        below = len(tree.below[group.name])
        if group.groups is not None and group.groups < below and group.name in demanding:
            yield Finding(
                at=group.path / "minSubGroup",
                value=group.groups,
                why=f"the gang can start with fewer than the {below} groups below it, "
                "and is evicted as incomplete 60 s later",
                remedy="remove it, and set minMember to 0 for leaves that may stay empty",
                instead=(below,),
            )


@_shape_rule(
    "kai/group-without-minimum",
    default=Action.WARN,
    passes=Example(pod_group(subgroup("prefill", 2), subgroup("helper", 0))),
    fails=Example(pod_group(subgroup("prefill", 0), subgroup("helper", 0))),
)
def group_without_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A leaf that needs no pod is always satisfied. If all leaves are like that, no pod waits for another, and the pods
    start one by one as if there were no PodGroup.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/podset.go.
    """
    tree = Tree(stored.spec)
    minimums = tree.minimums
    # `kai/group-structure` reports a leaf that does not state its minimum.
    if minimums and not any(minimums.values()) and all(leaf.pods is not None for leaf in tree.leaves):
        paths = [leaf.path / "minMember" for leaf in tree.leaves]
        path = min(paths, key=lambda path: path.anchor) if paths else SPEC / "minMember"
        why = "every minimum in this PodGroup is 0, so its pods start one by one"
        remedy = "set minMember for the pods that must start together"
        yield Finding(at=path, value=0, why=why, remedy=remedy)


@_shape_rule(
    "kai/set-minimum",
    passes=Example(
        pod_group(subgroup("serve", minSubGroup=1), subgroup("decode", 4, "serve")),
        old=pod_group(subgroup("serve"), subgroup("decode", 4, "serve")),
    ),
    fails=Example(
        pod_group(subgroup("serve", 4), subgroup("decode", 4, "serve")),
        old=pod_group(subgroup("serve"), subgroup("decode", 4, "serve")),
    ),
)
def set_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A subgroup with other subgroups below it counts groups, not pods, so its minMember has no effect. KAI's own
    webhook only warns about it in an update, but refuses such a PodGroup when it is created. No webhook sees a file.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    before = set() if stored.old is None else {group.name for group in _sets_with_pods(stored.old)}
    for group in _sets_with_pods(stored):
        # What 0 means at creation depends on the release. `kai/group-structure` reports both minimums in one subgroup.
        if group.name not in before and (group.pods or stored.old is not None) and not group.states_both:
            why = "the subgroup has children, so KAI ignores its minMember, and refuses the PodGroup when it is created"
            remedy = "remove it, or set minSubGroup instead"
            yield Finding(at=group.path / "minMember", value=group.pods, why=why, remedy=remedy)


def _sets_with_pods(stored: StoredObject) -> list[SubGroup]:
    return [group for group in Tree(stored.spec).sets if group.name and group.pods is not None]


@_shape_rule(
    "kai/group-structure",
    passes=Example(pod_group(*_TWO, minSubGroup=2)),
    fails=Example(pod_group(subgroup("prefill", 2), subgroup("decode"))),
)
def group_structure(stored: StoredObject, _: RuleContext) -> Results:
    """KAI's own webhook refuses a PodGroup or a subgroup that states both minMember and minSubGroup, two subgroups of
    one name, and a leaf without minMember or with minSubGroup. No webhook sees a file, and where KAI's does not run,
    the scheduler reads one of the two and drops the other.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2alpha2/podgroup_webhook.go (v0.15 to 2026-08).
    """
    tree = Tree(stored.spec)
    refused = "so KAI refuses the PodGroup"
    for group in (tree.root, *tree.by_name.values()):
        if group.states_both:
            why = f"minSubGroup is also set, and only one of the two counts, {refused}"
            remedy = "keep minSubGroup if it counts subgroups, else minMember"
            yield Finding(at=group.path / "minMember", value=group.pods, why=why, remedy=remedy)
    for group in tree.twins:
        why = f"another subgroup has this name, {refused}"
        yield Finding(at=group.path / "name", value=group.name, why=why, remedy="give each subgroup its own name")
    for leaf in tree.leaves:
        if leaf.groups is not None and not leaf.pods:
            why = f"no subgroup has this one as parent, so it counts pods and not groups, {refused}"
            yield Finding(at=leaf.path / "minSubGroup", value=leaf.groups, why=why, remedy="set minMember instead")
        elif leaf.pods is None:
            why = f"a subgroup without subgroups below it must state how many pods it needs, {refused}"
            remedy = "set it to the number of pods that must start together"
            yield Finding(at=leaf.path / "minMember", value=None, why=why, remedy=remedy)


@_shape_rule(
    "kai/subgroup-name",
    passes=Example(pod_group(subgroup("p" * LABEL_VALUE_LIMIT, 2))),
    fails=Example(pod_group(subgroup("p" * (LABEL_VALUE_LIMIT + 1), 2))),
)
def subgroup_name(stored: StoredObject, _: RuleContext) -> Results:
    """A pod names its leaf in a label. If the name of a leaf is too long for a label value, no pod can belong to the
    leaf.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/constants (`kai.scheduler/subgroup-name`); the PodGroup CRD of
    scheduling.run.ai/v2alpha2 sets no limit.
    """
    for leaf in Tree(stored.spec).leaves:
        if len(leaf.name) > LABEL_VALUE_LIMIT:
            why = f"a label value has at most {LABEL_VALUE_LIMIT} characters, so no pod can name this subgroup"
            yield Finding(at=leaf.path / "name", value=leaf.name, why=why, remedy="give it a shorter name")


_RUNNING = {"resourcesStatus": {"allocated": {"cpu": "4"}}}


def _raised_rule(
    id: str, documentation: str, *, seen: bool, why: str, remedy: str, default: Action = Action.DENY
) -> Rule:
    """Returns the rule about a raised minimum; `seen` says whether the status shows pods on nodes."""
    status = _RUNNING if seen else None

    def check(stored: StoredObject, _: RuleContext) -> Results:
        if stored.old is None or _has_pods(stored.old) is not seen or _stays(stored):
            return
        tree, before = Tree(stored.spec), Tree(stored.old.spec).minimums
        for name, now in tree.minimums.items():
            if now > (minimum := before.get(name, 0)):
                path = tree.by_name.get(name, tree.root).path / "minMember"
                yield Finding(at=path, value=now, why=f"it was {minimum}{why}", remedy=remedy, forbidden=seen)

    return pod_group_rule(
        id,
        default=default,
        passes=Example(pod_group(subgroup("decode", 2)), old=pod_group(subgroup("decode", 4), status=status)),
        fails=Example(pod_group(subgroup("decode", 4)), old=pod_group(subgroup("decode", 2), status=status)),
        documentation=documentation,
        of_grove=Action.WARN,
    )(check)


group_raised = _raised_rule(
    "kai/group-raised",
    """If a gang has pods on nodes and any leaf has fewer than its minimum, the gang is stale at once. 60 seconds later
    all of its pods are evicted, without an event on them. The status of the PodGroup shows whether it has pods on
    nodes. If Grove's own backend writes the PodGroup, it is a warning.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction, `default-staleness-grace-period`,
    pkg/podgroupcontroller (`status.resourcesStatus.allocated`); seen with v0.16.8.
    """,
    seen=True,
    why=", and kai-scheduler evicts a gang with pods on nodes that is below its minimum",
    remedy="create a new PodGroup for a larger gang, or delete its pods first",
)

group_raised_unseen = _raised_rule(
    "kai/group-raised-unseen",
    """Like kai/group-raised, but the status of the PodGroup shows no pods on nodes. The status may not have been
    written yet, and pods that were bound a moment ago would be evicted.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction; seen with v0.16.8.
    """,
    seen=False,
    why="; if fewer pods are on nodes by now, kai-scheduler evicts them",
    remedy="check first that none of its pods is on a node",
    default=Action.WARN,
)


def _stays(stored: StoredObject) -> bool:
    """Returns whether the PodGroup says (as of v0.17) that it must never be evicted as stale."""
    return (text(stored.spec.get("stalenessGracePeriod")) or "").startswith("-")


def _has_pods(stored: StoredObject) -> bool:
    resources = mapping(mapping(stored.raw.get("status")).get("resourcesStatus"))
    return any(str(amount) != "0" for amount in mapping(resources.get("allocated")).values())


group_pods = families.group_pods(
    "kai/group-pods",
    """kai-scheduler tries a PodGroup only when it has as many pods as its minMember. The rule counts the pods in the
    same files: pods, and the templates of their controllers. With subgroups minMember has no meaning.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info.
    """,
    system="KAI",
    kind=keys.POD_GROUPS,
    version="v2alpha2",
    minimum=lambda stored: None if stored.spec.get("subGroups") else integer(stored.spec.get("minMember")),
    queue="team-a",
)

_QUEUES = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "pools": KaiQueue(None, {keys.LABEL_NODE_POOL: "h100"}),
        "pooled": KaiQueue("pools", {keys.LABEL_NODE_POOL: "h100"}),
    },
    kai_shards={"default": None, "h100": "h100"},
)


@pod_group_rule(
    "kai/group-queue",
    passes=Example(pod_group(queue="team-a"), facts=_QUEUES),
    fails=Example(pod_group(queue="research"), facts=_QUEUES),
)
def group_queue(stored: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler never tries a PodGroup in a queue that is missing, that is below a missing queue, or that has
    children. For a queue with children it reports only "unable to schedule".

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """
    if (name := text(stored.spec.get("queue"))) is not None:
        yield from QUEUES.judge(name, SPEC / "queue", "it", context.facts)


@pod_group_rule("kai/group-no-queue", passes=Example(pod_group(queue="team-a")), fails=Example(pod_group(queue="")))
def group_no_queue(stored: StoredObject, context: RuleContext) -> Results:
    """A PodGroup without a queue waits for a queue with an empty name. Podgrouper writes `default-queue` into the
    PodGroups that it makes itself. The scheduler does not use it as a default.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8.
    """
    if text(stored.spec.get("queue")) is None:
        why = "kai-scheduler does not start a PodGroup without a queue, and has no default queue"
        leaf_queues = suggested(leaves(context.facts.kai_queues or {}))
        yield Finding(at=SPEC / "queue", value=None, why=why, remedy="name a leaf Queue", instead=leaf_queues)


@pod_group_rule(
    "kai/group-queue-label",
    default=Action.WARN,
    passes=Example(pod_group(queue="team-a", labels={keys.LABEL_QUEUE: "team-a"})),
    fails=Example(pod_group(queue="team-a", labels={keys.LABEL_QUEUE: "team-b"})),
)
def group_queue_label(stored: StoredObject, context: RuleContext) -> Results:
    """The label names the queue of a workload for which podgrouper makes a PodGroup. For a PodGroup itself the
    scheduler reads only `spec.queue`.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; pkg/podgrouper.
    """
    key, queue = context.settings.queueLabelKey, text(stored.spec.get("queue"))
    label = text(stored.labels.get(key))
    if label is not None and queue is not None and label != queue:
        why = f"spec.queue is {shown(queue[:63])}, and kai-scheduler reads only spec.queue"
        yield Finding(at=LABELS / key, value=label, why=why, remedy="name the same queue in both, or remove the label")


@pod_group_rule(
    "kai/group-node-pool",
    passes=Example(pod_group(queue="pooled", labels={keys.LABEL_NODE_POOL: "h100"}), facts=_QUEUES),
    fails=Example(pod_group(queue="team-a", labels={keys.LABEL_NODE_POOL: "default"}), facts=_QUEUES),
)
def group_node_pool(stored: StoredObject, context: RuleContext) -> Results:
    """Each scheduler shard sees only the PodGroups and Queues with its own node-pool label. The default shard sees
    those without the label. If no shard serves the pool of a PodGroup, no scheduler sees the PodGroup; `default` is not
    the name of a pool. A queue in another pool does not exist for the PodGroup's shard. Neither case causes a condition
    or an event.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), the SchedulingShard CRD; seen with
    v0.16.8.
    """
    key = context.settings.nodePoolLabelKey
    pool = text(stored.labels.get(key))
    path = LABELS / key
    if (problem := unserved_pool(pool, path, context.facts)) is not None:
        yield problem
        if isinstance(problem, Finding):
            return
    if context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues", part="kai_queues")
    yield from judge_node_pools(text(stored.spec.get("queue")), pool, path, "the PodGroup", context)


@pod_group_rule(
    "kai/group-name",
    default=Action.WARN,
    membership=True,
    passes=Example(
        pod_group(name="demo"),
        facts=ClusterFacts(kai_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup(None)})),
    ),
    fails=Example(
        pod_group(name="demo"), facts=ClusterFacts(kai_pod_groups=QueuedGroups({("other", "demo"): QueuedGroup(None)}))
    ),
)
def group_name(stored: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler identifies PodGroups by name without namespace. It treats two PodGroups with one name in two
    namespaces as one, and counts the pods of both for each. Only half of each gang starts. With a `schedulerVersion` of
    0.17.2 or newer nothing is reported: KAI identifies them with their namespace since then. So do the releases of 0.16
    after 2026-09-14; which of them is the first was not read.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8; fixed by #2095 (2026-08),
    in v0.17 by #2138, in v0.16 by #2137.
    """
    if context.scheduler_version is not None and not keys.mixes_namespaces(context.scheduler_version):
        return
    path, groups = METADATA / "name", context.facts.kai_pod_groups
    if groups is None:
        yield Unjudged(path, "the KAI PodGroups", part="kai_pod_groups")
        return
    other = next((namespace for namespace, _ in groups.called(stored.name) if namespace != stored.key[0]), None)
    if other is not None and stored.name:
        yield Finding(
            at=path,
            value=stored.name,
            why=f"namespace {other} has a PodGroup with that name, "
            "and KAI without the fix of #2095 starts only half of each gang",
            remedy=f"use a name that is unique in the cluster, or set schedulerVersion if {keys.FIXED} or newer runs",
        )


_DEFAULTED = ClusterFacts(
    priority_classes={"inference": PriorityClass(125, is_default=False), "normal": PriorityClass(1000, is_default=True)}
)


@pod_group_rule(
    "kai/group-priority-class",
    passes=Example(pod_group(priorityClassName="inference"), facts=_DEFAULTED),
    fails=Example(pod_group(priorityClassName="inferrence"), facts=_DEFAULTED),
)
def group_priority_class(stored: StoredObject, context: RuleContext) -> Results:
    """If the class does not exist, kai-scheduler uses the cluster's default class, without a message. If the value of
    the default class is 100 or more, the PodGroup may not be preempted and may use only its queue's quota. With a quota
    of 0 it never starts. Without such a default class, the missing class has no effect.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/podgroup (priority and preemptibility); seen with v0.16.8.
    """
    path, name = SPEC / "priorityClassName", text(stored.spec.get("priorityClassName"))
    classes = context.facts.priority_classes
    if name is None or text(stored.spec.get("preemptibility")) is not None:
        return
    if classes is None or (name not in classes and not context.facts.is_whole("priority_classes")):
        yield Unjudged(path, "the PriorityClasses", part="priority_classes")
    elif name not in classes:
        default = max(
            (priority_class.value for priority_class in classes.values() if priority_class.is_default), default=0
        )
        if default >= keys.NON_PREEMPTIBLE:
            yield Finding(
                at=path,
                value=name,
                why=f"there is no such PriorityClass, and with the cluster's default of {default} the gang may use "
                "nothing beyond its queue's quota",
                remedy="name a PriorityClass that exists, or set preemptibility",
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
def group_topology(stored: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler never starts a PodGroup whose level is not in the Topology, or that names no level, or whose
    preferred level is broader than the required one. It reports only "unable to schedule". A Topology that does not
    exist also blocks the PodGroup.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/topology; seen with v0.16.8.
    """
    topologies = context.facts.kai_topologies
    instead = suggested(sorted(topologies or ()))
    for constraint, path in _constraints(stored):
        name = text(constraint.get("topology"))
        if name is None:
            continue
        if topologies is None:
            yield Unjudged(path, "the KAI Topologies", part="kai_topologies")
        elif (levels := topologies.get(name)) is None:
            yield Finding(
                at=path / "topology",
                value=name,
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
def group_topology_unnamed(stored: StoredObject, _: RuleContext) -> Results:
    """kai-scheduler ignores a constraint that names no Topology, and the gang starts on any nodes.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go; seen with v0.16.8.
    """
    for constraint, path in _constraints(stored):
        for field in ("requiredTopologyLevel", "preferredTopologyLevel"):
            if (level := text(constraint.get(field))) is not None and text(constraint.get("topology")) is None:
                why = "kai-scheduler ignores a constraint that names no Topology"
                yield Finding(at=path / field, value=level, why=why, remedy="set topology in the same constraint")


def _constraints(stored: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    tree = Tree(stored.spec)
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
        if key not in (keys.WHOLE, *levels):
            why = "the Topology has no such level: kai-scheduler would never start the gang, without reporting why"
            remedy = "name one of its levels by its node label key"
            yield Finding(at=path / field, value=level, why=why, remedy=remedy, instead=suggested(levels))
            unknown = True
        else:
            places[field] = -1 if key == keys.WHOLE else levels.index(key)
    if unknown:
        return
    if not places:
        why = "the constraint has no required and no preferred level, and kai-scheduler never starts such a gang"
        yield Finding(
            at=path / "topology", value=constraint.get("topology"), why=why, remedy="set a required or preferred level"
        )
    elif places.get("preferredTopologyLevel", len(levels)) < places.get("requiredTopologyLevel", -1):
        preferred = constraint.get("preferredTopologyLevel")
        why = "it is broader than the required level, and kai-scheduler treats it as an unknown level"
        remedy = "prefer a narrower level, or remove the preference"
        yield Finding(at=path / "preferredTopologyLevel", value=preferred, why=why, remedy=remedy)


_PARENT = SPEC / "parentQueue"
_TREE = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "pools": KaiQueue(None, {keys.LABEL_NODE_POOL: "h100"}),
    },
    kai_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)

_OBJECTS = QueueObjects(queues=QUEUES, kind=keys.QUEUES, parent=_PARENT, build=queue_object, tree=_TREE)

queue_parent = _OBJECTS.missing_parent(
    "kai/queue-parent",
    """kai-scheduler drops a queue whose parent does not exist, and all queues below it. Their PodGroups get the message
    that their queue does not exist. This is a warning, because the parent may be created later.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info/queue.go.
    """,
    why="until it exists, kai-scheduler drops this queue and all queues below it",
    gone="is missing",
    remedy="create it",
    default=Action.WARN,
)


@rule(
    "kai/queue-pool",
    kinds=(keys.QUEUES,),
    passes=Example(queue_object("team-b", "research"), facts=_TREE),
    fails=Example(queue_object("team-b", "pools"), facts=_TREE),
)
def queue_pool(stored: StoredObject, context: RuleContext) -> Results:
    """A shard sees only the Queues of its own node pool. If the parent of a Queue is in another pool, the Queue has no
    parent there. kai-scheduler drops it and all queues below it.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), pkg/scheduler/cache/cluster_info.
    """
    key, name = context.settings.nodePoolLabelKey, text(stored.spec.get("parentQueue"))
    pool = text(stored.labels.get(key))
    path = LABELS / key
    if name is not None and context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues", part="kai_queues")
    yield from judge_node_pools(name, pool, path, "this Queue", context)


@rule(
    "kai/queue-resources",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example(queue_object()),
    fails=Example({**queue_object(), "spec": {"priority": 100}}),
)
def queue_resources(stored: StoredObject, _: RuleContext) -> Results:
    """KAI's own webhook refuses a Queue that states no resources. The schema of Queue does not require them.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2/queue_webhook.go (v0.9),
    pkg/admission/webhook/queuehooks/queue_validator.go (v0.16.8).
    """
    if stored.spec.get("resources") is None:
        why = "KAI's own webhook refuses a Queue without them"
        remedy = "state quota, limit and overQuotaWeight of cpu, memory and gpu"
        yield Finding(at=SPEC / "resources", value=None, why=why, remedy=remedy)


queue_cycle = _OBJECTS.ancestor_cycle(
    "kai/queue-cycle",
    """A queue in a cycle is not a leaf, and a queue below a cycle has no root. To check limits, the scheduler goes up
    from a gang's queue until there is no parent. Below a cycle this would never end.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go (read,
    not seen).
    """,
    why="so no queue in the cycle has a root",
)

queue_in_use = _OBJECTS.parent_with_pod_groups(
    "kai/queue-in-use",
    """A queue that gets its first child is no longer a leaf. kai-scheduler never again tries the PodGroups in it, and
    no message names the queue as the reason.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/utils; seen with v0.16.8.
    """,
    why="kai-scheduler never tries it again once the parent has a child",
)
