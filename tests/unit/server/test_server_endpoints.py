"""The other endpoints: health, readiness, metrics, documentation, and plain manifests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.unit.server.conftest import HeldThread
from tests.waiting import until
from webhook import __version__
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.offline.manifests import NO_MANIFEST
from webhook.server.check_endpoint import MAX_CHECKS
from webhook.server.routes import create_app
from webhook.server.state import ServerState

REFUSED = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: demo
  annotations:
    grove.io/auto-mnnvl: enabled
spec:
  replicas: 1
  template:
    cliques:
    - {name: worker, spec: {replicas: 2, podSpec: {containers: [{name: main, image: x}]}}}
"""
FINE = REFUSED.replace("enabled", "disabled")


def test_a_serving_server_is_alive_and_ready(client: httpx.Client) -> None:
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ready\n")


def at(state: ServerState, not_before: timedelta, not_after: timedelta) -> ServerState:
    assert state.certificate is not None
    now = state.clock.now()
    pair = replace(state.certificate, not_before=now + not_before, not_after=now + not_after)
    return ServerState(state.settings, state.facts, pair, clock=state.clock)


def test_an_expired_or_missing_certificate_is_not_ready(state: ServerState) -> None:
    hour = timedelta(hours=1)
    assert next(at(state, -hour, -hour).unready()).startswith("certificate: expired at ")
    assert next(at(state, hour, hour).unready()).startswith("certificate: not valid before ")
    assert list(ServerState(state.settings, NO_FACTS, None).unready()) == ["certificate: none is loaded"]
    assert list(at(state, -hour, hour).unready()) == []


def test_readiness_follows_the_certificate(client: httpx.Client, state: ServerState) -> None:
    assert state.certificate is not None
    state.certificate = replace(state.certificate, not_after=state.clock.now())
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.text.startswith("certificate: expired at ")
    assert client.get("/healthz").status_code == 200


def test_backend_problems_with_the_cluster_are_logged_at_the_start(state: ServerState) -> None:
    facts = ClusterFacts(apis=frozenset(), network_topologies={})
    kind, topology = ServerState(state.settings, facts, state.certificate).degraded()
    assert kind.startswith("koord-scheduler: ")
    assert "scheduling.sigs.k8s.io/v1alpha1 PodGroup" in kind
    assert topology.startswith("koord-scheduler: topology ")
    assert 'ClusterNetworkTopology "default"' in topology


def test_every_series_exists_before_the_first_event(client: httpx.Client, state: ServerState) -> None:
    text = client.get("/metrics").text
    assert 'rollcall_admission_requests_total{endpoint="mutate",outcome="failed"} 0.0' in text
    assert 'rollcall_findings_total{action="deny",rule="koordinator/mnnvl"} 0.0' in text
    assert 'rollcall_unjudged_total{rule="koordinator/quota"} 0.0' in text
    assert 'rollcall_admission_duration_seconds_bucket{endpoint="validate",le="0.001"} 0.0' in text
    assert f'rollcall_build_info{{version="{__version__}"}} 1.0' in text
    assert state.certificate is not None
    expiry = state.metrics.registry.get_sample_value(
        "rollcall_certificate_expiry_timestamp_seconds", {"certificate": "serving"}
    )
    assert expiry == state.certificate.not_after.timestamp()


