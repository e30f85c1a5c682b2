"""The ledger of a load of admissions: the event, the numbers of admissions and failures so far, the latencies since the
line before, and the connections of each replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.admissions import Admissions, Outcome, percentile
from tests.e2e.background import Background
from tests.e2e.balancer import Balancer, How
from tests.e2e.control_plane import ControlPlane
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually

_HEAD = f"{'s':>6}  {'what happened':<58}{'admissions':>11}{'failed':>8}{'p50 ms':>8}{'p99 ms':>8}  connections"
# Of the failures so many are printed.
_SHOWN = 20


class Ledger:
    """The lines of one load."""

    def __init__(self, load: Admissions, balancer: Balancer) -> None:
        self.lines = [_HEAD]
        self.load = load
        self._balancer = balancer
        self._told = 0

    def tell(self, what: str) -> None:
        """Write a line: what has happened just now."""
        outcomes = list(self.load.outcomes)
        since, self._told = outcomes[self._told :], len(outcomes)
        connections = " ".join(f"{name}:{count}" for name, count in sorted(self._balancer.connections().items()))
        self.lines.append(
            f"{self.load.seconds:>6.1f}  {what:<58}{len(outcomes):>11}{len(self.failed):>8}"
            f"{percentile(since, 50):>8.1f}{percentile(since, 99):>8.1f}  {connections}"
        )

    def until(self, seconds: float) -> None:
        """Wait until the load has run for so long."""
        left = seconds - self.load.seconds
        eventually(lambda: self.load.seconds >= seconds, f"the load is {seconds:g} s old", timeout=max(left, 0) + 10)

    def until_made(self, admissions: int) -> None:
        """Wait until there have been so many admissions, however long that takes."""

        def made() -> bool:
            assert len(self.load.outcomes) >= admissions, f"{len(self.load.outcomes)} admissions"
            return True

        eventually(made, f"{admissions} admissions", timeout=1800, pause=0.5)

    @property
    def failed(self) -> list[Outcome]:
        """The admissions that failed."""
        return [outcome for outcome in list(self.load.outcomes) if outcome.wrong]

    def __str__(self) -> str:
        begun = self.load.begun
        failed = [f"{one.asked - begun:>6.1f}  {one.wrong}" for one in self.failed[:_SHOWN]]
        ended = [one for one in self._balancer.ended if one.how is not How.IDLE]
        lost = [f"{one.at - begun:>6.1f}  {one.replica} {one.how}" for one in ended[:_SHOWN]]
        stalls = [f"{at - begun:>6.1f}  the machine stood still for {late:.1f} s" for at, late in self.load.stalls]
        return "\n".join([*self.lines, *failed, *lost, *stalls])


@contextmanager
def kept(
    plane: ControlPlane,
    played: Played,
    rate: float,
    background: Background,
    balancer: Balancer,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Ledger]:
    """A ledger of so many admissions a second. At the end all are answered, and it is always printed."""
    load = Admissions(plane, played, rate, background)
    ledger = Ledger(load, balancer)
    try:
        yield ledger
        load.wait()
        ledger.tell("the end")
    finally:
        load.close()
        with capsys.disabled():
            print(f"\n{ledger}")
