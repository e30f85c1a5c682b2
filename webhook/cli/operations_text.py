"""A diagnosis, an audit and an upgrade plan on a terminal, and the page `docs/reference/doctor.md`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.explanation_text import column_widths, print_row, say
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.fit.verdict import count_text
from webhook.model.findings import printable
from webhook.offline.report_summary import paragraphs
from webhook.operations.audit import NOT_JUDGED
from webhook.operations.audit_forms import LEVELS
from webhook.operations.diagnosis import Check, DiagnosedProblem, Diagnosis, Severity, examine
from webhook.operations.releases import ChangeOutcome

if TYPE_CHECKING:
    from webhook.operations.audit import Audit, Tally
    from webhook.operations.upgrade_plan import UpgradePlan, UpgradeVerdict

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_diagnosis(diagnosis: Diagnosis, out: Console) -> None:
    for level in Severity:
        for problem in diagnosis.problems_of(level):
            out.print(Text.assemble((level.value, _STYLES[level]), f" {problem.check}"))
            _fields(out, _symptom_fields(problem))
    for unknown in diagnosis.not_known:
        out.print(Text.assemble(("not known", "cyan"), f" {unknown.check}"))
        _fields(out, [("why", unknown.why)])
    out.print(Text(summary(diagnosis)))


def summary(diagnosis: Diagnosis) -> str:
    problems = ((level, len(diagnosis.problems_of(level))) for level in Severity)
    counts = [count_text(number, level.value) for level, number in problems if number]
    if diagnosis.not_known:
        counts.append(f"{len({unknown.check for unknown in diagnosis.not_known})} not known")
    return ", ".join([count_text(len(diagnosis.checks), "check"), *(counts or ["no problems found"])])


def _symptom_fields(problem: DiagnosedProblem) -> list[tuple[str, str]]:
    symptom = problem.symptom
    return [("where", symptom.where), ("found", symptom.observation), ("why", symptom.why), ("do", symptom.remedy)]


def _fields(out: Console, fields: list[tuple[str, str]]) -> None:
    if not out.is_terminal:
        for name, value in fields:
            out.print(Text(f"    {name:<7}{printable(value)}"))
        return
    # A grid, so that a long value continues below its own start.
    grid = Table.grid(padding=(0, 1))
    for name, value in fields:
        grid.add_row(Text(name, "dim"), Text(printable(value)))
    out.print(Padding(grid, (0, 0, 0, 4)))


_HEAD = """\
# What `rollcall doctor` checks

Made by `rollcall doctor --output markdown`. `rollcall doctor` reads the cluster once, with the rights of the user who
runs it. It reports what is wrong with the installation, why it matters and what to do. It stores nothing: some objects
are created as dry runs.

* **error**: gangs are refused, do not start, or start in part, now or soon. Exit code 1.
* **warning**: this may happen one day. Exit code 1 with `--strict`.
* **note**: worth knowing, and never a failure.
* **not known**: what the check needs could not be read; the missing right is named. Exit code 3 if nothing else is
  wrong.

The checks use the configuration that Rollcall runs with, from the ConfigMap that the Deployment `rollcall` mounts. If
it cannot be read, or to see the effect of another one, name a file with `--config`. Without either, every scheduler
with a backend counts as enabled, and the output says so. `-o json` prints the same for programs: `well`, `checks`,
`findings` and `notKnown`. A user who may read everything and create PodCliqueSets and Pods, such as a cluster
administrator, has every right that is needed. Secrets are read only if no endpoint can be reached, and of Rollcall's
own Secrets only the certificates are kept.
"""


def reference(checks: Iterable[Check]) -> str:
    every = tuple(checks)
    lines = [_HEAD, "| check | level | what must hold |", "|---|---|---|"]
    for check in every:
        must_hold = paragraphs(check.documentation)[0].partition(". ")[0].partition(": ")[0].rstrip(".")
        lines.append(f"| [{check.id}](#{check.id.replace('/', '')}) | {check.level} | {must_hold} |")
    for check in every:
        lines += ["", *_section(check)]
    return "\n".join(lines) + "\n"


def _section(check: Check) -> Iterator[str]:
    yield f"## {check.id}"
    for paragraph in paragraphs(check.documentation):
        yield ""
        yield paragraph
    yield from ("", "Output:", "", "```text")
    for problem in examine(check.fails(), [check]).problems:
        yield f"{problem.level} {problem.check}"
        yield from (f"    {name:<7}{value}" for name, value in _symptom_fields(problem))
    yield "```"


_AUDIT_HEAD = ("LEVEL", "RULE", "NAMESPACE", "OBJECTS", "FOR EXAMPLE")
_AUDIT_STYLES = {"error": "bold red", "warning": "yellow", "audit": "cyan", NOT_JUDGED: "dim"}
# Progress is shown so often at most.
_SHOW_SECONDS = 0.2


class Progress:
    """How many objects were read, on standard error: one line that changes on a terminal, else a line for each kind."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._what = ""
        self._shown = 0.0

    def show(self, what: str, count: int | None = None) -> None:
        line = f"rollcall: {printable(what)}" + ("" if count is None else f": {count} read")
        if not self._terminal:
            if what != self._what:
                print(line, file=sys.stderr)
        elif what != self._what or self._clock.monotonic() - self._shown > _SHOW_SECONDS:
            self._shown = self._clock.monotonic()
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        self._what = what

    def end(self) -> None:
        if self._terminal and self._what:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_audit(audit: Audit, out: Console, compared_with: str = "") -> None:
    if audit.new is None or audit.gone is None:
        _print_table(audit.today, out)
        out.print(Text(last_line(audit)))
        return
    for word, tally in (("new", audit.new), ("gone", audit.gone)):
        if tally.groups:
            out.print(Text(f"{word} {compared_with}", "bold"))
            _print_table(tally, out)
            out.print()
    out.print(Text(compared_line(audit, compared_with)))


