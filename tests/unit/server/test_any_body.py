"""Every body gets an answer by the contract; and recorded reviews of an API server, over HTTP."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx
import jsonpatch
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import json_values, reviews
from tests.unit.server.conftest import Call, body, review
from tests.unit.worlds import gang_pod
from webhook.server.state import ServerState

# The state is the same for every body on purpose: one must not spoil the answer to the next.
shared_state = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def call(state: ServerState, path: str, content: bytes) -> Call:
    return Call(body(content), path=path).answered_by(state)


@shared_state
@given(content=reviews().map(json.dumps) | json_values.map(json.dumps), path=st.sampled_from(["/validate", "/mutate"]))
def test_any_json_gets_an_answer_by_the_contract(state: ServerState, content: str, path: str) -> None:
    made = call(state, path, content.encode())
    if made.status == 400:
        assert made.text.count("\n") == 1
        return
    assert made.status == 200
    asked, answered = json.loads(content), json.loads(made.text)
    response = answered["response"]
    assert answered["apiVersion"] == asked["apiVersion"]
    assert response["uid"] == asked["request"]["uid"]
    assert response["allowed"] is ("status" not in response)
    assert path == "/validate" or response["allowed"]
    assert len(response.get("status", {}).get("message", "").encode()) <= 1024
    assert all(len(warning.encode()) <= 256 for warning in response.get("warnings", []))
    assert ("patch" in response) == ("patchType" in response)


@shared_state
@given(content=st.binary(max_size=200), path=st.sampled_from(["/validate", "/mutate"]))
def test_invalid_bytes_are_400_with_one_line(state: ServerState, content: bytes, path: str) -> None:
    made = call(state, path, content)
    assert (made.status, made.text.count("\n")) == (400, 1)


def recorded_pods() -> list[Any]:
    """The pod reviews of one recorded workload; without recordings, a creation and an update of our own."""
    folder = os.environ.get("ROLLCALL_RECORDINGS")
    if folder is None:
        pod = gang_pod()
        return [review(pod), review(pod, operation="UPDATE", oldObject=pod)]
    found = sorted((Path(folder) / "grove-operator" / "mn-disagg").glob("*-pods-*.json"))
    return [json.loads(path.read_text()) for path in found]


def mutated(client: httpx.Client, asked: Any) -> list[Any]:
    response = client.post("/mutate?timeout=30s", json=asked).json()["response"]
    assert response["uid"] == asked["request"]["uid"]
    return list(json.loads(base64.b64decode(response["patch"]))) if "patch" in response else []


def test_recorded_pods_are_patched_only_at_creation(client: httpx.Client) -> None:
    asked = recorded_pods()
    creations = [one for one in asked if one["request"]["operation"] == "CREATE"]
    assert len(creations) == (1 if len(asked) == 2 else 13)
    for one in asked:
        patch = mutated(client, one)
        if one["request"]["operation"] != "CREATE":
            assert patch == []
            continue
        assert {operation["path"] for operation in patch} == {
            "/metadata/labels/pod-group.scheduling.sigs.k8s.io",
            "/metadata/annotations",
            "/metadata/annotations/rollcall.dev~1stamp",
            "/spec/schedulerName",
        }
        patched = jsonpatch.apply_patch(one["request"]["object"], patch)
        assert mutated(client, {**one, "request": {**one["request"], "object": patched}}) == []


@pytest.mark.parametrize("path", ["/validate", "/mutate"])
def test_a_connection_survives_an_invalid_request(client: httpx.Client, path: str) -> None:
    for content in (b"{", json.dumps(review()).encode(), b"[]", json.dumps(review()).encode()):
        assert client.post(path, content=content).status_code == (200 if len(content) > 10 else 400)
