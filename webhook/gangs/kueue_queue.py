"""The place of a Workload in Kueue's queue: how many Workloads are ahead of it, kept up to date with each change (no
I/O).

Kueue orders a ClusterQueue by priority, then by the time of creation, or of the last eviction. The Workloads of all
its LocalQueues count. It is an estimate because a queue may skip a Workload that does not fit, share fairly between
LocalQueues, or boost a priority.

Source: kubernetes-sigs/kueue v0.19, pkg/cache/queue/cluster_queue.go (baseCompareFunc), pkg/workload/workload.go
(GetQueueOrderTimestamp).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from webhook.gangs.key import GangKey, Grouping
from webhook.model import kueue
from webhook.model.keys import ObjectKey
from webhook.model.kueue_objects import KueueWorkload, LocalQueue

# Reasons of QuotaReserved=False with which a Workload takes no part in the queue.
_OUT = frozenset(
    {
        kueue.INADMISSIBLE,
        kueue.MISCONFIGURED,
        kueue.SUSPENDED,
        kueue.DRA_RESOURCES_UNRESOLVED,
        kueue.ADMISSION_GATED,
        kueue.ON_HOLD,
        kueue.DEACTIVATED,
    }
)
_NAMED = 3
# If a LocalQueue with so many Workloads changes its ClusterQueue, all are sorted anew.
_MANY = 500


class _QueueTurn(NamedTuple):
    """A sort key: the Workload with the smallest is next."""

    priority: int
    since: str
    key: ObjectKey


class Ahead(NamedTuple):
    """The number of Workloads ahead of one, the first of them, and the first of those in its own namespace."""

    number: int
    first: tuple[ObjectKey, ...]
    same_namespace: tuple[ObjectKey, ...]


# A ClusterQueue, or a LocalQueue whose ClusterQueue is unknown; and a namespace, None for all.
_Place = tuple[str | ObjectKey, str | None]


class QueuePlaces:
    """The waiting Workloads of each ClusterQueue, in order. A tenant may have any number of LocalQueues."""

    def __init__(self, workloads: Mapping[ObjectKey, KueueWorkload] | None = None) -> None:
        # The LocalQueue of each waiting Workload.
        self._of: dict[ObjectKey, tuple[ObjectKey, _QueueTurn]] = {}
        self._waiting: Grouping[ObjectKey, ObjectKey] = Grouping()
        # The ClusterQueues of the LocalQueues, and by place those that wait. None before it is asked for.
        self._above: dict[ObjectKey, str] = {}
        self._turns: dict[_Place, list[_QueueTurn]] | None = None
        for key, workload in (workloads or {}).items():
            self.put(key, workload)

    def put(self, key: ObjectKey, workload: KueueWorkload | None) -> None:
        """Notes a Workload that is new, changed or gone (None)."""
        if (before := self._of.pop(key, None)) is not None:
            self._remove(*before)
            self._waiting.move(key, None)
        if workload is not None and workload.queue is not None and _waits(workload):
            queue, turn = (key[0], workload.queue), _turn(key, workload)
            self._of[key] = queue, turn
            self._waiting.move(key, queue)
            self._insert(queue, turn)

    def put_queue(self, key: ObjectKey, local_queue: LocalQueue | None) -> None:
        """Notes a LocalQueue that is new, changed or gone (None)."""
        above = None if local_queue is None else local_queue.cluster_queue
        if self._turns is None or above == self._above.get(key):
            return
        turns = [self._of[workload][1] for workload in self._waiting.members(key)]
        if len(turns) > _MANY:
            self._turns = None
            return
        for turn in turns:
            self._remove(key, turn)
        if above is None:
            del self._above[key]
        else:
            self._above[key] = above
        for turn in turns:
            self._insert(key, turn)

    def ahead_of(self, key: ObjectKey, local_queues: Mapping[ObjectKey, LocalQueue] | None) -> Ahead | None:
        """Returns the Workloads ahead of one in its ClusterQueue; in its LocalQueue if the ClusterQueue is unknown.
        None if it does not wait.
        """
        if (waiting := self._of.get(key)) is None:
            return None
        queue, turn = waiting
        turns = self._grouped(local_queues or {}) if self._turns is None else self._turns
        (number, first), (_, in_namespace) = (_count_ahead(turn, turns[place]) for place in self._places(queue))
        return Ahead(number, first, in_namespace)

    def _places(self, queue: ObjectKey) -> tuple[_Place, _Place]:
        """Returns where the Workloads of a LocalQueue stand: among all, and among those of its namespace."""
        above = self._above.get(queue, queue)
        return (above, None), (above, queue[0])

    def _grouped(self, local_queues: Mapping[ObjectKey, LocalQueue]) -> dict[_Place, list[_QueueTurn]]:
        self._above = {
            key: local_queue.cluster_queue
            for key, local_queue in local_queues.items()
            if local_queue.cluster_queue is not None
        }
        turns: dict[_Place, list[_QueueTurn]] = {}
        for queue, turn in sorted(self._of.values(), key=itemgetter(1)):
            for place in self._places(queue):
                turns.setdefault(place, []).append(turn)
        self._turns = turns
        return turns

    def _insert(self, queue: ObjectKey, turn: _QueueTurn) -> None:
        if self._turns is not None:
            for place in self._places(queue):
                insort(self._turns.setdefault(place, []), turn)

    def _remove(self, queue: ObjectKey, turn: _QueueTurn) -> None:
        if self._turns is None:
            return
        for place in self._places(queue):
            turns = self._turns[place]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del self._turns[place]


def _count_ahead(turn: _QueueTurn, turns: Sequence[_QueueTurn]) -> tuple[int, tuple[ObjectKey, ...]]:
    """Returns the number of those before one, and the first of them."""
    number = bisect_left(turns, turn)
    return number, tuple(turn.key for turn in turns[: min(number, _NAMED)])


def _waits(workload: KueueWorkload) -> bool:
    if workload.finished or not workload.active or workload.is_true(kueue.QUOTA_RESERVED):
        return False
    condition = workload.condition(kueue.QUOTA_RESERVED)
    return condition is None or condition.reason not in _OUT


def _turn(key: ObjectKey, workload: KueueWorkload) -> _QueueTurn:
    evicted = workload.condition(kueue.EVICTED)
    requeued = {kueue.PODS_READY_TIMEOUT, kueue.BY_ADMISSION_CHECK}
    late = evicted is not None and evicted.status and evicted.reason in requeued
    return _QueueTurn(-(workload.priority or 0), evicted.at if evicted is not None and late else workload.created, key)


# Kind, namespace and name.
_OwnerKey = tuple[str, str, str]


class FollowedWorkloads:
    """Kueue's Workloads as they change."""

    def __init__(self) -> None:
        self.places = QueuePlaces()
        self._served = False
        # Gangs by their Workload, as last judged: it may not exist yet.
        self._gangs: Grouping[GangKey, ObjectKey] = Grouping()

    def note_served(self, *, served: bool) -> None:
        """Notes whether Workloads are served. If not any more, all are forgotten: no event says that they went."""
        if self._served and not served:
            self.places = QueuePlaces()
        self._served = served

    def judged(self, gang: GangKey, workload: ObjectKey | None) -> None:
        """Notes the Workload with which a gang was judged."""
        self._gangs.move(gang, workload)

    def gangs(self, key: ObjectKey) -> list[GangKey]:
        """Returns the gangs of a Workload, as last judged."""
        return sorted(self._gangs.members(key))

    def owners(self, key: ObjectKey, workload: KueueWorkload | None) -> Iterator[_OwnerKey]:
        """Yields the object that has the gangs of a new Workload: of a TrainJob, the JobSet of its name."""
        if workload is not None and workload.owner is not None:
            kind, name = workload.owner.kind, workload.owner.name
            yield ("JobSet" if kind == "TrainJob" else kind), key[0], name
