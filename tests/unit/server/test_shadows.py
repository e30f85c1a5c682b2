"""Shadows at the server: annotations and metrics, and that they never change, delay or prevent an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.configurations import configuration_of
from tests.unit.server.conftest import Call, body, review
from webhook.admission import shadow
from webhook.config.file import settings_from
from webhook.errors import Stopped
from webhook.model.facts import NOTHING_KNOWN
from webhook.server import shadows
from webhook.server.app import create_app
from webhook.server.shadow_time import MOST_SAVED, SHARE, Allowance
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

KAI = "kai-scheduler"


def serving(*names: str) -> ServerState:
    document = configuration_of("koord-scheduler", shadow=list(names))
    return ServerState(replace(settings_from(document, "test"), standalone=True), NOTHING_KNOWN, None)


@pytest.fixture
def state() -> ServerState:
    return serving(KAI, "volcano")


def ask(state: ServerState, manifest: Any = None, path: str = "/validate", query: str = "timeout=5s") -> dict[str, Any]:
    made = asyncio.run(Call(body(review(manifest)), path=path, query=query).to(create_app(state)))
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


def test_what_a_shadow_would_deny_is_allowed_annotated_and_counted(state: ServerState) -> None:
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
def test_a_shadow_that_takes_too_long_is_ended_and_counted(
    state: ServerState, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Each question between two rules finds the time used up."""
    monkeypatch.setattr(shadows, "LOOP_SECONDS", 0.0)
    if large:
        monkeypatch.setattr(Allowance, "left", lambda *_: 0.0)
    manifest = pod_clique_set(annotations={"example.com/note": "x" * 400_000} if large else {})
    found = ask(state, manifest)
    assert without_notes(found) == ask(serving(), manifest)
    assert found["auditAnnotations"]["shadow.kai-scheduler"] == "skipped"
    assert counted(state, "skipped") == 1


def test_a_shadow_is_skipped_without_time_before_the_deadline(state: ServerState) -> None:
    now = perf_counter()
    assert set(judged(state, shadows.Moment(now, now + 0.05, ())).values()) == {"skipped"}
    assert "skipped" not in judged(state, shadows.Moment(now, now + 60, ())).values()


def test_shadows_that_have_used_their_share_are_skipped_until_it_has_filled_up(state: ServerState) -> None:
    assert state.shadows is not None
    state.shadows.allowance.use(10 * MOST_SAVED)
    assert ask(state)["auditAnnotations"]["shadow.kai-scheduler"] == "skipped"
    state.shadows.allowance.use(-10 * MOST_SAVED)
    assert ask(state)["auditAnnotations"]["shadow.kai-scheduler"] == "denied: kai/no-queue"


def test_an_allowance_fills_up_slowly_and_not_beyond_its_limit() -> None:
    found = Allowance(100.0)
    assert found.left(200.0) == MOST_SAVED
    found.use(MOST_SAVED + 1)
    assert found.left(200.0) == -1
    assert found.left(204.0) == -1 + 4 * SHARE
    # A clock that another thread has read a little later.
    assert found.left(203.0) == -1 + 4 * SHARE
    assert found.left(1000.0) == MOST_SAVED


def large(awaited: Callable[[], bool], proceed: Callable[[], None] = lambda: None) -> shadows.Moment:
    now = perf_counter()
    return shadows.Moment(now, now + 5, (), proceed, awaited)


def judged(state: ServerState, moment: shadows.Moment) -> dict[str, str]:
    from tests.unit.worlds import request, validate

    assert state.shadows is not None
    manifest = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(manifest, settings=state.settings)
    return state.shadows.annotations(request(manifest), verdict, NOTHING_KNOWN, moment)


def test_a_large_review_makes_way_for_another_that_waits(state: ServerState) -> None:
    assert set(judged(state, large(lambda: True)).values()) == {"skipped"}
    assert "skipped" not in judged(state, large(lambda: False)).values()
    # One that comes while the first shadow is asked.
    answers = iter([False, False, True])
    assert set(judged(state, large(lambda: next(answers, True))).values()) == {"skipped"}


def test_a_shadow_ends_with_its_caller(state: ServerState) -> None:
    def gone() -> None:
        raise Stopped("gone")

    with pytest.raises(Stopped):
        judged(state, large(lambda: False, gone))


def test_a_large_review_that_took_long_leaves_its_shadows_out(state: ServerState) -> None:
    moment = large(lambda: False)
    assert set(judged(state, moment._replace(begun=moment.begun - 2 * MOST_SAVED)).values()) == {"skipped"}


def test_an_annotation_is_cut(state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    many = shadow.ShadowAnswer(shadow.Would.WARNED, tuple(f"kai/{number:04d}" for number in range(1000)))
    monkeypatch.setattr(shadows, "shadow_answer", lambda *_: many)
    text = ask(state)["auditAnnotations"]["shadow.kai-scheduler"]
    assert len(text.encode()) <= shadows.MAX_ANNOTATION_BYTES
    assert text.startswith("warned: kai/0000,")


def test_every_series_exists_from_the_start(state: ServerState) -> None:
    assert counted(state, "skipped") == counted(state, "failed", decision="denied") == 0
    assert value(state, "rollcall_shadow_denials_total", shadow=KAI, rule="kai/no-queue") == 0
    assert value(serving(), "rollcall_shadow_seconds_total", shadow=KAI) is None
