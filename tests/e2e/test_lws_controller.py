"""What LeaderWorkerSet's controllers and webhooks make of LeaderWorkerSets: the facts that Rollcall relies on."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes
from tests.e2e.opted_in_workloads import leader_worker_set
from tests.e2e.pod_life import let_restart, let_run
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, owner_chain, read, until_pods

pytestmark = pytest.mark.soak
PREFIX = "leaderworkerset.sigs.k8s.io"
EXCLUSIVE = {f"{PREFIX}/exclusive-topology": "example.com/rack"}


@pytest.fixture(autouse=True)
def running(plane: ControlPlane, controllers: Controllers) -> None:
    controllers(plane, "lws")


def pods_of(plane: ControlPlane, namespace: str, count: int) -> list[Manifest]:
    """The pods of the LeaderWorkerSet `serve` once there are so many."""
    return until_pods(plane, namespace, f"{PREFIX}/name=serve", count)


def labels_of(pods: list[Manifest], *keys: str) -> list[tuple[str, ...]]:
    """The values of some labels of the pods, in order."""
    return sorted(tuple(pod["metadata"]["labels"][f"{PREFIX}/{key}"] for key in keys) for pod in pods)


@pytest.mark.every_version
def test_the_workers_of_a_leader_worker_set_belong_to_their_leader(plane: ControlPlane, namespace: str) -> None:
    created(plane, leader_worker_set("serve", namespace, groups=2, size=3))
    pods = pods_of(plane, namespace, 6)
    above = ["StatefulSet serve", "LeaderWorkerSet serve"]
    assert {pod["metadata"]["name"]: owner_chain(plane, pod) for pod in pods} == {
        "serve-0": above,
        "serve-0-1": ["StatefulSet serve-0", "Pod serve-0", *above],
        "serve-0-2": ["StatefulSet serve-0", "Pod serve-0", *above],
        "serve-1": above,
        "serve-1-1": ["StatefulSet serve-1", "Pod serve-1", *above],
        "serve-1-2": ["StatefulSet serve-1", "Pod serve-1", *above],
    }
    assert labels_of(pods, "name", "group-index", "worker-index") == [
        ("serve", group, worker) for group in "01" for worker in "012"
    ]
    keys = {pod["metadata"]["labels"][f"{PREFIX}/group-key"] for pod in pods}
    assert len(keys) == 2
    assert {pod["metadata"]["annotations"][f"{PREFIX}/size"] for pod in pods} == {"3"}
    leaders = [pod["metadata"]["annotations"].get(f"{PREFIX}/leader-name") for pod in pods]
    assert leaders == [None, "serve-0", "serve-0", None, "serve-1", "serve-1"]


def test_workers_wait_for_a_leader_that_must_be_ready(plane: ControlPlane, namespace: str) -> None:
    created(plane, leader_worker_set("serve", namespace, size=3, leader_ready=True))
    leaders = pods_of(plane, namespace, 1)
    assert [pod["metadata"]["name"] for pod in leaders] == ["serve-0"]
    let_run(plane, leaders)
    assert len(pods_of(plane, namespace, 3)) == 3


def test_the_workers_of_an_exclusive_group_are_placed_with_their_leader(
    plane: ControlPlane, namespace: str, nodes: Nodes
) -> None:
    created(plane, leader_worker_set("serve", namespace, size=2, annotations=EXCLUSIVE))
    leaders = pods_of(plane, namespace, 1)
    assert [pod["metadata"]["name"] for pod in leaders] == ["serve-0"]
    (node,) = nodes(1, labels={"example.com/rack": "r1"})
    target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": "serve-0"}}
    plane.http.post(f"/api/v1/namespaces/{namespace}/pods/serve-0/binding", json=target).raise_for_status()
    worker = pods_of(plane, namespace, 2)[1]
    assert worker["spec"]["nodeSelector"] == {"example.com/rack": "r1"}
    assert worker["metadata"]["annotations"][f"{PREFIX}/exclusive-topology"] == "example.com/rack"


def test_a_recreated_group_has_new_pods_with_the_same_names(plane: ControlPlane, namespace: str) -> None:
    """A worker whose containers start again takes its group with it, and no other."""
    created(plane, leader_worker_set("serve", namespace, groups=2, size=2))
    pods = pods_of(plane, namespace, 4)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
    let_run(plane, pods)
    let_restart(plane, [pod for pod in pods if pod["metadata"]["name"] == "serve-1-1"])

    def recreated() -> set[str]:
        found = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods_of(plane, namespace, 4)}
        assert found.keys() == before.keys(), str(found)
        new = {name for name in before if before[name] != found[name]}
        assert new >= {"serve-1", "serve-1-1"}, str(new)
        return new

    assert eventually(recreated, "the group is recreated") == {"serve-1", "serve-1-1"}


def test_where_volcano_manages_the_gangs_each_group_has_a_pod_group_of_its_revision(
    plane: ControlPlane, namespace: str, controllers: Controllers
) -> None:
    """And subgroups, which need no option."""
    controllers(plane, "lws", lws={"gangSchedulingManagement": {"schedulerProvider": "volcano"}})
    made = leader_worker_set("serve", namespace, size=4)
    made["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 2}
    created(plane, made)
    pods = pods_of(plane, namespace, 4)
    ((group, revision),) = set(labels_of(pods, "group-index", "template-revision-hash"))
    name = f"serve-{group}-{revision}"
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {name}
    pod_group = read(plane, "scheduling.volcano.sh/v1beta1", "PodGroup", namespace, name)
    assert pod_group["spec"]["minMember"] == 4
    assert [one["kind"] for one in pod_group["metadata"]["ownerReferences"]] == ["Pod"]
    assert labels_of(pods, "worker-index", "subgroup-index") == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")]
