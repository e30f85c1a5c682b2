"""Gangs that lost pods: what is noticed, told and stored, and what a new reconciler knows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import httpx
import pytest

from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, grove_pod, name_pods, pod_clique, put_pods
from tests.unit.reconciler.opted_in_workloads import JOB_PATH, job, job_pod, opted_in_world
from tests.unit.reconciler.running_reconciler import GANGS, looked, podgang, reconciler, running, sample, until, world
from webhook.gangs.key import GangKey
from webhook.gangs.losses import Loss
from webhook.reconciler import held_gangs, loss_store, loss_watch
from webhook.reconciler.loss_conditions import LossConditions
from webhook.reconciler.run import Reconciler
from webhook.reconciler.writer import Writer

pytestmark = pytest.mark.usefixtures("hurried")

NODES, MAPS = "/api/v1/nodes", "/api/v1/configmaps"
SYSTEM = {"lease_namespace": "rollcall-system"}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_watch, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(loss_store, "WRITE_SECONDS", 0.05)
    monkeypatch.setattr(loss_store, "RETRY_SECONDS", 0.05)


def pod(name: str, node: str = "n1") -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    found = grove_pod(name, nodeName=node, containers=[{"name": "main", **limits}])
    found["metadata"] |= {"resourceVersion": "7", "creationTimestamp": "2026-09-01T12:00:00Z"}
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-09-01T12:00:00Z"}
    found["status"] = {"conditions": [placed]}
    return found


def started() -> WritableWorld:
    """A gang of two pods, each on a node of its own."""
    cluster = world("demo-0-a")
    for node in ("n1", "n2"):
        cluster.put(NODES, {"metadata": {"name": node}})
    put_pods(cluster, pod("one"), pod("two", "n2"))
    return cluster


async def whole(found: Reconciler, gangs: int = 1) -> None:
    labels = {"scheduler": "koord-scheduler", "health": "started"}
    await until(lambda: sample(found, "rollcall_gangs", **labels) == gangs)


def change(cluster: WritableWorld, name: str, **parts: Any) -> None:
    """The pod of that name changes."""
    raw = cluster.get(PODS, "team-a", name)
    assert raw is not None
    for part, value in parts.items():
        raw[part] = {**raw.get(part, {}), **value}
    cluster.tell(PODS, "MODIFIED", raw)


def take(cluster: WritableWorld, reason: str) -> None:
    """A controller says why it takes the second pod away, and deletes it."""
    change(cluster, "two", status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]})
    change(cluster, "two", metadata={"deletionTimestamp": "2026-09-01T12:00:00Z"})


def stored(cluster: WritableWorld) -> list[Any]:
    """What is stored of each gang. A record begins with the key of its gang, which is a list."""
    texts = [one["data"].get("losses", "") for one in cluster.objects.get(MAPS, [])]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("[[")]


def lost(cluster: WritableWorld) -> list[tuple[str, str, str]]:
    """Each lost pod that is stored, with its cause and node."""
    return [(name, cause, node) for record in stored(cluster) for name, cause, _, node in record[3]]


def delete(cluster: WritableWorld) -> None:
    cluster.remove(PODS, "team-a", "two")


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
        note = cluster.events[0]["note"]
        assert note.startswith("The gang has lost members: it has lost pods since 20")
        assert f": two ({cause}, n2); meanwhile 1 pod with 4 GPUs, 0.0 GPU hours so far, is idle; " in note


async def test_many_gangs_that_lost_pods_share_an_event_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_gangs, "OWN_EVENTS", 1)
    monkeypatch.setattr(held_gangs, "SERIES_SECONDS", (0.1, 60.0))
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
        assert shared["note"].startswith("Many gangs of this namespace have lost members, and share this event; ")


async def test_a_gang_that_is_whole_again_leaves_no_record() -> None:
    cluster = started()
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        put_pods(cluster, pod("three"))
        await until(lambda: not cluster.objects.get(MAPS))
        assert sample(found, "rollcall_gangs_lost_members", scheduler="koord-scheduler", cause="deletion") == 0


def conditions(cluster: WritableWorld) -> list[dict[str, Any]]:
    gang = cluster.get(GANGS, "team-a", "demo-0")
    assert gang is not None
    return list(gang.get("status", {}).get("conditions", []))


def patching(cluster: WritableWorld) -> Callable[[httpx.Request], httpx.Response | None]:
    """The status of PodGangs is changed as a real API server does it: if the version is that of the request."""

    def answer(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/podgangs/demo-0/status"):
            return None
        gang = cluster.get(GANGS, "team-a", "demo-0")
        assert gang is not None
        test, replaced = json.loads(request.content)
        assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "3"}
        assert replaced["path"] == "/status/conditions"
        gang["status"]["conditions"] = replaced["value"]
        return httpx.Response(200, json=gang)

    return answer


INITIALIZED = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated"}


async def test_a_podgang_has_a_condition_while_its_gang_lacks_pods() -> None:
    cluster = started()
    gang = cluster.get(GANGS, "team-a", "demo-0")
    assert gang is not None
    gang["metadata"]["resourceVersion"] = "3"
    gang["status"] = {"conditions": [INITIALIZED]}
    cluster.answering = patching(cluster)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: len(conditions(cluster)) == 2)
        ours = conditions(cluster)[1]
        assert (ours["type"], ours["status"], ours["reason"]) == ("rollcall.dev/LostMembers", "True", "Deletion")
        assert ours["message"] == f"lost since {ours['lastTransitionTime']}: two (deletion)"
        assert sample(found, "rollcall_writes_total", kind="PodGang", action="condition") == 1
    # The next leader removes it, if the gang has recovered in between.
    put_pods(cluster, pod("three"))
    async with running(cluster, **SYSTEM):
        await until(lambda: conditions(cluster) == [INITIALIZED])


async def test_a_podgang_that_grove_still_initializes_gets_no_condition() -> None:
    cluster = started()
    gang = cluster.get(GANGS, "team-a", "demo-0")
    assert gang is not None
    pending = {**INITIALIZED, "status": "False"}
    gang["status"] = {"conditions": [pending]}
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        await looked(found.health, 3)
        assert conditions(cluster) == [pending]


async def test_a_condition_that_is_refused_stops_no_record() -> None:
    cluster = started()
    gang = cluster.get(GANGS, "team-a", "demo-0")
    assert gang is not None
    gang["status"] = {"conditions": [INITIALIZED]}
    cluster.answering = lambda request: (
        httpx.Response(403, json={"message": "no"}) if request.url.path.endswith("/status") else None
    )
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        await looked(found.health, 3)
        put_pods(cluster, pod("three"))
        await until(lambda: not cluster.objects.get(MAPS))
    assert sum(path.endswith("/status") for _, path in cluster.writes) == 1, "it is not tried again at once"


async def test_conditions_that_one_namespace_refuses_delay_no_other() -> None:
    cluster = WritableWorld()
    patched: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/status"):
            return None
        namespace = request.url.path.split("/")[5]
        patched.append(namespace)
        return httpx.Response(403 if namespace == "crowd" else 200, json={"message": "no"})

    cluster.answering = answer
    losses = {}
    for namespace, name in [*(("crowd", f"demo-{index}") for index in range(20)), ("small", "demo-0")]:
        gang = podgang("demo-0-a", namespace=namespace)
        gang["metadata"] |= {"name": name, "uid": f"{namespace}-{name}", "resourceVersion": "3"}
        gang["status"] = {"conditions": [INITIALIZED]}
        cluster.put(GANGS, gang)
        losses[GangKey(namespace, name)] = Loss(f"{namespace}-{name}", "2026-09-01T12:00:00Z", (), 1)
    found = reconciler(cluster)
    client = found.following.client
    conditions = LossConditions(client, Writer(client, lambda: True, found.metrics))
    for _ in range(3):
        await conditions.keep(losses)
    assert sorted(patched) == ["crowd", "small"]
    await found.following.close()


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
    monkeypatch.setattr(loss_watch, "FORGET_SECONDS", 0.0)
    cluster = started()
    orphan = pod("orphan")
    orphan["metadata"]["labels"]["grove.io/podgang"] = "no-such-gang"
    cluster.put(PODS, orphan)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        cluster.remove(PODS, "team-a", "orphan")
        await looked(found.health, 5)
        assert found.losses._watch._ends == {}
        assert found.losses._watch._waiting == 0


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
