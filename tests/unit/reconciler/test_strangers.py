"""Pods that name a group of a gang by the mark of its scheduler and do not belong to it, while it runs in part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import pytest
from structlog.testing import capture_logs

from tests.played import PlayedClock
from tests.texts import Text
from tests.unit.reconciler.cluster import PODS, SERVED, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, GANGS, controlled_by, grove_pod, pod_clique, put_pods
from tests.unit.reconciler.opted_in_workloads import JOB_PATH, job, job_pod, opted_in_world
from tests.unit.reconciler.running_reconciler import SETS, looked, podgang, put_gang, running, sample, workload
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.backends.coscheduling import POD_GROUP as COSCHEDULING_GROUP
from webhook.backends.kai.keys import POD_GROUP as KAI_GROUP
from webhook.backends.kai.keys import pod_group_name
from webhook.backends.koordinator.keys import POD_GROUP as KOORDINATOR_GROUP
from webhook.backends.volcano.keys import POD_GROUP as VOLCANO_GROUP
from webhook.gangs.escapes import KEPT
from webhook.gangs.health import GangState
from webhook.gangs.key import GangKey
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.reconciler import health_watch
from webhook.reconciler.health_watch import PACES
from webhook.reconciler.manager import Reconciler

LISTED = "/api/v1/namespaces/{}/pods"


class Way(NamedTuple):
    """A way to name a group of the gang: its scheduler, the kinds of the gang's objects, and the mark."""

    scheduler: str
    kinds: tuple[Api, ...]
    mark: Mapping[str, Any]
    config: Mapping[str, Any] = {}


def kube(mark: Mapping[str, Any], *kinds: tuple[str, str]) -> Way:
    """A way of a kube-scheduler whose cluster serves these kinds, each in that version."""
    apis = tuple(Api("scheduling.k8s.io", version, kind) for kind, version in kinds)
    return Way("default-scheduler", apis, mark, {"gangScheduling": True})


OF_KAI = pod_group_name("team-a", "demo-0")
WAYS = {
    "koord-scheduler, label": Way(
        "koord-scheduler", (KOORDINATOR_GROUP,), {"labels": {"pod-group.scheduling.sigs.k8s.io": "demo-0-a"}}
    ),
    "koord-scheduler, old label": Way(
        "koord-scheduler", (KOORDINATOR_GROUP,), {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "demo-0-a"}}
    ),
    "koord-scheduler, annotation": Way(
        "koord-scheduler", (KOORDINATOR_GROUP,), {"annotations": {"gang.scheduling.koordinator.sh/name": "demo-0-a"}}
    ),
    "volcano, annotation": Way(
        "volcano", (VOLCANO_GROUP,), {"annotations": {"scheduling.k8s.io/group-name": "demo-0"}}
    ),
    "kai-scheduler, annotation": Way(
        "kai-scheduler", (KAI_GROUP,), {"annotations": {"pod-group-name": OF_KAI}}, {"defaultQueue": "queue"}
    ),
    "coscheduling, label": Way(
        "scheduler-plugins-scheduler", (COSCHEDULING_GROUP,), {"labels": {"scheduling.x-k8s.io/pod-group": "demo-0"}}
    ),
    "kube-scheduler 1.37 with trees, field": kube(
        {"schedulingGroup": {"podGroupName": "demo-0-a"}},
        ("Workload", "v1beta1"),
        ("PodGroup", "v1beta1"),
        ("CompositePodGroup", "v1alpha3"),
    ),
    "kube-scheduler 1.37, field": kube(
        {"schedulingGroup": {"podGroupName": "demo-0"}}, ("Workload", "v1beta1"), ("PodGroup", "v1beta1")
    ),
    "kube-scheduler 1.36, field": kube(
        {"schedulingGroup": {"podGroupName": "demo-0"}}, ("Workload", "v1alpha2"), ("PodGroup", "v1alpha2")
    ),
    "kube-scheduler 1.35, field": kube({"workloadRef": {"name": "demo-0"}}, ("Workload", "v1alpha1")),
}
KOORDINATOR = WAYS["koord-scheduler, label"]


def stranger(mark: Mapping[str, Any], name: str = "stranger", **parts: Any) -> dict[str, Any]:
    """A pod of a user with that mark."""
    metadata = {"name": name, "namespace": "team-a", "uid": name, "labels": {}, **parts}
    metadata |= {part: mark[part] for part in ("labels", "annotations") if part in mark}
    spec = {part: value for part, value in mark.items() if part not in {"labels", "annotations"}}
    return {"metadata": metadata, "spec": {"nodeName": "n2", **spec}, "status": {"phase": "Running"}}


