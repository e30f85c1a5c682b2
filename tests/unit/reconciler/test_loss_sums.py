"""What gangs that lost pods add up to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhook.gangs.key import GangKey
from webhook.gangs.losses import Loss, LostMembers, LostPod, stamp
from webhook.gangs.members import LossCause
from webhook.reconciler.loss_watch import LossSums

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
A, B = GangKey("team", "a"), GangKey("team", "b")


def lost(gpus: int, hours: float, *causes: LossCause) -> LostMembers:
    since = stamp(NOW - timedelta(hours=hours))
    return LostMembers(Loss("u", since, tuple(LostPod(str(cause), cause, since) for cause in causes)), 1, gpus, NOW)


def test_gangs_add_up_and_each_counts_as_last_judged() -> None:
    sums = LossSums()
    sums.put(A, "kai", lost(8, 1, LossCause.PREEMPTION, LossCause.FAILURE))
    sums.put(B, "kai", lost(4, 2, LossCause.PREEMPTION))
    sums.put(B, "kai", lost(2, 2, LossCause.PREEMPTION))
    assert sums.gangs["kai", LossCause.PREEMPTION] == 2
    assert sums.gangs["kai", LossCause.FAILURE] == 1
    assert sums.gpus["kai"] == 10
    assert sums.gpu_hours("kai", NOW) == pytest.approx(12)
    assert sums.gpu_hours("kai", NOW + timedelta(hours=1)) == pytest.approx(22), "they are idle for another hour"
    assert sums.gpu_hours("volcano", NOW) == 0


def test_a_gang_that_recovered_or_moved_to_another_scheduler_leaves_nothing_behind() -> None:
    sums = LossSums()
    sums.put(A, "kai", lost(8, 1, LossCause.EVICTION))
    sums.put(A, "volcano", lost(8, 1, LossCause.EVICTION))
    assert (sums.gpus["kai"], sums.gpu_hours("kai", NOW)) == (0, 0)
    sums.put(A, "volcano", None)
    sums.put(A, "volcano", None)
    assert (sums.gangs["volcano", LossCause.EVICTION], sums.gpu_hours("volcano", NOW)) == (0, 0)


def test_a_loss_of_the_future_has_cost_nothing_yet() -> None:
    sums = LossSums()
    sums.put(A, "kai", lost(8, -1, LossCause.EVICTION))
    assert sums.gpu_hours("kai", NOW) == 0


def test_a_date_that_was_set_back_makes_no_negative_hours() -> None:
    sums = LossSums()
    sums.put(A, "kai", lost(8, 1, LossCause.EVICTION))
    assert sums.gpu_hours("kai", NOW - timedelta(days=1)) == 0
