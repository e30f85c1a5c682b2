"""No gang that a real scheduler starts is called *never*: random clusters and gangs, at and around their limits.

The seeds of a run are new and printed. `ROLLCALL_FIT_SEED` repeats a run, `ROLLCALL_FIT_PAIRS` sets how many pairs the
soak tries on each version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fit.batch import Batches, Stored, facts_of_apis
from tests.e2e.fit.drawing import drawn_case
from tests.e2e.fit.families import Offers
from tests.e2e.fit.soundness import Report, try_cases
from tests.e2e.fixture_types import Scheduler
from tests.unit.worlds import settings_of
from webhook.fit.verdict import Answer, Verdict

_PAIRS = int(os.environ.get("ROLLCALL_FIT_PAIRS", "200"))


def first_seed() -> int:
    said = os.environ.get("ROLLCALL_FIT_SEED")
    return int(said) if said else int.from_bytes(os.urandom(5), "big") * 100_000


def stand_in(batch: Sequence[Stored]) -> list[dict[str, Verdict]]:
    return [{"stored": Verdict(Answer.UNKNOWN)} for _ in batch]


def offers_of(version: str) -> Offers:
    if version == "1.37":
        return Offers(topology=True, nested=True, trees=True)
    return Offers(merged=True)


@pytest.mark.every_version(since="1.35")
@pytest.mark.soak
def test_no_gang_that_kube_scheduler_starts_is_called_never(plane: ControlPlane, scheduler: Scheduler) -> None:
    scheduler(plane, "kube")
    settings = settings_of("default-scheduler", {"gangScheduling": True})
    batches = Batches(plane, settings.profiles[settings.default], facts_of_apis(plane))
    seed = first_seed()
    report = Report()
    offers = offers_of(plane.version)
    cases = [drawn_case(seed + index, offers) for index in range(_PAIRS)]
    try_cases(batches, stand_in, cases, report)
    batches.close()
    print(f"\nKubernetes {plane.version}, seeds from {seed}")
    print(*report.lines(), sep="\n")
    assert report.failures == []
