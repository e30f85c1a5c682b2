"""KAI's Queues themselves. KAI's own webhook checks their hierarchy only with its flag `enable-quota-validation`."""

from __future__ import annotations

from webhook.backends.kai import keys
from webhook.backends.kai.keys import LABEL_NODE_POOL
from webhook.backends.kai.rules.examples import queue
from webhook.backends.kai.rules.queue import QUEUES, judge_node_pools
from webhook.backends.kai.settings import RuleContext
from webhook.backends.queue_families import QueueObjects
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.known_objects import KaiQueue, QueuedGroup, QueuedGroups
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

_PARENT = SPEC / "parentQueue"
_TREE = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "pools": KaiQueue(None, {LABEL_NODE_POOL: "h100"}),
    },
    kai_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)


_OBJECTS = QueueObjects(queues=QUEUES, kind=keys.QUEUES, parent=_PARENT, build=queue, tree=_TREE)

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
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "pools"), facts=_TREE),
)
def queue_pool(found: StoredObject, context: RuleContext) -> Results:
    """A shard sees only the Queues of its own node pool. If the parent of a Queue is in another pool, the Queue has no
    parent there. kai-scheduler drops it and all queues below it.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), pkg/scheduler/cache/cluster_info.
    """
    key, name = context.settings.nodePoolLabelKey, text(found.spec.get("parentQueue"))
    pool = text(found.labels.get(key))
    path = LABELS / key
    if name is not None and context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues", part="kai_queues")
    yield from judge_node_pools(name, pool, path, "this Queue", context)


@rule(
    "kai/queue-resources",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example(queue()),
    fails=Example({**queue(), "spec": {"priority": 100}}),
)
def queue_resources(found: StoredObject, _: RuleContext) -> Results:
    """KAI's own webhook refuses a Queue that states no resources. The schema of Queue does not require them.

    Source: kai-scheduler/KAI-Scheduler, pkg/apis/scheduling/v2/queue_webhook.go (v0.9),
    pkg/admission/webhook/queuehooks/queue_validator.go (v0.16.8).
    """
    if found.spec.get("resources") is None:
        yield Finding(
            at=SPEC / "resources",
            found=None,
            why="KAI's own webhook refuses a Queue without them",
            remedy="state quota, limit and overQuotaWeight of cpu, memory and gpu",
        )


queue_cycle = _OBJECTS.cycle(
    "kai/queue-cycle",
    """A queue in a cycle is not a leaf, and a queue below a cycle has no root. To check limits, the scheduler goes up
    from a gang's queue until there is no parent. Below a cycle this would never end.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go (read,
    not seen).
    """,
    why="so no queue in the cycle has a root",
)


queue_in_use = _OBJECTS.in_use(
    "kai/queue-in-use",
    """A queue that gets its first child is no longer a leaf. kai-scheduler never again tries the PodGroups in it, and
    no message names the queue as the reason.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/utils; seen with v0.16.8.
    """,
    why="kai-scheduler never tries it again once the parent has a child",
)
