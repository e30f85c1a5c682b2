"""Compares verdicts with what a real scheduler starts: a gang that started and was called *never* is a failure."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.e2e.fit.batch import Batches, Stored
from tests.e2e.fit.case import Case
from webhook.fit.verdict import FitAnswer, FitVerdict

# So many cases share a control plane at one time.
BATCH = 100
# The verdicts on each case of a batch: by what was judged ("template", "stored").
Judge = Callable[[Sequence[Stored]], list[dict[str, FitVerdict]]]


@dataclass(frozen=True)
class Failure:
    """A gang that started although it was called never."""

    case: Case
    judged: str
    verdict: FitVerdict
    where: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        witness = self.verdict.witness
        why = witness.why if witness is not None else ""
        return f"seed {self.case.seed} ({self.case.family}, {self.case.drawn}), judged by {self.judged}: {why}"


@dataclass
class Report:
    """Counts by family, and the failures."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    # Whether some gang's objects or pods could not be stored; by message.
    missing: Counter[str] = field(default_factory=Counter)
    unstarted_fits: list[int] = field(default_factory=list)
    seconds: float = 0.0
    # How many started only after the poke.
    late: int = 0

    def add(self, one: Stored, verdicts: dict[str, FitVerdict]) -> None:
        """Count a case, and keep it if it is a failure."""
        family, started = one.case.family, one.started
        self.counts[family, "pairs"] += 1
        self.counts[family, "started"] += started
        if not one.tried:
            self.counts[family, "untried"] += 1
        self.missing.update({message.partition(": ")[2][:60] for message in one.refused[:1]})
        for judged, verdict in verdicts.items():
            self.counts[family, f"{judged} {verdict.answer}"] += 1
            if verdict.answer is FitAnswer.NEVER and started:
                where = tuple((pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in one.pods)
                self.failures.append(Failure(one.case, judged, verdict, where))
                print(f"FAILURE: {self.failures[-1]}\n{json.dumps(one.case.as_json())}", flush=True)
            if verdict.answer is FitAnswer.UNKNOWN:
                self.causes.update({cause[:90] for cause in verdict.causes})
        if (found := verdicts.get("stored")) is not None and found.answer is FitAnswer.FITS and not started:
            self.counts[family, "fits, not started"] += 1
            self.unstarted_fits.append(one.case.seed)

    @property
    def total(self) -> Counter[str]:
        """The counts over all families."""
        found: Counter[str] = Counter()
        for (_, what), number in self.counts.items():
            found[what] += number
        return found

    def lines(self) -> Iterator[str]:
        """The report as text: a line for each family, and one for all."""
        for family in [*sorted({family for family, _ in self.counts}), "all"]:
            said = self.total if family == "all" else self._of(family)
            yield f"{family:12} " + ", ".join(f"{what}: {number}" for what, number in sorted(said.items()) if number)
        yield f"{self.total['pairs']} pairs in {self.seconds:.0f} s; {self.late} started only at the second look"
        yield from (f"  unknown, {number} times: {cause}" for cause, number in self.causes.most_common(12))
        yield from (f"  refused, {number} times: {cause}" for cause, number in self.missing.most_common(6))
        yield f"  fits that did not start: {self.unstarted_fits[:30]}"

    def _of(self, family: str) -> dict[str, int]:
        return {what: number for (name, what), number in self.counts.items() if name == family}


def try_cases(batches: Batches, judge: Judge, cases: Sequence[Case], report: Report) -> None:
    """Judge these cases and have the scheduler try them, at most `BATCH` at a time."""
    begun = time.monotonic()
    for start in range(0, len(cases), BATCH):
        batch = batches.store(cases[start : start + BATCH])
        batches.wait(batch)
        if any(not one.started for one in batch):
            # A held gang is looked at twice.
            before = sum(one.started for one in batch)
            batches.poke(batch)
            batches.wait(batch)
            report.late += sum(one.started for one in batch) - before
        for one, verdicts in zip(batch, judge(batch), strict=True):
            report.add(one, verdicts)
        batches.remove(batch)
    report.seconds += time.monotonic() - begun
