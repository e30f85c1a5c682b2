"""Kueue's objects as facts on a real API server, with Kueue's own CRDs: known soon, read with exactly the rights that
are needed, and no trouble when Kueue is uninstalled.

Kueue itself does not run: a test plays what it would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import KOORDINATOR, STAND_INS, apply_crds, gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.kueue_objects import (
    API,
    QUEUE_NAME,
    admission_check,
    change,
    cluster_queue,
    local_queue,
    path,
    resource_flavor,
    topology,
)
from tests.e2e.neighbours.systems import SYSTEMS
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer, rollcall
from tests.e2e.workload_objects import MERGE

pytestmark = pytest.mark.soak
KINDS = ("LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology", "AdmissionCheck")
PLURALS = ("localqueues", "clusterqueues", "resourceflavors", "topologies", "admissionchecks")
NAMESPACE = "default"


def kueue_crds() -> list[Path]:
    manifests = SYSTEMS["kueue"].manifests
    if manifests is None:
        pytest.skip("there is no Kueue; scripts/test-cluster builds it")
    return sorted((manifests / "crds").glob("*.yaml"))


@pytest.fixture(scope="module")
def own_plane(version: str) -> Iterator[ControlPlane]:
    """A control plane of this module's own, because Kueue is uninstalled there."""
    files = kueue_crds()
    found = ControlPlane(version)
    try:
        apply_crds(found, [*sorted(STAND_INS.glob("*.yaml")), *files])
        yield found
    finally:
        found.close()


