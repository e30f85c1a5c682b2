"""DisaggregatedSets with the real controller of LeaderWorkerSet on real schedulers: the first groups of all roles start
together or not at all, and each further group by itself.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall
from tests.e2e.gang_commands import bind
from tests.e2e.gang_queues import kai_queue
from tests.e2e.kubelet import Kubelet
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, POD_GROUPS, OptedIn, Start, opted_in
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.programs import eventually
from tests.e2e.test_five_schedulers import KAI_QUEUE
from tests.e2e.workload_objects import created, deleted, listed, patched, path_of, read, until_pods

SET = "disaggregatedset.x-k8s.io/v1"
KAI_POD_GROUPS = "scheduling.run.ai/v2alpha2"
TOGETHER = "gang.scheduling.koordinator.sh/groups"
NAME, ROLE, REVISION = (f"disaggregatedset.x-k8s.io/{key}" for key in ("name", "role", "revision"))


def serving(
    cluster: OptedIn, prefill: int, decode: int, together: str | None = None, labels: dict[str, str] | None = None
) -> Manifest:
    """Store a DisaggregatedSet `serve` of so many groups of two pods."""
    roles = [_role("prefill", prefill), _role("decode", decode)]
    annotations = {} if together is None else {"rollcall.dev/groups-together": together}
    metadata = {"name": "serve", "namespace": cluster.namespace, "annotations": annotations, "labels": labels or {}}
    return created(
        cluster.plane, {"apiVersion": SET, "kind": "DisaggregatedSet", "metadata": metadata, "spec": {"roles": roles}}
    )


def _role(name: str, groups: int, image: str = "example.com/server:1") -> Manifest:
    template = pod_template()
    template["spec"]["containers"][0]["image"] = image
    # So that the first step of a rollout makes two groups.
    rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 2, "maxUnavailable": 0}}
    spec: dict[str, Any] = {
        "replicas": groups,
        "rolloutStrategy": rollout,
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": template},
    }
    return {"name": name, "spec": spec}


def pods_of(cluster: OptedIn, count: int) -> list[Manifest]:
    """The pods of the set once there are so many."""
    return until_pods(cluster.plane, cluster.namespace, NAME, count)


def gangs(cluster: OptedIn) -> dict[str, int]:
    """How many pods each gang has, without the revisions in their names."""
    found: dict[str, int] = {}
    for pod in cluster.pods:
        labels = pod["metadata"]["labels"]
        name = labels["rollcall.dev/gang"].replace(f"-{labels[REVISION]}", "")
        name = name.replace(f"-{labels['leaderworkerset.sigs.k8s.io/template-revision-hash']}", "")
        found[name] = found.get(name, 0) + 1
    return found


def started_together(cluster: OptedIn) -> int:
    """How many pods of the first groups are on nodes."""
    bound = [pod for pod in cluster.pods if "nodeName" in pod["spec"]]
    return sum("-prefill-" not in pod["metadata"]["labels"]["rollcall.dev/gang"] for pod in bound)


def groups_of_koordinator(cluster: OptedIn) -> list[tuple[int, int]]:
    """Of each of Koordinator's PodGroups its minimum, and how many start together with it."""
    found = listed(cluster.plane, POD_GROUPS, "PodGroup", cluster.namespace)
    return sorted(
        (one["spec"]["minMember"], len(json.loads(one["metadata"]["annotations"].get(TOGETHER, "[0]"))))
        for one in found
    )


def starts_whole(cluster: OptedIn, nodes: Nodes) -> None:
    """A group to prefill and one to decode wait together on a node with room for three pods."""
    nodes(1, cpu=3)
    serving(cluster, 1, 1)
    pods_of(cluster, 4)
    assert gangs(cluster) == {"serve": 4}
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=1)
    cluster.all_bound(4)


