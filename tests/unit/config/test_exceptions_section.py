"""The section `exceptions`: what is read of it, and every mistake in it."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.config.configurations import KOORD, problems_of, scheduler
from webhook.backends.registry import installed_backends
from webhook.config.configuration_schema import published_schema
from webhook.config.file import settings_from
from webhook.model.findings import RuleException, WorkloadSelector
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES

REASON = "one NVLink domain"
WHOLE: dict[str, Any] = {
    "name": "mnnvl-pool-b",
    "rules": ["koordinator/mnnvl"],
    "namespaces": ["team-a"],
    "reason": REASON,
    "grantedBy": "anna@example.com",
    "until": "2027-01-31",
}
# Why a rule is never excepted.
CLOSED, MEMBERSHIP = "...: the rule fails closed: ...", "... gangs ... not theirs..."
NO_NAMESPACES = "is required: a tenant ..."
NO_END = "is neither a date, ..."


def read(*exceptions: Any) -> tuple[RuleException, ...]:
    return settings_from(scheduler(KOORD, exceptions=list(exceptions)), "rollcall.yaml").exceptions.every


def problems(*exceptions: Any) -> list[str]:
    return problems_of(lambda every: read(*every), exceptions)


def without(key: str, **changed: Any) -> dict[str, Any]:
    found = deepcopy({**WHOLE, **changed})
    del found[key]
    return found


def test_a_whole_exception_is_read() -> None:
    selected = {"kinds": ["PodCliqueSet"], "names": ["llama"], "matchLabels": {"ticket": "4711"}}
    assert read({**WHOLE, "workloads": selected}) == (
        RuleException(
            "mnnvl-pool-b",
            frozenset({"koordinator/mnnvl"}),
            frozenset({"team-a"}),
            REASON,
            "anna@example.com",
            datetime(2027, 2, 1, tzinfo=UTC),
            WorkloadSelector(frozenset({"PodCliqueSet"}), frozenset({"llama"}), (("ticket", "4711"),)),
        ),
    )


@pytest.mark.parametrize(
    ("written", "end"),
    [
        ("2027-01-31", datetime(2027, 2, 1, tzinfo=UTC)),
        ("2027-01-31T18:00:00Z", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("2027-01-31t18:00:00z", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("2027-01-31T18:00:00.5+02:00", datetime(2027, 1, 31, 16, 0, 0, 500_000, tzinfo=UTC)),
        # An exception that has ended is no mistake: the server must start.
        ("2020-02-29", datetime(2020, 3, 1, tzinfo=UTC)),
    ],
)
def test_an_end_is_a_day_or_a_moment(written: str, end: datetime) -> None:
    assert [one.until for one in read({**WHOLE, "until": written})] == [end]


def test_the_first_day_of_the_calendar_has_long_passed() -> None:
    (found,) = read({**WHOLE, "until": "0001-01-01"})
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert (found.has_ended(now), found.ends_soon(now)) == (True, False)


MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "no mapping": ("text", ['exceptions[0]: "text": must be a mapping']),
    "no namespaces": (without("namespaces"), [f"exceptions[0].namespaces: {NO_NAMESPACES}"]),
    "a selector instead of namespaces": (
        without("namespaces", workloads={"matchLabels": {"a": "b"}}),
        [f"exceptions[0].namespaces: {NO_NAMESPACES}"],
    ),
    "a mapping of namespaces": (
        {**WHOLE, "namespaces": {}},
        ["exceptions[0].namespaces: {}: must be a list"],
    ),
    "an empty list of namespaces": ({**WHOLE, "namespaces": []}, [f"exceptions[0].namespaces: []: {NO_NAMESPACES}"]),
    "every namespace": (
        {**WHOLE, "namespaces": ["*"]},
        ['exceptions[0].namespaces[0]: "*": ... a namespace'],
    ),
    "no rules": ({**WHOLE, "rules": []}, ["exceptions[0].rules: []: must not be empty"]),
    "an unknown rule": (
        {**WHOLE, "rules": ["koordinator/mnvl"]},
        [
            'exceptions[0].rules[0]: "koordinator/mnvl": is not a rule; ...; did you mean '
            "koordinator/mnnvl or koordinator/quota or koordinator/qos-class?"
        ],
    ),
    "rules that are never excepted": (
        {**WHOLE, "rules": ["grove/shape", "koordinator/claimed-pods", "grove/foreign-pod", "volcano/queue-in-use"]},
        [
            f'exceptions[0].rules[0]: "grove/shape": {CLOSED}',
            f'exceptions[0].rules[1]: "koordinator/claimed-pods": {MEMBERSHIP}',
            f'exceptions[0].rules[2]: "grove/foreign-pod": {MEMBERSHIP}',
            'exceptions[0].rules[3]: "volcano/queue-in-use": ... its objects are ...',
        ],
    ),
    "labels for a rule about pods": (
        {**WHOLE, "rules": ["koordinator/qos-class"], "workloads": {"matchLabels": {"a": "b"}}},
        ['exceptions[0].rules[0]: "koordinator/qos-class": ... by labels...'],
    ),
    "no reason": (without("reason"), ["exceptions[0].reason: is required"]),
    "an empty reason": ({**WHOLE, "reason": " "}, ['exceptions[0].reason: " ": must be text on one line']),
    "a reason of two lines": ({**WHOLE, "reason": "a\nb"}, [r'exceptions[0].reason: "a\nb": must be text on one line']),
    "without who granted it": (without("grantedBy"), ["exceptions[0].grantedBy: is required"]),
    "no end": (without("until"), ["exceptions[0].until: is required"]),
    "a time without a zone": (
        {**WHOLE, "until": "2027-01-31T18:00:00"},
        [f'exceptions[0].until: "2027-01-31T18:00:00": {NO_END}'],
    ),
    "a duration": ({**WHOLE, "until": "30d"}, [f'exceptions[0].until: "30d": {NO_END}']),
    "a date that does not exist": (
        {**WHOLE, "until": "2027-02-29"},
        ['exceptions[0].until: "2027-02-29": ... that exists'],
    ),
    "the last date of all": (
        {**WHOLE, "until": "9999-12-31"},
        ['exceptions[0].until: "9999-12-31": ... that exists'],
    ),
    "a name that is no name": (
        {**WHOLE, "name": "Mnnvl_B"},
        ['exceptions[0].name: "Mnnvl_B": must be lower-case ...'],
    ),
    "an unknown key": (
        {**WHOLE, "untill": "x"},
        [
            'exceptions[0].untill: "x": is an unknown key; did you mean until? (allowed: name, rules, namespaces, '
            "workloads, reason, grantedBy, until)"
        ],
    ),
    "several at once": (
        {"rules": ["x"], "workloads": {"names": [1]}, "until": 5},
        [
            'exceptions[0].rules[0]: "x": is not a rule; ...',
            f"exceptions[0].namespaces: {NO_NAMESPACES}",
            "exceptions[0].name: is required",
            "exceptions[0].workloads.names[0]: 1: must be a string...",
            "exceptions[0].reason: is required",
            "exceptions[0].grantedBy: is required",
            "exceptions[0].until: 5: must be a string...",
        ],
    ),
}


@pytest.mark.parametrize(("exception", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_stops_the_start(exception: Any, expected: list[str]) -> None:
    require_like(problems(exception), expected)


def test_a_kind_that_no_rule_judges_is_a_mistake() -> None:
    (problem,) = problems({**WHOLE, "workloads": {"kinds": ["PodCliqueset"]}})
    assert problem.startswith('exceptions[0].workloads.kinds[0]: "PodCliqueset": is not a kind ')
    assert "; did you mean PodCliqueSet? (allowed: " in problem


def test_two_exceptions_have_two_names() -> None:
    assert problems(WHOLE, WHOLE) == ['exceptions[1].name: "mnnvl-pool-b": appears twice']


def test_the_number_of_exceptions_is_limited() -> None:
    every = [{**WHOLE, "name": f"e{number}"} for number in range(257)]
    assert problems(*every) == ["exceptions: 257: are more than 256"]
    assert len(read(*every[:256])) == 256


def test_every_rule_that_fails_closed_or_guards_membership_is_refused_and_no_editor_offers_it() -> None:
    backends = (rule for backend in installed_backends().values() for rule in backend.rules)
    every = {rule.id: rule for rule in (*SHAPE_RULES, *CHOICE_RULES, *GENERAL_RULES, *backends)}
    offered = published_schema()["properties"]["exceptions"]["items"]["properties"]["rules"]["items"]["enum"]
    never = {rule_id for rule_id, rule in every.items() if rule.fails_closed or rule.membership}
    assert never.isdisjoint(offered)
    assert all(rule.fails_closed for rule in (*SHAPE_RULES, *CHOICE_RULES))
    for rule_id in sorted(never):
        assert problems({**WHOLE, "rules": [rule_id]})
