"""Exceptions on a server: the time is its own, uses are counted, and ends are exposed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.played import START, PlayedClock
from tests.unit.server.conftest import Call, body, refused
from tests.unit.worlds import koordinator
from webhook.model.facts import NO_FACTS
from webhook.model.findings import Exceptions, RuleException
from webhook.server.state import ServerState

HOUR = timedelta(hours=1)


def granted(name: str, until: datetime, *rules: str) -> RuleException:
    covered = frozenset(rules or {"koordinator/mnnvl"})
    return RuleException(name, covered, frozenset({"default"}), "ticket 4711", "anna", until)


def serving(*exceptions: RuleException, clock: PlayedClock | None = None) -> ServerState:
    """Return the state of a server with these exceptions."""
    settings = replace(koordinator(), exceptions=Exceptions(exceptions))
    return ServerState(settings, NO_FACTS, None, clock=clock or PlayedClock())


def answered(state: ServerState, review: dict[str, Any], path: str = "/validate") -> dict[str, Any]:
    made = Call(body(json.dumps(review).encode()), path=path).answered_by(state)
    assert made.status == 200
    found: dict[str, Any] = json.loads(made.text)["response"]
    return found


def used(state: ServerState, name: str) -> float | None:
    return state.metrics.registry.get_sample_value("rollcall_exceptions_used_total", {"exception": name})


def test_an_exception_applies_by_the_clock_of_the_server_and_ends_without_a_restart() -> None:
    clock = PlayedClock()
    state = serving(granted("ours", START + HOUR), granted("older", START - HOUR), clock=clock)
    found = answered(state, refused())
    assert found["allowed"]
    assert found["auditAnnotations"]["exceptions"].startswith("ours (koordinator/mnnvl) excepted by anna until ")
    assert (used(state, "ours"), used(state, "older")) == (1, 0)
    clock.move(HOUR.total_seconds())
    assert not answered(state, refused())["allowed"]
    assert (used(state, "ours"), used(state, "older")) == (1, 0)


def test_an_object_counts_once_for_each_exception_and_another_namespace_does_not() -> None:
    state = serving(granted("ours", START + HOUR))
    assert not answered(state, refused(namespace="team-b"))["allowed"]
    assert used(state, "ours") == 0
    answered(state, refused())
    answered(state, refused(), "/mutate")
    assert used(state, "ours") == 1


def test_the_end_of_each_exception_is_exposed() -> None:
    until = datetime(2027, 2, 1, tzinfo=UTC)
    state = serving(granted("ours", until))
    value = state.metrics.registry.get_sample_value(
        "rollcall_exception_expires_timestamp_seconds", {"exception": "ours"}
    )
    assert value == until.timestamp()


def test_a_large_review_is_judged_at_its_time_too() -> None:
    large = refused()
    large["request"]["object"]["metadata"]["annotations"]["example.com/note"] = "x," * 40_000
    assert answered(serving(granted("ours", START + HOUR)), large)["allowed"]
    assert not answered(serving(granted("ours", START - HOUR)), large)["allowed"]
