"""Shadows at the server: annotations and metrics, and that they never change, delay or prevent an answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.configurations import configuration_of
from tests.played import PlayedClock
from tests.unit.server.conftest import Call, body, review
from tests.unit.worlds import request, validate
from tests.waiting import LIMIT_SECONDS
from webhook.admission import decision as decision_module
from webhook.config.file import settings_from
from webhook.errors import Stopped
from webhook.model.facts import NO_FACTS
from webhook.server import shadows
from webhook.server.shadows import MOST_SAVED, SHARE, Allowance
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

KAI = "kai-scheduler"


class Busy(PlayedClock):
    """A clock by which each question about the processor has itself used `step` seconds of it."""

    step = 0.0

    def processor(self) -> float:
        """Return what was used until now."""
        self.used += self.step
        return self.used


def serving(*names: str) -> ServerState:
    document = configuration_of("koord-scheduler", shadow=list(names))
    return ServerState(replace(settings_from(document, "test"), standalone=True), NO_FACTS, None, clock=Busy())


@pytest.fixture
def state() -> ServerState:
    return serving(KAI, "volcano")


@pytest.fixture
def clock(state: ServerState) -> Busy:
    assert isinstance(state.clock, Busy)
    return state.clock


def ask(state: ServerState, manifest: Any = None, path: str = "/validate", query: str = "timeout=5s") -> dict[str, Any]:
    made = Call(body(review(manifest)), path=path, query=query).answered_by(state)
    assert made.status == 200, made.text
    response: dict[str, Any] = json.loads(made.text)["response"]
    return response


def counted(state: ServerState, would: str, decision: str = "allowed", name: str = KAI) -> float:
    labels = {"shadow": name, "decision": decision, "would": would}
    value = state.metrics.registry.get_sample_value("rollcall_shadow_reviews_total", labels)
    assert value is not None
    return value


def value(state: ServerState, metric: str, **labels: str) -> float | None:
    return state.metrics.registry.get_sample_value(metric, labels)


def without_notes(response: dict[str, Any]) -> dict[str, Any]:
    notes = {key: text for key, text in response["auditAnnotations"].items() if not key.startswith("shadow.")}
    return {**response, "auditAnnotations": notes}


def test_what_a_shadow_would_deny_is_allowed_annotated_and_counted(state: ServerState, clock: Busy) -> None:
    clock.step = 1e-6
    found = ask(state)
    assert found["allowed"] is True
    assert found["auditAnnotations"]["shadow.kai-scheduler"] == "denied: kai/no-queue"
    assert found["auditAnnotations"]["shadow.volcano"] == "unjudged: volcano/queue"
    assert counted(state, "denied") == counted(state, "unjudged", name="volcano") == 1
    assert value(state, "rollcall_shadow_denials_total", shadow=KAI, rule="kai/no-queue") == 1
    assert value(state, "rollcall_shadow_unjudged_total", shadow="volcano", rule="volcano/queue") == 1
    assert (value(state, "rollcall_shadow_seconds_total", shadow=KAI) or 0) > 0
    # The metrics of the real decision know nothing of it.
    assert value(state, "rollcall_unjudged_total", rule="volcano/queue") is None


def test_what_is_refused_is_judged_too_but_its_rules_are_not_counted_as_a_difference(state: ServerState) -> None:
    refused = pod_clique_set(
        clique("worker", requests={"nvidia.com/gpu": "8"}), annotations={"grove.io/mnnvl-group": "train"}
    )
    assert ask(state, refused)["allowed"] is False
    assert counted(state, "denied", decision="denied") == 1
    assert value(state, "rollcall_shadow_denials_total", shadow=KAI, rule="kai/no-queue") == 0


def test_the_answer_is_otherwise_the_same(state: ServerState) -> None:
    assert without_notes(ask(state)) == ask(serving())
    assert ask(state, path="/mutate") == ask(serving(), path="/mutate")


def test_pods_are_not_judged_by_shadows(state: ServerState) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"schedulerName": KAI}}
    assert not any(key.startswith("shadow.") for key in ask(state, pod).get("auditAnnotations", {}))
    assert counted(state, "denied") == counted(state, "allowed") == 0


@pytest.mark.parametrize("large", [False, True], ids=["on the event loop", "in the lane"])
def test_a_fault_of_a_shadow_is_counted_and_changes_nothing(
    state: ServerState, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    manifest = pod_clique_set(annotations={"example.com/note": "x" * 400_000} if large else {})
    expected = ask(serving(), manifest)

    def broken(*_: Any) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr(shadows, "shadow_answer", broken)
    with capture_logs() as logs:
        found = ask(state, manifest)
    assert without_notes(found) == expected
    assert found["auditAnnotations"]["shadow.kai-scheduler"] == "failed"
    assert counted(state, "failed") == counted(state, "failed", name="volcano") == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["shadow failed", "shadow failed"]


@pytest.mark.parametrize("large", [False, True], ids=["on the event loop", "in the lane"])
def test_a_shadow_that_uses_too_much_of_a_processor_is_ended_and_counted(
    state: ServerState, clock: Busy, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Each question between two rules finds the time used up."""
    manifest = pod_clique_set(annotations={"example.com/note": "x" * 400_000} if large else {})
    answer = decision_module.shadow_answer

    def costly(*asked: Any) -> decision_module.ShadowAnswer:
        clock.used += 2 * (MOST_SAVED if large else shadows.LOOP_SECONDS)
        return answer(*asked)

    monkeypatch.setattr(shadows, "shadow_answer", costly)
    found = ask(state, manifest)
    assert without_notes(found) == ask(serving(), manifest)
    assert found["auditAnnotations"]["shadow.kai-scheduler"] == "skipped"
    assert counted(state, "skipped") == 1


