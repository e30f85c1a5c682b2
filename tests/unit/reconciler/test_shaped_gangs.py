"""The gangs of a declared kind: their objects follow the workload, and some of its pods are no members."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.reconciler.cluster import POD_GROUPS, PODS, SERVED, WritableWorld
from tests.unit.reconciler.running_reconciler import GROUPS, names, running, until
from tests.unit.shapes.workloads import pod_of, ray_cluster, worker_group
from webhook.config.workloads_section import built_in_shapes
from webhook.gangs.health import State
from webhook.gangs.key import GangKey

RAY = "/apis/ray.io/v1/rayclusters"
KEY = GangKey("team-a", "demo", "RayCluster", "demo")
pytestmark = pytest.mark.usefixtures("hurried")


def in_team(manifest: dict[str, Any], uid: str) -> dict[str, Any]:
    manifest = deepcopy(manifest)
    manifest["metadata"] |= {"namespace": "team-a", "uid": uid}
    return manifest


def world(cluster: dict[str, Any], *pods: dict[str, Any]) -> WritableWorld:
    """A cluster that serves RayClusters, with this one and its pods."""
    found = WritableWorld(*SERVED, POD_GROUPS, built_in_shapes()["raycluster"].resource)
    found.put(RAY, in_team(cluster, "ray-demo"))
    for index, pod in enumerate(pods):
        stored = in_team(pod, f"pod-{index}")
        stored["metadata"]["name"] = f"demo-{index}"
        stored["metadata"]["ownerReferences"][0]["uid"] = "ray-demo"
        found.put(PODS, stored)
    return found


def minimums(cluster: WritableWorld) -> dict[str, int]:
    found = {}
    for name in names(cluster):
        group = cluster.get(GROUPS, "team-a", name)
        assert group is not None
        (owner,) = group["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("RayCluster", "ray-demo", True)
        found[name] = group["spec"]["minMember"]
    return found


async def test_the_objects_follow_the_workload() -> None:
    cluster = world(ray_cluster())
    async with running(cluster) as started:
        await until(lambda: minimums(cluster) == {"demo-gpu": 2, "demo-headgroup": 1})
        cluster.put(RAY, in_team(ray_cluster(worker_group(replicas=4)), "ray-demo"))
        await until(lambda: minimums(cluster) == {"demo-gpu": 4, "demo-headgroup": 1})
        cluster.put(RAY, in_team(ray_cluster(worker_group("cpu")), "ray-demo"))
        await until(lambda: minimums(cluster) == {"demo-cpu": 2, "demo-headgroup": 1})
        cluster.put(RAY, in_team(ray_cluster(suspend=True), "ray-demo"))
        await until(lambda: names(cluster) == [])
        assert [key.kind for key in started.following.gangs] == ["RayCluster"]


async def test_pods_that_no_gang_needs_are_no_escapes() -> None:
    """An autoscaler may lower the group to nothing, so its pods are not prepared for a group."""
    manifest = ray_cluster(worker_group(minReplicas=0), enableInTreeAutoscaling=True)
    head = pod_of(manifest, {"ray.io/group": "headgroup"})
    head["metadata"]["labels"] |= {"rollcall.dev/gang": "demo", "rollcall.dev/gang-member": "demo-headgroup"}
    worker = pod_of(manifest, {"ray.io/group": "gpu"})
    cluster = world(manifest, head, worker)
    async with running(cluster) as started:
        await until(lambda: names(cluster) == ["demo-headgroup"])
        await until(lambda: started.idle and not any(started.following.unseen()))
        gang = started.following.gang(KEY)
        assert gang is not None
        roster = started.following.roster_of(gang)
        assert roster is not None
        assert [pod.name for pod in roster.pods] == ["demo-0"]
        found = started.following.health(KEY)
        assert found is not None
        assert found.state is State.HELD


async def test_a_pod_that_only_names_the_workload_is_no_member() -> None:
    stray = pod_of(ray_cluster(), {"ray.io/group": "gpu"})
    cluster = world(ray_cluster(), stray)
    stored = cluster.get(PODS, "team-a", "demo-0")
    assert stored is not None
    stored["metadata"]["ownerReferences"][0]["uid"] = "another"
    cluster.put(PODS, stored)
    async with running(cluster) as started:
        await until(lambda: started.idle and not any(started.following.unseen()))
        gang = started.following.gang(KEY)
        assert gang is not None
        roster = started.following.roster_of(gang)
        assert roster is not None
        assert ([pod.name for pod in roster.members], [pod.name for pod in roster.unowned]) == ([], ["demo-0"])
