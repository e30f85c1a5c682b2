"""The watch on gangs that lose pods, with their records until they are whole or gone.

Only the leader stores records. Every replica notices losses, so that a new leader knows them before it has read what
is stored; a record that is stored wins. Between two writes pass some seconds, so a storm costs a few writes, however
many pods are lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.gang_view import members_left, node_exists
from webhook.gangs.health import GangHealth, GangState
from webhook.gangs.key import GangKey
from webhook.gangs.losses import MOST_PODS, BoundMembers, Loss, LostMembers, LostPod, hours_since, latest, stamp
from webhook.gangs.members import GangPod, LossCause, PodEnd, is_controlled
from webhook.model.bounds import share_of
from webhook.model.grove import PodGang
from webhook.model.place import label_value
from webhook.reconciler.held_gangs import HeldBackNote, not_noted
from webhook.reconciler.loss_store import LossConditions, LossStore
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.workloads.opted_in_gang import OptedInGang

# A record is written once it has lasted so long: a pod that is replaced at once costs no write.
SETTLE_SECONDS = 3.0
# Ends of pods that belong to no gang, as of one that only names a gang, are dropped after this time.
FORGET_SECONDS = 60.0
# How many ends of pods are remembered of so many seconds. Those above, or above the share of their namespace, are lost
# pods that Rollcall did not see.
MOST_ENDS = 50_000
# How often it is looked whether nodes that are gone still have pods.
GONE_SECONDS = 60.0
# When a stored record was opened: before anything in this process.
_EARLIER = float("-inf")
# The causes of pods that do not say why they were deleted.
_NOT_SAID = frozenset({LossCause.DELETION, LossCause.UNKNOWN})
# The states in which a gang needs its pods on nodes.
_NEEDS_PODS = frozenset({GangState.STARTED, GangState.IN_PART, GangState.HELD})


class LossView(Protocol):
    """What is asked of the cluster."""

    def left(self, podgang: PodGang) -> BoundMembers | None:
        """Returns the pods of a gang that are on existing nodes; None if the pods are not read yet."""

    def node_exists(self, name: str) -> bool:
        """Returns whether there is a node of that name, as far as known."""

    def report_gangs_on_nodes(self, names: Collection[str]) -> set[str]:
        """Has the gangs with pods on these nodes judged again. Returns the names of nodes that have such pods."""


class _End:
    """The end of a pod, and when it was noticed."""

    __slots__ = ("at", "end", "noticed")

    def __init__(self, end: PodEnd, at: datetime, noticed: float) -> None:
        self.end = end
        self.at = stamp(at)
        self.noticed = noticed


class _Kept:
    """The record of a gang, and when it was opened."""

    __slots__ = ("loss", "lost", "opened")

    def __init__(self, loss: Loss, lost: LostMembers | None, opened: float) -> None:
        self.loss = loss
        self.lost = lost
        self.opened = opened


class LossWatch:
    """The records of all gangs that lost pods."""

    def __init__(self, view: LossView, *, held_back: HeldBackNote = not_noted, clock: Clock = MACHINE_CLOCK) -> None:
        self._view = view
        self._held_back = held_back
        self._clock = clock
        self._ends: dict[GangKey, dict[str, _End]] = {}
        # The order in which they came, and the numbers of each namespace; some may have been taken since.
        self._order: deque[tuple[GangKey, _End]] = deque()
        self._recent: Counter[str] = Counter()
        # Gangs that were seen whole, and gangs that may never have been.
        self._whole: set[GangKey] = set()
        self._starting: set[GangKey] = set()
        self._kept: dict[GangKey, _Kept] = {}
        # Those that are to be stored, those that are too new, and those of them that changed.
        self._settled: dict[GangKey, Loss] = {}
        self._settling: deque[tuple[GangKey, _Kept]] = deque()
        self._changed: set[GangKey] = set()
        # Nodes that came or went, and nodes that are gone and have pods.
        self._changed_nodes: set[str] = set()
        self._gone_nodes: set[str] = set()
        self._gone_looked = 0.0

    def pod_ended(self, end: PodEnd) -> None:
        """Notes that a pod on a node does not count for its gang any more."""
        namespace = end.pod.namespace
        if self._recent[namespace] >= share_of(MOST_ENDS):
            self._held_back(namespace)
            return
        if len(self._order) >= MOST_ENDS:
            return
        key, ended = end.pod.gang, _End(end, self._clock.now(), self._clock.monotonic())
        self._ends.setdefault(key, {})[end.pod.uid] = ended
        self._order.append((key, ended))
        self._recent[namespace] += 1

    def node_changed(self, name: str, *, exists: bool) -> None:
        """Notes that a node came, changed or went."""
        if not exists or name in self._gone_nodes:
            self._changed_nodes.add(name)

    def look(self) -> None:
        """Has the gangs judged again that a node that came or went has pods of."""
        now = self._clock.monotonic()
        if self._gone_nodes and now - self._gone_looked >= GONE_SECONDS:
            # Nothing tells that the last pod of a node is gone that is gone itself.
            self._gone_looked = now
            self._changed_nodes |= self._gone_nodes
        if self._changed_nodes:
            changed, self._changed_nodes = self._changed_nodes, set()
            used = self._view.report_gangs_on_nodes(changed)
            self._gone_nodes = (self._gone_nodes - changed) | {
                name for name in used if not self._view.node_exists(name)
            }

    def drop_unclaimed(self) -> None:
        """Drops the ends of pods that no gang has claimed in time."""
        before = self._clock.monotonic() - FORGET_SECONDS
        while self._order and self._order[0][1].noticed <= before:
            key, ended = self._order.popleft()
            namespace = ended.end.pod.namespace
            self._recent[namespace] -= 1
            if not self._recent[namespace]:
                del self._recent[namespace]
            ends, uid = self._ends.get(key, {}), ended.end.pod.uid
            if ends.get(uid) is ended:
                del ends[uid]
                if not ends:
                    del self._ends[key]

    def judged(self, key: GangKey, podgang: PodGang, health: GangHealth) -> GangHealth:
        """Returns the health of a gang with what it lost. Raises `Malformed`."""
        ends = self._taken(key, podgang)
        if health.state not in _NEEDS_PODS:
            self.forget(key)
            return health
        kept = self._kept.get(key)
        if kept is not None and kept.loss.uid != (podgang.uid or ""):
            # Another gang of the same name.
            self.forget(key)
            kept = None
        if health.state is GangState.STARTED and key in self._whole and not (kept or ends or self._gone_nodes):
            return health
        if health.state is GangState.HELD and not (kept or ends):
            # Nothing is idle, and nothing shows what it may have lost before this process judged it.
            if key not in self._whole:
                self._starting.add(key)
            return health
        left = self._view.left(podgang)
        if left is None:
            return health
        if left.is_whole:
            self.forget(key)
            self._whole.add(key)
            return health
        self._note(key, podgang, left, ends)
        if (kept := self._kept.get(key)) is None:
            return health
        kept.lost = LostMembers.combine(kept.loss, left, self._clock.now())
        return health.add_loss(kept.lost)

    def forget(self, key: GangKey) -> None:
        """Forgets a gang that is gone, or needs no pods now."""
        self._kept.pop(key, None)
        self._whole.discard(key)
        self._starting.discard(key)
        if self._settled.pop(key, None) is not None:
            self._changed.add(key)

    def _note(self, key: GangKey, podgang: PodGang, left: BoundMembers, ends: Iterable[_End]) -> None:
        """Adds to the record of a gang what it lost."""
        kept, now = self._kept.get(key), stamp(self._clock.now())
        pods = [self._lost(ended) for ended in ends]
        pods += [LostPod(pod.name, LossCause.NODE_LOSS, now, pod.node or "") for pod in left.orphans]
        more = 0
        if kept is not None:
            if kept.lost is None:
                # The record was stored by another process, and pods may have been lost since.
                pods += _unwatched(left.drop_pods(kept.loss.names), len(kept.loss.pods) + kept.loss.more, now)
            kept.loss = kept.loss.add_pods(pods)
            if key in self._settled:
                self._settle(key, kept)
            return
        if key not in self._whole:
            # It lost pods before this process judged it, or it has not started yet.
            if key in self._starting or not left.had_started:
                self._starting.add(key)
                return
            pods += _unwatched(left, len(pods), now)
            more = max(left.lacking - len(pods), 0)
        elif not pods:
            # It needs more pods than before.
            return
        since = min((pod.at for pod in pods), default=now)
        loss = Loss(podgang.uid or "", since, tuple(pods[:MOST_PODS]), more + max(len(pods) - MOST_PODS, 0))
        kept = self._kept[key] = _Kept(loss, None, self._clock.monotonic())
        self._settling.append((key, kept))

    def _lost(self, ended: _End) -> LostPod:
        pod, cause, node = ended.end.pod, ended.end.cause, ended.end.pod.node or ""
        if cause in _NOT_SAID and node and not self._view.node_exists(node):
            cause = LossCause.NODE_LOSS
        return LostPod(pod.name, cause, ended.at, node)

    def _taken(self, key: GangKey, podgang: PodGang) -> list[_End]:
        """Takes the ends of a gang's own pods."""
        taken: list[_End] = []
        if not self._ends:
            return taken
        members = {label_value(member.name) for member in podgang.members}
        for where in _pod_keys(key, podgang):
            ends = self._ends.get(where, {})
            own_ends = {uid: ended for uid, ended in ends.items() if ended.end.pod.podclique in members}
            for uid in own_ends:
                del ends[uid]
            if own_ends and not ends:
                del self._ends[where]
            taken += [ended for ended in own_ends.values() if is_controlled(podgang, ended.end.above)]
        return sorted(taken, key=lambda ended: (ended.at, ended.end.pod.name))

    def settled(self) -> Mapping[GangKey, Loss]:
        """Returns the records that are to be stored, as they are until the next gang is judged."""
        before = self._clock.monotonic() - SETTLE_SECONDS
        while self._settling and self._settling[0][1].opened <= before:
            key, kept = self._settling.popleft()
            if self._kept.get(key) is kept:
                self._settle(key, kept)
        return self._settled

    def take_changed(self) -> Collection[GangKey]:
        """Returns the gangs whose record that is to be stored came, went or changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def _settle(self, key: GangKey, kept: _Kept) -> None:
        if self._settled.get(key) is not kept.loss:
            self._settled[key] = kept.loss
            self._changed.add(key)

    def stored(self, losses: Mapping[GangKey, Loss]) -> Iterator[GangKey]:
        """Takes over the stored records, and yields their gangs, which must be judged again."""
        for key, loss in losses.items():
            before = self._kept.get(key)
            if before is not None and before.loss.uid == loss.uid:
                # What this process did not see is known.
                seen = [pod for pod in before.loss.pods if pod.cause is not LossCause.UNKNOWN]
                loss = loss.add_pods(seen)  # noqa: PLW2901 - one record made of two
            kept = self._kept[key] = _Kept(loss, None, _EARLIER)
            self._settle(key, kept)
            yield key


def _pod_keys(key: GangKey, podgang: PodGang) -> tuple[GangKey, ...]:
    """Returns the keys that a gang's pods may name: a pod does not show whether its JobSet starts parts in order."""
    whole = key._replace(name=label_value(key.workload))
    return (key,) if not isinstance(podgang, OptedInGang) or whole == key else (key, whole)


