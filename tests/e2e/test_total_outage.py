"""Every server replica and the reconciler are dead: the cluster continues, gangs wait, and when Rollcall is back no
manual step is needed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.bound_pods import stays_unbound
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_client import Refused
from tests.e2e.grove_operator import Clique, Played
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.rollcall_server import rollcall as rollcall_command
from tests.e2e.test_pods import plain_pod
from tests.e2e.workloads import two_cliques

_MERGE = {"Content-Type": "application/merge-patch+json"}
# How long Grove's operator waits before it tries again.
_RETRY_SECONDS = 0.3


@contextmanager
def dead(server: RollcallServer) -> Iterator[None]:
    """Rollcall does not answer. Afterwards it is started again, without any other step."""
    server.program.stop(kill=True)
    try:
        yield
    finally:
        server.program.start()
        server.until_ready()


def gang_pod(namespace: str) -> Manifest:
    pod = plain_pod(namespace)
    pod["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/podgang": "demo-0"}
    return pod


def test_without_rollcall_other_pods_are_admitted_and_gang_pods_are_refused(
    plane: ControlPlane, server: RollcallServer, namespace: str, grove: Grove
) -> None:
    played = grove(two_cliques("demo", namespace)).create()
    with dead(server):
        # The way out, which takes effect without us.
        exempt = {"metadata": {"name": f"{namespace}-exempt", "labels": {"rollcall.dev/exempt": "yes"}}}
        assert plane.http.post("/api/v1/namespaces", json=exempt).is_success
        exempted = plane.http.post(f"/api/v1/namespaces/{namespace}-exempt/pods", json=gang_pod(f"{namespace}-exempt"))
        assert exempted.is_success, exempted.text
        for path, body in _of_no_gang(namespace):
            answer = plane.http.post(path, json=body)
            assert answer.is_success, f"{path}: {answer.text}"
        for path, change in _changes(namespace):
            answer = plane.http.patch(path, json=change, headers=_MERGE)
            assert answer.is_success, f"{path}: {answer.text}"
        # A gang's pods still start, report, and go; the set itself can be deleted.
        pod = played.pods()[0]["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        status = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        assert plane.http.patch(f"{path}/status", json=status, headers=_MERGE).is_success
        assert plane.http.patch(path, json={"metadata": {"labels": {"seen": "yes"}}}, headers=_MERGE).is_success
        assert plane.http.delete(path, params={"gracePeriodSeconds": "0"}).is_success
        sets = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"
        assert plane.http.patch(f"{sets}/demo/status", json={"status": {"replicas": 1}}, headers=_MERGE).is_success
        for path, body, hook in (
            (f"/api/v1/namespaces/{namespace}/pods", gang_pod(namespace), "pods.mutate"),
            (sets, two_cliques("other", namespace), "podcliquesets.mutate"),
        ):
            answer = plane.http.post(path, json=body)
            assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR, answer.text
            assert f'failed calling webhook "{hook}.rollcall.dev"' in answer.json()["message"]
            # What the alert RollcallNotReached goes by.
            counted = rf'rejection_count{{[^}}]*error_type="calling_webhook_error",name="{hook}[.]rollcall[.]dev"'
            assert re.search(counted, plane.http.get("/metrics").text)
        assert plane.http.delete(f"{sets}/demo").is_success
    plane.http.delete("/api/v1/namespaces/kube-system/pods/plain", params={"gracePeriodSeconds": "0"})
    plane.http.delete("/api/v1/nodes/lonely")


def _of_no_gang(namespace: str) -> Iterator[tuple[str, Manifest]]:
    """What a cluster needs to live: where it is created, and what."""
    core, here, system = "/api/v1", f"/api/v1/namespaces/{namespace}", "/api/v1/namespaces/kube-system"
    container = {"name": "main", "image": "registry.example.com/main:1.0"}
    template = {"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [container]}}
    labels = {"matchLabels": {"app": "other"}}
    yield f"{core}/namespaces", {"metadata": {"name": f"{namespace}-other"}}
    yield f"{core}/nodes", {"metadata": {"name": "lonely"}}
    yield f"{here}/pods", plain_pod(namespace)
    # Even one that looks as if it were of a gang.
    yield f"{system}/pods", gang_pod("kube-system")
    yield f"{system}/configmaps", {"metadata": {"name": f"of-{namespace}"}}
    yield f"{here}/secrets", {"metadata": {"name": "other"}}
    yield (
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {"metadata": {"name": "other"}, "spec": {"selector": labels, "template": template}},
    )
    yield "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {"metadata": {"name": f"of-{namespace}"}}


def _changes(namespace: str) -> Iterator[tuple[str, Manifest]]:
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "no machine"}
    yield "/api/v1/nodes/lonely/status", {"status": {"conditions": [ready]}}
    yield "/api/v1/nodes/lonely", {"spec": {"unschedulable": True}}
    yield (
        f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/of-{namespace}",
        {"spec": {"holderIdentity": "a"}},
    )
    yield f"/api/v1/namespaces/{namespace}/pods/plain", {"metadata": {"labels": {"seen": "yes"}}}


class Retrying:
    """Grove's operator as it goes on by itself: it creates the pods that are missing, takes its gate off those that are
    there, and tries again what was refused. Ends with the `with`.
    """

    def __init__(self, played: Played) -> None:
        self.refused = 0
        self.last = ""
        self._played = played
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Retrying:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._end.wait(_RETRY_SECONDS):
            try:
                for clique, index in self._missing():
                    self._played.create_pod(clique, index)
                self._played.fill_references()
                self._played.lift_gates()
            except Refused as refused:
                self.last = str(refused)
                self.refused += 1

    def _missing(self) -> Iterator[tuple[Clique, int]]:
        there = {pod["spec"]["hostname"] for pod in self._played.pods()}
        for clique in self._played.cliques:
            for index in range(clique.replicas):
                if f"{clique.name}-{index}" not in there:
                    yield clique, index


@pytest.mark.soak
@pytest.mark.chaos
def test_a_half_admitted_gang_starts_whole_when_rollcall_is_back(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
) -> None:
    server, started = rollcall(plane, gated()), reconciler(gated())
    started.until_leading()
    scheduler(plane, "koordinator")
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create_podgangs()
    started.program.stop(kill=True)
    played.create_pod(played.cliques[0], 0)
    operator = Retrying(played)
    with ExitStack() as until_the_end:
        with dead(server):
            until_the_end.enter_context(operator)
            eventually(lambda: operator.refused > 2, "the operator is refused, and tries again")
            # What came before they died is held by the gate that only the reconciler takes off.
            played.lift_gates()
            (held,) = played.pods()
            assert [gate["name"] for gate in held["spec"]["schedulingGates"]] == ["rollcall.dev/gang-sync"]
            stays_unbound(played)
        started.program.start()
        eventually(lambda: len(played.bound()) == 3, "the gang starts whole without a manual step", timeout=60)


@pytest.fixture
def net(plane: ControlPlane, tmp_path: Path) -> Iterator[Manifest]:
    """The configuration of a cluster that admits gangs' pods unseen rather than refuse them, and has the net; applied.
    What came unseen the reconciler may delete.
    """
    config = {
        **gated(),
        "registration": {"failurePolicy": "Ignore", "net": "Deny"},
        "escapes": {"delete": ["unmutated"]},
    }
    path = tmp_path / "rollcall.yaml"
    path.write_text(yaml.safe_dump(config))
    printed = rollcall_command("manifests", "net", "--config", path)
    plane.kubectl("apply", "-f", "-", stdin=printed, check=True)
    yield config
    plane.kubectl("delete", "-f", "-", stdin=printed, check=True)


@pytest.mark.soak
@pytest.mark.chaos
def test_pods_that_bypassed_rollcall_do_not_start_and_are_replaced_when_it_is_back(
    plane: ControlPlane,
    net: Manifest,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
) -> None:
    server, started = rollcall(plane, net), reconciler(net)
    started.until_leading()
    # Either would start what it is given.
    scheduler(plane, "koordinator")
    scheduler(plane, "kube")
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create_podgangs()
    started.program.stop(kill=True)
    operator = Retrying(played)
    with ExitStack() as until_the_end:
        with dead(server):
            until_the_end.enter_context(operator)
            eventually(lambda: operator.refused > 2, "the operator is refused, and tries again")
            assert "ValidatingAdmissionPolicy 'rollcall-net'" in operator.last
            assert {pod["spec"]["schedulerName"] for pod in played.pods()} == {"default-scheduler"}
            stays_unbound(played)
        started.program.start()
        eventually(lambda: len(played.bound()) == 3, "the gang starts whole without a manual step", timeout=60)
    assert {pod["spec"]["schedulerName"] for pod in played.pods()} == {"koord-scheduler"}
