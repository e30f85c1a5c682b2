"""The room for gangs that wait: whether they can ever start and have room now, judged by shape from the facts of
today.

The pods that hold room on nodes are watched from the first time that a gang has no room. Most clusters have a hundred
times as many pods as gangs, so nothing is read before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, cast

from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.watch import Watch
from webhook.fit.feasibility import RoomEstimate
from webhook.fit.verdict import FitAnswer, Witness
from webhook.gangs.waiting_gang import Answers, FitJudgement, WaitingGang, fill_names, fill_places, shape_key
from webhook.model.facts import ClusterFacts
from webhook.model.known_kinds import PODS
from webhook.model.node_pods import NODE_PODS, NodePods


class FollowedNodePods:
    """The pods on nodes, once they are wanted."""

    def __init__(self, client: Client, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._watch = Watch(client, NODE_PODS, self._noticed, self._noticed, NODE_PODS.selector, clock=clock)
        self._needed = asyncio.Event()
        # Whether any pod came or went since the last `take_changed`.
        self._changed = False

    @property
    def pods(self) -> NodePods | None:
        """The pods on nodes; None if they are not read yet. Then they are wanted from now on."""
        if self._watch.filled:
            return cast("NodePods", self._watch.index.entries)
        self._needed.set()
        return None

    @property
    def is_awaited(self) -> bool:
        """Whether they are wanted, not read yet, and can be read as far as known."""
        return self._needed.is_set() and not self._watch.filled and self._watch.trouble is None

    def take_changed(self) -> bool:
        """Returns whether any pod came or went since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """Yields the watch, if it runs."""
        if self._needed.is_set():
            yield PODS.api.kind, self._watch

    async def run(self) -> None:
        """Follows the pods until cancelled, once they are wanted."""
        await self._needed.wait()
        await self._watch.run()

    def _noticed(self, _: object) -> None:
        self._changed = True


# Shapes that are judged at one look: other tasks of the process wait for some milliseconds for each. An estimate
# counts what is used on each node first.
SHAPES_A_LOOK, ESTIMATES_A_LOOK = 20, 5
# Nodes change all the time, and pods come and go. Gangs are judged again for that at most this often.
NODES_SECONDS, ESTIMATE_SECONDS = 5.0, 15.0


class PodsOnNodes(Protocol):
    """The pods on nodes, read once they are wanted."""

    @property
    def pods(self) -> NodePods | None:
        """The pods; None if they are not read yet."""

    def take_changed(self) -> bool:
        """Returns whether any pod came or went since the last call."""


class GangFits:
    """Judges gangs that wait. `facts` are those of today, and `node_pods` the pods on nodes."""

    def __init__(
        self,
        judgement: FitJudgement,
        facts: Callable[[], ClusterFacts],
        node_pods: PodsOnNodes,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._judgement = judgement
        self._facts = facts
        self._node_pods = node_pods
        self._clock = clock
        self._never: Answers[Witness | None] = Answers(SHAPES_A_LOOK)
        self._now: Answers[RoomEstimate | None] = Answers(ESTIMATES_A_LOOK)
        self._nodes_changed = False
        # When gangs were last judged again for changes of nodes, and of the pods on them.
        self._judged = self._estimated = -ESTIMATE_SECONDS

    def changed(self) -> None:
        """Judges all gangs again when they are asked for: a quota, queue or topology has changed."""
        self._nodes_changed = False
        self._never.changed()
        self._now.changed()

    def nodes_changed(self) -> None:
        """Judges all gangs again at one of the next looks."""
        self._nodes_changed = True

    def look(self, times: int = 1) -> bool:
        """Begins a look, which may judge `times` as many shapes as one a second may. Returns whether gangs that wait
        for room must be judged again, because nodes or the pods on them have changed.
        """
        self._never.look(times)
        self._now.look(times)
        now = self._clock.monotonic()
        if self._nodes_changed and now - self._judged >= NODES_SECONDS:
            self._judged = now
            self.changed()
            return True
        if now - self._estimated >= ESTIMATE_SECONDS and self._node_pods.take_changed():
            self._estimated = now
            self._now.changed()
            return True
        return False

    @property
    def has_left(self) -> bool:
        """Whether this look may judge another shape."""
        return self._never.has_left and self._now.has_left

    def take_behind(self) -> bool:
        """Returns whether a gang was not judged since the last call, because this look had judged enough shapes."""
        never, now = self._never.take_behind(), self._now.take_behind()
        return never or now

    def never(self, gang: WaitingGang) -> Witness | None:
        """Returns the proof that a gang can never start; None without one."""
        witness = self._never.answer(gang.podgang.namespace, shape_key(gang), lambda: self._proof(gang))
        return None if witness is None else fill_names(witness, _names(gang))

    def now(self, gang: WaitingGang) -> RoomEstimate | None:
        """Returns an estimate of whether a gang has room now; None without one."""
        if (pods := self._node_pods.pods) is None:
            return None
        namespace, key = gang.podgang.namespace, shape_key(gang)
        estimate = self._now.answer(namespace, key, lambda: self._judgement.now(gang, self._facts(), pods))
        return None if estimate is None else replace(estimate, why=fill_places(estimate.why, _names(gang)))

    def _proof(self, gang: WaitingGang) -> Witness | None:
        verdict = self._judgement.verdict(gang, self._facts())
        return None if verdict is None or verdict.answer is not FitAnswer.NEVER else verdict.witness


def _names(gang: WaitingGang) -> list[str]:
    return [member.name for member in gang.podgang.members]