def cluster_of(way: Way) -> WritableWorld:
    """A gang that needs two pods, and whose scheduler is that of `way`."""
    groups = [Resource(api, f"{api.kind.lower()}s") for api in way.kinds]
    cluster = WritableWorld(*SERVED, *groups)
    cluster.put(SETS, workload(scheduler=way.scheduler))
    put_gang(cluster, "demo-0-a")
    return cluster


def start_in_part(cluster: WritableWorld) -> None:
    """One of the gang's two pods is on a node, and the other waits."""
    put_pods(cluster, grove_pod("p", nodeName="n1"), grove_pod("q"))


def settings(way: Way) -> Any:
    return settings_of(way.scheduler, way.config, standalone=False, gate=False)


def unowned(found: Reconciler, way: Way = KOORDINATOR) -> float:
    return sample(found, "rollcall_escaped_pods", scheduler=way.scheduler, escape="unowned")


def lists(cluster: WritableWorld, namespace: str = "team-a") -> int:
    """How many pages of the pods of a namespace were asked for."""
    return cluster.asked.count(LISTED.format(namespace))


def pass_time(found: Reconciler, seconds: float = PACES[GangState.IN_PART].period) -> None:
    """Namespaces are due again."""
    assert isinstance(found.clock, PlayedClock)
    found.clock.move(seconds)


def state(found: Reconciler) -> str | None:
    known = [found.health.judgement(key) for key in found.following.gangs]
    return None if known == [] or known[0] is None else known[0].state.value


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_stranger_of_a_gang_in_part_is_counted_and_named_until_it_is_gone(way: Way) -> None:
    cluster = cluster_of(way)
    cluster.put(PODS, stranger(way.mark))
    start_in_part(cluster)
    async with running(cluster, settings=settings(way)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found, PACES[GangState.IN_PART].settle)
        await until(lambda: unowned(found, way) == 1)
        pass_time(found)
        await until(lambda: cluster.events)
        (event,) = [one for one in cluster.events if one["reason"] == "GangInPart"]
        assert event["note"] == Text("GangPodsUnowned: 1 pod (stranger) ", "uid")
        cluster.remove(PODS, "team-a", "stranger")
        pass_time(found)
        await until(lambda: unowned(found, way) == 0)
    assert [path for method, path in cluster.writes if method == "DELETE"] == []


async def test_a_gang_that_was_told_of_is_told_of_again_with_its_stranger() -> None:
    cluster = cluster_of(KOORDINATOR)
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: len(cluster.events) == 1)
        cluster.put(PODS, stranger(KOORDINATOR.mark))
        pass_time(found)
        await until(lambda: len(cluster.events) == 2)
    assert ["stranger" in one["note"] for one in cluster.events] == [False, True]


OTHERS: dict[str, dict[str, Any]] = {
    "it names no group": stranger({}),
    "it names another group": stranger({"labels": {"pod-group.scheduling.sigs.k8s.io": "another"}}),
    "it names the group by a mark of another scheduler": stranger(WAYS["volcano, annotation"].mark),
    "a label that its scheduler does not read": stranger(
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "another", "pod-group.scheduling.sigs.k8s.io/name": "demo-0-a"}}
    ),
    "it is being deleted": stranger(KOORDINATOR.mark, deletionTimestamp="2026-01-01T00:00:00Z"),
    "it has succeeded": {**stranger(KOORDINATOR.mark), "status": {"phase": "Succeeded"}},
    "it has failed": {**stranger(KOORDINATOR.mark), "status": {"phase": "Failed"}},
    "it is of another namespace": stranger(KOORDINATOR.mark, namespace="team-b"),
    "a PodClique of the gang's set made it": stranger(
        KOORDINATOR.mark, ownerReferences=controlled_by("PodClique", "demo-0-a", "clique-demo-0-a")
    ),
    "it cannot be read": stranger({"labels": {"pod-group.scheduling.sigs.k8s.io": ["demo-0-a"]}}),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_any_other_pod_is_no_stranger(other: dict[str, Any]) -> None:
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, other)
    cluster.put(PODS, stranger(KOORDINATOR.mark, "real-stranger"))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) > 0)
        assert unowned(found) == 1


FORGED = {
    "of a PodClique that is not there": controlled_by("PodClique", "demo-0-x", "clique-demo-0-a"),
    "of another uid": controlled_by("PodClique", "demo-0-a", "invented"),
    "of a PodClique of another set": controlled_by("PodClique", "other-0-a", "clique-other-0-a"),
    "of the set itself": controlled_by("PodCliqueSet", "demo", "set-team-a"),
}


@pytest.mark.parametrize("owners", FORGED.values(), ids=FORGED)
async def test_a_reference_to_a_controller_makes_no_member(owners: list[dict[str, Any]]) -> None:
    cluster = cluster_of(KOORDINATOR)
    other = pod_clique("other-0-a")
    other["metadata"]["ownerReferences"] = controlled_by("PodCliqueSet", "other", "set-other")
    cluster.put(CLIQUES, other)
    cluster.put(PODS, stranger(KOORDINATOR.mark, ownerReferences=owners))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 1)