def _unwatched(left: BoundMembers, recorded: int, now: str) -> list[LostPod]:
    """Returns the pods that a gang lost while this process did not watch, besides so many that are known: those that
    ended, the latest first, and those that are gone.
    """
    ended = latest(left.ended, left.lacking - recorded)
    lost_pods = [_ended(pod, now) for pod in ended]
    lost_pods += [
        LostPod(name, LossCause.UNKNOWN, now)
        for name in left.missing[: max(left.lacking - recorded - len(lost_pods), 0)]
    ]
    return lost_pods


def _ended(pod: GangPod, now: str) -> LostPod:
    """Returns a pod that ended before this process watched it."""
    cause = pod.taken_by or (LossCause.DELETION if pod.leaving else LossCause.FAILURE)
    return LostPod(pod.name, cause, now, pod.node or "")


_HOUR_SECONDS = 3600


class GangLosses:
    """What gangs lost, noticed in a `ClusterView`. Without a `store` nothing outlives this process."""

    def __init__(
        self,
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        *,
        only: str | None = None,
        held_back: HeldBackNote = not_noted,
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
        """Judges by this view, stores there, and writes these conditions."""
        self._view, self._store, self._conditions = view, store, conditions

    def pod_ended(self, end: PodEnd) -> None:
        """Notes that a pod on a node does not count for its gang any more."""
        if self._only is None or end.pod.namespace == self._only:
            self._watch.pod_ended(end)

    def node_changed(self, name: str, *, exists: bool) -> None:
        """Notes that a node came, changed or went."""
        self._watch.node_changed(name, exists=exists)

    def left(self, podgang: PodGang) -> BoundMembers | None:
        """Returns the pods of a gang that are on existing nodes; None if the pods are not read yet."""
        return None if self._view is None else members_left(self._view, podgang)

    def node_exists(self, name: str) -> bool:
        """Returns whether there is a node of that name, as far as known."""
        return self._view is None or node_exists(self._view.live, name)

    def report_gangs_on_nodes(self, names: Collection[str]) -> set[str]:
        """Has the gangs with pods on these nodes judged again. Returns the names of nodes that have such pods."""
        return set() if self._view is None else self._view.report_gangs_on_nodes(names)

    async def look(self) -> Iterable[GangKey]:
        """Begins a look. Returns the gangs that must be judged again."""
        self._watch.look()
        if self._store is None or self._store.is_read or not self._leads():
            return ()
        losses = await self._store.read()
        if self._conditions is not None:
            self._conditions.stored(losses)
        return list(self._watch.stored(losses))

    def judged(self, key: GangKey, health: GangHealth | None) -> GangHealth | None:
        """Returns the health of a gang with what it lost. Raises `Malformed`, `FactsUnavailable`."""
        podgang = None if health is None or self._view is None else self._view.gang(key)
        if health is None or podgang is None:
            self._watch.forget(key)
            self._sums.put(key, "", None)
            return health
        gang_health = self._watch.judged(key, podgang, health)
        self._sums.put(key, self._metrics.scheduler(health.scheduler), gang_health.lost)
        return gang_health

    async def keep(self) -> None:
        """Ends a look: counts and stores what was lost."""
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
    """What all gangs that lost pods add up to, by scheduler. It is read each second, so it is kept up gang by gang."""

    def __init__(self) -> None:
        self.gangs: Counter[tuple[str, LossCause]] = Counter()
        self.gpus: Counter[str] = Counter()
        # GPUs times the second in which they became idle.
        self._begun: Counter[str] = Counter()
        self._shares: dict[GangKey, _Share] = {}

    def put(self, key: GangKey, scheduler: str, lost: LostMembers | None) -> None:
        """Counts a gang, or counts it no more if it lost nothing."""
        if (before := self._shares.pop(key, None)) is not None:
            self._add(before, -1)
        if lost is not None:
            begun = round(lost.now.timestamp() - hours_since(lost.loss.since, lost.now) * _HOUR_SECONDS)
            now = self._shares[key] = _Share(scheduler, lost.loss.causes, lost.gpus, begun)
            self._add(now, 1)

    def gpu_hours(self, scheduler: str, now: datetime) -> float:
        """Returns the idle GPU hours of a scheduler's gangs; 0 if the date was set back to before they began."""
        return max(self.gpus[scheduler] * now.timestamp() - self._begun[scheduler], 0.0) / _HOUR_SECONDS

    def _add(self, share: _Share, sign: int) -> None:
        for cause in share.causes:
            self.gangs[share.scheduler, cause] += sign
        self.gpus[share.scheduler] += sign * share.gpus
        self._begun[share.scheduler] += sign * share.gpus * share.begun
