"""Volcano's Queues themselves. Under the capacity plugin one wrong queue can stop all others, with gangs or without.

If it is on, Volcano's own webhook checks a queue's direct parent. It does not check cycles or PodGroups without pods.
"""

from __future__ import annotations

from webhook.backends.queue_tree import children_of, missing_ancestor, turning_point
from webhook.backends.volcano.keys import DEFAULT_QUEUE, OPEN, QUEUES, ROOT_QUEUE
from webhook.backends.volcano.rules.examples import queue
from webhook.backends.volcano.settings import RuleContext
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import QueuedGroup, QueuedGroups, VolcanoQueue
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

_PARENT = SPEC / "parent"
_BUILT_IN = (ROOT_QUEUE, DEFAULT_QUEUE)
_TREE = ClusterFacts(
    volcano_queues={
        "research": VolcanoQueue(ROOT_QUEUE, OPEN),
        "team-a": VolcanoQueue("research", OPEN),
    },
    volcano_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)


@rule(
    "volcano/queue-parent",
    kinds=(QUEUES,),
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "resaerch"), facts=_TREE),
)
def queue_parent(found: StoredObject, context: RuleContext) -> Results:
    """A queue whose parent does not exist keeps the capacity plugin from making its tree: then nothing starts, in no
    queue of the cluster, whether the queue is used or not.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`); seen with vc-scheduler v1.15.1.
    """
    name, known = text(found.spec.get("parent")), context.facts.volcano_queues
    if name is None or name in _BUILT_IN:
        return
    if known is None:
        yield Unjudged(_PARENT, "the Volcano Queues")
        return
    missing = missing_ancestor(VolcanoQueue(name, None), known, _BUILT_IN)
    if missing is not None and missing != found.name:
        above = "there is no such Queue" if missing == name else f"it is below {shown(missing)}, which does not exist"
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"{above}, and under volcano's capacity plugin that stops every queue",
            remedy="create the parent first, or name another",
            absent=Needed("volcano_queues", missing),
        )


@rule(
    "volcano/queue-cycle",
    kinds=(QUEUES,),
    passes=Example(queue("research", "root"), facts=_TREE),
    fails=Example(queue("research", "team-a"), facts=_TREE),
)
def queue_cycle(found: StoredObject, context: RuleContext) -> Results:
    """A cycle keeps the capacity plugin from making its tree, which stops every queue. Volcano's own webhook refuses a
    queue that is its own parent, and lets an update close a longer way round.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`), pkg/webhooks/admission/queues
    (read, not seen).
    """
    name = text(found.spec.get("parent"))
    if name is None or ROOT_QUEUE in {name, found.name}:
        return
    known = context.facts.volcano_queues
    if (again := turning_point(found.name, name, known or {})) is None:
        if known is None:
            yield Unjudged(_PARENT, "the Volcano Queues")
    elif again != ROOT_QUEUE:
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"the way up leads from {shown(again)} back to it, and under volcano's capacity plugin that stops "
            "every queue",
            remedy="name a parent that is not below this Queue",
        )


@rule(
    "volcano/queue-in-use",
    kinds=(QUEUES,),
    passes=Example(queue("team-b", "research"), facts=_TREE),
    fails=Example(queue("team-b", "team-a"), facts=_TREE),
)
def queue_in_use(found: StoredObject, context: RuleContext) -> Results:
    """A queue that gets its first child is no leaf any more. While a PodGroup is in it, even one without pods, the
    capacity plugin stops every other queue. Volcano's own webhook looks for pods alone.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity, pkg/webhooks/admission/queues; seen with vc-scheduler
    v1.15.1.
    """
    name, facts = text(found.spec.get("parent")), context.facts
    if name is None or name == ROOT_QUEUE:
        return
    if facts.volcano_pod_groups is None or facts.volcano_queues is None:
        yield Unjudged(_PARENT, "the Volcano PodGroups" if facts.volcano_queues is not None else "the Volcano Queues")
        return
    using = next(iter(facts.volcano_pod_groups.in_queue(name)), None)
    if using is not None and not children_of(name, facts.volcano_queues).keys() - {found.name}:
        yield Finding(
            at=_PARENT,
            found=name,
            why=f"PodGroup {shown('/'.join(using)[:80])} is in it, and in a queue with children it can stop all others",
            remedy="name a parent without PodGroups, or move or delete these first",
        )
