"""Volcano's Queues themselves. Under the capacity plugin one wrong queue can stop all others, with or without gangs in
it. If the plugin is on, Volcano's own webhook checks a queue's direct parent. It does not check cycles or PodGroups
without pods.
"""

from __future__ import annotations

from webhook.backends.queue_families import QueueObjects
from webhook.backends.queue_tree import children_of, path_of
from webhook.backends.volcano import keys
from webhook.backends.volcano.keys import DEFAULT_QUEUE, OPEN, ROOT_QUEUE
from webhook.backends.volcano.rules.examples import queue
from webhook.backends.volcano.rules.queue import QUEUES
from webhook.backends.volcano.settings import RuleContext
from webhook.model.amounts import ceiling_amounts
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, shown
from webhook.model.known_objects import QueuedGroup, QueuedGroups, VolcanoQueue
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

_MOST_WEIGHT = 65535
_TREE = ClusterFacts(
    volcano_queues={
        "research": VolcanoQueue(ROOT_QUEUE, OPEN),
        "team-a": VolcanoQueue("research", OPEN),
    },
    volcano_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)


_SHARES = ClusterFacts(volcano_queues={"research": VolcanoQueue(ROOT_QUEUE, OPEN, {"cpu": 8000})})


def _below_research(cpu: str) -> Manifest:
    return {**queue(), "spec": {"weight": 1, "parent": "research", "capability": {"cpu": cpu}}}


_OBJECTS = QueueObjects(queues=QUEUES, kind=keys.QUEUES, parent=SPEC / "parent", build=queue, tree=_TREE)

queue_parent = _OBJECTS.missing_parent(
    "volcano/queue-parent",
    """If the parent of a queue does not exist, the capacity plugin cannot build its tree. Then no gang starts in any
    queue of the cluster, even if the wrong queue is not used.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`); seen with vc-scheduler v1.15.1.
    """,
    why="under volcano's capacity plugin this stops every queue",
    gone="does not exist",
    remedy="create the parent first",
    built_in=(ROOT_QUEUE, DEFAULT_QUEUE),
)


queue_cycle = _OBJECTS.cycle(
    "volcano/queue-cycle",
    """The capacity plugin cannot build its tree if there is a cycle, which stops every queue. Volcano's own webhook
    refuses a queue that is its own parent, but accepts an update that closes a longer cycle.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`), pkg/webhooks/admission/queues
    (read, not seen).
    """,
    why="which stops every queue under volcano's capacity plugin",
)


queue_in_use = _OBJECTS.in_use(
    "volcano/queue-in-use",
    """A queue that gets its first child is no longer a leaf. If a PodGroup is in it, even one without pods, the
    capacity plugin stops every other queue. Volcano's own webhook checks only for pods.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity, pkg/webhooks/admission/queues; seen with vc-scheduler
    v1.15.1.
    """,
    why="a PodGroup in a queue with children can stop all other queues",
)


@rule(
    "volcano/queue-weight",
    kinds=(keys.QUEUES,),
    passes=Example(queue()),
    fails=Example({**queue(), "spec": {"weight": -1}}),
)
def queue_weight(found: StoredObject, _: RuleContext) -> Results:
    """The weight of a Queue is from 1 to 65535, and the API server refuses any other. Volcano's own webhook replaces 0
    by 1 before that, so a Queue of weight 0 has a share.

    Source: the CRD of scheduling.volcano.sh/v1beta1 (`weight`), volcano-sh/volcano,
    pkg/webhooks/admission/queues/mutate/mutate_queue.go.
    """
    weight = integer(found.spec.get("weight"))
    if weight is not None and not 1 <= weight <= _MOST_WEIGHT:
        why = "Volcano's webhook writes 1 instead, and without it the API server refuses the Queue"
        yield Finding(
            at=SPEC / "weight",
            found=weight,
            why="the API server refuses the Queue" if weight else why,
            remedy=f"set 1 to {_MOST_WEIGHT}",
            at_most=Action.DENY if weight else Action.WARN,
        )


