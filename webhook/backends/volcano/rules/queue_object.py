"""Volcano's Queues themselves. Under the capacity plugin one wrong queue can stop all others, with gangs or without.

If it is on, Volcano's own webhook checks a queue's direct parent. It does not check cycles or PodGroups without pods.
"""

from __future__ import annotations

from webhook.backends.queue_families import QueueObjects
from webhook.backends.volcano import keys
from webhook.backends.volcano.keys import DEFAULT_QUEUE, OPEN, ROOT_QUEUE
from webhook.backends.volcano.rules.examples import queue
from webhook.backends.volcano.rules.queue import QUEUES
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.known_objects import QueuedGroup, QueuedGroups, VolcanoQueue

_TREE = ClusterFacts(
    volcano_queues={
        "research": VolcanoQueue(ROOT_QUEUE, OPEN),
        "team-a": VolcanoQueue("research", OPEN),
    },
    volcano_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)


_OBJECTS = QueueObjects(queues=QUEUES, kind=keys.QUEUES, parent=SPEC / "parent", build=queue, tree=_TREE)

queue_parent = _OBJECTS.missing_parent(
    "volcano/queue-parent",
    """A queue whose parent does not exist keeps the capacity plugin from making its tree: then nothing starts, in no
    queue of the cluster, whether the queue is used or not.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`); seen with vc-scheduler v1.15.1.
    """,
    why="under volcano's capacity plugin that stops every queue",
    gone="does not exist",
    remedy="create the parent first",
    built_in=(ROOT_QUEUE, DEFAULT_QUEUE),
)


queue_cycle = _OBJECTS.cycle(
    "volcano/queue-cycle",
    """A cycle keeps the capacity plugin from making its tree, which stops every queue. Volcano's own webhook refuses a
    queue that is its own parent, and lets an update close a longer way round.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`), pkg/webhooks/admission/queues
    (read, not seen).
    """,
    why="and under volcano's capacity plugin that stops every queue",
)


queue_in_use = _OBJECTS.in_use(
    "volcano/queue-in-use",
    """A queue that gets its first child is no leaf any more. While a PodGroup is in it, even one without pods, the
    capacity plugin stops every other queue. Volcano's own webhook looks for pods alone.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity, pkg/webhooks/admission/queues; seen with vc-scheduler
    v1.15.1.
    """,
    why="in a queue with children it can stop all others",
)
