"""All schedulers in one server: each with its own queues and topologies, watched in a real cluster."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.conftest import STAND_INS
from tests.e2e.control_plane import ControlPlane, Manifest, Ran
from tests.e2e.fixture_types import Grove, Rollcall
from tests.e2e.gang_queues import kai_queue, set_state, volcano_queue
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

LABEL, KAI_QUEUE, VOLCANO_QUEUE = "rollcall.dev/scheduler", "kai.scheduler/queue", "scheduling.grove.io/volcano-queue"
ALL = configuration_of(
    "koord-scheduler",
    "default-scheduler",
    "volcano",
    "kai-scheduler",
    "lpx-scheduler",
    "scheduler-plugins-scheduler",
)
NVLINK = {"grove.io/mnnvl-group": "train"}


@pytest.fixture
def everyone(plane: ControlPlane, rollcall: Rollcall) -> RollcallServer:
    """A server with every built-in scheduler enabled."""
    return rollcall(plane, ALL)


def asking(namespace: str, scheduler: str, **metadata: Any) -> Manifest:
    labels = {LABEL: scheduler, **metadata.pop("labels", {})}
    return two_cliques("demo", namespace, labels=labels, **metadata)


def tried(plane: ControlPlane, manifest: Manifest) -> Ran:
    """What `kubectl apply` says of it, without storing it."""
    return plane.apply(manifest, options=["--dry-run=server"])


def test_a_refusal_names_the_schedulers_that_could_run_the_workload(
    plane: ControlPlane, everyone: RollcallServer, namespace: str
) -> None:
    plane.apply(kai_queue(namespace), check=True)
    gpus = clique("leader", 1), clique("worker", 2, gpu=8)
    workload = pod_clique_set("demo", namespace, *gpus, annotations=NVLINK, labels={KAI_QUEUE: namespace})

    def named() -> bool:
        # The queue is not the reason of the refusal, so it is not read before the watch has brought it.
        refused = tried(plane, workload)
        assert refused.code == 1
        assert "koordinator/mnnvl" in refused.err
        return "kai-scheduler could run it as written" in refused.err

    eventually(named, "kai-scheduler is named")
    assert plane.apply({**workload, "metadata": {**workload["metadata"], "annotations": {}}}).code == 0


def test_each_scheduler_s_capabilities_are_served(everyone: RollcallServer) -> None:
    found = everyone.http.get("/capabilities").json()
    names = [one["scheduler"] for one in found["schedulers"]]
    assert names == [profile["name"] for profile in ALL["scheduler"]["profiles"]]


def test_the_server_watches_the_queues_of_KAI(plane: ControlPlane, everyone: RollcallServer, namespace: str) -> None:
    queue = f"{namespace}-kai"
    workload = asking(namespace, "kai-scheduler", labels={KAI_QUEUE: queue})
    assert "names no Queue of this cluster" in tried(plane, workload).err
    plane.apply(kai_queue(queue), check=True)
    assert tried(plane, workload).code == 0
    plane.apply(kai_queue(f"{queue}-child", parent=queue), check=True)
    eventually(lambda: f'it has the child "{queue}-child"' in tried(plane, workload).err, "the queue is no leaf")
    plane.kubectl("delete", "queues.scheduling.run.ai", f"{queue}-child", check=True)
    eventually(lambda: tried(plane, workload).code == 0, "the queue is a leaf again")


def test_the_server_watches_the_queues_of_volcano(
    plane: ControlPlane, everyone: RollcallServer, namespace: str
) -> None:
    name = f"{namespace}-volcano"
    workload = asking(namespace, "volcano", annotations={VOLCANO_QUEUE: name})
    assert "names no Queue of this cluster" in tried(plane, workload).err
    plane.apply(volcano_queue(name), check=True)
    assert "has no state yet" in tried(plane, workload).err
    set_state(plane, name, "Open")
    # A queue without a state is read again before it is the reason of a refusal.
    assert tried(plane, workload).code == 0
    set_state(plane, name, "Closed")
    eventually(lambda: 'is "Closed"' in tried(plane, workload).err, "the queue is closed")


def test_a_KAI_topology_is_judged_by_its_current_levels(
    plane: ControlPlane, everyone: RollcallServer, namespace: str
) -> None:
    name, key = f"{namespace}-dc", "example.com/rack"
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {
            "levels": [{"domain": "rack", "key": key}],
            "schedulerTopologyBindings": [{"schedulerName": "kai-scheduler", "topologyReference": f"{name}-kept"}],
        },
    }
    plane.apply(binding, kai_queue(namespace), check=True)
    workload = asking(namespace, "kai-scheduler", labels={KAI_QUEUE: namespace})
    workload["spec"]["template"]["topologyConstraint"] = {"topologyName": name, "pack": {"required": "rack"}}
    missing = f"the cluster has no KAI Topology {name}-kept"
    eventually(lambda: missing in tried(plane, workload).err, "the topology is missing")

    def keep(*levels: str) -> None:
        spec = {"levels": [{"nodeLabel": level} for level in levels]}
        metadata = {"name": f"{name}-kept"}
        plane.apply(
            {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": metadata, "spec": spec}, check=True
        )

    keep("example.com/zone")
    eventually(lambda: f"the KAI Topology has no level {key}" in tried(plane, workload).err, "the level is missing")
    plane.kubectl("delete", "topologies.kai.scheduler", f"{name}-kept", check=True)
    keep("example.com/zone", key)
    eventually(lambda: tried(plane, workload).code == 0, "the level is there")


PREPARED = {
    "volcano": ({}, {"scheduling.k8s.io/group-name": "demo-0", "scheduling.volcano.sh/group-name": "demo-0"}),
    "kai-scheduler": ({"kai.scheduler/subgroup-name": "demo-0-leader"}, {"kai.scheduler/skip-podgrouper": "true"}),
    "lpx-scheduler": ({}, {}),
    "scheduler-plugins-scheduler": ({"scheduling.x-k8s.io/pod-group": "demo-0"}, {}),
}


@pytest.mark.every_version(soak=("1.36", "1.35", "1.34"))
@pytest.mark.parametrize(("scheduler", "marks"), PREPARED.items(), ids=PREPARED)
def test_gang_pods_are_prepared_for_the_scheduler_of_their_set(
    plane: ControlPlane,
    everyone: RollcallServer,
    namespace: str,
    grove: Grove,
    scheduler: str,
    marks: tuple[dict[str, str], dict[str, str]],
) -> None:
    plane.apply(volcano_queue(namespace), kai_queue(namespace), check=True)
    set_state(plane, namespace, "Open")
    metadata = {"labels": {KAI_QUEUE: namespace}, "annotations": {VOLCANO_QUEUE: namespace}}
    workload = asking(namespace, scheduler, **metadata)
    eventually(lambda: tried(plane, workload).code == 0, "the queues are known")
    played = grove(workload).create()
    pods = played.pods()
    assert [pod["spec"]["schedulerName"] for pod in pods] == [scheduler] * len(pods)
    (leader,) = (pod for pod in pods if pod["metadata"]["labels"]["grove.io/podclique"] == "demo-0-leader")
    labels, annotations = marks
    assert labels.items() <= leader["metadata"]["labels"].items()
    assert annotations.items() <= leader["metadata"]["annotations"].items()
    assert leader["metadata"]["annotations"]["rollcall.dev/stamp"].startswith(f"{scheduler}/")


@pytest.mark.soak
def test_a_crd_of_an_older_volcano_is_refused_until_it_is_replaced(version: str) -> None:
    """The same group and version: only the fields differ. The API server would drop them silently."""
    plane = ControlPlane(version)
    try:
        crds = [f"--filename={path}" for path in sorted(STAND_INS.glob("*grove.io_*.yaml"))]
        plane.kubectl("apply", "--server-side", *crds, check=True)
        groups = yaml.safe_load((STAND_INS / "scheduling.volcano.sh_podgroups.yaml").read_text())
        old = deepcopy(groups)
        (served,) = old["spec"]["versions"]
        del served["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["subGroupPolicy"]
        queues = yaml.safe_load((STAND_INS / "scheduling.volcano.sh_queues.yaml").read_text())
        plane.apply(old, queues, check=True)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all", check=True)
        plane.apply(volcano_queue("q"), check=True)
        set_state(plane, "q", "Open")
        server = RollcallServer(plane, ALL)
        server.until_ready()
        server.register()
        workload = asking("default", "volcano", annotations={VOLCANO_QUEUE: "q"})
        told = "has no spec.subGroupPolicy, which came with Volcano 1.14"
        eventually(lambda: told in tried(plane, workload).err, "the old CRD is refused")
        plane.apply(groups, check=True)
        eventually(lambda: tried(plane, workload).code == 0, "the new CRD is accepted", timeout=60)
        server.close()
    finally:
        plane.close()