@rule(
    "volcano/queue-amounts",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example({**queue(), "spec": {"guarantee": {"resource": {"cpu": "4"}}, "deserved": {"cpu": "8"}}}),
    fails=Example({**queue(), "spec": {"guarantee": {"resource": {"cpu": "4"}}, "deserved": {"cpu": "2"}}}),
)
def queue_amounts(found: StoredObject, _: RuleContext) -> Results:
    """What a Queue deserves is between its guarantee and its capability. From v1.13 on Volcano's own webhook refuses a
    guarantee above what the Queue deserves, and a deserved amount above the capability; from v1.14 on also a guarantee
    of a resource for which no deserved amount is stated. Earlier releases accept the Queue.

    Source: volcano-sh/volcano, pkg/webhooks/admission/queues/validate/validate_queue.go (`validateResourceOfQueue`,
    v1.13.0; `validateResourceQuantityOfQueue`, v1.15.1).
    """
    capability, deserved = mapping(found.spec.get("capability")), mapping(found.spec.get("deserved"))
    for resource, stated in mapping(mapping(found.spec.get("guarantee")).get("resource")).items():
        guarantee, share = parse_quantity(stated), parse_quantity(deserved.get(resource))
        if resource not in deserved or (guarantee is not None and share is not None and share < guarantee):
            yield Finding(
                at=SPEC / "deserved" / resource,
                found=deserved.get(resource),
                why=f"the Queue is guaranteed {shown(stated)}, and Volcano refuses one that deserves less",
                remedy="raise it to the guarantee, or lower the guarantee",
                instead=(stated,),
            )
    for resource, stated in deserved.items():
        limit = capability.get(resource)
        share, most = parse_quantity(stated), parse_quantity(limit)
        if share is not None and most is not None and share > most:
            yield Finding(
                at=SPEC / "deserved" / resource,
                found=stated,
                why=f"the Queue's capability is {shown(limit)}, and Volcano refuses one that deserves more",
                remedy="lower it to the capability, or raise the capability",
                instead=(limit,),
            )


@rule(
    "volcano/queue-share",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example(_below_research("4"), facts=_SHARES),
    fails=Example(_below_research("16"), facts=_SHARES),
)
def queue_share(found: StoredObject, context: RuleContext) -> Results:
    """The capability of a Queue is at most that of the nearest queue above it that states one, and all queues below
    one parent are guaranteed no more than the parent. Volcano's own webhook refuses other Queues from v1.14 on, also
    where the parent has no guarantee. What they deserve is not known of other queues, so it is not compared.

    Source: volcano-sh/volcano, pkg/webhooks/admission/queues/validate/validate_queue.go
    (`validateHierarchicalQueueResources`, v1.15.1).
    """
    name, queues = text(found.spec.get("parent")), context.facts.volcano_queues
    if name is None or name == ROOT_QUEUE or queues is None or (parent := queues.get(name)) is None:
        # volcano/queue-parent reports an unknown parent.
        return
    for resource, amount in (ceiling_amounts(found.spec.get("capability")) or {}).items():
        above = ((other, queue.capability or {}) for other, queue in path_of(name, queues) if other != ROOT_QUEUE)
        limit = next(((other, stated[resource]) for other, stated in above if stated.get(resource)), None)
        if limit is not None and amount > limit[1]:
            yield Finding(
                at=SPEC / "capability" / resource,
                found=mapping(found.spec.get("capability"))[resource],
                why=f"Volcano refuses it: it is above the capability of queue {shown(limit[0][:63])}",
                remedy="lower it, or raise the capability of that queue first",
            )
    own = ceiling_amounts(mapping(found.spec.get("guarantee")).get("resource")) or {}
    others = [queue.guarantee for other, queue in children_of(name, queues).items() if other != found.name]
    if parent.guarantee is None or None in others:
        return
    for resource, amount in own.items():
        total = amount + sum((guarantee or {}).get(resource, 0) for guarantee in others)
        if total > parent.guarantee.get(resource, 0):
            yield Finding(
                at=SPEC / "guarantee" / "resource" / resource,
                found=mapping(mapping(found.spec.get("guarantee"))["resource"])[resource],
                why=f"Volcano refuses it: the queues below {shown(name[:63])} are guaranteed more than it is",
                remedy="lower it, or raise the guarantee of the parent first",
            )
