"""DisaggregatedSets with their own controller on real schedulers: each group of a role starts whole or not at all."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, Chosen, OptedIn, Start
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.pod_life import let_restart
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, listed, owner_chain, patched, read, until_pods

API = "disaggregatedset.x-k8s.io/v1"
ROLE = "disaggregatedset.x-k8s.io/role"
GROUP = "leaderworkerset.sigs.k8s.io/group-key"
SCHEDULERS = [KOORDINATOR, pytest.param(KUBE, marks=pytest.mark.soak)]


def disaggregated_set(namespace: str, *, prefill: int = 1) -> Manifest:
    """A DisaggregatedSet of two roles, whose groups have two pods."""
    roles = [
        {
            "name": name,
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod_template()}},
        }
        for name, replicas in (("prefill", prefill), ("decode", 1))
    ]
    metadata = {"name": "serve", "namespace": namespace}
    return {"apiVersion": API, "kind": "DisaggregatedSet", "metadata": metadata, "spec": {"roles": roles}}


def of_set(cluster: OptedIn, count: int) -> list[Manifest]:
    """The pods of all roles once there are so many."""
    return until_pods(cluster.plane, cluster.namespace, ROLE, count)


def leader_worker_sets(cluster: OptedIn) -> set[str]:
    """The UIDs of its LeaderWorkerSets."""
    found = listed(cluster.plane, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", cluster.namespace)
    return {one["metadata"]["uid"] for one in found}


def whole(cluster: OptedIn, nodes: Nodes) -> None:
    """One of two groups starts, and the other one when it has room for both of its pods."""
    nodes(1, cpu=3)
    created(cluster.plane, disaggregated_set(cluster.namespace))
    pods = of_set(cluster, 4)
    assert owner_chain(cluster.plane, pods[0])[-1] == "DisaggregatedSet serve"
    cluster.ungated()
    eventually(lambda: 2 in cluster.bound(GROUP).values(), "one group starts", timeout=60)
    cluster.stays(lambda: sorted(cluster.bound(GROUP).values()) == [0, 2], "the other group waits whole")
    nodes(1, cpu=3)
    cluster.all_bound(4)


@pytest.mark.parametrize("chosen", SCHEDULERS, ids=["koord", "kube"])
@pytest.mark.usefixtures("kubelet")
def test_each_group_of_a_disaggregated_set_starts_whole(
    plane: ControlPlane, start: Start, nodes: Nodes, chosen: Chosen
) -> None:
    """A further group of a role is a gang of its own. The user's manifest, applied again without the labels that
    Rollcall wrote into its templates, is no rollout.
    """
    cluster = start(chosen, "lws")
    whole(cluster, nodes)
    before = leader_worker_sets(cluster)
    stored = read(plane, API, "DisaggregatedSet", cluster.namespace, "serve")
    patched(plane, stored, {"spec": disaggregated_set(cluster.namespace, prefill=2)["spec"]})
    of_set(cluster, 6)
    cluster.all_bound(6)
    cluster.needs(6)
    patched(plane, stored, {"spec": disaggregated_set(cluster.namespace)["spec"]})
    of_set(cluster, 4)
    cluster.needs(4)
    cluster.all_bound(4)
    assert leader_worker_sets(cluster) == before


@pytest.mark.soak
@pytest.mark.parametrize("chosen", [KOORDINATOR, KUBE], ids=["koord", "kube"])
@pytest.mark.usefixtures("kubelet")
def test_a_group_with_a_failed_pod_is_recreated_whole(
    plane: ControlPlane, start: Start, nodes: Nodes, chosen: Chosen
) -> None:
    cluster = start(chosen, "lws")
    whole(cluster, nodes)
    before = {pod["metadata"]["uid"] for pod in cluster.pods}
    worker = next(pod for pod in cluster.pods if pod["metadata"]["labels"][ROLE] == "decode")
    let_restart(plane, [worker])
    key = worker["metadata"]["labels"][GROUP]

    def again() -> bool:
        found = {pod["metadata"]["uid"]: pod["metadata"]["labels"][GROUP] for pod in cluster.pods}
        assert [found[uid] for uid in found if uid not in before] == [key] * 2, str(found)
        return True

    eventually(again, "the group is recreated, and no other")
    cluster.all_bound(4)