async def test_the_strangers_of_a_job_are_pods_that_are_not_below_it() -> None:
    cluster = opted_in_world((JOB_PATH, job()), (JOB_PATH, job("other", 1)))
    mark = {"labels": {"pod-group.scheduling.sigs.k8s.io": "train"}}
    cluster.put(PODS, job_pod(0, nodeName="n1"))
    for one in (job_pod(1), job_pod(0, of="other", nodeName="n2")):
        one["metadata"]["labels"] |= mark["labels"]
        cluster.put(PODS, one)
    cluster.put(PODS, stranger({"labels": {**mark["labels"], "rollcall.dev/scheduler": "koord-scheduler"}}))
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        key = GangKey("team-a", "train", "Job", "train")
        await until(lambda: (known := found.health.judgement(key)) is not None and known.state.value == "inPart")
        pass_time(found)
        await until(lambda: key in found.following._strangers)
        assert [pod.name for pod in found.following._strangers[key].pods] == ["other-0", "stranger"]
        await until(lambda: unowned(found) == 2)


async def test_a_pod_with_the_gang_s_labels_counts_once() -> None:
    cluster = cluster_of(KOORDINATOR)
    forged = grove_pod("forged", nodeName="n2")
    del forged["metadata"]["ownerReferences"]
    forged["metadata"]["labels"] |= KOORDINATOR.mark["labels"]
    cluster.put(PODS, forged)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 2)
        pass_time(found)
        await looked(found.strangers, 3)
        assert unowned(found) == 2


async def test_the_strangers_of_a_held_gang_are_named_and_stay_known_when_it_starts_in_part() -> None:
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    put_pods(cluster, grove_pod("p"), grove_pod("q"))
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "held")
        pass_time(found, PACES[GangState.HELD].settle)
        await until(lambda: unowned(found) == 1)
        await until(lambda: any("stranger" in one["note"] for one in cluster.events))
        before = lists(cluster)
        waiting = cluster.get(PODS, "team-a", "q")
        assert waiting is not None
        waiting["spec"]["nodeName"] = "n1"
        cluster.tell(PODS, "MODIFIED", waiting)
        await until(lambda: state(found) == "inPart")
        assert (unowned(found), lists(cluster)) == (1, before)


async def test_gangs_in_part_come_before_gangs_that_are_held() -> None:
    cluster = cluster_of(KOORDINATOR)
    put_pods(cluster, grove_pod("p"), grove_pod("q"))
    for index in range(1200):
        cluster.put(PODS, stranger({}, f"other-{index:05}"))
    put_gang_of(cluster, "team-b")
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: all(found.strangers._namespaces.values()))
        pass_time(found, PACES[GangState.HELD].settle)
        await until(lambda: unowned(found) == 1)
        assert lists(cluster) <= 2 * PACES[GangState.HELD].pages


async def test_nothing_is_listed_while_no_gang_waits() -> None:
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "held")
        pass_time(found)
        await looked(found.strangers, 3)
        assert lists(cluster) == 0
        put_pods(cluster, grove_pod("p", nodeName="n1"), grove_pod("q", nodeName="n1"))
        await until(lambda: state(found) == "started")
        pass_time(found)
        await looked(found.strangers, 3)
        assert (lists(cluster), unowned(found)) == (0, 0)


async def test_a_gang_that_starts_is_searched_no_more_and_its_strangers_are_forgotten() -> None:
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 1)
        known = cluster.get(PODS, "team-a", "q")
        assert known is not None
        known["spec"]["nodeName"] = "n1"
        cluster.tell(PODS, "MODIFIED", known)
        await until(lambda: state(found) == "started" and unowned(found) == 0)
        before = lists(cluster)
        pass_time(found)
        await looked(found.strangers, 3)
        assert lists(cluster) == before
        assert found.following._strangers == {}


async def test_a_gang_that_is_gone_is_forgotten() -> None:
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 1)
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: unowned(found) == 0)
        assert found.following._strangers == {}
        assert not any(found.strangers._namespaces.values())


async def test_only_the_leader_searches() -> None:
    leading = False
    cluster = cluster_of(KOORDINATOR)
    cluster.put(PODS, stranger(KOORDINATOR.mark))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        found.strangers._leads = lambda: leading
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await looked(found.health, 3)
        assert (lists(cluster), unowned(found)) == (0, 0)
        leading = True
        await until(lambda: unowned(found) == 1)
        leading = False
        await until(lambda: unowned(found) == 0)
        leading = True
        await until(lambda: unowned(found) == 1)