def test_the_share_of_a_shadow_is_not_used_up_by_other_programs(
    state: ServerState, clock: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = decision_module.shadow_answer

    def waiting(*asked: Any) -> decision_module.ShadowAnswer:
        # As on a machine that runs another program for all of this time.
        clock.move(4 * MOST_SAVED)
        return answer(*asked)

    monkeypatch.setattr(shadows, "shadow_answer", waiting)
    assert state.shadows is not None
    state.shadows.allowance.use(MOST_SAVED - 0.01)
    for _ in range(20):
        assert "skipped" not in judged(state, on_the_loop(clock, 60)).values()
    assert counted(state, "skipped") == 0


@pytest.mark.parametrize("large", [False, True], ids=["on the event loop", "in the lane"])
def test_a_shadow_ends_long_before_the_deadline(
    state: ServerState, clock: Busy, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """The caller waits for elapsed time, whatever has used it."""
    answer = decision_module.shadow_answer

    def waiting(*asked: Any) -> decision_module.ShadowAnswer:
        clock.move(2.6)
        return answer(*asked)

    monkeypatch.setattr(shadows, "shadow_answer", waiting)
    moment = in_the_lane(clock, lambda: False) if large else on_the_loop(clock, 5)
    assert judged(state, moment)[f"shadow.{KAI}"] == "skipped"


def test_each_thread_has_its_own_limit(state: ServerState, clock: Busy) -> None:
    """The event loop and the lane ask at the same time, each about its own thread."""
    entered, over = threading.Barrier(2), threading.Barrier(2)
    # The first question is whether to begin at all.
    between_rules = iter([False, True])
    answers: list[dict[str, str]] = []

    def awaited() -> bool:
        if next(between_rules, False):
            entered.wait(LIMIT_SECONDS)
            over.wait(LIMIT_SECONDS)
        return False

    lane = threading.Thread(target=lambda: answers.append(judged(state, in_the_lane(clock, awaited))))
    lane.start()
    entered.wait(LIMIT_SECONDS)
    # Meanwhile the event loop has no time for shadows.
    assert set(judged(state, on_the_loop(clock, 0.05)).values()) == {"skipped"}
    assert state.shadows is not None
    state.shadows._limit.end = state.shadows._limit.processor_end = -1.0
    over.wait(LIMIT_SECONDS)
    lane.join(LIMIT_SECONDS)
    assert "skipped" not in answers[0].values()


def test_a_shadow_is_skipped_without_time_before_the_deadline(state: ServerState, clock: Busy) -> None:
    assert set(judged(state, on_the_loop(clock, 0.05)).values()) == {"skipped"}
    assert "skipped" not in judged(state, on_the_loop(clock, 60)).values()


def test_shadows_that_have_used_their_share_are_skipped_until_it_has_filled_up(state: ServerState, clock: Busy) -> None:
    assert state.shadows is not None
    state.shadows.allowance.use(2 * MOST_SAVED)
    assert ask(state)["auditAnnotations"]["shadow.kai-scheduler"] == "skipped"
    clock.move(MOST_SAVED / SHARE)
    assert ask(state)["auditAnnotations"]["shadow.kai-scheduler"] == "skipped"
    clock.move(1)
    assert ask(state)["auditAnnotations"]["shadow.kai-scheduler"] == "denied: kai/no-queue"


def test_what_shadows_use_of_a_processor_is_taken_from_their_share(state: ServerState, clock: Busy) -> None:
    clock.step = 0.001
    assert state.shadows is not None
    ask(state)
    used = sum(value(state, "rollcall_shadow_seconds_total", shadow=name) or 0 for name in (KAI, "volcano"))
    assert state.shadows.allowance.left() == pytest.approx(MOST_SAVED - used)
    assert used > 0


def test_an_allowance_fills_up_slowly_and_not_beyond_its_limit() -> None:
    clock = PlayedClock()
    allowance = Allowance(clock=clock)
    clock.move(100)
    assert allowance.left() == MOST_SAVED
    allowance.use(MOST_SAVED + 1)
    assert allowance.left() == -1
    clock.move(4)
    assert allowance.left() == -1 + 4 * SHARE
    # A clock that another thread has read a little later.
    clock.move(-1)
    assert allowance.left() == -1 + 4 * SHARE
    clock.move(800)
    assert allowance.left() == MOST_SAVED


def on_the_loop(clock: Busy, seconds: float) -> shadows.Moment:
    """Of a review that came now and must be answered in so many seconds."""
    return shadows.Moment(clock.monotonic(), clock.monotonic() + seconds, ())


def in_the_lane(
    clock: Busy, awaited: Callable[[], bool], proceed: Callable[[], None] = lambda: None, used: float = 0.0
) -> shadows.Moment:
    return on_the_loop(clock, 5)._replace(proceed=proceed, is_awaited=awaited, used=lambda: used)


def judged(state: ServerState, moment: shadows.Moment) -> dict[str, str]:
    assert state.shadows is not None
    manifest = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(manifest, settings=state.settings)
    return state.shadows.annotations(request(manifest), verdict, NO_FACTS, moment)


def test_a_large_review_makes_way_for_another_that_waits(state: ServerState, clock: Busy) -> None:
    assert set(judged(state, in_the_lane(clock, lambda: True)).values()) == {"skipped"}
    assert "skipped" not in judged(state, in_the_lane(clock, lambda: False)).values()
    # One that comes while the first shadow is asked.
    answers = iter([False, False, True])
    assert set(judged(state, in_the_lane(clock, lambda: next(answers, True))).values()) == {"skipped"}


def test_a_shadow_ends_with_its_caller(state: ServerState, clock: Busy) -> None:
    def gone() -> None:
        raise Stopped("gone")

    with pytest.raises(Stopped):
        judged(state, in_the_lane(clock, lambda: False, gone))


def test_a_large_review_that_used_much_of_a_processor_leaves_its_shadows_out(state: ServerState, clock: Busy) -> None:
    assert set(judged(state, in_the_lane(clock, lambda: False, used=2 * MOST_SAVED)).values()) == {"skipped"}
    assert "skipped" not in judged(state, in_the_lane(clock, lambda: False, used=MOST_SAVED / 2)).values()


def test_a_large_review_that_took_long_leaves_no_time_for_shadows(state: ServerState, clock: Busy) -> None:
    moment = in_the_lane(clock, lambda: False)
    assert set(judged(state, moment._replace(begun=moment.begun - 2.5)).values()) == {"skipped"}
    assert "skipped" not in judged(state, moment._replace(begun=moment.begun - 2.4)).values()


def test_an_annotation_is_cut(state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    many = decision_module.ShadowAnswer(
        decision_module.ShadowOutcome.WARNED, tuple(f"kai/{number:04d}" for number in range(1000))
    )
    monkeypatch.setattr(shadows, "shadow_answer", lambda *_: many)
    text = ask(state)["auditAnnotations"]["shadow.kai-scheduler"]
    assert len(text.encode()) <= shadows.MAX_ANNOTATION_BYTES
    assert text.startswith("warned: kai/0000,")


def test_every_series_exists_from_the_start(state: ServerState) -> None:
    assert counted(state, "skipped") == counted(state, "failed", decision="denied") == 0
    assert value(state, "rollcall_shadow_denials_total", shadow=KAI, rule="kai/no-queue") == 0
    assert value(serving(), "rollcall_shadow_seconds_total", shadow=KAI) is None
