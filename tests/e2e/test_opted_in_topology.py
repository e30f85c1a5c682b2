"""A JobSet that asks koord-scheduler for topology, with JobSet's own controller: it starts in one spine or waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.koordinator_gangs import NETWORK
from tests.e2e.opted_in_cluster import KOORDINATOR, opted_in
from tests.e2e.opted_in_workloads import job_set, replicated_job
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, until_pods

pytestmark = pytest.mark.soak
SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
SPINE = "example.com/spine"


def asking(layer: str) -> dict[str, str]:
    return {SPEC: f'{{"gatherStrategy":[{{"layer":"{layer}","strategy":"MustGather"}}]}}'}


@pytest.fixture
def layered(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a ClusterNetworkTopology of spines."""
    plane.apply(NETWORK, check=True)
    yield plane
    plane.kubectl("delete", "clusternetworktopology", "default", check=True)


def spines(plane: ControlPlane) -> set[str]:
    """The spines that koord-scheduler knows. It looks for them every ten seconds."""
    status = plane.get("clusternetworktopology", "default").get("status", {})
    layers = (entry["topologyInfo"] for entry in status.get("detailStatus", []))
    return {layer["topologyName"] for layer in layers if layer["topologyLayer"] == "SpineLayer"}


def test_a_job_set_with_a_required_layer_starts_in_one_domain_or_waits(
    layered: ControlPlane,
    controllers: Controllers,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
) -> None:
    controllers(layered, "jobset")
    scheduler(layered, "koordinator")
    rollcall(layered, KOORDINATOR.config)
    reconciler(KOORDINATOR.config).until_leading()
    cluster = opted_in(layered, namespace, KOORDINATOR.name)
    # Room for four pods, but not for three of them in one spine.
    nodes(1, cpu=2, labels={SPINE: "a"})
    nodes(1, cpu=2, labels={SPINE: "b"})
    eventually(lambda: spines(layered) == {"a", "b"}, "koord-scheduler knows the spines")

    def warned() -> bool:
        far = job_set("far", namespace, replicated_job("node", 3), annotations=asking("RackLayer"))
        told = layered.apply(far, options=["--dry-run=server"])
        assert "koordinator/owner-topology" in told.err, told.err
        return True

    eventually(warned, "the server knows the layers")
    created(layered, job_set("near", namespace, replicated_job("node", 3), annotations=asking("SpineLayer")))
    until_pods(layered, namespace, "jobset.sigs.k8s.io/jobset-name=near", 3)
    group = layered.get("podgroups.scheduling.sigs.k8s.io", "near-node", namespace)
    assert group["metadata"]["annotations"][SPEC] == asking("SpineLayer")[SPEC]
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2, labels={SPINE: "b"})
    cluster.all_bound(3)
    stored = {node["metadata"]["name"]: node["metadata"]["labels"] for node in layered.items("/api/v1/nodes")}
    assert {stored[pod["spec"]["nodeName"]][SPINE] for pod in cluster.pods} == {"b"}