def test_the_documentation_describes_every_endpoint(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/validate", "/mutate", "/check", "/capabilities", "/healthz", "/readyz", "/metrics"}
    example = paths["/validate"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert client.post("/validate", json=example).json()["response"]["allowed"] is True


def test_plain_manifests_are_judged_with_line_and_column(client: httpx.Client) -> None:
    response = client.post("/check", content=f"{FINE}---\n{REFUSED}")
    assert response.status_code == 422
    report: Any = response.json()
    assert (report["clean"], report["judged"], report["ignored"]) == (False, 2, 0)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["action"], finding["line"], finding["column"]) == (
        "koordinator/mnnvl",
        "deny",
        18,
        5,
    )
    assert finding["object"] == {
        "kind": "PodCliqueSet",
        "namespace": "default",
        "name": "demo",
        "scheduler": "koord-scheduler",
        "chosenBy": "default",
    }


def test_misspelt_names_are_reported_with_the_likely_ones(client: httpx.Client) -> None:
    response = client.post("/check", content=FINE.replace("replicas:", "replcas:", 1).replace("kind: Pod", "kind: POd"))
    assert response.status_code == 200
    (finding,) = response.json()["findings"]
    assert (finding["rule"], finding["remedy"]) == ("kinds/unknown", "did you mean kind PodCliqueSet? correct it")
    response = client.post("/check", content=FINE.replace("grove.io/auto-mnnvl", "grove.io/auto-mnvl"))
    assert [found["rule"] for found in response.json()["findings"]] == ["keys/unknown"]


def test_fixes_are_searched_if_they_are_asked_for(client: httpx.Client) -> None:
    without, asked = (client.post(f"/check{query}", content=REFUSED).json() for query in ("", "?fixes=true"))
    assert (without["findings"][0]["fix"], without["counts"]["fixable"]) == (None, 0)
    assert asked["counts"]["fixable"] == 1
    assert asked["findings"][0]["fix"] == {
        "scheduler": "koord-scheduler",
        "changes": [{"path": "metadata.annotations[grove.io/auto-mnnvl]", "from": "enabled", "to": None}],
        "patch": [{"op": "remove", "path": "/metadata/annotations/grove.io~1auto-mnnvl"}],
        "edits": [{"line": 5, "column": 15, "endLine": 6, "endColumn": 33, "text": " {}"}],
    }


def test_fixes_of_the_first_fifty_refused_objects_are_searched(client: httpx.Client) -> None:
    found = client.post("/check?fixes=true", content="---\n".join([REFUSED] * 51)).json()
    assert [one["fix"] is not None for one in found["findings"]] == [True] * 50 + [False]


def test_valid_plain_manifests_are_200(client: httpx.Client) -> None:
    response = client.post("/check", content=FINE)
    assert (response.status_code, response.json()["clean"]) == (200, True)


def test_a_scheduler_can_be_requested(client: httpx.Client) -> None:
    assert client.post("/check?scheduler=default-scheduler", content=REFUSED).status_code == 200
    response = client.post("/check?scheduler=slurm", content=REFUSED)
    assert response.status_code == 400
    assert '"slurm"' in response.json()["error"]
    response = client.post("/check?scheduler=volcano", content=REFUSED)
    assert response.status_code == 400
    assert response.json()["error"].startswith('request: the scheduler parameter: "volcano": ')
    assert response.json()["error"].endswith("(allowed: koord-scheduler, default-scheduler)")


def test_a_body_without_a_manifest_is_an_error(client: httpx.Client) -> None:
    response = client.post("/check", content="# the output of a command that failed\n")
    assert response.status_code == 400
    assert response.json()["error"].startswith(f"body: {NO_MANIFEST}")


def test_strict_turns_unjudged_rules_into_a_failure(client: httpx.Client) -> None:
    asking = FINE.replace("grove.io/auto-mnnvl: disabled", "scheduling.grove.io/koordinator-quota: team-a")
    assert client.post("/check", content=asking).status_code == 200
    response = client.post("/check?strict=true", content=asking)
    assert response.status_code == 422
    assert response.json()["notJudged"][0]["needs"] == "the ElasticQuotas"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a: [", "body:1:5: is not YAML"),
        (b"just text", "body:1:1: is not a manifest"),
        (b"\xff", "body:1:1: is not UTF-8"),
        (b'{"kind": "AdmissionReview"}', "apiVersion is null"),
    ],
)
def test_unreadable_input_is_400_with_its_place(client: httpx.Client, content: bytes, why: str) -> None:
    response = client.post("/check", content=content)
    assert response.status_code == 400
    assert response.json()["error"].startswith(why)


async def post_check(state: ServerState, *contents: Any) -> list[httpx.Response]:
    """Ask for several checks at once."""
    transport = httpx.ASGITransport(create_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://rollcall") as asking:
        return list(await asyncio.gather(*(asking.post("/check", content=content) for content in contents)))


async def test_beyond_the_limit_a_check_is_rejected_and_the_others_take_turns(state: ServerState) -> None:
    transport = httpx.ASGITransport(create_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://rollcall") as asking:
        async with HeldThread(state.manifests):
            waiting = [asyncio.create_task(asking.post("/check", content=FINE)) for _ in range(MAX_CHECKS)]
            waiting_calls = ("rollcall_lane_waiting", {"lane": "manifests"})
            await until(lambda: state.metrics.registry.get_sample_value(*waiting_calls) == MAX_CHECKS)
            turned_away = await asking.post("/check", content=FINE)
        answers = await asyncio.gather(*waiting)
    assert (turned_away.status_code, turned_away.headers["retry-after"]) == (503, "1")
    assert turned_away.json() == {"error": f"more than {MAX_CHECKS} checks at once"}
    labels = {"lane": "manifests", "reason": "full"}
    assert state.metrics.registry.get_sample_value("rollcall_lane_dropped_total", labels) == 1
    assert [answer.status_code for answer in answers] == [200] * MAX_CHECKS
    assert (await post_check(state, FINE))[0].status_code == 200


async def test_checks_with_stalled_bodies_do_not_block_others(state: ServerState) -> None:
    begun = 0

    async def stalled() -> AsyncIterator[bytes]:
        nonlocal begun
        begun += 1
        yield b"#"
        await asyncio.Event().wait()

    transport = httpx.ASGITransport(create_app(state))
    async with httpx.AsyncClient(transport=transport, base_url="http://rollcall") as asking:
        waiting = [asyncio.create_task(asking.post("/check", content=stalled())) for _ in range(MAX_CHECKS * 4)]
        await until(lambda: begun == len(waiting))
        answered = await asking.post("/check", content=FINE)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert answered.status_code == 200


async def test_a_check_whose_body_never_ends_gets_an_error(state: ServerState) -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    (response,) = await post_check(state, never())
    assert (response.status_code, response.headers["connection"]) == (504, "close")


def test_a_check_over_the_limit_is_413(client: httpx.Client) -> None:
    assert client.post("/check", content=b" " * (1024 * 1024 + 1)).status_code == 413
