"""GET and POST /capabilities: what each scheduler honours, and the explanation of a manifest."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.unit.server.conftest import review
from tests.unit.server.test_server_endpoints import FINE, REFUSED
from tests.unit.worlds import three_schedulers
from webhook.server import check_endpoint
from webhook.server.check_endpoint import MAX_CHECKS
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

CLAIMS = pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}))


@pytest.fixture
def several(state: ServerState) -> ServerState:
    """A state in which three schedulers are enabled."""
    return ServerState(three_schedulers(), state.facts, state.certificate)


def ask(state: ServerState, method: str, url: str, *contents: Any) -> list[httpx.Response]:
    """Ask several times at once."""

    async def asking() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app(state))
        async with httpx.AsyncClient(transport=transport, base_url="http://rollcall") as client:
            return list(await asyncio.gather(*(client.request(method, url, content=content) for content in contents)))

    return asyncio.run(asking())


def test_the_capability_table_shows_the_enabled_schedulers(client: httpx.Client) -> None:
    response = client.get("/capabilities")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    found = response.json()
    assert found["default"] == "koord-scheduler"
    assert [one["scheduler"] for one in found["schedulers"]] == ["koord-scheduler", "default-scheduler"]
    plain = {row["capability"]: row for row in found["schedulers"][1]["capabilities"]}
    assert plain["gang"]["honoured"] == "no"


TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: demo}
spec: {runtimeRef: {name: torch}}
"""
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {}}}}}]}}}
"""


def test_a_train_job_and_its_runtime_are_explained_together(several: ServerState) -> None:
    for url in ("/check?scheduler=koord-scheduler&strict=true", "/capabilities?scheduler=koord-scheduler"):
        alone, together = ask(several, "POST", url, TRAIN_JOB, f"{TRAIN_JOB}---\n{RUNTIME}")
        assert "the ClusterTrainingRuntime torch" in alone.text
        assert (together.status_code, "the ClusterTrainingRuntime torch" in together.text) == (200, False)
    strict, lenient = (ask(several, "POST", url, TRAIN_JOB)[0] for url in ("/check?strict=true", "/check"))
    assert (strict.status_code, lenient.status_code, lenient.json()["clean"]) == (422, 200, False)
    assert lenient.json()["reasons"] == {"not-opted-in": 1}


def test_a_manifest_is_explained_like_on_the_command_line(several: ServerState) -> None:
    for body in (FINE, json.dumps(pod_clique_set())):
        (response,) = ask(several, "POST", "/capabilities", body)
        assert response.status_code == 200
        (found,) = response.json()["workloads"]
        assert (found["answer"], found["file"], found["line"]) == ("runs", "body", 1)
    (response,) = ask(several, "POST", "/capabilities", f"{FINE}---\n{REFUSED}")
    second = response.json()["workloads"][1]
    assert (response.status_code, second["answer"], second["line"]) == (200, "refused", 13)
    koord = second["schedulers"][0]
    assert koord["edit"]["patch"] == [{"op": "remove", "path": "/metadata/annotations/grove.io~1auto-mnnvl"}]


def test_another_scheduler_can_be_requested(several: ServerState) -> None:
    (response,) = ask(several, "POST", "/capabilities?scheduler=lpx-scheduler", REFUSED)
    (found,) = response.json()["workloads"]
    assert (found["scheduler"], found["chosenBy"], found["answer"]) == (
        "lpx-scheduler",
        "by the scheduler parameter",
        "partly",
    )
    (response,) = ask(several, "POST", "/capabilities?scheduler=slurm", REFUSED)
    assert response.status_code == 400


def test_unreadable_input_is_400(several: ServerState) -> None:
    for body in (b"a: [", b"\xff", b'{"kind": "AdmissionReview"}'):
        (response,) = ask(several, "POST", "/capabilities", body)
        assert response.status_code == 400
        assert response.json()["error"]


def test_a_body_over_the_limit_is_413(several: ServerState) -> None:
    (response,) = ask(several, "POST", "/capabilities", b" " * (7 * 1024 * 1024 + 1))
    assert response.status_code == 413


def test_more_workloads_than_are_explained_at_once_are_400(several: ServerState) -> None:
    fifty = "---\n".join([FINE] * 50)
    answers = [ask(several, "POST", "/capabilities", body)[0] for body in (fifty, f"{fifty}---\n{FINE}")]
    assert [answer.status_code for answer in answers] == [200, 400]
    assert answers[1].json()["error"].startswith("body: has more than 50 workloads; ")


def test_checks_and_explanations_share_one_queue(several: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_endpoint, "MAX_CHECKS", 0)
    (response,) = ask(several, "POST", "/capabilities", FINE)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(check_endpoint, "MAX_CHECKS", MAX_CHECKS)
    assert [one.status_code for one in ask(several, "POST", "/capabilities", FINE, FINE)] == [200, 200]


def test_a_denial_names_other_schedulers_that_could_run_it(several: ServerState) -> None:
    (response,) = ask(several, "POST", "/validate", json.dumps(review(CLAIMS)))
    found = response.json()["response"]
    assert found["allowed"] is False
    assert found["status"]["message"].splitlines()[-1] == "default-scheduler could run it as written"
    assert len(found["status"]["message"].splitlines()) == 2
    assert [set(cause) for cause in found["status"]["details"]["causes"]] == [{"reason", "field", "message"}]
    assert found["warnings"] == ["default-scheduler could run it as written"]
    assert found["auditAnnotations"]["couldRun"] == "default-scheduler"


def test_a_long_denial_is_cut_but_keeps_its_last_line(several: ServerState) -> None:
    members = [clique(f"w{index}", pod={"resourceClaims": [{"name": "gpu"}]}) for index in range(8)]
    (response,) = ask(several, "POST", "/validate", json.dumps(review(pod_clique_set(*members))))
    message = response.json()["response"]["status"]["message"]
    assert len(message.encode()) <= 1024
    assert message.splitlines()[-1] == "default-scheduler could run it as written"
    assert message.splitlines()[-2].endswith(" more)")


def test_check_names_other_schedulers_that_could_run_it(several: ServerState) -> None:
    (response,) = ask(several, "POST", "/check", json.dumps(CLAIMS))
    (found,) = response.json()["couldRun"]
    assert (response.status_code, found["schedulers"]) == (422, ["default-scheduler"])
    assert found["object"] == {
        "kind": "PodCliqueSet",
        "namespace": "default",
        "name": "demo",
        "scheduler": "koord-scheduler",
        "chosenBy": "default",
    }