def test_the_roles_of_a_set_start_together_and_further_groups_by_themselves(
    plane: ControlPlane, start: Start, nodes: Nodes, kubelet: Kubelet
) -> None:
    """Whole start, a further group, a group that is made again, fewer groups, and the end."""
    cluster = start(KOORDINATOR, "lws")
    starts_whole(cluster, nodes)
    assert groups_of_koordinator(cluster) == [(2, 2), (2, 2)]
    stored = read(plane, SET, "DisaggregatedSet", cluster.namespace, "serve")
    patched(plane, stored, {"spec": {"roles": [_role("prefill", 2), _role("decode", 1)]}})
    nodes(1, cpu=2)
    pods_of(cluster, 6)
    cluster.all_bound(6)
    assert gangs(cluster) == {"serve": 4, "serve-prefill-1": 2}
    assert groups_of_koordinator(cluster) == [(2, 1), (2, 2), (2, 2)]
    lost = next(pod for pod in cluster.pods if pod["metadata"]["name"].endswith("-decode-0-1"))
    path = path_of("v1", "Pod", cluster.namespace, lost["metadata"]["name"])
    plane.http.delete(path, params={"gracePeriodSeconds": "0"}).raise_for_status()
    eventually(
        lambda: lost["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in cluster.pods}, "the pod is gone"
    )
    pods_of(cluster, 6)
    cluster.all_bound(6)
    assert gangs(cluster) == {"serve": 4, "serve-prefill-1": 2}
    patched(plane, stored, {"spec": {"roles": [_role("prefill", 1), _role("decode", 1)]}})
    eventually(lambda: gangs(cluster) == {"serve": 4}, "the further group goes", timeout=60)
    eventually(lambda: groups_of_koordinator(cluster) == [(2, 2), (2, 2)], "its PodGroup goes", timeout=60)
    deleted(plane, stored, "Background")
    eventually(lambda: groups_of_koordinator(cluster) == [], "its PodGroups go", timeout=60)


@pytest.mark.soak
def test_as_many_groups_start_together_as_the_set_says(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    cluster = start(KOORDINATOR, "lws")
    nodes(1, cpu=5)
    serving(cluster, 3, 1, "prefill=2")
    pods_of(cluster, 8)
    assert gangs(cluster) == {"serve": 6, "serve-prefill-2": 2}
    cluster.ungated()
    eventually(lambda: groups_of_koordinator(cluster) == [(2, 1), (2, 3), (2, 3), (2, 3)], "there are PodGroups")
    cluster.stays(lambda: started_together(cluster) == 0, "only the further group may start")
    nodes(1, cpu=3)
    cluster.all_bound(8)


@pytest.mark.soak
def test_the_roles_of_a_set_are_one_group_of_kube_scheduler(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    starts_whole(start(KUBE, "lws"), nodes)


def test_on_kai_the_roles_of_a_set_are_one_tree_and_further_groups_are_others(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    controllers: Controllers,
    nodes: Nodes,
    kubelet: Kubelet,
    namespace: str,
) -> None:
    """KAI's scheduler is no Go module: what it gets is looked at here, and the test binds the pods."""
    controllers(plane, "lws")
    config = configuration_of("koord-scheduler", "kai-scheduler")
    rollcall(plane, config)
    reconciler(config).until_leading()
    cluster = opted_in(plane, namespace, "kai-scheduler")
    plane.apply(kai_queue(namespace), check=True)
    stored = serving(cluster, 2, 1, labels={KAI_QUEUE: namespace})
    pods = pods_of(cluster, 6)
    assert gangs(cluster) == {"serve": 4, "serve-prefill-1": 2}
    groups = eventually(lambda: of_kai(cluster, 2), "there are PodGroups")
    for pod in pods:
        metadata = pod["metadata"]
        assert metadata["annotations"]["kai.scheduler/skip-podgrouper"] == "true"
        leaves = groups[metadata["annotations"]["pod-group-name"]]
        assert leaves[metadata["labels"]["kai.scheduler/subgroup-name"]] == 2
    assert sorted(map(len, groups.values())) == [1, 2]
    (node,) = nodes(1, cpu=8)
    for pod in pods:
        bind(plane, pod, node)
    patched(plane, stored, {"spec": {"roles": [_role("prefill", 1), _role("decode", 1)]}})
    eventually(lambda: of_kai(cluster, 1), "the PodGroup of the further group goes", timeout=60)
    deleted(plane, stored, "Background")
    eventually(lambda: not listed(plane, KAI_POD_GROUPS, "PodGroup", namespace), "its PodGroups go", timeout=60)


def of_kai(cluster: OptedIn, count: int) -> dict[str, dict[str, int]]:
    """By name, the minimum of each leaf of KAI's PodGroups, of which there are so many."""
    found = listed(cluster.plane, KAI_POD_GROUPS, "PodGroup", cluster.namespace)
    assert len(found) == count, [one["metadata"]["name"] for one in found]
    # The LeaderWorkerSet of a further group does not have the label of its set.
    assert {one["spec"]["queue"] for one in found} == {cluster.namespace}
    return {
        one["metadata"]["name"]: {leaf["name"]: leaf["minMember"] for leaf in one["spec"]["subGroups"]} for one in found
    }


@pytest.mark.soak
def test_a_new_revision_starts_beside_the_old_one(
    plane: ControlPlane, start: Start, nodes: Nodes, kubelet: Kubelet
) -> None:
    """Each revision has a gang of its first groups, so a rollout goes on and ends."""
    cluster = start(KOORDINATOR, "lws")
    nodes(2, cpu=8)
    stored = serving(cluster, 2, 1, "prefill=2")
    pods_of(cluster, 6)
    cluster.all_bound(6)
    before = {pod["metadata"]["labels"][REVISION] for pod in cluster.pods}
    image = "example.com/server:2"
    patched(plane, stored, {"spec": {"roles": [_role("prefill", 2, image), _role("decode", 1, image)]}})

    def renewed() -> bool:
        pods = cluster.pods
        old = [pod for pod in pods if pod["metadata"]["labels"][REVISION] in before]
        return not old and len(pods) == 6 and all("nodeName" in pod["spec"] for pod in pods)

    eventually(renewed, "the rollout ends", timeout=120, pause=0.5)
    assert gangs(cluster) == {"serve": 6}
    eventually(lambda: groups_of_koordinator(cluster) == [(2, 3)] * 3, "the old PodGroups go", timeout=60)
