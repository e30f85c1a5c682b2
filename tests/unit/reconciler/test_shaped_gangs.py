"""The gangs of a declared kind: their objects follow the workload, and some of its pods are no members."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import httpx

from tests.unit.reconciler.cluster import POD_GROUPS, PODS, SERVED, WritableWorld
from tests.unit.reconciler.opted_in_workloads import GATE, JOB_PATH, job, job_pod, put_workload
from tests.unit.reconciler.running_reconciler import GROUPS, names, running
from tests.unit.workloads.workloads import pod_of, ray_cluster, worker_group
from tests.waiting import until
from webhook.config.defaults import built_in_shapes
from webhook.gangs.health import GangState
from webhook.gangs.key import GangKey
from webhook.model.keys import Api
from webhook.model.known_kinds import JOBS, STATEFUL_SETS
from webhook.model.projections import Resource

REPLICA_SETS = Resource(Api("apps", "v1", "ReplicaSet"), "replicasets")
RAY = "/apis/ray.io/v1/rayclusters"
KEY = GangKey("team-a", "demo", "RayCluster", "demo")


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


async def test_a_record_that_is_removed_is_told_of() -> None:
    cluster = world(recorded := in_team(ray_cluster(), "ray-demo"))
    async with running(cluster) as started:
        await until(lambda: len(names(cluster)) == 2)
        (stored,) = cluster.objects[RAY]
        cluster.objects[RAY][:] = [unrecorded := deepcopy(recorded)]
        del unrecorded["metadata"]["labels"]
        cluster.tell(RAY, "DELETED", stored)
        await until(
            lambda: (judgement := started.health.judgement(KEY)) is not None and judgement.word == "GangUnrecorded"
        )
        assert len(names(cluster)) == 2


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
        assert found.state is GangState.HELD


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


async def test_a_declared_kind_that_may_not_be_read_does_not_hold_up_the_others() -> None:
    """As after an upgrade without the new rights."""
    cluster = WritableWorld(
        *SERVED, POD_GROUPS, JOBS, STATEFUL_SETS, REPLICA_SETS, *(one.resource for one in built_in_shapes().values())
    )
    for path in (RAY, "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets"):
        cluster.refused[path] = httpx.Response(403, json={"message": "forbidden"})
    put_workload(cluster, JOB_PATH, job())
    cluster.put(PODS, job_pod(0, GATE))
    cluster.put(PODS, job_pod(1, GATE))
    async with running(cluster) as started:
        await until(lambda: names(cluster) == ["train"])
        await until(lambda: not any(started.following.unready()))
        gang = started.following.gang(GangKey("team-a", "train", "Job", "train"))
        assert gang is not None
        await until(lambda: started.following.roster_of(gang) is not None)
