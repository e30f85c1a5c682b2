"""The section `exceptions`: which rules do not refuse which workloads, granted by whom, why, and until when."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from webhook.config.sections import Section, path_of, read_section
from webhook.errors import Problem
from webhook.model.fields import meant
from webhook.model.findings import Exceptions, RuleException, WorkloadSelector
from webhook.model.keys import NAMESPACE_PATTERN, is_label
from webhook.validators.registry import Rule, Subject

# Each name is the label of a metric.
_MOST = 256
# A reason is quoted in warnings, of which the API server keeps 256 characters, and in the audit log.
_REASON_CHARACTERS = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
# RFC 3339: a date and a time with a zone.
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_NO_NAMESPACES = (
    "is required: a tenant of any namespace can give a workload the name or the labels of another one, so an exception "
    "names its namespaces"
)
_TOO_WIDE = (
    "the rule also judges pods, which do not have the labels of their workload; select by kinds and names, or leave "
    "out matchLabels"
)


def _name(value: str) -> str:
    if not is_label(value):
        raise ValueError("must be lower-case letters, digits and -, at most 63 characters")
    return value


def _line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError("must be text on one line")
    return value.strip()


def _end(value: str) -> str:
    end_of(value)
    return value


Name = Annotated[str, AfterValidator(_name)]
Line = Annotated[str, AfterValidator(_line)]
Word = Annotated[str, Field(min_length=1, max_length=253)]
Words = Annotated[list[Word], Field(max_length=64)]


class WorkloadSelectorSection(Section):
    """Which workloads of the namespaces an exception covers: those with one of the kinds, one of the names and all
    labels. Without it, every workload there.
    """

    kinds: Words = Field(default_factory=list)
    names: Words = Field(default_factory=list)
    matchLabels: Annotated[dict[str, str], Field(max_length=16)] = Field(default_factory=dict)


class ExceptionSection(Section):
    """One exception: rules that do not refuse workloads of some namespaces, until a date or a time."""

    name: Name
    rules: Annotated[list[str], Field(min_length=1, max_length=64)]
    namespaces: Annotated[list[Annotated[str, Field(pattern=NAMESPACE_PATTERN)]], Field(min_length=1, max_length=64)]
    workloads: WorkloadSelectorSection | None = None
    reason: Annotated[Line, Field(max_length=_REASON_CHARACTERS)]
    # The person or team who answers for it.
    grantedBy: Annotated[Line, Field(max_length=100)]
    # The first moment at which it no longer applies (RFC 3339), or its last day, in UTC.
    until: Annotated[str, AfterValidator(_end)]


def end_of(written: str) -> datetime:
    """Returns the end of an exception in UTC: a moment with a zone, or the end of a day in UTC. Raises `ValueError`."""
    try:
        if _DATE.fullmatch(written):
            return datetime.combine(date.fromisoformat(written) + timedelta(days=1), time(), UTC)
        if _MOMENT.fullmatch(written):
            return datetime.fromisoformat(written.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a date that exists") from None
    raise ValueError("is neither a date, such as 2027-01-31, nor a time with a zone, such as 2027-01-31T18:00:00Z")


def exceptions_from(
    listed: Sequence[object], rules: Mapping[str, Rule], kinds: Collection[str], problems: list[Problem]
) -> Exceptions:
    """Returns the exceptions of the section. `rules` are those that exist, `kinds` the kinds that rules judge. Mistakes
    go to `problems`. An exception that has ended is no mistake.
    """
    if len(listed) > _MOST:
        problems.append(Problem("exceptions", len(listed), f"are more than {_MOST}"))
        return Exceptions()
    exceptions: dict[str, RuleException] = {}
    for index, raw in enumerate(listed):
        path = f"exceptions[{index}]"
        problems.extend(_mistakes(raw, path, rules, kinds))
        section = _read(raw, path, problems)
        if section is None:
            continue
        if section.name in exceptions:
            problems.append(Problem(f"{path}.name", section.name, "appears twice"))
        exceptions[section.name] = _exception(section)
    return Exceptions(exceptions.values())


def _read(raw: object, path: str, problems: list[Problem]) -> ExceptionSection | None:
    section_problems: list[Problem] = []
    section = read_section(ExceptionSection, raw, path, section_problems)
    place = f"{path}.namespaces"
    namespaces: Any = raw.get("namespaces") if isinstance(raw, dict) else ()
    left_out = namespaces is None or namespaces == []
    problems.extend([Problem(place, namespaces, _NO_NAMESPACES)] if left_out else [])
    problems.extend(problem for problem in section_problems if problem.path != place or not left_out)
    return section


def _mistakes(raw: object, path: str, rules: Mapping[str, Rule], kinds: Collection[str]) -> Iterator[Problem]:
    """Yields what is wrong with the rules and the kinds that an exception names, even if its other keys are wrong."""
    written = raw if isinstance(raw, dict) else {}
    selector = written.get("workloads")
    selected = selector if isinstance(selector, dict) else {}
    for index, rule_id in _texts(written.get("rules")):
        place = path_of((index,), f"{path}.rules")
        rule = rules.get(rule_id)
        if rule is None:
            yield Problem(place, rule_id, f"is not a rule; `rollcall rules` lists them{meant(rule_id, rules)}")
        elif rule.never_excepted:
            yield Problem(place, rule_id, f"cannot be excepted: {rule.never_excepted}")
        elif selected.get("matchLabels") and rule.subject is Subject.POD:
            yield Problem(place, rule_id, f"cannot be excepted by labels: {_TOO_WIDE}")
    for index, kind in _texts(selected.get("kinds")):
        if kind not in kinds:
            why = f"is not a kind that rules judge{meant(kind, kinds)}"
            yield Problem(path_of((index,), f"{path}.workloads.kinds"), kind, why, tuple(sorted(kinds)))


def _texts(listed: object) -> Iterator[tuple[int, str]]:
    for index, text in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(text, str):
            yield index, text


def _exception(section: ExceptionSection) -> RuleException:
    selected = section.workloads or WorkloadSelectorSection()
    return RuleException(
        section.name,
        frozenset(section.rules),
        frozenset(section.namespaces),
        section.reason,
        section.grantedBy,
        end_of(section.until),
        WorkloadSelector(
            frozenset(selected.kinds), frozenset(selected.names), tuple(sorted(selected.matchLabels.items()))
        ),
    )
