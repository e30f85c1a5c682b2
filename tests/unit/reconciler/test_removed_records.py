"""Opted-in workloads whose record label was removed while Rollcall did not answer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock, elapse
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.opted_in_workloads import (
    JOB_PATH,
    JOB_SET_PATH,
    LABEL,
    LWS_PATH,
    job,
    job_pod,
    job_set,
    job_set_pod,
    lws,
    lws_pod,
    opted_in_world,
    put_workload,
)
from tests.unit.reconciler.running_reconciler import NOWHERE, names, running, sample, settled
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.gangs.gang_view import looking
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.workload_gangs import MOST_KEPT, READS_A_LOOK, SETTLE_SECONDS
from webhook.model.bounds import share_of
from webhook.reconciler.manager import Reconciler

pytestmark = pytest.mark.anyio
Raw = dict[str, Any]


def prepared(pod: Raw, node: str | None = None) -> Raw:
    pod["metadata"]["annotations"]["rollcall.dev/stamp"] = "koord-scheduler/0123456789abcdef"
    pod["spec"] |= {"schedulerName": "koord-scheduler"} | ({} if node is None else {"nodeName": node})
    return pod


def unlabelled(raw: Raw) -> Raw:
    raw = deepcopy(raw)
    del raw["metadata"]["labels"][LABEL]
    return raw


def on_a_node(index: int, **options: Any) -> Raw:
    return prepared(job_pod(index, **options), "n1")


CASES: dict[str, tuple[str, Raw, list[Raw], str]] = {
    "a Job that is held": (JOB_PATH, job(), [prepared(job_pod(0))], "train"),
    "a Job in part": (JOB_PATH, job(), [on_a_node(0), prepared(job_pod(1))], "train"),
    "a Job that has started": (JOB_PATH, job(), [on_a_node(0), on_a_node(1)], "train"),
    "a Job without pods, by its gang objects": (JOB_PATH, job(), [], "train"),
    "a JobSet": (JOB_SET_PATH, job_set("set", ("a", 2)), [prepared(job_set_pod("a", 0, of="set", gang="set"))], "set"),
    "a group of a LeaderWorkerSet": (LWS_PATH, lws(), [prepared(lws_pod(0, 1, "5f8"))], "serve-0-5f8"),
}


def changed(raw: Raw, **metadata: Any) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], **metadata}}


def reasons(started: Reconciler, gang: str) -> list[GangReason]:
    key = next((key for key in started.following.gangs if key.name == gang), None)
    judgement = None if key is None else started.health.judgement(key)
    return [] if judgement is None else [one.reason for one in judgement.obstacles]


def removed(cluster: WritableWorld, path: str, raw: Raw) -> None:
    """The label goes: a watch that selects labels says that the object was deleted."""
    cluster.objects[path].remove(raw)
    cluster.objects[path].append(unlabelled(raw))
    cluster.tell(path, "DELETED", raw)


def reads(cluster: WritableWorld, plural: str = "jobs") -> list[str]:
    """The lists of a kind in one namespace."""
    return [path for path in cluster.asked if "/namespaces/" in path and path.endswith(f"/{plural}")]


@pytest.mark.parametrize(("path", "raw", "pods", "gang"), CASES.values(), ids=CASES.keys())
async def test_a_record_that_is_removed_is_told_of_until_it_is_back(
    path: str, raw: Raw, pods: list[Raw], gang: str
) -> None:
    cluster = opted_in_world()
    put_workload(cluster, path, raw)
    for pod in pods:
        cluster.put(PODS, pod)
    async with running(cluster) as started:
        await settled(started)
        objects = names(cluster)
        assert objects
        removed(cluster, path, raw)
        await until(lambda: GangReason.UNRECORDED in reasons(started, gang))
        label = f"set the label {LABEL}: koord-scheduler on the"
        await until(
            lambda: any(f"{GangReason.UNRECORDED}" in str(event) and label in event["note"] for event in cluster.events)
        )
        words = (GangReason.UNRECORDED, GangReason.IN_PART)
        assert sum(sample(started, "rollcall_gangs", scheduler="other", health=word.value) for word in words) == 1
        assert names(cluster) == objects
        cluster.objects[path].pop()
        cluster.put(path, raw)
        await until(lambda: GangReason.UNRECORDED not in reasons(started, gang))
        await elapse(200)
        assert GangReason.UNRECORDED not in reasons(started, gang)
        assert names(cluster) == objects


async def test_a_reconciler_that_starts_later_and_a_command_find_it_as_well() -> None:
    cluster = opted_in_world((JOB_PATH, unlabelled(job())), (PODS, on_a_node(0)), (PODS, prepared(job_pod(1))))
    async with running(cluster) as started:
        await until(lambda: GangReason.UNRECORDED in reasons(started, "train"))
    async with looking(koordinator(standalone=False), NOWHERE, cluster, clock=PlayedClock()) as look:
        (gang,) = look.gangs()
        assert (gang.kind, gang.name, gang.state, gang.scheduler) == ("Job", "train", GangState.IN_PART, None)
        assert GangReason.UNRECORDED in [one.reason for one in gang.obstacles]
        ((health, pods),) = look.gangs_of_object("Job", "team-a", "train")
        assert GangReason.UNRECORDED in [one.reason for one in health.obstacles]
        assert len(pods) == 2


# What exists beside a pod without its Job's record in the watch.
SILENT: dict[str, list[tuple[str, Raw]]] = {
    "a Job that is gone": [(PODS, on_a_node(0))],
    "a Job with another uid": [(JOB_PATH, changed(unlabelled(job()), uid="later")), (PODS, on_a_node(0))],
    "a pod that was not prepared": [(JOB_PATH, unlabelled(job())), (PODS, job_pod(0, nodeName="n1"))],
    "a pod of a scheduler that is not enabled": [
        (JOB_PATH, unlabelled(job())),
        (PODS, changed(job_pod(0), annotations={"rollcall.dev/stamp": "slurm/1"})),
    ],
    "a pod that leaves": [
        (JOB_PATH, unlabelled(job())),
        (PODS, changed(on_a_node(0), deletionTimestamp="2026-01-01T00:00:00Z")),
    ],
}


@pytest.mark.parametrize("objects", SILENT.values(), ids=SILENT.keys())
async def test_nothing_is_told_of_a_workload_that_has_no_gang(objects: list[tuple[str, Raw]]) -> None:
    cluster = opted_in_world(*objects)
    async with running(cluster) as started:
        await settled_down(started)
        assert started.following.gangs == []
        assert len(reads(cluster)) <= 2


async def settled_down(started: Reconciler) -> None:
    await until(lambda: started.idle and not any(started.following.unseen()))
    await elapse(3 * SETTLE_SECONDS)


async def test_the_record_of_a_workload_that_is_deleted_without_it_is_forgotten() -> None:
    cluster = opted_in_world((JOB_PATH, unlabelled(job())), (PODS, prepared(job_pod(0))))
    async with running(cluster) as started:
        await until(lambda: reasons(started, "train"))
        cluster.objects[JOB_PATH].clear()
        await until(lambda: not started.following.gangs)


async def test_a_tenant_delays_no_others_and_brings_his_share_of_workloads_only() -> None:
    cluster = opted_in_world()
    number = MOST_KEPT + 10
    for index in range(number):
        cluster.put(JOB_PATH, unlabelled(job(f"crowd-{index}")))
        cluster.put(PODS, prepared(job_pod(0, of=f"crowd-{index}")))
    for path, raw in ((JOB_PATH, unlabelled(job())), (PODS, prepared(job_pod(0)))):
        raw["metadata"]["namespace"] = "team-b"
        cluster.put(path, raw)
    async with running(cluster) as started:
        await until(lambda: reasons(started, "train"))
        assert len(reads(cluster)) <= 4 * READS_A_LOOK
        await elapse(2 * number / READS_A_LOOK)
        assert len(started.following.gangs) == share_of(MOST_KEPT) + 1


async def test_workloads_with_records_are_not_read() -> None:
    cluster = opted_in_world()
    for index in range(100):
        cluster.put(JOB_PATH, job(f"many-{index}"))
        cluster.put(PODS, prepared(job_pod(0, of=f"many-{index}")))
    async with running(cluster) as started:
        await settled_down(started)
        assert len(started.following.gangs) == 100
        assert not reads(cluster)


async def test_a_workload_that_cannot_be_read_is_tried_again() -> None:
    cluster = opted_in_world((JOB_PATH, unlabelled(job())), (PODS, prepared(job_pod(0))))
    cluster.refused["/apis/batch/v1/namespaces/team-a/jobs"] = httpx.Response(403, json={"message": "forbidden"})
    async with running(cluster) as started:
        await settled_down(started)
        assert started.following.gangs == []
        cluster.refused.clear()
        await until(lambda: reasons(started, "train"))