def workload(name: str, count: int = 4, **container: Any) -> Manifest:
    pods = {"spec": {"containers": [{"name": "main", "image": "none", **container}], "restartPolicy": "Never"}}
    spec = {"queueName": "research", "podSets": [{"name": "main", "count": count, "template": pods}]}
    return {"apiVersion": API, "kind": "Workload", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def one_of_each() -> list[Manifest]:
    return [
        topology("racks", "example.com/rack"),
        resource_flavor("h100", labels={"pool": "h100"}, topology="racks"),
        {"apiVersion": API, "kind": "Cohort", "metadata": {"name": "all"}, "spec": {}},
        admission_check("gang", "rollcall.dev/gang"),
        cluster_queue("research", "h100", {"cpu": 8}, cohortName="all"),
        local_queue("research", NAMESPACE, "research"),
    ]


def store(plane: ControlPlane, one: Manifest) -> None:
    answer = plane.http.post(path(one["kind"], namespace=one["metadata"].get("namespace")), json=one)
    assert answer.is_success, answer.text


@pytest.fixture
def objects(own_plane: ControlPlane) -> Iterator[None]:
    """One object of each kind that rules read."""
    stored = one_of_each()
    try:
        for one in stored:
            store(own_plane, one)
        yield
    finally:
        for one in reversed(stored):
            own_plane.http.delete(path(one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")))


@pytest.fixture
def reconciler(own_plane: ControlPlane) -> Iterator[ReconcilerProcess]:
    found = ReconcilerProcess(own_plane, gated())
    found.until_ready()
    yield found
    # Fails if a request was refused.
    found.close()


@pytest.fixture
def server(own_plane: ControlPlane) -> Iterator[RollcallServer]:
    found = RollcallServer(own_plane, KOORDINATOR)
    found.until_ready()
    yield found
    found.close()


def known(process: ReconcilerProcess | RollcallServer, kind: str) -> float:
    return process.metric("rollcall_cache_objects", group="kueue.x-k8s.io", kind=kind)


def until_known(process: ReconcilerProcess | RollcallServer, *kinds: str, count: int = 1) -> None:
    def all_known() -> bool:
        found = {kind: known(process, kind) for kind in kinds}
        assert set(found.values()) == {count}, found
        return True

    eventually(all_known, f"{count} of each kind of Kueue's", timeout=40)


def test_the_reconciler_reads_every_kind_and_uses_every_right(
    own_plane: ControlPlane, objects: None, reconciler: ReconcilerProcess
) -> None:
    store(own_plane, workload("job-demo"))
    try:
        until_known(reconciler, *KINDS, "Workload")
    finally:
        own_plane.http.delete(path("Workload", "job-demo", NAMESPACE))
    until_known(reconciler, "Workload", count=0)
    wanted = {(f"kueue.x-k8s.io/{plural}", verb) for plural in (*PLURALS, "workloads") for verb in ("list", "watch")}
    assert {right for right in reconciler.granted if right[0].startswith("kueue.x-k8s.io/")} == wanted
    assert wanted <= {(asked.resource, asked.verb) for asked in reconciler.asked() if asked.allowed}


def test_the_server_knows_a_queue_that_was_just_created_and_no_workload(
    own_plane: ControlPlane, objects: None, server: RollcallServer
) -> None:
    until_known(server, *KINDS)
    store(own_plane, local_queue("second", NAMESPACE, "research"))
    try:
        until_known(server, "LocalQueue", count=2)
    finally:
        own_plane.http.delete(path("LocalQueue", "second", NAMESPACE))
    until_known(server, "LocalQueue")
    with pytest.raises(AssertionError, match="no metric"):
        known(server, "Workload")


def test_a_workload_may_name_a_queue_that_was_created_with_it(
    own_plane: ControlPlane, objects: None, server: RollcallServer
) -> None:
    """One `kubectl apply` of both: what a cache does not have yet is read live, and nobody is warned."""
    server.register()

    def applied(queue: str, *more: Manifest) -> str:
        labels = {"rollcall.dev/scheduler": "koord-scheduler", QUEUE_NAME: queue}
        pods = {"spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}}
        spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": pods}
        metadata = {"name": f"demo-{queue}", "namespace": NAMESPACE, "labels": labels}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        return own_plane.apply(*more, job, check=True).err

    def warned() -> str:
        told = applied("nothing")
        own_plane.kubectl("delete", "job", "demo-nothing", "-n", NAMESPACE, check=True)
        assert "kueue/local-queue" in told, told
        return told

    assert "this namespace has no such LocalQueue" in eventually(warned, "the API server asks rollcall")
    for number in range(5):
        name = f"new-{number}"
        assert "kueue/local-queue" not in applied(name, local_queue(name, NAMESPACE, "research"))
        own_plane.kubectl("delete", "job", f"demo-{name}", "-n", NAMESPACE, check=True)
        own_plane.http.delete(path("LocalQueue", name, NAMESPACE)).raise_for_status()


def test_kueue_is_uninstalled_and_installed_again_while_both_processes_run(
    own_plane: ControlPlane, objects: None, server: RollcallServer, reconciler: ReconcilerProcess
) -> None:
    """The server has no trouble with it, and no restart is needed."""
    both: tuple[ReconcilerProcess | RollcallServer, ...] = (server, reconciler)
    for process in both:
        until_known(process, *KINDS)
    names = [f"{plural}.kueue.x-k8s.io" for plural in (*PLURALS, "cohorts", "workloads")]
    own_plane.kubectl("delete", "crd", "--wait=true", *names, check=True)

    def forgotten(process: ReconcilerProcess | RollcallServer) -> Callable[[], bool]:
        def asked() -> bool:
            found = [kind for kind in KINDS if _has_metric(process, kind) and known(process, kind)]
            assert not found, f"still known: {found}"
            return True

        return asked

    for process in both:
        eventually(forgotten(process), "nothing of Kueue is known", timeout=60)
        assert process.http.get("/readyz").is_success
    apply_crds(own_plane, kueue_crds())
    for one in one_of_each():
        store(own_plane, one)
    for process in both:
        until_known(process, *KINDS)
        assert process.http.get("/readyz").is_success


def _has_metric(process: ReconcilerProcess | RollcallServer, kind: str) -> bool:
    try:
        known(process, kind)
    except AssertionError:
        return False
    return True


def test_a_huge_workload_hides_no_other(own_plane: ControlPlane, reconciler: ReconcilerProcess) -> None:
    """Its pods take a megabyte, and its status has 32 KiB in each message: little of that is kept."""
    huge = workload("huge", env=[{"name": f"V{number}", "value": "x" * 1000} for number in range(900)])
    told = [
        {
            "type": kind,
            "status": "True",
            "reason": "Pending",
            "message": "x" * 32_000,
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        }
        for kind in ("QuotaReserved", "Admitted", "PodsReady", "Evicted", "Requeued")
    ]
    try:
        store(own_plane, huge)
        answer = own_plane.http.patch(
            f"{path('Workload', 'huge', NAMESPACE)}/status", json={"status": {"conditions": told}}, headers=MERGE
        )
        assert answer.is_success, answer.text
        store(own_plane, workload("small"))
        until_known(reconciler, "Workload", count=2)
        assert reconciler.metric("rollcall_cache_left_out", group="kueue.x-k8s.io", kind="Workload") == 0
    finally:
        for name in ("huge", "small"):
            own_plane.http.delete(path("Workload", name, NAMESPACE))


def test_the_command_writes_what_rules_read_of_kueues_objects(
    own_plane: ControlPlane, objects: None, tmp_path: Path
) -> None:
    change(own_plane, "LocalQueue", "research", {"spec": {"stopPolicy": "Hold"}}, NAMESPACE)
    rollcall("facts", "--kubeconfig", own_plane.kubeconfig, "-o", tmp_path)
    written = {plural: yaml.safe_load((tmp_path / f"{plural}.kueue.x-k8s.io.yaml").read_text()) for plural in PLURALS}
    assert written["localqueues"] == {
        "apiVersion": API,
        "kind": "LocalQueueList",
        "items": [
            {
                "metadata": {"name": "research", "namespace": NAMESPACE},
                "spec": {"clusterQueue": "research", "stopPolicy": "Hold"},
            }
        ],
    }
    assert [item["spec"] for item in written["topologies"]["items"]] == [
        {"levels": [{"nodeLabel": "example.com/rack"}]}
    ]
    assert [item["spec"] for item in written["resourceflavors"]["items"]] == [
        {"nodeLabels": {"pool": "h100"}, "topologyName": "racks"}
    ]
    assert yaml.safe_load((tmp_path / "workloads.kueue.x-k8s.io.yaml").read_text())["items"] == []
