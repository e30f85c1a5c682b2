"""Whether gangs that wait can ever start, and whether they have room now: judged by shape, from the facts of today."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from webhook.fit.now import Now
from webhook.fit.verdict import Answer, Witness
from webhook.gangs.answers import Answers
from webhook.gangs.fit_judgement import FitJudgement
from webhook.gangs.followed_node_pods import FollowedNodePods
from webhook.gangs.waiting import Waiting, named, shape_key, with_names
from webhook.model.facts import ClusterFacts

# Shapes that are judged at one look: other tasks of the process wait for some milliseconds for each. An estimate
# counts what is used on each node first.
SHAPES_A_LOOK, ESTIMATES_A_LOOK = 20, 5
# Pods come and go all the time. Estimates are made again at most this often.
ESTIMATE_SECONDS = 15.0


class GangFits:
    """Judges gangs that wait. `facts` are those of today, and `node_pods` the pods on nodes."""

    def __init__(self, judgement: FitJudgement, facts: Callable[[], ClusterFacts], node_pods: FollowedNodePods) -> None:
        self._judgement = judgement
        self._facts = facts
        self._node_pods = node_pods
        self._never: Answers[Witness | None] = Answers(SHAPES_A_LOOK)
        self._now: Answers[Now | None] = Answers(ESTIMATES_A_LOOK)
        self._estimated = 0.0

    def changed(self) -> None:
        """Judge all gangs again when they are asked for: the nodes, or a quota, queue or topology has changed."""
        self._never.changed()
        self._now.changed()

    def look(self, times: int = 1) -> bool:
        """Begin a look, which may judge `times` as many shapes as one a second may. Return whether the pods on nodes
        have changed, so that estimates may differ.
        """
        self._never.look(times)
        self._now.look(times)
        if time.monotonic() - self._estimated < ESTIMATE_SECONDS or not self._node_pods.take_changed():
            return False
        self._estimated = time.monotonic()
        self._now.changed()
        return True

    def take_behind(self) -> bool:
        """Whether a gang was not judged since the last call, because this look had judged enough shapes."""
        never, now = self._never.take_behind(), self._now.take_behind()
        return never or now

    def never(self, gang: Waiting) -> Witness | None:
        """The proof that a gang can never start; None without one."""
        found = self._never.of(shape_key(gang), lambda: self._judged(gang))
        return None if found is None else named(found, _names(gang))

    def now(self, gang: Waiting) -> Now | None:
        """An estimate of whether a gang has room now; None without one."""
        if (pods := self._node_pods.pods) is None:
            return None
        found = self._now.of(shape_key(gang), lambda: self._judgement.now(gang, self._facts(), pods))
        return None if found is None else replace(found, why=with_names(found.why, _names(gang)))

    def _judged(self, gang: Waiting) -> Witness | None:
        verdict = self._judgement.verdict(gang, self._facts())
        return None if verdict is None or verdict.answer is not Answer.NEVER else verdict.witness


def _names(gang: Waiting) -> list[str]:
    return [member.name for member in gang.podgang.members]
