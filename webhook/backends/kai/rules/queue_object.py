"""KAI's Queues themselves. KAI's own webhook checks their hierarchy only with its flag `enable-quota-validation`."""

from __future__ import annotations

from webhook.backends.kai.keys import LABEL_NODE_POOL, QUEUES
from webhook.backends.kai.rules.examples import queue
from webhook.backends.kai.rules.queue import judge_line
from webhook.backends.kai.settings import RuleContext
from webhook.backends.queue_tree import children_of, missing_ancestor, turning_point
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
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


@rule(
    "kai/queue-parent",
    kinds=(QUEUES,),
    default=Action.WARN,
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "resaerch"), facts=_TREE),
)
def queue_parent(found: StoredObject, context: RuleContext) -> Results:
    """A queue whose parent does not exist is dropped, with all that are below it: their PodGroups are told that their
    queue does not exist. A warning, because the parent may follow.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info/queue.go.
    """
    name, known = text(found.spec.get("parentQueue")), context.facts.kai_queues
    if name is None:
        return
    if known is None:
        yield Unjudged(_PARENT, "the KAI Queues")
    elif (missing := missing_ancestor(KaiQueue(name), known)) is not None and missing != found.name:
        above = "there is no such Queue" if missing == name else f"it is below {shown(missing[:63])}, which is missing"
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"{above}, and until there is, kai-scheduler drops this one and all below it",
            remedy="create it, or name another",
            absent=Needed("kai_queues", missing),
        )


@rule(
    "kai/queue-pool",
    kinds=(QUEUES,),
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "pools"), facts=_TREE),
)
def queue_pool(found: StoredObject, context: RuleContext) -> Results:
    """A shard sees only the Queues of its own node pool. One whose parent is in another has no parent there, and is
    dropped with all that are below it.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), pkg/scheduler/cache/cluster_info.
    """
    key, name = context.settings.nodePoolLabelKey, text(found.spec.get("parentQueue"))
    pool = text(found.labels.get(key))
    path = LABELS / key if pool is not None else _PARENT
    if name is not None and context.facts.kai_queues is None:
        yield Unjudged(path, "the KAI Queues")
    yield from judge_line(name, pool, path, "this Queue", context)


@rule(
    "kai/queue-cycle",
    kinds=(QUEUES,),
    passes=Example(queue("research"), facts=_TREE),
    fails=Example(queue("research", "team-a"), facts=_TREE),
)
def queue_cycle(found: StoredObject, context: RuleContext) -> Results:
    """No queue in a cycle is a leaf, and none below it has a root. Where the scheduler goes up from a gang's queue to
    look at limits, it goes until there is no parent, so for a queue below a cycle it would never end.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go (read,
    not seen).
    """
    name, known = text(found.spec.get("parentQueue")), context.facts.kai_queues
    if name is None:
        return
    if (again := turning_point(found.name, name, known or {})) is None:
        if known is None:
            yield Unjudged(_PARENT, "the KAI Queues")
    else:
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"the way up leads from {shown(again[:63])} back to it, so no queue on it has a root",
            remedy="name a parent that is not below this Queue",
        )


@rule(
    "kai/queue-in-use",
    kinds=(QUEUES,),
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "team-a"), facts=_TREE),
)
def queue_in_use(found: StoredObject, context: RuleContext) -> Results:
    """A queue that gets its first child is no leaf any more, and kai-scheduler never again tries the PodGroups that are
    in it; nothing names the queue as the reason.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/utils; seen with v0.16.8.
    """
    name, facts = text(found.spec.get("parentQueue")), context.facts
    if name is None:
        return
    if facts.kai_pod_groups is None or facts.kai_queues is None:
        yield Unjudged(_PARENT, "the KAI PodGroups" if facts.kai_queues is not None else "the KAI Queues")
        return
    using = next(iter(facts.kai_pod_groups.in_queue(name)), None)
    if using is not None and not children_of(name, facts.kai_queues).keys() - {found.name}:
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"PodGroup {shown('/'.join(using)[:80])} is in it, and is never tried again once it has a child",
            remedy="name a parent without PodGroups, or move or delete these first",
        )
