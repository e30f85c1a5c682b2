"""Gangs of Jobs, JobSets and LeaderWorkerSets that are skipped, cannot be written, or must not change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.opted_in_workloads import (
    JOB_PATH,
    JOB_SET_PATH,
    LWS_PATH,
    job,
    job_set,
    job_set_pod,
    lws,
    lws_pod,
    opted_in_world,
)
from tests.unit.reconciler.running_reconciler import names, running, sample
from tests.unit.worlds import settings_of
from tests.waiting import until


async def test_of_two_gangs_with_one_object_name_the_second_is_reported_and_not_written() -> None:
    cluster = opted_in_world((JOB_PATH, job("x-a")))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["x-a"])
        cluster.put(JOB_SET_PATH, job_set("x", ("a", 1), ("b", 1)))
        await until(lambda: cluster.events != [])
        (event,) = cluster.events
        assert (event["reason"], event["regarding"]["kind"]) == ("GangObjectOwned", "JobSet")
        assert event["regarding"] == {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "x",
            "namespace": "team-a",
            "uid": "jobset-x",
        }
        assert event["note"].startswith("PodGroup x-a belongs to Job x-a, ")
        assert names(cluster) == ["x-a"]
        assert sample(found, "rollcall_reconciled_total", outcome="conflict") > 0


LEFT_ALONE: dict[str, tuple[str, dict[str, Any], str]] = {
    "claimed by the label of another": (
        JOB_PATH,
        job(template={"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}, "spec": {}}),
        "claimed",
    ),
    "a gang of its own controller": (JOB_PATH, job(scheduling={"schedulingPolicy": {"gang": {}}}), "claimed"),
    "a scheduler that is not enabled": (JOB_PATH, job(scheduler="slurm"), "noProfile"),
    "a job set that its controller makes a gang of": (
        JOB_SET_PATH,
        job_set("x", ("a", 2), scheduling={"schedulingPolicy": {}}),
        "claimed",
    ),
}


@pytest.mark.parametrize(("path", "found", "why"), LEFT_ALONE.values(), ids=LEFT_ALONE)
async def test_a_gang_of_another_system_is_skipped_without_a_warning(
    path: str, found: dict[str, Any], why: str
) -> None:
    cluster = opted_in_world((path, found))
    async with running(cluster) as started:
        await until(lambda: sample(started, "rollcall_left_alone_total", why=why) > 0)
        await until(lambda: started.idle)
        assert (cluster.writes, cluster.events) == ([], [])


async def test_for_kai_no_gang_of_a_job_is_made() -> None:
    """Jobs are read as the controllers of pods of other kinds."""
    cluster = opted_in_world((JOB_PATH, job(scheduler="kai-scheduler")))
    async with running(cluster, settings=settings_of("kai-scheduler", standalone=False)) as found:
        await until(lambda: found.idle or any(found.unready()))
        await until(lambda: "/api/v1/pods" in cluster.asked)
        await until(lambda: JOB_PATH in cluster.asked)
        assert (cluster.writes, found.following.gangs) == ([], [])


HINDERED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a tail": (JOB_PATH, job(completions=5), "owner/completions at spec.completions"),
    "a leader that must be ready": (
        LWS_PATH,
        lws(startupPolicy="LeaderReady"),
        "owner/leader-ready at spec.startupPolicy",
    ),
}


@pytest.mark.parametrize(("path", "found", "why"), HINDERED.values(), ids=HINDERED)
async def test_a_gang_that_can_never_be_complete_gets_no_objects_and_its_workload_a_warning(
    path: str, found: dict[str, Any], why: str
) -> None:
    cluster = opted_in_world((path, found))
    async with running(cluster) as started:
        await until(lambda: cluster.events != [])
        await until(lambda: started.idle)
        assert [event["reason"] for event in cluster.events] == ["GangInexpressible"]
        assert cluster.events[0]["note"].startswith(why)
        assert cluster.writes == []


async def test_existing_objects_stay_if_a_workload_can_no_longer_become_a_gang() -> None:
    cluster = opted_in_world((LWS_PATH, lws()))
    cluster.put(PODS, lws_pod(0, 0, "old"))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["serve-0-old"])
        cluster.apply(LWS_PATH, lws(startupPolicy="LeaderReady"))
        await until(lambda: [event["reason"] for event in cluster.events] == ["GangInexpressible"])
        await until(lambda: found.idle)
        assert names(cluster) == ["serve-0-old"]
        cluster.apply(LWS_PATH, lws(startupPolicy="LeaderCreated"))
        cluster.remove(PODS, "team-a", "serve-0-0-old")
        await until(lambda: names(cluster) == [])


async def test_a_change_that_the_scheduler_would_ignore_is_frozen_while_there_are_pods() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("a", 1))))
    cluster.put(PODS, job_set_pod("a", 0, of="x", gang="x"))
    async with running(cluster):
        await until(lambda: names(cluster) == ["x-a"])
        cluster.apply(JOB_SET_PATH, job_set("x", ("a", 1), ("b", 1)))
        await until(lambda: [event["reason"] for event in cluster.events] == ["GangShapeFrozen"])
        assert "delete and recreate the JobSet" in cluster.events[0]["note"]
        assert names(cluster) == ["x-a"]
        cluster.remove(PODS, "team-a", "x-a-0-0")
        cluster.apply(JOB_SET_PATH, {"metadata": {"name": "x", "namespace": "team-a", "annotations": {"a": "b"}}})
        await until(lambda: names(cluster) == ["x-a", "x-b"])


async def test_an_unreadable_workload_keeps_its_objects_and_blocks_no_other() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("a", 1))))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["x-a"])
        cluster.apply(JOB_SET_PATH, {**job_set("x"), "spec": {"replicatedJobs": "a"}})
        cluster.put(JOB_PATH, job())
        await until(lambda: names(cluster) == ["train", "x-a"])
        found.following.look_at_all()
        await until(lambda: found.idle)
        assert names(cluster) == ["train", "x-a"]
        assert sample(found, "rollcall_reconciled_total", outcome="fault") == 0
