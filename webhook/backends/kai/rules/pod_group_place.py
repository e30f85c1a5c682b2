"""Where PodGroups of other authors run: their queue, node pool, name and priority class. KAI's own webhook checks
none of these.
"""

from __future__ import annotations

from webhook.backends.kai.keys import FIXED, LABEL_NODE_POOL, LABEL_QUEUE, NON_PREEMPTIBLE, mixes_namespaces
from webhook.backends.kai.rules.examples import pod_group
from webhook.backends.kai.rules.pod_group import pod_group_rule
from webhook.backends.kai.rules.queue import QUEUES, judge_node_pools, unserved_pool
from webhook.backends.kai.settings import RuleContext
from webhook.backends.queue_tree import leaves, offered
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import KaiQueue, PriorityClass, QueuedGroup, QueuedGroups
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
def group_queue(found: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler never tries a PodGroup in a queue that is missing, that is below a missing queue, or that has
    children. For a queue with children it reports only "unable to schedule".

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """
    if (name := text(found.spec.get("queue"))) is not None:
        yield from QUEUES.judge(name, SPEC / "queue", "it", context.facts)


@pod_group_rule(
    "kai/group-no-queue",
    passes=Example(pod_group(queue="team-a")),
    fails=Example(pod_group(queue="")),
)
def group_no_queue(found: StoredObject, context: RuleContext) -> Results:
    """A PodGroup without a queue waits for a queue with an empty name. Podgrouper writes `default-queue` into the
    PodGroups that it makes itself. The scheduler does not use it as a default.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8.
    """
    if text(found.spec.get("queue")) is None:
        yield Finding(
            at=SPEC / "queue",
            found=None,
            why="kai-scheduler does not start a PodGroup without a queue, and has no default queue",
            remedy="name a leaf Queue",
            instead=offered(leaves(context.facts.kai_queues or {})),
        )


@pod_group_rule(
    "kai/group-queue-label",
    default=Action.WARN,
    passes=Example(pod_group(queue="team-a", labels={LABEL_QUEUE: "team-a"})),
    fails=Example(pod_group(queue="team-a", labels={LABEL_QUEUE: "team-b"})),
)
def group_queue_label(found: StoredObject, context: RuleContext) -> Results:
    """The label names the queue of a workload for which podgrouper makes a PodGroup. For a PodGroup itself the
    scheduler reads only `spec.queue`.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; pkg/podgrouper.
    """
    key, queue = context.settings.queueLabelKey, text(found.spec.get("queue"))
    label = text(found.labels.get(key))
    if label is not None and queue is not None and label != queue:
        yield Finding(
            at=LABELS / key,
            found=label,
            why=f"spec.queue is {shown(queue[:63])}, and kai-scheduler reads only spec.queue",
            remedy="name the same queue in both, or remove the label",
        )


@pod_group_rule(
    "kai/group-node-pool",
    passes=Example(pod_group(queue="pooled", labels={LABEL_NODE_POOL: "h100"}), facts=_QUEUES),
    fails=Example(pod_group(queue="team-a", labels={LABEL_NODE_POOL: "default"}), facts=_QUEUES),
)
def group_node_pool(found: StoredObject, context: RuleContext) -> Results:
    """Each scheduler shard sees only the PodGroups and Queues with its own node-pool label. The default shard sees
    those without the label. If no shard serves the pool of a PodGroup, no scheduler sees the PodGroup; `default` is not
    the name of a pool. A queue in another pool does not exist for the PodGroup's shard. Neither case causes a condition
    or an event.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), the SchedulingShard CRD; seen with
    v0.16.8.
    """
    key = context.settings.nodePoolLabelKey
    pool = text(found.labels.get(key))
    path = LABELS / key
    if (problem := unserved_pool(pool, path, context.facts)) is not None:
        yield problem
        if isinstance(problem, Finding):
            return
    if context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues", part="kai_queues")
    yield from judge_node_pools(text(found.spec.get("queue")), pool, path, "the PodGroup", context)


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
def group_name(found: StoredObject, context: RuleContext) -> Results:
    """kai-scheduler identifies PodGroups by name without namespace. It treats two PodGroups with one name in two
    namespaces as one, and counts the pods of both for each. Only half of each gang starts. With a `schedulerVersion` of
    0.17.2 or newer nothing is reported: KAI identifies them with their namespace since then. So do the releases of 0.16
    after 2026-09-14; which of them is the first was not read.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info; seen with v0.16.8; fixed by #2095 (2026-08),
    in v0.17 by #2138, in v0.16 by #2137.
    """
    if context.scheduler_version is not None and not mixes_namespaces(context.scheduler_version):
        return
    path, groups = METADATA / "name", context.facts.kai_pod_groups
    if groups is None:
        yield Unjudged(path, "the KAI PodGroups", part="kai_pod_groups")
        return
    other = next((namespace for namespace, _ in groups.called(found.name) if namespace != found.key[0]), None)
    if other is not None and found.name:
        yield Finding(
            at=path,
            found=found.name,
            why=f"namespace {other} has a PodGroup with that name, "
            "and KAI without the fix of #2095 starts only half of each gang",
            remedy=f"use a name that is unique in the cluster, or set schedulerVersion if {FIXED} or newer runs",
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
def group_priority_class(found: StoredObject, context: RuleContext) -> Results:
    """If the class does not exist, kai-scheduler uses the cluster's default class, without a message. If the value of
    the default class is 100 or more, the PodGroup may not be preempted and may use only its queue's quota. With a quota
    of 0 it never starts. Without such a default class, the missing class has no effect.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/podgroup (priority and preemptibility); seen with v0.16.8.
    """
    path, name = SPEC / "priorityClassName", text(found.spec.get("priorityClassName"))
    known = context.facts.priority_classes
    if name is None or text(found.spec.get("preemptibility")) is not None:
        return
    if known is None or (name not in known and not context.facts.is_whole("priority_classes")):
        yield Unjudged(path, "the PriorityClasses", part="priority_classes")
    elif name not in known:
        default = max((one.value for one in known.values() if one.is_default), default=0)
        if default >= NON_PREEMPTIBLE:
            yield Finding(
                at=path,
                found=name,
                why=f"there is no such PriorityClass, and with the cluster's default of {default} the gang may use "
                "nothing beyond its queue's quota",
                remedy="name a PriorityClass that exists, or set preemptibility",
                absent=Needed("priority_classes", name),
            )
