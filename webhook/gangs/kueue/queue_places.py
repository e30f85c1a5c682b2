"""How many Workloads are ahead of another in its queue: an estimate, kept up to date with each change.

Kueue orders a ClusterQueue by priority, then by the time of creation, or of the last eviction. The Workloads of all
its LocalQueues count. It is an estimate because a queue may skip a Workload that does not fit, share fairly between
LocalQueues, or boost a priority.

Source: kubernetes-sigs/kueue v0.19, pkg/cache/queue/cluster_queue.go (baseCompareFunc), pkg/workload/workload.go
(GetQueueOrderTimestamp).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from webhook.model.keys import ObjectKey
from webhook.model.kueue import keys
from webhook.model.kueue.objects import KueueWorkload, LocalQueue

# Reasons of QuotaReserved=False with which a Workload takes no part in the queue.
_OUT = frozenset(
    {keys.INADMISSIBLE, keys.MISCONFIGURED, keys.SUSPENDED, keys.ADMISSION_GATED, keys.ON_HOLD, keys.DEACTIVATED}
)
_NAMED = 3


class _Turn(NamedTuple):
    """A sort key: the Workload with the smallest is next."""

    priority: int
    since: str
    key: ObjectKey


class Ahead(NamedTuple):
    """The number of Workloads that are ahead of one, the first of them, and the first of those in its own
    namespace.
    """

    number: int
    first: tuple[ObjectKey, ...]
    own: tuple[ObjectKey, ...]


class QueuePlaces:
    """The waiting Workloads of each LocalQueue, in order."""

    def __init__(self, known: Mapping[ObjectKey, KueueWorkload] | None = None) -> None:
        self._turns: dict[ObjectKey, list[_Turn]] = {}
        self._of: dict[ObjectKey, tuple[ObjectKey, _Turn]] = {}
        # The LocalQueues with waiting Workloads, by ClusterQueue; None before it is asked for again.
        self._beside: dict[str, list[ObjectKey]] | None = None
        for key, workload in (known or {}).items():
            self.put(key, workload)

    def put(self, key: ObjectKey, workload: KueueWorkload | None) -> None:
        """A Workload is new, changed or gone (None)."""
        if (before := self._of.pop(key, None)) is not None:
            queue, turn = before
            turns = self._turns[queue]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del self._turns[queue]
                self.regroup()
        if workload is not None and workload.queue is not None and _waits(workload):
            queue, turn = (key[0], workload.queue), _turn(key, workload)
            if queue not in self._turns:
                self._turns[queue] = []
                self.regroup()
            insort(self._turns[queue], turn)
            self._of[key] = queue, turn

    def regroup(self) -> None:
        """A LocalQueue is new, changed or gone."""
        self._beside = None

    def ahead_of(self, key: ObjectKey, local_queues: Mapping[ObjectKey, LocalQueue] | None) -> Ahead | None:
        """The Workloads ahead of one in its ClusterQueue; in its LocalQueue if the ClusterQueue is unknown. None if it
        does not wait.
        """
        if (found := self._of.get(key)) is None:
            return None
        queue, turn = found
        queues = self._queues_beside(queue, local_queues or {})
        before = {one: bisect_left(self._turns[one], turn) for one in queues}
        first = self._first(before)
        own = (
            first
            if len(queues) == 1
            else self._first({one: count for one, count in before.items() if one[0] == key[0]})
        )
        return Ahead(sum(before.values()), first, own)

    def _first(self, before: Mapping[ObjectKey, int]) -> tuple[ObjectKey, ...]:
        """The first Workloads of these LocalQueues, of those that count."""
        turns = (turn for queue, count in before.items() for turn in islice(self._turns[queue], min(count, _NAMED)))
        return tuple(turn.key for turn in nsmallest(_NAMED, turns))

    def _queues_beside(self, queue: ObjectKey, local_queues: Mapping[ObjectKey, LocalQueue]) -> Sequence[ObjectKey]:
        """The LocalQueues of the same ClusterQueue."""
        if self._beside is None:
            self._beside = {}
            for one in self._turns:
                if (known := local_queues.get(one)) is not None and known.cluster_queue is not None:
                    self._beside.setdefault(known.cluster_queue, []).append(one)
        mine = local_queues.get(queue)
        return (queue,) if mine is None else self._beside.get(mine.cluster_queue or "", (queue,))


def _waits(workload: KueueWorkload) -> bool:
    if workload.finished or not workload.active or workload.is_true(keys.QUOTA_RESERVED):
        return False
    said = workload.condition(keys.QUOTA_RESERVED)
    return said is None or said.reason not in _OUT


def _turn(key: ObjectKey, workload: KueueWorkload) -> _Turn:
    evicted = workload.condition(keys.EVICTED)
    late = (
        evicted is not None and evicted.status and evicted.reason in {keys.PODS_READY_TIMEOUT, keys.BY_ADMISSION_CHECK}
    )
    return _Turn(-(workload.priority or 0), evicted.at if evicted is not None and late else workload.created, key)
