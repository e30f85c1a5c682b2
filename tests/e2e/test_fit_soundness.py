"""No gang that a real scheduler starts is called *never*: random clusters and gangs, at and around their limits.

The seeds of a run are new and printed. `ROLLCALL_FIT_SEED` repeats a run, `ROLLCALL_FIT_PAIRS` sets how many pairs the
soak tries with each scheduler.
"""

from __future__ import annotations

import os

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fit.batch import Batches
from tests.e2e.fit.clusters import SCHEDULER_PLUGINS, Cluster, batches_on, koordinator, kube, own_plane
from tests.e2e.fit.drawing import drawn_case
from tests.e2e.fit.judging import Judging
from tests.e2e.fit.soundness import Report, try_cases
from tests.e2e.fixture_types import Scheduler

_PAIRS = int(os.environ.get("ROLLCALL_FIT_PAIRS", "1700"))


def first_seed() -> int:
    said = os.environ.get("ROLLCALL_FIT_SEED")
    return int(said) if said else int.from_bytes(os.urandom(5), "big") * 100_000


def is_sound(batches: Batches, cluster: Cluster, pairs: int) -> None:
    """Draw so many pairs, and have each judged and tried."""
    seed = first_seed()
    report = Report()
    print(f"\n{cluster.program}, Kubernetes {batches.plane.version}, seeds from {seed}", flush=True)
    try_cases(batches, Judging(batches), [drawn_case(seed + index, cluster.offers) for index in range(pairs)], report)
    print(*report.lines(), sep="\n", flush=True)
    assert report.failures == [], "\n".join(map(str, report.failures))


@pytest.mark.every_version(since="1.35")
@pytest.mark.soak
def test_no_gang_that_kube_scheduler_starts_is_called_never(plane: ControlPlane, scheduler: Scheduler) -> None:
    cluster = kube(plane.version)
    scheduler(plane, cluster.program)
    with batches_on(plane, cluster) as batches:
        is_sound(batches, cluster, _PAIRS)


@pytest.mark.soak
@pytest.mark.parametrize(
    "cluster",
    [koordinator(runtime=False), koordinator(runtime=True), SCHEDULER_PLUGINS],
    ids=lambda cluster: cluster.program,
)
def test_no_gang_that_another_scheduler_starts_is_called_never(version: str, cluster: Cluster) -> None:
    try:
        with own_plane(version, cluster) as batches:
            is_sound(batches, cluster, _PAIRS)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
