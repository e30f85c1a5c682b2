"""The judgement of one waiting gang, from its stored pods or, if pods are missing, from its workload's templates."""

from __future__ import annotations

from typing import Protocol

from webhook.config.settings import Settings
from webhook.fit.now import Now
from webhook.fit.verdict import Verdict
from webhook.gangs.waiting import Waiting
from webhook.model.facts import ClusterFacts
from webhook.model.node_pods import NodePods


class FitJudgement(Protocol):
    """Judges one gang, whatever it costs."""

    def verdict(self, gang: Waiting, facts: ClusterFacts) -> Verdict | None:
        """Whether the gang can ever start; None if it is not judged."""

    def now(self, gang: Waiting, facts: ClusterFacts, pods: NodePods) -> Now | None:
        """An estimate of whether the gang has room now; None if there is none."""


class StoredFits:
    """Judges gangs by their stored pods."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def verdict(self, gang: Waiting, facts: ClusterFacts) -> Verdict | None:
        """Whether the gang can ever start; None if it is not judged."""
        return None

    def now(self, gang: Waiting, facts: ClusterFacts, pods: NodePods) -> Now | None:
        """An estimate of whether the gang has room now; None if there is none."""
        return None
