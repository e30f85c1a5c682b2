"""At each limit kube-scheduler starts a gang, and one unit over it holds it. The verdicts say the same."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fit.batch import Stored
from tests.e2e.fit.boundaries import BOUNDARIES, case_of
from tests.e2e.fit.clusters import batches_on, kube
from tests.e2e.fit.judging import Judging
from tests.e2e.fixture_types import Scheduler
from tests.e2e.programs import eventually
from webhook.fit.verdict import FitAnswer

pytestmark = pytest.mark.beside


def test_a_gang_starts_at_the_limit_and_not_one_unit_over_it(plane: ControlPlane, scheduler: Scheduler) -> None:
    cluster = kube(plane.version)
    scheduler(plane, cluster.program)
    at = [case_of(0, name, one.at, one.room) for name, one in BOUNDARIES.items()]
    over = [case_of(1, name, one.over, one.room) for name, one in BOUNDARIES.items()]
    with batches_on(plane, cluster) as batches:
        stored = batches.store([*at, *over])

        def names(found: list[Stored]) -> list[str]:
            return [one.case.family for one in found]

        first, second = stored[: len(at)], stored[len(at) :]

        def all_tried() -> bool:
            batches.read(stored)
            # A scheduler that does not know the nodes yet rejects what it starts a moment later.
            assert names([one for one in first if not one.started]) == []
            assert names([one for one in second if not one.tried]) == []
            return True

        eventually(all_tried, "those at the limit have started and the others been tried", pause=0.5)
        # A held gang is looked at twice.
        batches.poke(second)
        batches.wait(second)
        assert names([one for one in second if one.started]) == []
        for judged in ("stored", "template"):
            answers = [found[judged].answer for found in Judging(batches)(stored)]
            assert dict(zip(names(first), answers[: len(at)], strict=True)) == dict.fromkeys(
                names(first), FitAnswer.FITS
            )
            assert dict(zip(names(second), answers[len(at) :], strict=True)) == dict.fromkeys(
                names(second), FitAnswer.NEVER
            )
        batches.remove(stored)
