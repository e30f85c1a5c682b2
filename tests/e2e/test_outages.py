"""Servers that end, and API servers that restart: nothing bypasses admission, and no process must be
restarted by hand.
"""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.conftest import until_asked
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove
from tests.e2e.grove_client import Refused
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer, review
from tests.e2e.test_pods import created_and_deleted, plain_pod, prepared_fields
from tests.e2e.workloads import nvlink, two_cliques


def test_while_the_server_is_down_gang_pods_are_refused_and_other_pods_admitted(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    played = grove(two_cliques("demo", namespace))
    server.program.stop(kill=True)
    try:
        with pytest.raises(Refused) as refused:
            played.create()
        assert 'failed calling webhook "pods.mutate.rollcall.dev"' in str(refused.value)
        assert "connection refused" in str(refused.value)
        assert played.pods() == []
        told = plane.apply(two_cliques("other", namespace))
        assert told.code == 1
        assert 'failed calling webhook "podcliquesets.mutate.rollcall.dev"' in told.err
        assert created_and_deleted(plane, plain_pod(namespace))["spec"]["schedulerName"] == "default-scheduler"
    finally:
        server.program.start()
        server.until_ready()
    # The operator tries again.
    for clique in played.cliques:
        for index in range(clique.replicas):
            played.create_pod(clique, index)
    assert {prepared_fields(pod)[::2] for pod in played.pods()} == {("koord-scheduler", True)}
    assert plane.apply(nvlink("train", namespace)).code == 1


def test_a_server_that_gets_sigterm_logs_it_and_exits_with_0(plane: ControlPlane, server: RollcallServer) -> None:
    assert server.program.stop() == 0
    server.program.start()
    server.until_ready()
    until_asked(plane)


@pytest.mark.every_version
def test_caches_recover_when_the_api_server_starts_again(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    lists = server.series("rollcall_cache_lists_total")
    plane.kill_api_server()
    try:
        eventually(lambda: server.metric("rollcall_cache_failing", kind="PodGang") == 1, "the outage is noticed")
        # Decisions come from memory: without an API server there are no requests, but they could be answered.
        assert server.http.get("/readyz").text == "ready\n"
    finally:
        plane.api_server.start()
        plane.until_ready()
    served = [kind for kind, count in lists.items() if count > 0]
    eventually(
        lambda: all(server.metric("rollcall_cache_failing", kind=kind) == 0 for kind in served),
        "every kind is followed again",
        timeout=30,
    )
    played = grove(two_cliques("demo", namespace)).create()
    assert {prepared_fields(pod)[::2] for pod in played.pods()} == {("koord-scheduler", True)}

    def known_by_heart() -> bool:
        before = server.series("rollcall_lookups_total")
        pod = played.pod(played.cliques[0], 7)
        assert "patch" in server.http.post("/mutate", json=review(pod, namespace)).json()["response"]
        return server.series("rollcall_lookups_total") == before

    eventually(known_by_heart, "the new set is in the cache")
    # The new API server's memory begins after what some kinds were last told of: HTTP 410, and those are listed again.
    assert sum(server.series("rollcall_cache_lists_total").values()) > sum(lists.values())


def test_a_server_without_a_cluster_reports_what_it_waits_for(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    """Started while the API server is down: not ready, saying why, and ready by itself when it is back."""
    server.program.stop()
    plane.kill_api_server()
    server.program.start()

    def told() -> str:
        try:
            answer = server.http.get("/readyz")
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from None
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
        assert "ConnectError" in answer.text, answer.text
        return answer.text

    try:
        assert eventually(told, "it says why it is not ready").startswith(
            "cluster: the served kinds are not known: ConnectError"
        )
    finally:
        plane.api_server.start()
        plane.until_ready()
    server.until_ready()
    until_asked(plane)
