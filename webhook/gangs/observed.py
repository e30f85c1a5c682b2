"""What is known of one gang when it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.anchors import Anchors
from webhook.gangs.escapes import Escapes
from webhook.gangs.fit_reasons import Fits
from webhook.gangs.key import GangKey
from webhook.gangs.kueue.queue_places import QueuePlaces
from webhook.gangs.plan import Plan, SkipReason, plan
from webhook.gangs.roster import Roster
from webhook.gangs.rule_reasons import Outcomes
from webhook.model.facts import ClusterFacts
from webhook.model.fair_memory import FairMemory
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang

# Returns the live object for a wanted one, or None. Raises `FactsUnavailable` if that kind is not read.
Live = Callable[[Manifest], Manifest | None]


class Observed(NamedTuple):
    """What is known of one gang.

    `workload` is None if the whole PodCliqueSet is not known; its rules are not checked then. The gang of an opted-in
    workload holds its workload itself. `anchors` judges the PodGangs that Grove starts before it; None if they are not
    judged. `places` and `now` are for a gang that Kueue may hold: the order of its queues, and the time. `fits` judges
    whether the gang can ever start; None if that is not judged. `outcomes` has what the rules say of `workload` as far
    as that was worked out, and `escapes` how the pods of large gangs escaped when these were last judged; None if that
    is not kept. `empty` as by `PodGangs.is_empty`.
    """

    podgang: PodGang
    roster: Roster
    live: Live
    # The gang's objects that Rollcall made, including those it no longer needs.
    own: Sequence[Manifest]
    workload: PodCliqueSet | None
    facts: ClusterFacts
    settings: Settings
    anchors: Anchors | None = None
    places: QueuePlaces = QueuePlaces()
    now: datetime = datetime.max.replace(tzinfo=UTC)
    fits: Fits | None = None
    outcomes: Outcomes | None = None
    escapes: FairMemory[GangKey, Escapes] | None = None
    empty: bool = False

    def plan(self) -> Plan | SkipReason:
        """The objects that the gang needs, with what its existing objects have decided if these can be read, or why it
        is skipped. Raises as `plan.plan` does.
        """
        planned = plan(self.podgang, self.facts, self.settings, empty=self.empty)
        if isinstance(planned, SkipReason):
            return planned
        try:
            live = [found for desired in planned.objects if (found := self.live(desired)) is not None]
            return replace(planned, objects=planned.profile.backend.settle(planned.objects, live))
        except (FactsUnavailable, Malformed):
            return planned
