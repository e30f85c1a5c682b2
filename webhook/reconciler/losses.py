"""Gangs that lost pods, in the reconciler: the watch of losses with the cluster, the store and the metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.gangs.bound_members import BoundMembers
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.health import GangHealth
from webhook.gangs.key import GangKey
from webhook.gangs.loss_causes import LossCause
from webhook.gangs.losses import LostMembers, hours_since
from webhook.gangs.members_left import members_left, node_exists
from webhook.gangs.pod_changes import PodEnd
from webhook.model.workloads.podgang import PodGang
from webhook.reconciler.loss_conditions import LossConditions
from webhook.reconciler.loss_store import LossStore
from webhook.reconciler.loss_watch import LossWatch
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.turns import HeldBack, not_noted

_HOUR_SECONDS = 3600


class GangLosses:
    """What gangs lost, noticed in a `ClusterView`. Without a `store` nothing outlives this process."""

    def __init__(
        self,
        metrics: Metrics,
        leads: Callable[[], bool],
        *,
        only: str | None = None,
        held_back: HeldBack = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`only` is the only namespace whose gangs are judged; None for all."""
        self._metrics = metrics
        self._leads = leads
        self._only = only
        self._view: ClusterView | None = None
        self._store: LossStore | None = None
        self._conditions: LossConditions | None = None
        self._watch = LossWatch(self, held_back=held_back, clock=clock)
        self._clock = clock
        self._sums = LossSums()

    def follow(
        self, view: ClusterView, store: LossStore | None = None, conditions: LossConditions | None = None
    ) -> None:
        """Judge by this view, store there, and write these conditions."""
        self._view, self._store, self._conditions = view, store, conditions

    # What happens in the cluster.

    def pod_ended(self, end: PodEnd) -> None:
        """A pod on a node does not count for its gang any more."""
        if self._only is None or end.pod.namespace == self._only:
            self._watch.pod_ended(end)

    def node_changed(self, name: str, *, exists: bool) -> None:
        """A node came, changed or went."""
        self._watch.node_changed(name, exists=exists)

    # What the watch of losses asks.

    def left(self, podgang: PodGang) -> BoundMembers | None:
        """The pods of a gang that are on existing nodes; None if the pods are not read yet."""
        return None if self._view is None else members_left(self._view, podgang)

    def node_exists(self, name: str) -> bool:
        """Whether there is a node of that name, as far as known."""
        return self._view is None or node_exists(self._view.live, name)

    def on_nodes(self, names: Collection[str]) -> set[str]:
        """Have the gangs with pods on these nodes judged again. Return the names of nodes that have such pods."""
        return set() if self._view is None else self._view.on_nodes(names)

    # What the watch of health asks.

    async def look(self) -> Iterable[GangKey]:
        """Begin a look. Return the gangs that must be judged again."""
        self._watch.look()
        if self._store is None or self._store.is_read or not self._leads():
            return ()
        found = await self._store.read()
        if self._conditions is not None:
            self._conditions.stored(found)
        return list(self._watch.stored(found))

    def judged(self, key: GangKey, health: GangHealth | None) -> GangHealth | None:
        """The health of a gang with what it lost. Raises `Malformed`, `FactsUnavailable`."""
        podgang = None if health is None or self._view is None else self._view.gang(key)
        if health is None or podgang is None:
            self._watch.forget(key)
            self._sums.put(key, "", None)
            return health
        found = self._watch.judged(key, podgang, health)
        self._sums.put(key, self._metrics.scheduler(health.scheduler), found.lost)
        return found

    async def keep(self) -> None:
        """End a look: count and store what was lost."""
        self._watch.drop_unclaimed()
        self._count()
        losses, changed = self._watch.settled(), self._watch.take_changed()
        if self._store is None:
            return
        if not self._leads():
            self._store.forget()
            if self._conditions is not None:
                self._conditions.forget()
        elif self._store.is_read:
            await self._store.write(losses, changed)
            if self._conditions is not None:
                await self._conditions.keep(losses, changed)
        elif self._conditions is not None:
            self._conditions.missed()

    def _count(self) -> None:
        leads, sums, now = self._leads(), self._sums, self._clock.now()
        for scheduler in self._metrics.schedulers:
            for cause in LossCause:
                self._metrics.lost.labels(scheduler, cause.value).set(sums.gangs[scheduler, cause] if leads else 0)
            self._metrics.idle_gpus.labels(scheduler).set(sums.gpus[scheduler] if leads else 0)
            self._metrics.idle_gpu_hours.labels(scheduler).set(sums.gpu_hours(scheduler, now) if leads else 0)


class _Share(NamedTuple):
    """What one gang adds to the sums. `begun` is since when its GPUs are idle, in seconds since 1970."""

    scheduler: str
    causes: tuple[LossCause, ...]
    gpus: int
    begun: int


class LossSums:
    """What all gangs that lost pods add up to, by scheduler. It is asked for every second, so it is kept up gang by
    gang.
    """

    def __init__(self) -> None:
        self.gangs: Counter[tuple[str, LossCause]] = Counter()
        self.gpus: Counter[str] = Counter()
        # GPUs times the second in which they became idle.
        self._begun: Counter[str] = Counter()
        self._shares: dict[GangKey, _Share] = {}

    def put(self, key: GangKey, scheduler: str, lost: LostMembers | None) -> None:
        """Count a gang, or count it no more if it lost nothing."""
        if (before := self._shares.pop(key, None)) is not None:
            self._add(before, -1)
        if lost is not None:
            begun = round(lost.now.timestamp() - hours_since(lost.loss.since, lost.now) * _HOUR_SECONDS)
            now = self._shares[key] = _Share(scheduler, lost.loss.causes, lost.gpus, begun)
            self._add(now, 1)

    def gpu_hours(self, scheduler: str, now: datetime) -> float:
        """The hours that the GPUs of all gangs of a scheduler have been idle, added up; 0 if the date was set back to
        before that.
        """
        return max(self.gpus[scheduler] * now.timestamp() - self._begun[scheduler], 0.0) / _HOUR_SECONDS

    def _add(self, share: _Share, sign: int) -> None:
        for cause in share.causes:
            self.gangs[share.scheduler, cause] += sign
        self.gpus[share.scheduler] += sign * share.gpus
        self._begun[share.scheduler] += sign * share.gpus * share.begun
