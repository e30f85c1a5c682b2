"""Gang health of Jobs, JobSets and LeaderWorkerSets, and its events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.opted_in_workloads import (
    GATE,
    IN_TURN,
    JOB_PATH,
    JOB_SET_PATH,
    LWS_PATH,
    job,
    job_pod,
    job_set,
    job_set_pod,
    lws,
    lws_pod,
    opted_in_world,
)
from tests.unit.reconciler.running_reconciler import SETS, names, running, sample, workload
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.gangs.health import GangHealth, GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.gangs.members import read_opted_in_pod
from webhook.model.facts import NO_FACTS
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.mutators.prepare_pod import prepare_pod

TRAIN = GangKey("team-a", "train", "Job", "train")


def prepared(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod as the webhook leaves it."""
    profile = koordinator(standalone=False).profiles["koord-scheduler"]
    labels = pod["metadata"]["labels"]
    gang, member = labels["rollcall.dev/gang"], labels["rollcall.dev/gang-member"]
    record = Record("koord-scheduler")
    prepare_pod(
        Pod(pod), profile, profile.member("team-a", gang, member, record, NO_FACTS, grouped_as=("batch", "Job"))
    )
    return pod


async def health_of(
    key: GangKey, *objects: tuple[str, dict[str, Any]], pods: tuple[dict[str, Any], ...] = ()
) -> GangHealth:
    cluster = opted_in_world(*objects, *((PODS, pod) for pod in pods))
    async with running(cluster) as started:
        await until(lambda: started.idle and not any(started.following.unseen()))
        health = started.following.health(key)
    assert health is not None
    return health