def _print_table(tally: Tally, out: Console) -> None:
    rows = [_AUDIT_HEAD]
    for group, count in tally.ordered():
        example = printable(f"{count.example}{f' at {count.at}' if count.at else ''}")
        rows.append((LEVELS[group.action], group.rule, printable(group.namespace or "-"), str(count.objects), example))
    if len(rows) == 1:
        return
    widths = column_widths(rows)
    for row in rows:
        print_row(row, widths, {0: _AUDIT_STYLES.get(row[0], "dim")}, out)


def last_line(audit: Audit) -> str:
    tally = audit.today
    sentence = f"{_judged(audit)}: {', '.join(_totals(tally))}; {count_text(tally.refused, 'object')} would be refused"
    first = next((kept for kept in tally.kept if kept.group.action == "deny"), None)
    if first is None:
        return sentence
    argument = f"{first.object.kind}/{first.object.name} -n {first.object.namespace}"
    return f"{sentence}; rollcall explain {printable(argument)}"


def compared_line(audit: Audit, compared_with: str) -> str:
    new, gone = audit.new, audit.gone
    if new is None or gone is None or not (new.groups or gone.groups):
        return f"{_judged(audit)}: nothing changes {compared_with}"
    changes = (
        f"{count_text(audit.newly_refused, 'object')} would be refused in addition, {audit.newly_allowed} no longer"
    )
    return f"{_judged(audit)}: {changes}; new: {', '.join(_totals(new))}; gone: {', '.join(_totals(gone))}"


def _judged(audit: Audit) -> str:
    kinds = audit.today.judged
    return f"{count_text(kinds.total(), next(iter(kinds)) if len(kinds) == 1 else 'object')} judged"


def _totals(tally: Tally) -> Sequence[str]:
    totals = [count_text(tally.total("deny"), "error")]
    if warnings := tally.total("warn"):
        totals.append(count_text(warnings, "warning"))
    if audits := tally.total("audit"):
        totals.append(f"{audits} for audit")
    if missing := tally.total(NOT_JUDGED):
        totals.append(f"{count_text(missing, 'check')} not judged")
    return totals


_PLAN_HEAD = ("NAMESPACE", "GANG", "SCHEDULER", "PODS", "OUTCOME", "BECAUSE")
_PLAN_STYLES = {ChangeOutcome.CONTINUES: "green", ChangeOutcome.UNKNOWN: "cyan", ChangeOutcome.RECREATE: "yellow"}


def print_plan(plan: UpgradePlan, out: Console) -> None:
    if plan.verdicts:
        rows = [_row(verdict) for verdict in plan.verdicts]
        widths, styled = column_widths((_PLAN_HEAD, *rows)), _PLAN_HEAD.index("OUTCOME")
        print_row(_PLAN_HEAD, widths, {styled: "dim"}, out)
        for verdict, row in zip(plan.verdicts, rows, strict=True):
            print_row(row, widths, {styled: _PLAN_STYLES[verdict.outcome]}, out)
        out.print()
    concerned = Counter(effect for verdict in plan.verdicts for effect in verdict.effects if effect.change)
    for effect, gangs in sorted(concerned.items(), key=lambda item: -item[0].outcome.badness):
        out.print(Text.assemble((effect.change, "bold"), f": {gangs} {effect.outcome}"))
        for word in ("why", "before", "after", "source"):
            if text := getattr(effect, word):
                say(out, 1, f"{word:<6}  {text}")
        out.print()
    out.print(Text("Order", "bold"))
    for number, step in enumerate(plan.steps, 1):
        say(out, 1, f"{number}. {step.do}{f' ({step.change})' if step.change else ''}")
    out.print()
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in reversed(plan.counts.items()) if number)
    out.print(Text(f"{count_text(len(plan.verdicts), 'living gang')}{f': {outcomes}' if outcomes else ''}"))


def _row(verdict: UpgradeVerdict) -> tuple[str, ...]:
    gang, effect = verdict.gang, verdict.effects[0]
    return (
        printable(gang.namespace),
        printable(f"{gang.kind.lower()}/{gang.name}" if gang.workload else gang.name),
        printable(gang.scheduler or "-"),
        str(gang.pods),
        verdict.outcome.value,
        effect.change or printable(" ".join(effect.why.split())),
    )
