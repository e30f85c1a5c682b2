"""The ledger of a load of admissions: what happened when, how many there had been and how many had failed, how long
they took since the line before, and how many connections each replica had.
"""

from __future__ import annotations

from tests.cluster.admissions import Admissions, Outcome, percentile
from tests.cluster.balancer import Balancer
from tests.cluster.programs import eventually

_HEAD = f"{'s':>6}  {'what happened':<58}{'admissions':>11}{'failed':>8}{'p50 ms':>8}{'p99 ms':>8}  connections"


class Ledger:
    """The lines of one load."""

    def __init__(self, load: Admissions, balancer: Balancer) -> None:
        self.lines = [_HEAD]
        self._load = load
        self._balancer = balancer
        self._told = 0

    def tell(self, what: str) -> None:
        """Write a line: what has happened just now."""
        outcomes = list(self._load.outcomes)
        since, self._told = outcomes[self._told :], len(outcomes)
        connections = " ".join(f"{name}:{count}" for name, count in sorted(self._balancer.connections().items()))
        self.lines.append(
            f"{self._load.seconds:>6.1f}  {what:<58}{len(outcomes):>11}{len(self.failed):>8}"
            f"{percentile(since, 50):>8.1f}{percentile(since, 99):>8.1f}  {connections}"
        )

    def until(self, seconds: float) -> None:
        """Wait until the load has been going on for so long."""
        left = seconds - self._load.seconds
        eventually(lambda: self._load.seconds >= seconds, f"the load is {seconds:g} s old", timeout=max(left, 0) + 10)

    def until_made(self, admissions: int) -> None:
        """Wait until there have been so many admissions, however long that takes."""

        def made() -> bool:
            assert len(self._load.outcomes) >= admissions, f"{len(self._load.outcomes)} admissions"
            return True

        eventually(made, f"{admissions} admissions", timeout=600, pause=0.5)

    @property
    def failed(self) -> list[Outcome]:
        """The admissions that failed."""
        return [outcome for outcome in list(self._load.outcomes) if outcome.wrong]

    def __str__(self) -> str:
        return "\n".join(self.lines)
