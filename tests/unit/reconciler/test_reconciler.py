"""The complete reconciler against a simulated cluster: its writes, and what it does if it may not write."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.played import elapse, run
from tests.texts import Text
from tests.unit.backends.pod_gangs import POD_GANG_OWNER
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import POD_GROUPS, SERVED, WritableWorld
from tests.unit.reconciler.grove import put_with_cliques
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    names,
    podgang,
    put_gang,
    reconciler,
    running,
    sample,
    workload,
    world,
)
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.errors import FactsUnavailable
from webhook.model.projections import POD_GANGS
from webhook.reconciler.manager import UNREAD_SECONDS, reconcile_once


async def test_needed_objects_are_written_once_and_unneeded_ones_deleted() -> None:
    cluster = world()
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        assert [method for method, _ in cluster.writes] == ["PATCH", "PATCH"]
        found.following.look_at_all()
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inStep") > 0)
        assert len(cluster.writes) == 2
        cluster.apply(GANGS, podgang("demo-0-a"))
        await until(lambda: names(cluster) == ["demo-0-a"])
        cluster.apply(GANGS, podgang("demo-0-a", minimum=3))
        await until(lambda: cluster.objects[GROUPS][0]["spec"]["minMember"] == 3)


async def test_rules_know_the_podgangs_and_these_are_read_once() -> None:
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        known = found.following.live.facts.pod_gangs
        assert known is not None
        assert {key: facts.cliques for key, facts in known.items()} == {("team-a", "demo-0"): frozenset({"demo-0-a"})}
        assert ("team-a", "other") not in known
        assert len(known) == 1
        # The list and the watch.
        assert cluster.asked.count(GANGS) == 2
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b"))
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        assert known["team-a", "demo-0"].cliques == frozenset({"demo-0-a", "demo-0-b"})


async def test_no_gang_of_a_podgang_is_tried_before_the_pods_are_read() -> None:
    """Its pods may have another name of the gang, with a gate or without."""
    cluster, listed = world("demo-0-a"), asyncio.Event()
    answer = cluster.handle_async_request

    async def slow(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/v1/pods" and "grove.io/podgang" in request.url.params.get("labelSelector", ""):
            await listed.wait()
        return await answer(request)

    cluster.handle_async_request = slow  # type: ignore[method-assign]
    async with running(cluster) as found:
        await until(lambda: list(found.unready()) == [Text("cluster: the Pod objects")])
        await elapse(5 * UNREAD_SECONDS)
        assert sample(found, "rollcall_reconcile_seconds_count") == 0
        listed.set()
        await until(lambda: names(cluster) == ["demo-0-a"])
        assert sample(found, "rollcall_reconciled_total", outcome="failed") == 0


async def test_a_changed_or_deleted_object_is_restored() -> None:
    cluster = world("demo-0-a")
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a"])
        changed = {"metadata": {"name": "demo-0-a", "namespace": "team-a"}, "spec": {"minMember": 7}}
        cluster.apply(GROUPS, changed)
        await until(lambda: cluster.objects[GROUPS][0]["spec"]["minMember"] == 2)
        cluster.remove(GROUPS, "team-a", "demo-0-a")
        await until(lambda: names(cluster) == ["demo-0-a"])


async def test_a_change_of_status_or_version_causes_no_write() -> None:
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.idle)
        before = sample(found, "rollcall_reconcile_seconds_count")
        group = cluster.objects[GROUPS][0]
        group |= {"status": {"phase": "Running"}}
        group["metadata"] |= {"resourceVersion": "77", "generation": 9}
        cluster.tell(GROUPS, "MODIFIED", group)
        # The same watch brings this object after the change; no gang owns it.
        cluster.put(GROUPS, {"metadata": {"name": "marker", "namespace": "team-b", "uid": "marker"}, "spec": {}})
        groups = found.following.stores.by_kind[POD_GROUPS.api]
        await until(lambda: ("team-b", "marker") in groups.objects and found.idle)
        assert sample(found, "rollcall_reconcile_seconds_count") == before


async def test_a_foreign_object_blocks_the_gang_and_causes_one_event() -> None:
    cluster = world()
    foreign = {"metadata": {"name": "demo-0-b", "namespace": "team-a", "uid": "f"}, "spec": {"minMember": 9}}
    cluster.put(GROUPS, foreign)
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="conflict") > 2)
        assert cluster.writes == []
        (event,) = cluster.events
        assert (event["reason"], event["type"]) == ("GangObjectOwned", "Warning")
        assert event["regarding"]["uid"] == "gang-team-a"
        assert event["note"].startswith(
            "PodGroup demo-0-b belongs to another manager (it has no label app.kubernetes.io/managed-by)"
        )
        cluster.remove(GROUPS, "team-a", "demo-0-b")
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])


async def test_the_reconciler_waits_for_an_object_in_deletion() -> None:
    cluster = world("demo-0-a")
    leaving = {
        "metadata": {
            "name": "demo-0-a",
            "namespace": "team-a",
            "uid": "old",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{**POD_GANG_OWNER, "uid": "gang-team-a"}],
        }
    }
    cluster.put(GROUPS, leaving)
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="waiting") > 0)
        assert cluster.writes == []
        cluster.remove(GROUPS, "team-a", "demo-0-a")
        await until(lambda: cluster.writes != [])


async def test_a_gang_that_its_scheduler_cannot_express_is_not_partly_written() -> None:
    cluster = world()
    gang = cluster.objects[GANGS][0]
    constraint = {"packConstraint": {"required": "example.com/rack"}}
    group = {"name": "g", "podGroupNames": ["demo-0-a"], "topologyConstraint": constraint}
    gang["spec"]["topologyConstraintGroupConfigs"] = [group]
    async with running(cluster) as found:
        await until(lambda: cluster.events != [])
        await until(lambda: found.idle)
        # A fact that is read late has it looked at once more.
        before = sample(found, "rollcall_reconciled_total", outcome="inexpressible")
        found.following.look_at_all()
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inexpressible") > before)
        assert (cluster.writes, len(cluster.events)) == ([], 1)
        assert "koordinator/scaling-group-topology" in cluster.events[0]["note"]


# With the word for it in the metric.
TROUBLES = {
    "a conflict": (httpx.Response(409, json=failure(409, "conflict")), "conflict"),
    "too many requests": (
        httpx.Response(429, json=failure(429, "slow down"), headers={"retry-after": "0"}),
        "throttled",
    ),
    "a server that is starting": (httpx.Response(503, content=b"apiserver not ready"), "failed"),
    "an answer that is none": (httpx.Response(200, content=b"<html>"), "unanswered"),
    "a refusal": (httpx.Response(422, json=failure(422, "invalid")), "refused"),
}


@pytest.mark.parametrize(("answer", "word"), TROUBLES.values(), ids=TROUBLES)
async def test_a_failed_write_is_retried_with_delays(answer: httpx.Response, word: str) -> None:
    cluster = world("demo-0-a")
    asked = 0

    def trouble(_: httpx.Request) -> httpx.Response | None:
        nonlocal asked
        asked += 1
        if asked > 4:
            return None
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    cluster.answering = trouble
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.idle)
        assert asked == 5
        # A gang that comes before its objects are read is tried again too, and counted apart.
        unread = sample(found, "rollcall_retries_total", why="unknown")
        outcome = "refused" if word == "refused" else "failed"
        assert sample(found, "rollcall_reconciled_total", outcome=outcome) - (unread if outcome == "failed" else 0) == 4
        assert outcome == "failed" or sample(found, "rollcall_reconciled_total", outcome="failed") == unread
        assert sample(found, "rollcall_queue_failing") == 0
        assert sample(found, "rollcall_retries_total", why=word) == 4


async def test_a_refusal_of_the_api_server_is_reported_once_with_its_message() -> None:
    cluster = world("demo-0-a")
    cluster.answering = lambda _: httpx.Response(422, json=failure(422, "spec.minMember: Invalid value"))
    async with running(cluster):
        await until(lambda: len(cluster.writes) > 3)
        (event,) = cluster.events
        assert event["reason"] == "GangObjectRefused"
        assert event["note"].endswith("HTTP 422: spec.minMember: Invalid value")


async def test_objects_of_a_kind_that_is_installed_later_are_written_then() -> None:
    cluster = WritableWorld(*SERVED)
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="failed") > 0)
        assert cluster.writes == []
        cluster.served.append(POD_GROUPS)
        await until(lambda: names(cluster) == ["demo-0-a"])


async def test_a_gang_is_written_when_its_workload_is_created_later() -> None:
    cluster = WritableWorld()
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        await until(lambda: found.queue.failing == 1)
        cluster.put(SETS, workload())
        await until(lambda: names(cluster) == ["demo-0-a"])


async def test_with_one_namespace_gangs_of_others_are_ignored() -> None:
    cluster = world("demo-0-a")
    cluster.put(SETS, workload("team-b"))
    put_with_cliques(cluster, podgang("demo-0-a", namespace="team-b"))
    async with running(cluster, namespace="team-b") as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.idle)
        assert [path.split("/")[5] for _, path in cluster.writes] == ["team-b"]


def test_once_exits_when_every_gang_is_complete() -> None:
    cluster = world()
    run(reconcile_once(reconciler(cluster)))
    assert names(cluster) == ["demo-0-a", "demo-0-b"]


def test_once_reports_a_gang_that_cannot_be_written() -> None:
    cluster = WritableWorld()
    put_gang(cluster, "demo-0-a")
    with pytest.raises(FactsUnavailable, match="1 gangs or topologies"):
        run(reconcile_once(reconciler(cluster)))


async def test_once_ends_with_an_error_if_a_gang_waits_for_another_system() -> None:
    cluster = world()
    cluster.put(GROUPS, {"metadata": {"name": "demo-0-b", "namespace": "team-a", "uid": "f"}, "spec": {"minMember": 9}})

    with pytest.raises(FactsUnavailable, match="1 gangs or topologies"):
        await reconcile_once(reconciler(cluster))


def unreachable() -> WritableWorld:
    cluster = world()
    cluster.failing = httpx.ConnectError("refused")
    return cluster


def forbidden(collection: str) -> WritableWorld:
    cluster = world()
    cluster.refused[collection] = httpx.Response(403, json=failure(403, "forbidden"))
    return cluster


UNREADABLE: dict[str, tuple[WritableWorld, Text]] = {
    "no answer": (unreachable(), Text("served kinds", "ConnectError: refused (https://cluster)")),
    "there is no right to": (forbidden(GANGS), Text("PodGang objects", "HTTP 403: forbidden")),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_once_exits_with_an_error_if_gangs_cannot_be_read(case: str) -> None:
    cluster, why = UNREADABLE[case]
    with pytest.raises(FactsUnavailable) as caught:
        run(reconcile_once(reconciler(cluster)))
    assert str(caught.value) == why


def test_once_reports_that_gangs_are_not_served() -> None:
    cluster = WritableWorld(*(kind for kind in SERVED if kind != POD_GANGS.resource))
    with pytest.raises(
        FactsUnavailable, match=r"does not serve scheduler\.grove\.io/v1alpha1 PodGang; is Grove installed"
    ):
        # The gangs of other workloads need no PodGangs, but this scheduler has none of them.
        run(reconcile_once(reconciler(cluster, settings=settings_of("lpx-scheduler", standalone=False))))


def test_a_dry_run_reads_and_changes_nothing() -> None:
    cluster = world()
    run(reconcile_once(reconciler(cluster, dry_run=True)))
    assert names(cluster) == []
    assert {path.rpartition("/")[2] for _, path in cluster.writes} == {"demo-0-a", "demo-0-b"}


async def test_a_process_without_the_lease_writes_nothing() -> None:
    cluster = world()
    async with running(cluster) as found:
        found.lease = None
        found.leads = lambda: False  # type: ignore[method-assign]
        await until(lambda: found.idle)
        assert cluster.writes == []
