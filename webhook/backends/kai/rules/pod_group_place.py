"""Where PodGroups of other authors run: their queue, node pool, name and priority class. KAI's own webhook checks
none of these.
"""

from __future__ import annotations

from webhook.backends.kai.keys import LABEL_NODE_POOL, LABEL_QUEUE, NON_PREEMPTIBLE
from webhook.backends.kai.rules.examples import pod_group
from webhook.backends.kai.rules.pod_group import pod_group_rule
from webhook.backends.kai.rules.queue import QUEUES, judge_line, unserved_pool
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
    """kai-scheduler never tries a PodGroup in a queue that has children, and says only "unable to schedule". One that
    is missing, or that is below a missing one, counts as not there.

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
def group_queue_label(found: StoredObject, context: RuleContext) -> Results:
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
def group_node_pool(found: StoredObject, context: RuleContext) -> Results:
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
def group_name(found: StoredObject, context: RuleContext) -> Results:
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
def group_priority_class(found: StoredObject, context: RuleContext) -> Results:
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
