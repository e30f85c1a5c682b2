"""No gang that a real scheduler starts is called *never*: random clusters and gangs, at and around their limits.

The seeds of a run are new and printed. `ROLLCALL_FIT_SEED` repeats a run, `ROLLCALL_FIT_PAIRS` sets how many pairs the
soak tries with each scheduler, `ROLLCALL_FIT_FAMILY` draws from one family. A failure is made small and printed as a
line for `tests/e2e/fit/kept/`, whose cases are tried in each run.
"""

from __future__ import annotations

import os

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fit.batch import Batches
from tests.e2e.fit.clusters import SCHEDULER_PLUGINS, Cluster, batches_on, koordinator, kube, own_plane
from tests.e2e.fit.drawing import drawn_case
from tests.e2e.fit.judging import Judging
from tests.e2e.fit.shrinking import kept_cases, line_of, shrunk
from tests.e2e.fit.soundness import Report, try_cases
from tests.e2e.fixture_types import Scheduler

# In every run, on the newest Kubernetes and on an older one, which has no trees and no topology.
_NEWEST, _OLDER = 40, 60
_FAMILY = os.environ.get("ROLLCALL_FIT_FAMILY")
_SOAK = int(os.environ.get("ROLLCALL_FIT_PAIRS", "1700"))
# More failures have the same few causes.
_MOST_SHRUNK = 3


def first_seed() -> int:
    said = os.environ.get("ROLLCALL_FIT_SEED")
    return int(said) if said else int.from_bytes(os.urandom(5), "big") * 100_000


def is_sound(batches: Batches, cluster: Cluster, pairs: int) -> None:
    """Try the kept cases and so many random ones: none that starts is called never."""
    seed, judge, report = first_seed(), Judging(batches), Report()
    print(f"\n{cluster.program}, Kubernetes {batches.plane.version}, seeds from {seed}", flush=True)
    drawn = [drawn_case(seed + index, cluster.offers, _FAMILY) for index in range(pairs)]
    try_cases(batches, judge, [*kept_cases(cluster.program, cluster.offers), *drawn], report)
    print(*report.lines(), sep="\n", flush=True)
    assert report.total["started"] > len(drawn) // 4, "the scheduler starts hardly any gang"
    for failure in report.failures[:_MOST_SHRUNK]:
        print(f"a case to keep: {line_of(shrunk(batches, judge, failure.case))}")
    assert report.failures == [], "\n".join(map(str, report.failures))


def test_no_gang_that_kube_scheduler_starts_is_called_never(plane: ControlPlane, scheduler: Scheduler) -> None:
    _on_kube(plane, scheduler, _NEWEST)


@pytest.mark.beside
def test_no_gang_that_an_older_kube_scheduler_starts_is_called_never(plane: ControlPlane, scheduler: Scheduler) -> None:
    _on_kube(plane, scheduler, _OLDER)


@pytest.mark.soak
@pytest.mark.every_version(since="1.35")
def test_no_gang_of_thousands_that_kube_scheduler_starts_is_called_never(
    plane: ControlPlane, scheduler: Scheduler
) -> None:
    _on_kube(plane, scheduler, _SOAK)


def _on_kube(plane: ControlPlane, scheduler: Scheduler, pairs: int) -> None:
    cluster = kube(plane.version)
    scheduler(plane, cluster.program)
    with batches_on(plane, cluster) as batches:
        is_sound(batches, cluster, pairs)


@pytest.mark.soak
@pytest.mark.parametrize(
    "cluster",
    [koordinator(runtime=False), koordinator(runtime=True), SCHEDULER_PLUGINS],
    ids=lambda cluster: cluster.program,
)
def test_no_gang_that_another_scheduler_starts_is_called_never(version: str, cluster: Cluster) -> None:
    try:
        with own_plane(version, cluster) as batches:
            # Of koord-scheduler there are two ways.
            is_sound(batches, cluster, _SOAK // 2)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
