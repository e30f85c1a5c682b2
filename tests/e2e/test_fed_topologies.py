"""`rollcall reconcile` and the topology objects that one configured binding feeds, on a real API server with the CRDs
of Koordinator and Volcano and the printed rights. koord-scheduler runs; of Volcano there are only the HyperNodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Scheduler
from tests.e2e.gang_writer import why
from tests.e2e.koordinator_gangs import LABEL, created, moved
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from webhook.backends.koordinator.gang_groups import gather, pod, pod_group

FED = {"topologyBinding": "fed", "topologyObjects": "write"}
BOTH: Manifest = {
    "apiVersion": "rollcall.dev/v1alpha1",
    "kind": "RollcallConfiguration",
    "scheduler": {
        "profiles": [{"name": "koord-scheduler", "config": FED}, {"name": "volcano", "config": FED}],
        "defaultProfileName": "koord-scheduler",
    },
}
BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
LAYERS = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
ZONE, RACK = "example.com/fed-zone", "example.com/fed-rack"
_MERGE = {"Content-Type": "application/merge-patch+json"}

pytestmark = pytest.mark.beside


@pytest.fixture
def leader(plane: ControlPlane, reconcilers: dict[str, ReconcilerProcess]) -> Iterator[ReconcilerProcess]:
    """The one that writes, with the binding that it takes the topology from."""
    if plane.version not in reconcilers:
        reconcilers[plane.version] = ReconcilerProcess(plane, BOTH)
    reconcilers[plane.version].until_leading()
    plane.apply(binding("fed", ("zone", ZONE), ("rack", RACK)), check=True)
    yield reconcilers[plane.version]
    plane.http.delete(f"{BINDINGS}/fed")
    # Where no garbage collector runs.
    plane.http.delete(HYPER_NODES)
    plane.http.delete(f"{LAYERS}/default")


def binding(name: str, *levels: tuple[str, str]) -> Manifest:
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels]}
    head = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": name}}
    return {**head, "spec": spec}


def members(plane: ControlPlane) -> dict[str, tuple[int, list[str]]]:
    """The tier of each HyperNode and the names of its members."""
    found = {one["metadata"]["name"]: one["spec"] for one in plane.items(HYPER_NODES)}
    return {
        name: (spec["tier"], [member["selector"]["exactMatch"]["name"] for member in spec["members"]])
        for name, spec in found.items()
    }


def until_members(plane: ControlPlane, expected: dict[str, tuple[int, list[str]]]) -> None:
    def has_them() -> bool:
        assert members(plane) == expected
        return True

    eventually(has_them, "the HyperNodes have these members")


def until_counted(leader: ReconcilerProcess, scheduler: str, reason: str, number: int) -> None:
    """Wait until so many bindings have that problem."""

    def counted() -> bool:
        now = leader.metric("rollcall_topology_problems", scheduler=scheduler, reason=reason)
        assert now == number, f"it is {now}"
        return True

    eventually(counted, f"{number} bindings are counted as {reason}")


def place(rack: str, zone: str = "z1") -> dict[str, str]:
    return {ZONE: zone, RACK: rack}


def test_hyper_nodes_follow_the_labels_of_the_nodes(
    plane: ControlPlane, leader: ReconcilerProcess, nodes: Nodes
) -> None:
    (first,), (second,) = nodes(1, labels=place("r1"), prefix="fed-a"), nodes(1, labels=place("r2"), prefix="fed-b")
    until_members(
        plane,
        {
            "fed-rack.z1.r1": (1, [first]),
            "fed-rack.z1.r2": (1, [second]),
            "fed-zone.z1": (2, ["fed-rack.z1.r1", "fed-rack.z1.r2"]),
        },
    )
    leader.until_settled()
    before = leader.metric("rollcall_writes_total", kind="HyperNode")
    # A heartbeat, and the status that Volcano's controller writes.
    beat = {"conditions": [{"type": "Ready", "status": "True", "reason": "Beat", "message": "again"}]}
    plane.http.patch(f"/api/v1/nodes/{first}/status", json={"status": beat}, headers=_MERGE).raise_for_status()
    counted = {"status": {"nodeCount": 1}}
    plane.http.patch(f"{HYPER_NODES}/fed-rack.z1.r1/status", json=counted, headers=_MERGE).raise_for_status()
    leader.until_settled()
    assert leader.metric("rollcall_writes_total", kind="HyperNode") == before
    plane.kubectl("label", "node", second, f"{RACK}=r1", "--overwrite", check=True)
    until_members(plane, {"fed-rack.z1.r1": (1, [first, second]), "fed-zone.z1": (2, ["fed-rack.z1.r1"])})
    plane.kubectl("label", "node", second, f"{RACK}-", check=True)
    until_counted(leader, "volcano", "TopologyNodeUnlabelled", 1)
    until_members(plane, {"fed-rack.z1.r1": (1, [first]), "fed-zone.z1": (2, ["fed-rack.z1.r1"])})


def test_an_object_of_others_and_a_second_binding_are_reported_and_left_unchanged(
    plane: ControlPlane, leader: ReconcilerProcess, nodes: Nodes
) -> None:
    theirs: Manifest = {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "site"},
        "spec": {
            "tier": 2,
            "tierName": "site",
            "members": [{"type": "HyperNode", "selector": {"exactMatch": {"name": "fed-rack.z1.r1"}}}],
        },
    }
    plane.apply(theirs, binding("second", ("rack", RACK)), check=True)
    (other,) = nodes(1, labels=place("r2"), prefix="fed-b")
    nodes(1, labels=place("r1"), prefix="fed-a")
    # fed-rack.z1.r1 would get a second parent.
    until_members(
        plane,
        {
            "site": (2, ["fed-rack.z1.r1"]),
            "fed-rack.z1.r2": (1, [other]),
            "fed-zone.z1": (2, ["fed-rack.z1.r2"]),
        },
    )
    until_counted(leader, "volcano", "TopologyDrift", 1)
    until_counted(leader, "volcano", "TopologyUnused", 1)
    until_counted(leader, "koord-scheduler", "TopologyUnused", 1)
    plane.http.delete(f"{BINDINGS}/second").raise_for_status()
    plane.http.delete(f"{HYPER_NODES}/site").raise_for_status()
    until_counted(leader, "volcano", "TopologyDrift", 0)
    until_counted(leader, "volcano", "TopologyUnused", 0)


def known_racks(plane: ControlPlane) -> set[str]:
    """The racks in the tree of koord-scheduler, which it builds every ten seconds."""
    answer = plane.http.get(f"{LAYERS}/default")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return set()
    layers = (entry["topologyInfo"] for entry in answer.json().get("status", {}).get("detailStatus", []))
    return {layer["topologyName"] for layer in layers if layer["topologyLayer"] == "rack"}


def test_a_gang_starts_in_one_domain_of_the_topology_that_rollcall_wrote(
    plane: ControlPlane, leader: ReconcilerProcess, scheduler: Scheduler, nodes: Nodes, namespace: str
) -> None:
    scheduler(plane, "koordinator")
    # Six free pods, and only rack b has room for three.
    nodes(1, cpu=2, labels=place("a"), prefix="fed-a")
    nodes(2, cpu=2, labels=place("b"), prefix="fed-b")
    nodes(1, cpu=1, labels=place("c"), prefix="fed-c")
    eventually(lambda: known_racks(plane) == {"a", "b", "c"}, "koord-scheduler knows the racks", timeout=60)
    group = pod_group("leader", settings=gather({"layer": "rack", "strategy": "MustGather"}), minMember=3)
    for manifest in (group, *(member(index) for index in range(3))):
        answer = created(plane, moved(manifest, namespace))
        assert answer.is_success, why(answer)

    def bound() -> list[str]:
        pods = plane.items(f"/api/v1/namespaces/{namespace}/pods")
        found = [one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName")]
        assert len(found) == 3
        return found

    on = eventually(bound, "the gang is bound")
    stored = {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in plane.items("/api/v1/nodes")}
    assert {stored[node] for node in on} == {"b"}


def member(index: int) -> Manifest:
    """A pod of the gang, of one CPU."""
    found = pod(labels={LABEL: "leader"})
    found["metadata"]["name"] = f"leader-{index}"
    found["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return found
