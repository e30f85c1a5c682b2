"""What the judgement says of random gangs, counted against what the oracle knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tests.strength.cases import case, sums_fit
from tests.strength.oracle import TooMuchError, feasible
from webhook.fit.feasibility import judge
from webhook.fit.verdict import FitAnswer

# Of the gangs that cannot be placed so many must be called never: in all, and of each family.
OF_ALL, OF_A_FAMILY = 0.95, 0.80


@dataclass
class Tally:
    """Counts of one family. `within` are gangs whose sums fit, `steps` what the judgement of each gang took."""

    HEAD: ClassVar[str] = (
        f"{'family':16} {'gangs':>6} {'sums fit':>8} {'cannot':>6} {'never':>6} {'':>6}"
        f" {'sums fit, cannot':>16} {'never':>6} {'can':>6} {'fits':>6} {'too large':>9} {'steps p99':>9}"
    )

    gangs: int = 0
    within: int = 0
    infeasible: int = 0
    never: int = 0
    infeasible_within: int = 0
    never_within: int = 0
    feasible: int = 0
    fits: int = 0
    skipped: int = 0
    steps: list[int] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def strength(self) -> float:
        """The part of the gangs that cannot be placed that is called never."""
        return self.never / self.infeasible if self.infeasible else 1.0

    def line(self, name: str) -> str:
        """The counts as a line of a table."""
        worst = sorted(self.steps)[len(self.steps) * 99 // 100] if self.steps else 0
        return (
            f"{name:16} {self.gangs:6} {self.within:8} {self.infeasible:6} {self.never:6} {self.strength:6.1%}"
            f" {self.infeasible_within:16} {self.never_within:6}"
            f" {self.feasible:6} {self.fits:6} {self.skipped:9} {worst:9}"
        )

    @classmethod
    def of(cls, tallies: Iterable[Tally]) -> Tally:
        """The sum of some."""
        total = cls()
        for one in tallies:
            for name, value in vars(one).items():
                setattr(total, name, getattr(total, name) + value)
        return total


def measured(family: str, seeds: Iterable[int]) -> Tally:
    """Judge the gangs of a family."""
    tally = Tally()
    for seed in seeds:
        found = case(family, seed)
        try:
            can = feasible(found.packing, found.room)
        except TooMuchError:
            tally.skipped += 1
            continue
        verdict = judge(found.packing, found.room)
        within = sums_fit(found)
        tally.gangs += 1
        tally.within += within
        tally.steps.append(verdict.steps)
        never, fits = verdict.answer is FitAnswer.NEVER, verdict.answer is FitAnswer.FITS
        if can:
            tally.feasible += 1
            tally.fits += fits
        else:
            tally.infeasible += 1
            tally.never += never
            tally.infeasible_within += within
            tally.never_within += never and within
            if not never:
                tally.missed.append(f"{family} {seed}: {verdict.causes}")
        if (never and can) or (fits and not can):
            tally.wrong.append(f"{family} {seed}: {verdict.answer}, {verdict.witness}")
    return tally


def enough(tallies: Sequence[Tally]) -> bool:
    """Whether nothing is wrong and enough is called never."""
    total = Tally.of(tallies)
    return (
        not total.wrong
        and total.strength >= OF_ALL
        and all(one.strength >= OF_A_FAMILY for one in tallies)
        and total.within * 3 >= total.gangs
    )
