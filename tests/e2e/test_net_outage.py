"""The net during an outage: a gang that bypasses Rollcall is held, and starts whole when Rollcall is back."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_client import Refused
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.test_net import grove_pod, posted, refused, spread
from tests.e2e.test_pods import created_and_deleted, plain_pod, prepared_fields
from tests.e2e.workloads import two_cliques

GATE = {"name": "grove.io/podgang-pending-creation"}


def config(failure_policy: str = "Fail", net: str = "Deny") -> Manifest:
    registration = {"failurePolicy": failure_policy, "net": net}
    return configuration_of("koord-scheduler", registration=registration, escapes={"delete": ["unmutated"]})


def refused_lifting(played: Played) -> str:
    """The error that Grove's operator gets when it removes the gates; it retries every few seconds."""
    with pytest.raises(Refused) as told:
        played.lift_gates()
    return str(told.value)


def patched(plane: ControlPlane, pod: Manifest, change: Manifest) -> httpx.Response:
    """The answer to a merge patch of a pod."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    return plane.http.patch(path, json=change, headers={"Content-Type": "application/merge-patch+json"})


@pytest.mark.soak
@pytest.mark.chaos
def test_a_gang_that_bypassed_rollcall_is_held_and_starts_whole_when_rollcall_is_back(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    tmp_path: Path,
) -> None:
    """With failurePolicy Ignore; both schedulers run, and kube-scheduler would take the pods one by one."""
    server = rollcall(plane, config("Ignore"))
    for name in ("koordinator", "kube"):
        scheduler(plane, name)
    # Room for two of the three pods.
    nodes(1, cpu=2)
    with spread(plane, config("Ignore"), tmp_path, namespace):
        played = grove(two_cliques("demo", namespace))
        server.program.stop(kill=True)
        played.create()
        assert {prepared_fields(pod)[2] for pod in played.pods()} == {False}, "they are not prepared"
        told = refused_lifting(played)
        assert "ValidatingAdmissionPolicy 'rollcall-net'" in told
        assert "a pod of PodGang demo-0 would start without its gang" in told
        stays_unbound(played)
        assert [pod["spec"]["schedulingGates"] for pod in played.pods()] == [[GATE]] * 3

        # It is back, and only Grove and Rollcall act.
        server.program.start()
        server.until_ready()
        reconciler(config("Ignore")).until_leading()
        eventually(lambda: not played.pods(), "the pods that escaped are deleted", timeout=60)
        played.create_pods()
        played.fill_references()
        played.lift_gates()
        stays_unbound(played)
        nodes(1, cpu=2)
        is_bound(played, 3)
        assert {prepared_fields(pod)[::2] for pod in played.pods()} == {("koord-scheduler", True)}


@pytest.mark.soak
@pytest.mark.chaos
def test_a_job_s_pods_are_refused_during_an_outage_and_created_when_rollcall_is_back(
    plane: ControlPlane, rollcall: Rollcall, namespace: str, tmp_path: Path
) -> None:
    """Its pods have no gate of Grove's, so the net is asked when they are created; the Job's controller tries again."""
    server = rollcall(plane, config("Ignore"))
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    stored = plane.http.post(jobs, json=job(namespace))
    assert stored.is_success, stored.text
    with spread(plane, config("Ignore"), tmp_path, namespace):
        server.program.stop(kill=True)
        headers = {"Content-Type": "application/merge-patch+json"}
        resumed = plane.http.patch(f"{jobs}/train", json={"spec": {"suspend": False}}, headers=headers)
        assert resumed.is_success, resumed.text

        def told() -> bool:
            events = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            return any("rollcall-net" in event.get("note", "") for event in events if event["reason"] == "FailedCreate")

        eventually(told, "the Job's controller is refused", timeout=30)
        assert plane.items(pods) == []
        server.program.start()
        server.until_ready()
        eventually(lambda: len(plane.items(pods)) == 2, "the pods come", timeout=90)
    assert {prepared_fields(pod) for pod in plane.items(pods)} == {("koord-scheduler", "train", True)}


def job(namespace: str) -> Manifest:
    """A Job of two pods that is recorded for koord-scheduler, and has not begun."""
    container = {"name": "main", "image": "registry.example.com/main:1.0"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"suspend": True, "parallelism": 2, "completions": 2, "template": template}
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    metadata = {"name": "train", "namespace": namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.mark.soak
@pytest.mark.chaos
def test_during_an_outage_gang_pods_are_refused_and_gates_of_unprepared_pods_stay(
    plane: ControlPlane, rollcall: Rollcall, namespace: str, grove: Grove, tmp_path: Path
) -> None:
    """With failurePolicy Fail; what was stored before Rollcall was there is held by the net all the same."""
    stray = grove_pod(namespace, schedulingGates=[GATE])
    answer = plane.http.post(f"/api/v1/namespaces/{namespace}/pods", json=stray)
    assert answer.is_success, answer.text
    server = rollcall(plane, config())
    prepared = grove(two_cliques("prepared", namespace)).create()
    played = grove(two_cliques("demo", namespace))
    with spread(plane, config(), tmp_path, namespace):
        server.program.stop(kill=True)
        try:
            with pytest.raises(Refused, match="failed calling webhook"):
                played.create()
            assert refused(patched(plane, answer.json(), {"spec": {"schedulingGates": None}}))
            assert not refused(patched(plane, answer.json(), {"metadata": {"labels": {"team": "blue"}}}))
            # Pods that were prepared before need no webhook: Grove's gate is removed, and ours.
            prepared.lift_gates()
            for pod in prepared.pods():
                assert not refused(patched(plane, pod, {"spec": {"schedulingGates": None}}))
            assert created_and_deleted(plane, plain_pod(namespace))["spec"]["schedulerName"] == "default-scheduler"
        finally:
            server.program.start()
            server.until_ready()


def test_a_namespace_can_be_exempted_from_the_net(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    path, headers = f"/api/v1/namespaces/{namespace}", {"Content-Type": "application/merge-patch+json"}
    stray = grove_pod(namespace)

    def label(key: str, value: str | None) -> None:
        body = {"metadata": {"labels": {key: value}}}
        plane.http.patch(path, json=body, headers=headers).raise_for_status()

    with spread(plane, config(), tmp_path, namespace):
        for key, value in {"rollcall.dev/exempt": "legacy", "rollcall.dev/enforcement": "audit"}.items():
            eventually(lambda: refused(posted(plane, stray)), "the net holds the namespace")
            label(key, value)
            eventually(lambda: not refused(posted(plane, stray)), "the namespace is left out")
            label(key, None)


def test_the_net_only_warns_if_configured_to_warn(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    with spread(plane, config(net="Warn"), tmp_path, namespace, refuses=False):
        answer = posted(plane, grove_pod(namespace))
        assert answer.is_success
        assert "would start without its gang" in answer.headers["Warning"]
        held = posted(plane, grove_pod(namespace, schedulingGates=[GATE]))
        assert "would start without its gang" not in held.headers.get("Warning", "")