def put_gang_of(cluster: WritableWorld, namespace: str) -> None:
    """The same gang in another namespace, in part and with a stranger."""
    cluster.put(SETS, workload(namespace))
    cluster.put(CLIQUES, pod_clique("demo-0-a", namespace))
    gang = podgang("demo-0-a", namespace=namespace)
    references = [{"namespace": namespace, "name": name} for name in ("p", "q")]
    gang["spec"]["podgroups"][0]["podReferences"] = references
    cluster.put(GANGS, gang)
    for name, spec in (("p", {"nodeName": "n1"}), ("q", {})):
        pod = grove_pod(name, **spec)
        pod["metadata"]["namespace"] = namespace
        cluster.put(PODS, pod)
    cluster.put(PODS, stranger(KOORDINATOR.mark, namespace=namespace))


@pytest.mark.parametrize("many", [1200, pytest.param(10_000, marks=pytest.mark.exhaustive)])
async def test_any_number_of_strangers_takes_little_room_and_delays_no_other_namespace(many: int) -> None:
    cluster = cluster_of(KOORDINATOR)
    long = "s" * 240
    for index in range(many):
        cluster.put(PODS, stranger(KOORDINATOR.mark, f"{long}{index:05}"))
    start_in_part(cluster)
    put_gang_of(cluster, "team-b")
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: len(found.strangers._namespaces[GangState.IN_PART]) == 2)
        pass_time(found)
        await until(lambda: unowned(found) == 1)
        assert lists(cluster) <= 8, "the pages of the other namespace have turns in between"
        await until(lambda: unowned(found) == many + 1)
        kept = next(one for one in found.following._strangers.values() if one.further)
        assert ([pod.name for pod in kept.pods], kept.further) == (
            [f"{long}{index:05}" for index in range(KEPT)],
            many - KEPT,
        )
        assert all(not (pod.labels or pod.annotations or pod.spec) for pod in kept.pods)
        pass_time(found)
        await until(lambda: any(f"{many - 3} more" in one["note"] for one in cluster.events))
    assert max(len(one["note"].encode()) for one in cluster.events) <= 1024


def put_two_pages_of_strangers(cluster: WritableWorld) -> None:
    """A gang in part, and as many pods with the mark of its group as a list has in two pages."""
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    for index in range(150):
        cluster.put(PODS, stranger(KOORDINATOR.mark, f"stranger-{index:03}"))
    start_in_part(cluster)


class Torn(WritableWorld):
    """A cluster whose lists of the pods of a namespace fail after the first page while `torn`."""

    torn = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.torn and request.url.path == LISTED.format("team-a") and "continue" in request.url.params:
            self.asked.append(request.url.path)
            return httpx.Response(500, json={"message": "no"})
        return await super().handle_async_request(request)


async def test_a_list_that_fails_keeps_what_was_found_and_is_tried_again_later() -> None:
    cluster = Torn(*SERVED, Resource(KOORDINATOR_GROUP, "podgroups"))
    put_two_pages_of_strangers(cluster)
    with capture_logs() as lines:
        async with running(cluster, settings=settings(KOORDINATOR)) as found:
            await until(lambda: state(found) == "inPart")
            pass_time(found)
            await until(lambda: unowned(found) == 150)
            cluster.torn = True
            cluster.remove(PODS, "team-a", "stranger-000")
            before = lists(cluster)
            pass_time(found)
            await until(lambda: lists(cluster) >= before + 2)
            await looked(found.strangers, 3)
            assert unowned(found) == 150
            cluster.torn = False
            pass_time(found, 600)
            await until(lambda: unowned(found) == 149)
    said = [line for line in lines if line["event"] == "strangers not read"]
    assert next((line["namespace"], line["failures"]) for line in said) == ("team-a", 1)


class Expiring(WritableWorld):
    """A cluster that has forgotten the version of a list by its second page, and goes on from there."""

    expired = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        token = request.url.params.get("continue", "")
        if request.url.path == LISTED.format("team-a") and token and not self.expired:
            self.expired += 1
            body = {"kind": "Status", "reason": "Expired", "message": "old", "metadata": {"continue": token}}
            return httpx.Response(410, json=body)
        return await super().handle_async_request(request)


async def test_a_list_that_takes_longer_than_its_version_is_kept_goes_on() -> None:
    cluster = Expiring(*SERVED, Resource(KOORDINATOR_GROUP, "podgroups"))
    put_two_pages_of_strangers(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 150)
    assert cluster.expired == 1


async def test_a_list_ends_after_so_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "MOST_PAGES", 2)
    cluster = cluster_of(KOORDINATOR)
    for index in range(350):
        cluster.put(PODS, stranger(KOORDINATOR.mark, f"stranger-{index:03}"))
    start_in_part(cluster)
    async with running(cluster, settings=settings(KOORDINATOR)) as found:
        await until(lambda: state(found) == "inPart")
        pass_time(found)
        await until(lambda: unowned(found) == 200)
        assert lists(cluster) == 2
