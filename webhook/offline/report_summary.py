"""What all formats of a report share: its options, the page of the documentation that describes a rule, its numbers,
and the last line that says it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from inspect import cleandoc
from typing import NamedTuple

from webhook import __version__, documentation
from webhook.backends.registry import installed_backends
from webhook.fit.verdict import count_text
from webhook.model.workload_record import OPTED_OUT
from webhook.offline.finding_details import FailOn, Level
from webhook.offline.report import FindingPlace, Report
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.registry import Rule

ONLY_ERRORS = frozenset({FailOn.ERROR})


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What fails the check and what is printed. `version` and `documentation` are those of this build."""

    fail_on: frozenset[FailOn] = ONLY_ERRORS
    quiet: bool = False
    statistics: bool = False
    list_ignored: bool = False
    version: str = __version__
    documentation: str = field(default_factory=documentation)


# The page of the rules that belong to no backend.
GENERAL_PAGE = "every-scheduler"
_FOLDER = "reference/rules"


def rules_by_page() -> dict[str, list[Rule]]:
    """Returns the rules that apply to every scheduler, then those of each installed backend, by page."""
    by_backend = {name: list(backend.rules) for name, backend in installed_backends().items()}
    return {GENERAL_PAGE: [*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES]} | by_backend


def paragraphs(documentation: str) -> list[str]:
    """Returns the documentation of a rule or a check as paragraphs of one line each; the last one is its source."""
    return [" ".join(paragraph.split()) for paragraph in cleandoc(documentation).split("\n\n")]


def summary(rule: Rule) -> str:
    first = paragraphs(rule.documentation)[0]
    return first[: first.find(". ") + 1] or first


def anchor(rule_id: str) -> str:
    return rule_id.replace("/", "")


@cache
def rules_by_id() -> dict[str, tuple[Rule, str]]:
    return {rule.id: (rule, page) for page, rules in rules_by_page().items() for rule in rules}


def rule_place(rule_id: str) -> str:
    """Returns the section of an installed rule, relative to the folder of the rules' pages."""
    _, page = rules_by_id()[rule_id]
    return f"{page}.md#{anchor(rule_id)}"


def rule_url(rule_id: str, documentation: str) -> str | None:
    """Returns the address of a rule's section, relative without `documentation`; None if it is not installed."""
    if rule_id not in rules_by_id():
        return None
    return f"{documentation.rstrip('/') or 'docs'}/{_FOLDER}/{rule_place(rule_id)}"


class Totals(NamedTuple):
    """How many there are. Suppressed findings count only as suppressed."""

    judged: int
    errors: int
    warnings: int
    audits: int
    unjudged: int
    omitted: int
    suppressed: int
    fixable: int
    ignored: int
    unreadable: int


class SchedulerCount(NamedTuple):
    """How many objects a scheduler was chosen for, and what chose it, in words."""

    scheduler: str
    chosen_by: str
    objects: int


def totals(report: Report) -> Totals:
    findings = [entry for entry in report.findings if entry.suppression is None]
    levels = Counter(entry.level for entry in findings)
    return Totals(
        judged=len(report.judged),
        errors=levels[Level.ERROR],
        warnings=levels[Level.WARNING],
        audits=levels[Level.AUDIT],
        unjudged=len(report.unjudged),
        omitted=len(report.omitted),
        suppressed=len(report.findings) - len(findings),
        # An edit that cannot be written, such as one in a value that an anchor shares, has no text.
        fixable=sum(entry.fix is not None and bool(entry.fix.edits) for entry in findings),
        ignored=len(report.ignored),
        unreadable=len(report.unreadable),
    )


def schedulers(report: Report) -> list[SchedulerCount]:
    verdicts = [place.judgement.verdict for place in report.judged]
    counts = Counter((verdict.scheduler, verdict.chosen_by) for verdict in verdicts if verdict.scheduler is not None)
    return [SchedulerCount(name or "", by, objects) for (name, by), objects in counts.most_common()]


def reasons(report: Report) -> dict[str, int]:
    return dict(Counter(str(omission.reason) for omission, _ in report.left_out).most_common())


def not_judged(place: FindingPlace) -> str:
    return "judged in part" if place.judgement.judged else "not judged"


def statistics(report: Report) -> list[tuple[str, int]]:
    counts = Counter(entry.finding.rule for entry in report.findings if entry.suppression is None)
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def last_line(report: Report) -> str:
    """Returns how many objects were judged for which scheduler, what was found, and what to do next."""
    sentence = f"{_judged(report)}: {', '.join(_numbers(report))}"
    refused = [entry.place for entry in report.findings if entry.refuses and entry.suppression is None]
    files = {place.file for place in refused if place.judgement.is_workload}
    if not files:
        return sentence
    file = next(iter(files)) if len(files) == 1 else "FILE"
    # Standard input cannot be read again.
    return f"{sentence}; rollcall explain {'FILE' if file.startswith('<') or ' ' in file else file}"


def _judged(report: Report) -> str:
    kinds = {place.judgement.kind for place in report.judged}
    if not report.judged:
        return f"nothing judged{report.extent_text}"
    judged = f"{count_text(len(report.judged), kinds.pop() if len(kinds) == 1 else 'object')} judged"
    counts = schedulers(report)
    names = sorted({count.scheduler for count in counts})
    if not names:
        return judged
    if len(names) > 1 and OPTED_OUT in names:
        names.remove(OPTED_OUT)
    if len(names) > 1:
        return f"{judged} for {', '.join(names[:-1])} and {names[-1]}"
    sources = {count.chosen_by for count in counts} - {""}
    by = f" ({sources.pop()})" if len(sources) == 1 else ""
    return f"{judged} {'as no gang' if names == [OPTED_OUT] else f'for {names[0]}'}{by}"


def _numbers(report: Report) -> Iterator[str]:
    numbers = totals(report)
    yield count_text(numbers.errors, "error")
    if numbers.fixable:
        yield f"{'' if report.all_searched else 'at least '}{numbers.fixable} fixable"
    if numbers.warnings:
        yield count_text(numbers.warnings, "warning")
    if numbers.audits:
        yield f"{numbers.audits} for audit"
    if numbers.unjudged:
        # Not objects: a judged object may lack the facts for several rules.
        yield f"{count_text(numbers.unjudged, 'check')} not judged"
    if numbers.omitted and not all(omission.reason.is_ordinary for omission, _ in report.omitted):
        kinds = {place.judgement.kind for _, place in report.omitted} - {""}
        yield f"{count_text(numbers.omitted, kinds.pop() if len(kinds) == 1 else 'object')} not judged"
    if report.partial:
        yield f"{count_text(len(report.partial), 'object')} judged in part"
    if report.judged and report.grouped:
        groups = "its group" if report.grouped == 1 else "their groups"
        yield f"{count_text(report.grouped, 'workload')} judged by {groups}"
    if numbers.suppressed:
        yield f"{numbers.suppressed} suppressed"
    if numbers.ignored:
        yield f"{numbers.ignored} ignored"
    if numbers.unreadable:
        yield f"{numbers.unreadable} unreadable"