def ended() -> dict[str, Any]:
    return {**job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def unprepared(pod: dict[str, Any]) -> dict[str, Any]:
    for label in ("rollcall.dev/gang", "rollcall.dev/gang-member"):
        pod["metadata"]["labels"].pop(label, None)
    return pod


def key(gang: str, kind: str, name: str) -> GangKey:
    return GangKey("team-a", gang, kind, name)


# The gang, its workload, its pods, and its state with the reasons and what each text names.
Case = tuple[GangKey, tuple[str, dict[str, Any]], tuple[dict[str, Any], ...], GangState, list[tuple[GangReason, Text]]]
CASES: dict[str, Case] = {
    "one pod is missing": (
        TRAIN,
        (JOB_PATH, job()),
        (prepared(job_pod(0)),),
        GangState.HELD,
        [(GangReason.TOO_FEW_PODS, Text("train has 1 pod of the 2", "ResourceQuota", "describe job train -n team-a"))],
    ),
    "all are on nodes": (
        TRAIN,
        (JOB_PATH, job()),
        (prepared(job_pod(0, nodeName="n1")), prepared(job_pod(1, nodeName="n1"))),
        GangState.STARTED,
        [],
    ),
    "one is on a node": (
        TRAIN,
        (JOB_PATH, job()),
        (prepared(job_pod(0, nodeName="n1")), prepared(job_pod(1, GATE))),
        GangState.IN_PART,
        [(GangReason.IN_PART, Text("train has 1 of 2")), (GangReason.GATED, Text("train-1"))],
    ),
    "a Job that is suspended": (TRAIN, (JOB_PATH, job(suspend=True)), (), GangState.SUSPENDED, []),
    "a Job that is done": (TRAIN, (JOB_PATH, ended()), (), GangState.ENDED, []),
    "a scheduler that is not enabled": (
        TRAIN,
        (JOB_PATH, job(scheduler="slurm")),
        (job_pod(0), job_pod(1)),
        GangState.HELD,
        [(GangReason.NO_PROFILE, Text("its Job"))],
    ),
    "a Job with a tail": (
        TRAIN,
        (JOB_PATH, job(completions=5)),
        (),
        GangState.HELD,
        [(GangReason.INEXPRESSIBLE, Text("owner/completions at spec.completions: 5: only 2 of the pods"))],
    ),
    "pods that bypassed the webhook": (
        TRAIN,
        (JOB_PATH, job()),
        (unprepared(job_pod(0)), unprepared(job_pod(1))),
        GangState.HELD,
        [
            (
                GangReason.ESCAPED,
                Text(
                    "2 pods (train-0, train-1) bypassed",
                    "without a mark",
                    "its Job counts",
                    "delete pod train-0 train-1 -n team-a",
                ),
            )
        ],
    ),
    "a part that starts after another": (
        key("x-b", "JobSet", "x"),
        (JOB_SET_PATH, job_set("x", ("a", 1), ("b", 2), **IN_TURN)),
        (),
        GangState.LATER,
        [],
    ),
    "a part that starts first": (
        key("x-a", "JobSet", "x"),
        (JOB_SET_PATH, job_set("x", ("a", 1), ("b", 2), **IN_TURN)),
        (),
        GangState.HELD,
        [(GangReason.TOO_FEW_PODS, Text("x-a has 0 pods of the 1"))],
    ),
    "pods of a part that bypassed the webhook": (
        key("x-b", "JobSet", "x"),
        (JOB_SET_PATH, job_set("x", ("a", 1), ("b", 1), **IN_TURN)),
        (job_set_pod("b", 0, of="x"),),
        GangState.HELD,
        [(GangReason.ESCAPED, Text("1 pod (x-b-0-0) bypassed"))],
    ),
    "a group with one of its pods": (
        key("serve-0-new", "LeaderWorkerSet", "serve"),
        (LWS_PATH, lws()),
        (prepared(lws_pod(0, 0, "new")), prepared(lws_pod(1, 0, "new"))),
        GangState.HELD,
        [(GangReason.TOO_FEW_PODS, Text("serve-0-new has 1 pod of the 2"))],
    ),
}


@pytest.mark.parametrize(("gang", "workload", "pods", "state", "expected"), CASES.values(), ids=CASES)
async def test_a_gang_of_an_opted_in_workload_has_the_expected_health(
    gang: GangKey,
    workload: tuple[str, dict[str, Any]],
    pods: tuple[dict[str, Any], ...],
    state: GangState,
    expected: list[tuple[GangReason, Text]],
) -> None:
    found = await health_of(gang, workload, pods=pods)
    assert found.state == state
    assert [(obstacle.reason, str(obstacle)) for obstacle in found.obstacles] == expected
    assert (found.kind, found.workload) == (gang.kind, gang.workload)


async def test_events_of_a_leader_worker_set_s_group_are_sent_to_the_set_with_the_group_name() -> None:
    cluster = opted_in_world((LWS_PATH, lws()))
    for index in range(2):
        cluster.put(PODS, prepared(lws_pod(index, 0, "new")))
    async with running(cluster) as found:
        await until(lambda: len(cluster.events) == 2)
        notes = sorted(event["note"] for event in cluster.events)
        start = "gang serve-{0}-new: The gang does not start: serve-{0}-new has 1 pod of the 2 "
        assert [note.startswith(start.format(index)) for index, note in enumerate(notes)] == [True, True]
        assert {event["regarding"]["name"] for event in cluster.events} == {"serve"}
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        assert sample(found, "rollcall_gangs", **held) == 2


async def test_a_deleted_gang_is_no_longer_counted() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    async with running(cluster) as found:
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        await until(lambda: sample(found, "rollcall_gangs", **held) == 1)
        cluster.remove(JOB_PATH, "team-a", "train")
        await until(lambda: sample(found, "rollcall_gangs", **held) == 0)


async def test_escaped_pods_of_a_job_are_counted_and_never_deleted() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    for index in range(2):
        cluster.put(PODS, unprepared(job_pod(index)))
    settings = replace(koordinator(standalone=False), deleted_escapes=frozenset({"unmutated"}))
    async with running(cluster, settings=settings) as found:
        astray = {"scheduler": "koord-scheduler", "escape": "unmutated"}
        await until(lambda: sample(found, "rollcall_escaped_pods", **astray) == 2)
        # When the warning came, deletion has had its turn.
        await until(lambda: "GangPodsEscaped" in [event["reason"] for event in cluster.events])
        assert names(cluster) == ["train"]
        assert [method for method, _ in cluster.writes] == ["PATCH"]


@pytest.mark.parametrize("said", ["9" * 5000, "12345678901", "-1", "two", ""])
def test_an_invalid_group_size_is_ignored_and_ends_no_watch(said: str) -> None:
    pod = lws_pod(0, 0, "old")
    pod["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/size"] = said
    assert read_opted_in_pod(pod)[1].size is None


async def test_a_job_with_the_label_of_a_pod_clique_set_is_not_judged_by_that_set() -> None:
    """Kubernetes recommends the label by which Grove names the set of an object."""
    manifest = job()
    manifest["metadata"].setdefault("labels", {})["app.kubernetes.io/part-of"] = "demo"
    cluster = opted_in_world((JOB_PATH, manifest))
    cluster.put(SETS, workload())
    async with running(cluster) as started:
        await until(lambda: started.idle and not any(started.following.unseen()))
        seen = started.following.observed(TRAIN)
    assert seen is not None
    assert (seen.workload, seen.outcomes) == (None, None)
