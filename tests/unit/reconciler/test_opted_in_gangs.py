"""The gangs of Jobs, JobSets and LeaderWorkerSets: which exist, their objects, and when these are deleted."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.gated_pods import Opened
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
from tests.unit.reconciler.running_reconciler import GROUPS, SETS, names, put_gang, running, sample, workload
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.model.known_kinds import JOB_SETS


def group(cluster: WritableWorld, name: str) -> dict[str, Any]:
    found = cluster.get(GROUPS, "team-a", name)
    assert found is not None
    return found


async def test_the_objects_of_a_job_follow_its_size_and_are_deleted_with_it() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["train"])
        written = group(cluster, "train")
        assert written["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "job-train",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        labels = {
            "app.kubernetes.io/managed-by": "rollcall",
            "rollcall.dev/gang": "train",
            "rollcall.dev/gang-member": "train",
        }
        assert written["metadata"]["labels"] == labels
        assert written["spec"]["minMember"] == 2
        cluster.apply(JOB_PATH, job(pods=3))
        await until(lambda: group(cluster, "train")["spec"]["minMember"] == 3)
        await until(lambda: found.idle)
        before = len(cluster.writes)
        found.following.look_at_all()
        await until(lambda: found.idle)
        assert len(cluster.writes) == before


async def test_a_job_that_is_not_opted_in_or_belongs_to_a_job_set_is_ignored() -> None:
    part, other = job("part"), job("other")
    reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "x", "controller": True}
    part["metadata"]["ownerReferences"] = [reference]
    del other["metadata"]["labels"]
    cluster = opted_in_world((JOB_PATH, part), (JOB_PATH, other), (JOB_PATH, job()))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["train"])
        await until(lambda: found.idle)
        assert names(cluster) == ["train"]


async def test_a_job_that_opted_out_is_no_gang_and_its_pods_are_no_escapes() -> None:
    out = job("report", scheduler="none")
    cluster = opted_in_world((JOB_PATH, job()), (JOB_PATH, out), (PODS, job_pod(0, of="report")))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["train"])
        await until(lambda: found.idle)
        assert sample(found, "rollcall_left_alone_total", why="noProfile") == 0
        assert [event for event in cluster.events if "report" in str(event)] == []


async def test_a_suspended_job_gets_objects_only_when_it_is_resumed() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["train"])
        cluster.apply(JOB_PATH, job(suspend=True))
        await until(lambda: names(cluster) == [])
        assert sample(found, "rollcall_left_alone_total", why="suspended") > 0
        cluster.apply(JOB_PATH, job(pods=3, suspend=False))
        await until(lambda: names(cluster) == ["train"])
        assert group(cluster, "train")["spec"]["minMember"] == 3


async def test_a_job_set_is_one_gang_with_a_member_for_each_replicated_job() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("leader", 1), ("worker", 3))))
    async with running(cluster):
        await until(lambda: names(cluster) == ["x-leader", "x-worker"])
        assert group(cluster, "x-worker")["metadata"]["labels"]["rollcall.dev/gang"] == "x"
        listed = group(cluster, "x-worker")["metadata"]["annotations"]["gang.scheduling.koordinator.sh/groups"]
        assert listed == '["team-a/x-leader","team-a/x-worker"]'


async def test_replicated_jobs_that_start_in_turn_are_separate_gangs_with_their_own_objects() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("a", 1), ("b", 2), **IN_TURN)))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["x-a", "x-b"])
        assert group(cluster, "x-b")["metadata"]["labels"]["rollcall.dev/gang"] == "x-b"
        cluster.apply(JOB_SET_PATH, job_set("x", ("a", 1), **IN_TURN))
        await until(lambda: names(cluster) == ["x-a"])
        await until(lambda: found.idle)
        assert [path for method, path in cluster.writes if method == "DELETE"] == [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a/podgroups/x-b"
        ]


async def test_a_group_of_a_leader_worker_set_has_objects_while_it_has_pods_and_its_revision_says_its_size() -> None:
    cluster = opted_in_world((LWS_PATH, lws(size=3)))
    async with running(cluster) as found:
        await until(lambda: found.idle)
        assert names(cluster) == [], "no pods, no groups"
        cluster.put(PODS, lws_pod(0, 0, "old"))
        cluster.put(PODS, lws_pod(1, 0, "old"))
        await until(lambda: names(cluster) == ["serve-0-old", "serve-1-old"])
        # The set has grown since; the pods say the size of the revision that they are of.
        assert group(cluster, "serve-0-old")["spec"]["minMember"] == 2
        cluster.put(PODS, lws_pod(0, 0, "new", size=3))
        await until(lambda: names(cluster) == ["serve-0-new", "serve-0-old", "serve-1-old"])
        assert group(cluster, "serve-0-new")["spec"]["minMember"] == 3
        cluster.remove(PODS, "team-a", "serve-0-0-old")
        await until(lambda: names(cluster) == ["serve-0-new", "serve-1-old"])


async def test_leftover_objects_of_a_group_without_pods_are_found_at_the_start() -> None:
    cluster = opted_in_world((LWS_PATH, lws()))
    cluster.put(PODS, lws_pod(0, 0, "new"))
    owner = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "name": "serve",
        "uid": "lws-serve",
        "controller": True,
    }
    labels = {"app.kubernetes.io/managed-by": "rollcall", "rollcall.dev/gang": "serve-0-old"}
    metadata = {
        "name": "serve-0-old",
        "namespace": "team-a",
        "uid": "o",
        "labels": labels,
        "ownerReferences": [owner],
    }
    cluster.put(GROUPS, {"metadata": metadata, "spec": {"minMember": 2}})
    async with running(cluster):
        await until(lambda: names(cluster) == ["serve-0-new"])


async def test_a_job_a_job_set_and_a_podgang_with_one_name_are_distinguished() -> None:
    cluster = opted_in_world((SETS, workload()), (JOB_PATH, job("demo-0")), (JOB_SET_PATH, job_set("demo-0", ("b", 2))))
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0", "demo-0-a", "demo-0-b"])
        kinds = {name: group(cluster, name)["metadata"]["ownerReferences"][0]["kind"] for name in names(cluster)}
        assert kinds == {"demo-0": "Job", "demo-0-a": "PodCliqueSet", "demo-0-b": "JobSet"}
        cluster.apply(JOB_PATH, job("demo-0", suspend=True))
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        assert len(cluster.writes) == 4


async def test_the_gate_is_removed_from_the_pods_of_a_job_when_all_exist() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    cluster.put(PODS, job_pod(0, GATE))
    opened = Opened(cluster)
    async with running(cluster, settings=koordinator(standalone=False, gate=True)) as found:
        await until(lambda: names(cluster) == ["train"])
        await until(lambda: found.idle)
        assert opened.order == []
        cluster.put(PODS, job_pod(1, GATE))
        await until(lambda: sorted(opened.order) == ["train-0", "train-1"])


async def test_the_gates_of_job_sets_that_start_in_turn_are_removed_part_by_part() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("a", 1), ("b", 2), **IN_TURN)))
    cluster.put(PODS, job_set_pod("a", 0, GATE, of="x", gang="x-a"))
    cluster.put(PODS, job_set_pod("b", 0, GATE, of="x", gang="x-b"))
    opened = Opened(cluster)
    async with running(cluster, settings=koordinator(standalone=False, gate=True)) as found:
        await until(lambda: opened.order == ["x-a-0-0"])
        await until(lambda: found.idle)
        cluster.put(PODS, job_set_pod("b", 1, GATE, of="x", gang="x-b"))
        await until(lambda: sorted(opened.order) == ["x-a-0-0", "x-b-0-0", "x-b-0-1"])


async def test_a_job_waits_for_the_deletion_of_objects_of_an_earlier_job_with_its_name() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "before", "controller": True}
    metadata = {"name": "train", "namespace": "team-a", "uid": "o", "ownerReferences": [owner]}
    cluster = opted_in_world((GROUPS, {"metadata": metadata, "spec": {"minMember": 9}}), (JOB_PATH, job()))
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="waiting") > 0)
        assert (cluster.writes, cluster.events) == ([], [])
        cluster.remove(GROUPS, "team-a", "train")
        await until(lambda: names(cluster) == ["train"])
        assert group(cluster, "train")["spec"]["minMember"] == 2


async def test_a_changed_owner_reference_or_label_is_restored() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    async with running(cluster):
        await until(lambda: names(cluster) == ["train"])
        loose = group(cluster, "train")
        del loose["metadata"]["ownerReferences"]
        cluster.tell(GROUPS, "MODIFIED", loose)
        await until(lambda: group(cluster, "train")["metadata"].get("ownerReferences"))
        labels = {"rollcall.dev/gang": "other"}
        cluster.apply(GROUPS, {"metadata": {"name": "train", "namespace": "team-a", "labels": labels}})

        def back() -> bool:
            found = cluster.get(GROUPS, "team-a", "train")
            return found is not None and found["metadata"]["labels"]["rollcall.dev/gang"] == "train"

        await until(back)


async def test_a_name_longer_than_a_label_is_one_gang() -> None:
    name = "serve-" + "x" * 54
    cluster = opted_in_world((LWS_PATH, lws(name)))
    pods = [lws_pod(0, index, "abcdef", GATE, of=name) for index in range(2)]
    for pod in pods:
        # As the pod's mutation cuts them: ten digits of the SHA-256 of the whole name.
        gang = f"{name[:52]}-{hashlib.sha256(f'{name}-0-abcdef'.encode()).hexdigest()[:10]}"
        pod["metadata"]["labels"] |= {"rollcall.dev/gang": gang, "rollcall.dev/gang-member": gang}
        cluster.put(PODS, pod)
    opened = Opened(cluster)
    async with running(cluster, settings=koordinator(standalone=False, gate=True)):
        await until(lambda: len(opened.order) == 2)
        assert len(names(cluster)) == 1


async def test_a_removed_kind_removes_its_gangs() -> None:
    cluster = opted_in_world((JOB_SET_PATH, job_set("x", ("a", 1))))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["x-a"])
        assert len(found.following.gangs) == 1
        cluster.served.remove(JOB_SETS)
        await until(lambda: found.following.gangs == [])
        await until(lambda: found.idle)
        cluster.served.append(JOB_SETS)
        await until(lambda: len(found.following.gangs) == 1)


def _controlled(raw: dict[str, Any], owner: str) -> dict[str, Any]:
    reference = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": owner, "uid": "x"}
    raw["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return raw


async def test_leader_worker_sets_that_name_each_other_as_their_controllers_keep_no_gang_from_its_objects() -> None:
    """Any user may write an owner reference."""
    chain = [_controlled(lws(f"a{index}"), f"a{index + 1}") for index in range(1200)]
    circle = [_controlled(lws("self"), "self"), _controlled(lws("one"), "two"), _controlled(lws("two"), "one")]
    cluster = opted_in_world((JOB_PATH, job()))
    for one in [*chain, *circle]:
        cluster.put(LWS_PATH, one)
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["train"])
        await until(lambda: not any("LeaderWorkerSet" in message for message in found.following.unseen()))
