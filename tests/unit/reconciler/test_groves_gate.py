"""Pods that Grove has made and its PodGang does not name: the reconciler has Grove reconcile their set, if asked to."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.forgetful_scheduler import ForgetfulScheduler, prepared
from tests.unit.reconciler.gated_pods import GROVES, pod
from tests.unit.reconciler.grove import grove_pod, name_pods, put_pods
from tests.unit.reconciler.running_reconciler import SETS, looked, names, running, sample, world
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.config.settings import RemedySettings, Settings

SET = ("PATCH", "/apis/grove.io/v1alpha1/namespaces/team-a/podcliquesets/demo")


def remedying(*causes: str) -> Settings:
    return replace(koordinator(standalone=False), remedies=RemedySettings(frozenset(causes), 0.05, 0.05, 600))


def unnamed() -> WritableWorld:
    """A gang with two pods, of which its PodGang names none."""
    cluster = world("demo-0-a")
    for name in ("p", "q"):
        cluster.put(PODS, pod(name, GROVES))
    return cluster


def trigger(cluster: WritableWorld) -> str | None:
    found = cluster.get(SETS, "team-a", "demo")
    assert found is not None
    value: str | None = found["metadata"].get("annotations", {}).get("grove.io/reconcile-trigger")
    return value


async def test_the_trigger_of_the_set_is_changed_until_grove_names_the_pods() -> None:
    cluster = unnamed()
    async with running(cluster, settings=remedying("groveGate")) as found:
        await until(lambda: trigger(cluster) is not None)
        first = trigger(cluster)
        await until(lambda: trigger(cluster) != first)
        name_pods(cluster)

        def helped() -> float:
            return sample(found, "rollcall_remedies_total", cause="groveGate", outcome="helped")

        await until(lambda: helped() == 1)
        last, writes = trigger(cluster), cluster.writes.count(SET)
        await looked(found.health, 20)
        assert (trigger(cluster), cluster.writes.count(SET)) == (last, writes)
    # Nothing else of the set was written.
    stored = cluster.get(SETS, "team-a", "demo")
    assert stored is not None
    assert set(stored["metadata"]["annotations"]) == {"grove.io/reconcile-trigger"}


async def test_the_further_pods_of_a_running_gang_are_told_and_remedied() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, grove_pod("p", nodeName="n1"), grove_pod("q", nodeName="n1"))
    async with running(cluster, settings=remedying("groveGate")) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        cluster.put(PODS, pod("late", GROVES))
        await until(lambda: trigger(cluster) is not None)
        await until(lambda: "GangGated" in {event["reason"] for event in cluster.events})


@pytest.mark.parametrize("causes", [("forgotten",), ("forgotten", "groveGate")])
async def test_a_forgotten_gang_is_woken_while_a_further_pod_waits_for_grove(causes: tuple[str, ...]) -> None:
    scheduler = ForgetfulScheduler()
    scheduler.cluster.put(PODS, pod("late", GROVES))
    async with running(scheduler.cluster, settings=remedying(*causes)) as process:
        await until(lambda: sample(process, "rollcall_remedies_total", cause="forgotten", outcome="helped") == 1)
    assert len(scheduler.minimums) == 2


async def test_a_trigger_has_not_helped_while_the_pod_waits_though_the_gang_is_forgotten_then() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    cluster = scheduler.cluster
    gated = prepared("one")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    cluster.apply(PODS, gated)
    cluster.put(PODS, pod("late", GROVES))
    async with running(cluster, settings=remedying("forgotten", "groveGate")) as process:

        def outcomes(outcome: str) -> float:
            return sample(process, "rollcall_remedies_total", cause="groveGate", outcome=outcome)

        await until(lambda: trigger(cluster) is not None)
        # Its last other gate goes: from now on the gang lacks nothing but its scheduler's attention.
        gated["spec"]["schedulingGates"] = []
        cluster.apply(PODS, gated)
        await until(lambda: outcomes("notHelped") >= 1)
        assert outcomes("helped") == 0


@pytest.mark.parametrize("causes", [(), ("forgotten", "objectLeft", "oldMembership")])
async def test_without_the_cause_nothing_is_written(causes: tuple[str, ...]) -> None:
    cluster = unnamed()
    async with running(cluster, settings=remedying(*causes)) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await looked(found.health, 20)
    assert SET not in cluster.writes


async def test_a_set_of_the_same_name_that_came_meanwhile_is_not_changed() -> None:
    cluster = unnamed()
    cluster.answering = lambda request: (
        httpx.Response(409, json=failure(409, "the UID in the precondition does not match"))
        if request.url.path == SET[1]
        else None
    )
    async with running(cluster, settings=remedying("groveGate")) as found:
        await until(lambda: SET in cluster.writes)
        await looked(found.health, 20)
        assert sample(found, "rollcall_remedies_total", cause="groveGate", outcome="failed") == 0
    assert trigger(cluster) is None
