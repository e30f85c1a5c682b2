"""The endpoint below HTTP: sizes, deadlines, load, disconnects and internal errors."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.unit.server.conftest import Call, body, refused, review
from tests.unit.worlds import gang_pod, koordinator
from tests.waiting import turns
from webhook.config.settings import Serving
from webhook.errors import TooLarge
from webhook.model.facts import ClusterFacts
from webhook.server.intake import MAX_BODY_BYTES
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set


def counted(state: ServerState, outcome: str, endpoint: str = "validate") -> float:
    value = state.metrics.registry.get_sample_value(
        "rollcall_admission_requests_total", {"endpoint": endpoint, "outcome": outcome}
    )
    assert value is not None
    return value


def test_a_body_in_several_parts_is_joined(state: ServerState) -> None:
    raw = json.dumps(review()).encode()
    made = Call(body(raw[:10], more=True), body(raw[10:99], more=True), body(raw[99:])).answered_by(state)
    assert made.status == 200
    assert json.loads(made.text)["response"]["allowed"] is True


def test_a_body_with_too_large_a_content_length_is_refused_unread(state: ServerState) -> None:
    made = Call(headers=[("content-length", str(MAX_BODY_BYTES + 1))]).answered_by(state)
    assert (made.status, made.text) == (413, f"{TooLarge(MAX_BODY_BYTES)}\n")
    assert (b"connection", b"close") in made.sent[0]["headers"]
    assert counted(state, "too_large") == 1


def test_a_body_that_grows_beyond_the_limit_is_refused(state: ServerState) -> None:
    half = b" " * (MAX_BODY_BYTES // 2 + 1)
    assert Call(body(half, more=True), body(half, more=True)).answered_by(state).status == 413
    assert Call(body(b" " * (MAX_BODY_BYTES + 1))).answered_by(state).status == 413


def test_a_body_of_the_maximum_size_is_read(state: ServerState) -> None:
    raw = json.dumps(review()).encode()
    made = Call(body(raw + b" " * (MAX_BODY_BYTES - len(raw)))).answered_by(state)
    assert made.status == 200


def test_a_content_length_that_is_not_a_number_is_400(state: ServerState) -> None:
    assert Call(headers=[("content-length", "many")]).answered_by(state).status == 400


def test_a_body_that_does_not_arrive_in_time_is_504(state: ServerState) -> None:
    made = Call(body(b"{", more=True), query="timeout=20ms").answered_by(state)
    assert made.status == 504
    assert made.text.endswith(" within 0.01 s\n")
    assert counted(state, "timeout") == 1


def test_a_caller_that_disconnects_is_not_answered(state: ServerState) -> None:
    assert Call(body(b"{", more=True), {"type": "http.disconnect"}).answered_by(state).sent == []
    assert Call({"type": "http.disconnect"}).answered_by(state).sent == []
    assert counted(state, "gone") == 2


class Slow:
    """A cluster whose answers never come."""

    def doubted(self) -> frozenset[str]:
        """Nothing that is known."""
        return frozenset()

    async def learn(self, *_: object) -> ClusterFacts:
        """Never return."""
        await asyncio.Event().wait()
        raise AssertionError


async def test_beyond_the_limit_a_call_that_needs_a_live_read_is_rejected_at_once(state: ServerState) -> None:
    state = replace_settings(state, replace(koordinator(standalone=False), serving=Serving(max_in_flight=3)))
    state.cluster = Slow()  # type: ignore[assignment]

    app = create_app(state)
    # One bound for both endpoints: what it protects is the machine.
    waiting = [asyncio.create_task(Call(body(review(gang_pod())), path="/mutate").to(app)) for _ in range(3)]
    await turns()
    assert state.reading == 3
    turned_away = await Call(body(review(gang_pod())), path="/mutate").to(app)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    state.cluster = None
    afterwards = await Call(body(review())).to(app)
    assert (turned_away.status, "more than 3 calls" in turned_away.text) == (503, True)
    assert (b"retry-after", b"1") in turned_away.sent[0]["headers"]
    assert afterwards.status == 200
    assert (counted(state, "overloaded", "mutate"), state.reading) == (1, 0)


@pytest.mark.parametrize(
    ("tolerations", "labels", "waited"),
    [([{}] * 470, 0, 0), ([{}] * 500, 0, 1), ([], 470, 0), ([], 500, 1)],
    ids=["470 items", "500 items", "470 labels", "500 labels"],
)
def test_a_small_body_with_many_values_is_judged_in_the_thread(
    state: ServerState, tolerations: list[Any], labels: int, waited: int
) -> None:
    manifest = pod_clique_set(
        clique("worker", pod={"tolerations": tolerations}), labels={f"l{number}": "" for number in range(labels)}
    )
    made = Call(body(json.dumps(review(manifest), separators=(",", ":")).encode())).answered_by(state)
    assert made.status == 200
    name, lane = "rollcall_lane_wait_seconds_count", {"lane": "reviews"}
    assert state.metrics.registry.get_sample_value(name, lane) == waited


async def test_stalled_uploads_do_not_block_other_calls(state: ServerState) -> None:
    state = replace_settings(state, replace(state.settings, serving=Serving(max_in_flight=1)))

    app = create_app(state)
    waiting = [asyncio.create_task(Call(body(b"{", more=True)).to(app)) for _ in range(300)]
    await turns()
    answered = await Call(body(review())).to(app)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert answered.status == 200


def test_without_memory_for_its_body_a_call_is_rejected(state: ServerState) -> None:
    state.intake.limit = state.intake.kept = 10
    made = Call(body(review())).answered_by(state)
    assert made.status == 503
    assert "memory" in made.text
    assert (b"retry-after", b"1") in made.sent[0]["headers"]
    assert counted(state, "overloaded") == 1
    state.intake.limit = MAX_BODY_BYTES
    assert Call(body(review())).answered_by(state).status == 200
    assert state.intake.used == 0


async def test_calls_are_counted_while_they_are_answered(state: ServerState) -> None:
    task = asyncio.create_task(Call(body(b"", more=True)).to(create_app(state)))
    await turns()
    found = state.metrics.registry.get_sample_value("rollcall_requests_in_flight")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert found == 1
    assert state.metrics.registry.get_sample_value("rollcall_requests_in_flight") == 0


def test_an_internal_error_is_500_and_never_a_verdict(state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("secret detail")

    # Other tests may have the same settings.
    monkeypatch.setattr(state.settings.profiles["koord-scheduler"].backend, "prepare_pod", broken)
    with capture_logs() as lines:
        made = Call(body(review(gang_pod())), path="/mutate").answered_by(state)
    assert (made.status, made.text) == (500, "internal error: RuntimeError; see the server's log\n")
    assert lines == [{"event": "failed", "log_level": "error", "endpoint": "mutate", "exc_info": True}]
    assert counted(state, "failed", "mutate") == 1


def test_a_failed_workload_read_is_500(state: ServerState) -> None:
    cluster = replace_settings(state, koordinator(standalone=False))
    assert Call(body(review(gang_pod())), path="/mutate").answered_by(cluster).status == 500


def replace_settings(state: ServerState, settings: Any) -> ServerState:
    return ServerState(settings, state.facts, state.certificate, clock=state.clock)


def test_every_verdict_is_counted_with_its_rules(state: ServerState) -> None:
    for asked in (review(), refused(), refused()):
        Call(body(asked)).answered_by(state)
    Call(body(review()), path="/mutate").answered_by(state)
    assert (counted(state, "allowed"), counted(state, "denied"), counted(state, "patched", "mutate")) == (1, 2, 1)
    sample = state.metrics.registry.get_sample_value
    assert sample("rollcall_findings_total", {"rule": "koordinator/mnnvl", "action": "deny"}) == 2
    assert sample("rollcall_admission_duration_seconds_count", {"endpoint": "validate"}) == 3
    assert sample("rollcall_requests_in_flight") == 0


def test_a_verdict_under_audit_allows_and_is_counted(state: ServerState) -> None:
    audited = replace_settings(state, koordinator(enforcement={"mode": "audit"}))
    made = Call(body(refused())).answered_by(audited)
    response = json.loads(made.text)["response"]
    assert response["allowed"] is True
    assert "warnings" not in response
    assert response["auditAnnotations"]["rules"] == "koordinator/mnnvl"
    labels = {"rule": "koordinator/mnnvl", "action": "audit"}
    assert audited.metrics.registry.get_sample_value("rollcall_findings_total", labels) == 1


def test_the_log_line_of_a_denial_names_each_rule_once(state: ServerState) -> None:
    cliques = [clique(f"worker{index}", labels={"koordinator.sh/qosClass": "x"}) for index in range(3)]
    with capture_logs() as lines:
        Call(body(review(pod_clique_set(*cliques)))).answered_by(state)
    assert [line["rules"] for line in lines] == [["koordinator/qos-class"]]


def test_unjudged_rules_are_counted(state: ServerState) -> None:
    asked = review()
    asked["request"]["object"]["metadata"]["annotations"] = {"scheduling.grove.io/koordinator-quota": "team-a"}
    Call(body(asked)).answered_by(state)
    assert state.metrics.registry.get_sample_value("rollcall_unjudged_total", {"rule": "koordinator/quota"}) == 1


def test_a_pod_that_is_left_unchanged_causes_a_warning(state: ServerState) -> None:
    pod = gang_pod(annotations={"scheduling.k8s.io/group-name": "other"})
    made = Call(body(review(pod)), path="/mutate").answered_by(state)
    warning = "pod left as it is: metadata.annotations[scheduling.k8s.io/group-name] says that Volcano has claimed it"
    assert json.loads(made.text)["response"]["warnings"] == [warning]
