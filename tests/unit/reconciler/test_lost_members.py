"""Gangs that lost pods: what is noticed, told and stored, and what a new reconciler knows of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import httpx
import pytest

from tests.texts import Text
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, grove_pod, name_pods, pod_clique, put_pods
from tests.unit.reconciler.lost_members import (
    MAPS,
    NODES,
    SYSTEM,
    change,
    delete,
    lost,
    pod,
    started,
    stored,
    take,
    whole,
)
from tests.unit.reconciler.opted_in_workloads import JOB_PATH, job, job_pod, opted_in_world
from tests.unit.reconciler.running_reconciler import GANGS, podgang, running, sample, world
from tests.waiting import until
from webhook.reconciler import held_gangs


def fail(cluster: WritableWorld) -> None:
    change(cluster, "two", status={"phase": "Failed"})


WAYS: dict[str, tuple[Callable[[WritableWorld], None], str]] = {
    "a scheduler preempts it": (lambda cluster: take(cluster, "PreemptionByScheduler"), "preemption"),
    "its node gets a taint": (lambda cluster: take(cluster, "DeletionByTaintManager"), "nodeLoss"),
    "it is evicted": (lambda cluster: take(cluster, "EvictionByEvictionAPI"), "eviction"),
    "its node is gone, and it is still there": (lambda cluster: cluster.remove(NODES, None, "n2"), "nodeLoss"),
    "it is deleted": (delete, "deletion"),
    "it fails": (fail, "failure"),
}


@pytest.mark.parametrize(("lose", "cause"), WAYS.values(), ids=WAYS.keys())
async def test_a_lost_pod_is_told_counted_and_stored_with_its_cause(
    lose: Callable[[WritableWorld], None], cause: str
) -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        lose(cluster)
        await until(lambda: lost(cluster) == [("two", cause, "n2")])
        labels = {"scheduler": "koord-scheduler"}
        await until(lambda: sample(found, "rollcall_gangs_lost_members", cause=cause, **labels) == 1)
        assert sample(found, "rollcall_idle_gpus", **labels) == 4
        await until(lambda: 0 < sample(found, "rollcall_idle_gpu_hours", **labels) < 1)
        await until(lambda: cluster.events)
        assert cluster.events[0]["reason"] == "GangLostMembers"
        assert cluster.events[0]["note"] == Text(
            "lost members: ",
            f": two ({cause}, n2); ",
            "1 pod with 4 GPUs, 0.0 GPU hours",
            "is idle; ",
        )


async def test_many_gangs_that_lost_pods_share_an_event_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_gangs, "OWN_EVENTS", 1)
    cluster = started()
    other = podgang("demo-1-a")
    other["metadata"] |= {"name": "demo-1", "uid": "gang-1"}
    cluster.put(GANGS, other)
    cluster.put(CLIQUES, pod_clique("demo-1-a"))
    for name, node in (("three", "n1"), ("four", "n2")):
        found = pod(name, node)
        of_other = grove_pod(name, "demo-1-a", "demo-1")["metadata"]
        put_pods(cluster, found | {"metadata": found["metadata"] | of_other})
    async with running(cluster, **SYSTEM) as reconciler:
        await whole(reconciler, 2)
        cluster.remove(PODS, "team-a", "two")
        cluster.remove(PODS, "team-a", "four")
        await until(lambda: any("series" in event for event in cluster.events))
        (shared,) = [event for event in cluster.events if event["regarding"]["kind"] == "Namespace"]
        assert shared["note"] == Text("have lost members, ")


async def test_a_gang_that_is_whole_again_leaves_no_record() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        put_pods(cluster, pod("three"))
        await until(lambda: not cluster.objects.get(MAPS))
        assert sample(found, "rollcall_gangs_lost_members", scheduler="koord-scheduler", cause="deletion") == 0


async def test_a_gang_that_is_gone_leaves_no_record() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: not cluster.objects.get(MAPS))


async def test_a_node_that_comes_back_takes_the_loss_back() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        cluster.remove(NODES, None, "n2")
        await until(lambda: stored(cluster))
        cluster.put(NODES, {"metadata": {"name": "n2"}})
        await until(lambda: not cluster.objects.get(MAPS))
        await whole(found)


async def test_a_new_reconciler_knows_what_is_stored_and_calls_the_rest_unknown() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        take(cluster, "PreemptionByScheduler")
        await until(lambda: stored(cluster))
    before = stored(cluster)
    cluster.writes.clear()
    cluster.remove(PODS, "team-a", "two")
    async with running(cluster, **SYSTEM) as found:
        labels = {"scheduler": "koord-scheduler", "cause": "preemption"}
        await until(lambda: sample(found, "rollcall_gangs_lost_members", **labels) == 1)
        assert stored(cluster) == before
    assert not [path for _, path in cluster.writes if "configmaps" in path], "nothing changed"


async def test_a_pod_that_was_lost_while_no_reconciler_ran_is_unknown() -> None:
    cluster = started()
    cluster.objects[PODS] = [one for one in cluster.objects[PODS] if one["metadata"]["name"] == "one"]
    async with running(cluster, **SYSTEM):
        await until(lambda: lost(cluster) == [("two", "unknown", "")])


async def test_a_pod_that_is_still_there_says_what_took_it_while_no_reconciler_ran() -> None:
    cluster = started()
    fail(cluster)
    name_pods(cluster)
    async with running(cluster, **SYSTEM):
        await until(lambda: lost(cluster) == [("two", "failure", "n2")])


async def test_a_pod_that_was_lost_after_the_record_was_stored_and_before_the_next_reconciler_is_added() -> None:
    cluster = world("demo-0-a", "demo-0-b")
    for node in ("n1", "n2"):
        cluster.put(NODES, {"metadata": {"name": node}})
    others = [pod("three"), pod("four")]
    for one in others:
        one["metadata"]["labels"]["grove.io/podclique"] = "demo-0-b"
        one["metadata"]["ownerReferences"][0] |= {"name": "demo-0-b", "uid": "clique-demo-0-b"}
    put_pods(cluster, pod("one"), pod("two", "n2"), *others)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
    cluster.remove(PODS, "team-a", "three")
    async with running(cluster, **SYSTEM):
        await until(lambda: lost(cluster) == [("two", "deletion", "n2"), ("three", "unknown", "")])


async def test_the_end_of_a_pod_that_no_gang_claims_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = started()
    orphan = pod("orphan")
    orphan["metadata"]["labels"]["grove.io/podgang"] = "no-such-gang"
    cluster.put(PODS, orphan)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        cluster.remove(PODS, "team-a", "orphan")
        await until(lambda: found.losses._watch._ends)
        await until(lambda: not found.losses._watch._ends)
        assert not found.losses._watch._recent


async def test_a_pod_of_another_owner_is_not_lost() -> None:
    cluster = started()
    stranger = pod("stranger")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "of another PodClique"
    cluster.put(PODS, stranger)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        cluster.remove(PODS, "team-a", "stranger")
        delete(cluster)
        await until(lambda: lost(cluster) == [("two", "deletion", "n2")])


async def test_a_gang_that_grows_has_lost_nothing() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        gang = deepcopy(cluster.get(GANGS, "team-a", "demo-0"))
        assert gang is not None
        gang["spec"]["podgroups"][0]["minReplicas"] = 3
        cluster.apply(GANGS, gang)
        await until(lambda: cluster.events)
        assert cluster.events[0]["reason"] != "GangLostMembers"
        assert stored(cluster) == []


async def test_a_process_that_does_not_lead_stores_and_counts_nothing() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        found.losses._leads = lambda: False
        delete(cluster)
        labels = {"scheduler": "koord-scheduler", "health": "GangLostMembers"}
        await until(lambda: sample(found, "rollcall_gangs", **labels) == 1)
        assert sample(found, "rollcall_gangs_lost_members", scheduler="koord-scheduler", cause="deletion") == 0
        assert stored(cluster) == []
        found.losses._leads = lambda: True
        await until(lambda: lost(cluster) == [("two", "deletion", "n2")])


async def test_records_that_cannot_be_written_are_written_later() -> None:
    cluster = started()
    refused: list[httpx.Request] = []

    def refusing(request: httpx.Request) -> httpx.Response | None:
        if "configmaps" not in request.url.path or len(refused) > 1:
            return None
        refused.append(request)
        return httpx.Response(500, json={"message": "away"})

    cluster.answering = refusing
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: lost(cluster) == [("two", "deletion", "n2")])
    assert len(refused) == 2


async def test_records_that_others_spoiled_stop_nothing() -> None:
    cluster = started()
    for number, data in enumerate(({"losses": "["}, {"losses": "[]"}, {}, {"other": "text"})):
        metadata = {"name": f"rollcall-losses-{number}", "namespace": "rollcall-system", "uid": f"m{number}"}
        cluster.put(MAPS, {"metadata": metadata, "data": data})
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: lost(cluster) == [("two", "deletion", "n2")])


async def test_a_job_has_records_too() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    pods = [job_pod(index, nodeName="n1") for index in range(2)]
    for one in pods:
        cluster.put(PODS, one)
    cluster.put(NODES, {"metadata": {"name": "n1"}})
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        name = pods[1]["metadata"]["name"]
        change(cluster, name, status={"phase": "Failed"})
        await until(lambda: lost(cluster) == [(name, "failure", "n1")])
        assert stored(cluster)[0][0][2:] == ["Job", "train"]
