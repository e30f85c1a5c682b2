"""Pods that only have the labels of a gang of a Job, a JobSet or a LeaderWorkerSet neither complete nor block it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.gated_pods import GATED, UNOWNED, Opened
from tests.unit.reconciler.opted_in_workloads import (
    GATE,
    JOB_PATH,
    JOB_SET_PATH,
    LABEL,
    LWS_PATH,
    STATEFUL_SET_PATH,
    child,
    job,
    job_pod,
    job_set,
    job_set_pod,
    lws,
    lws_pod,
    opted_in_world,
    put_workload,
)
from tests.unit.reconciler.running_reconciler import names, running, sample, settled
from tests.waiting import until


def renamed(pod: dict[str, Any], name: str, uid: str) -> dict[str, Any]:
    """The same pod by another name, of a controller of the same name and another uid."""
    pod["metadata"] |= {"name": name, "uid": name}
    pod["metadata"]["ownerReferences"][0]["uid"] = uid
    return pod


# Each with its workload, a pod of two, the second, and one that is forged.
CASES: dict[str, tuple[tuple[str, dict[str, Any]], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a Job": (
        (JOB_PATH, job()),
        job_pod(0, GATE),
        job_pod(1, GATE),
        renamed(job_pod(2, GATE), "forged", "invented"),
    ),
    "a JobSet": (
        (JOB_SET_PATH, job_set("x", ("a", 2))),
        job_set_pod("a", 0, GATE, of="x", gang="x"),
        job_set_pod("a", 1, GATE, of="x", gang="x"),
        renamed(job_set_pod("a", 2, GATE, of="x", gang="x"), "forged", "job-train"),
    ),
    "a LeaderWorkerSet": (
        (LWS_PATH, lws()),
        lws_pod(0, 0, "new", GATE),
        lws_pod(0, 1, "new", GATE),
        # With more pods in its annotation, so that the group would wait for others for ever.
        renamed(lws_pod(0, 2, "new", GATE, size=99), "forged", "invented"),
    ),
}


def name_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


@pytest.mark.parametrize(("workload", "first", "second", "forged"), CASES.values(), ids=CASES)
async def test_a_forged_pod_neither_completes_half_a_gang_nor_blocks_a_complete_one(
    workload: tuple[str, dict[str, Any]], first: dict[str, Any], second: dict[str, Any], forged: dict[str, Any]
) -> None:
    cluster = opted_in_world(workload, (JOB_PATH, job()))
    held = {**forged, "spec": {"schedulingGates": [{"name": "example.com/for-ever"}, {"name": GATE}]}}
    cluster.put(PODS, first)
    cluster.put(PODS, held)
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: sample(found, "rollcall_escaped_pods", **UNOWNED) == 1)
        await settled(found)
        assert opened.order == []
        cluster.put(PODS, second)
        await until(lambda: sorted(opened.order) == sorted([name_of(first), name_of(second)]))


async def test_a_group_with_forged_pods_only_is_not_a_gang() -> None:
    cluster = opted_in_world((LWS_PATH, lws()))
    cluster.put(PODS, renamed(lws_pod(0, 0, "forged"), "forged", "invented"))
    cluster.put(PODS, lws_pod(1, 0, "new"))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["serve-1-new"])
        await until(lambda: found.idle)
        assert [key.name for key in found.following.gangs] == ["serve-1-new"]


async def test_a_new_or_recreated_leader_worker_set_has_only_the_groups_of_its_own_pods() -> None:
    cluster = opted_in_world()
    cluster.put(PODS, lws_pod(0, 0, "new"))
    again = lws()
    again["metadata"]["uid"] = "lws-again"
    async with running(cluster) as found:
        put_workload(cluster, LWS_PATH, lws())
        await until(lambda: names(cluster) == ["serve-0-new"])
        cluster.remove(LWS_PATH, "team-a", "serve")
        await until(lambda: found.following.gangs == [])
        cluster.put(LWS_PATH, again)
        await until(lambda: found.idle and not any(found.following.unseen()))
        assert found.following.gangs == [], "its pods are of the set that was deleted"


async def test_workers_belong_to_the_set_of_their_leader() -> None:
    cluster = opted_in_world()
    whole, leader = lws(), lws_pod(0, 0, "new", GATE)
    leader["metadata"] |= {"name": "serve-0", "uid": "leader"}
    leader["metadata"]["ownerReferences"][0] |= {"name": "serve", "uid": "sts-serve"}
    label = "leaderworkerset.sigs.k8s.io/name"
    workers = child("sts", "serve-0", "Pod", leader, label)
    workers["metadata"]["labels"][label] = "serve"
    cluster.put(LWS_PATH, whole)
    cluster.put(STATEFUL_SET_PATH, child("sts", "serve", "LeaderWorkerSet", whole, label))
    cluster.put(STATEFUL_SET_PATH, workers)
    opened = Opened(cluster)
    cluster.put(PODS, lws_pod(0, 1, "new", GATE))
    async with running(cluster, settings=GATED) as found:
        await until(lambda: found.idle and not any(found.following.unseen()))
        assert found.following.gangs == [], "its leader is not there"
        cluster.put(PODS, leader)
        await until(lambda: sorted(opened.order) == ["serve-0", "serve-0-1-new"])
        assert LABEL in leader["metadata"]["labels"]
