"""Pods that only have a gang's labels: they neither complete, block nor freeze a gang, and they are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.gated_pods import GATED, GROVES, OURS, UNOWNED, Opened, pod
from tests.unit.reconciler.grove import CLIQUES, SCALING_GROUPS, controlled_by, name_pods, pod_clique, put_pods
from tests.unit.reconciler.running_reconciler import GANGS, names, podgang, running, sample, settled, world
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError
from webhook.reconciler.manager import Reconciler


def owned_by(kind: str, name: str, uid: str) -> Callable[..., dict[str, Any]]:
    """Forges a pod that says that this object made it."""

    def forged(name_of_pod: str, *gates: str) -> dict[str, Any]:
        found = pod(name_of_pod, *gates)
        found["metadata"]["ownerReferences"] = controlled_by(kind, name, uid)
        return found

    return forged


def unowned(name: str, *gates: str) -> dict[str, Any]:
    """A forged pod without an owner reference."""
    found = pod(name, *gates)
    del found["metadata"]["ownerReferences"]
    return found


# All of them have every label that Grove's operator gives a pod.
FORGERIES: dict[str, Callable[..., dict[str, Any]]] = {
    "without a controller": unowned,
    "of a PodClique that is not there": owned_by("PodClique", "demo-0-x", "clique-demo-0-a"),
    "of another uid": owned_by("PodClique", "demo-0-a", "invented"),
    "of a PodClique of another set": owned_by("PodClique", "other-0-a", "clique-other-0-a"),
    "of the set itself": owned_by("PodCliqueSet", "demo", "set-team-a"),
    # Every user can write that reference, so the PodGang decides: Grove's operator lists the pods that it made.
    "of a PodClique of the set, and not named": pod,
}


def demo() -> WritableWorld:
    """The set `demo` beside another one."""
    cluster = world("demo-0-a")
    other = pod_clique("other-0-a")
    other["metadata"]["ownerReferences"] = controlled_by("PodCliqueSet", "other", "set-other")
    cluster.put(CLIQUES, other)
    return cluster


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_pod_does_not_complete_half_a_gang(forged: Callable[..., dict[str, Any]]) -> None:
    cluster = demo()
    put_pods(cluster, pod("real", OURS))
    cluster.put(PODS, forged("forged", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.following.pods_of(podgang_of(found)) is not None)
        await settled(found)
        assert opened.order == [], "one pod of two is half a gang"
        cluster.remove(PODS, "team-a", "forged")
        put_pods(cluster, pod("second", OURS))
        await until(lambda: sorted(opened.order) == ["real", "second"])


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_pod_with_its_own_gate_does_not_block_a_complete_gang(
    forged: Callable[..., dict[str, Any]],
) -> None:
    cluster = demo()
    cluster.put(PODS, forged("forged", "example.com/for-ever", OURS))
    opened = Opened(cluster)
    for name in ("p", "q"):
        cluster.put(PODS, pod(name, OURS))
    references = [{"namespace": "team-a", "name": name} for name in ("p", "q")]
    gang = podgang("demo-0-a")
    gang["spec"]["podgroups"][0]["podReferences"] = references
    cluster.apply(GANGS, gang)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: sorted(opened.order) == ["p", "q"])
        await settled(found)
        assert sorted(opened.order) == ["p", "q"], "the gate of what is not of the gang is left"


def podgang_of(found: Reconciler) -> Any:
    (key,) = found.following.gangs
    gang = found.following.gang(key)
    assert gang is not None
    return gang


async def test_a_gang_whose_pods_are_named_late_is_released_once_they_are() -> None:
    cluster = demo()
    for name in ("p", "q"):
        cluster.put(PODS, pod(name, OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await settled(found)
        assert opened.order == []
        name_pods(cluster)
        await until(lambda: sorted(opened.order) == ["p", "q"])


async def test_a_reconciler_without_the_right_to_read_pod_cliques_is_not_ready_and_reports_it() -> None:
    cluster = demo()
    cluster.refused[CLIQUES] = httpx.Response(403, json=failure(403, "you may not"))
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        refused = Text("cluster: the PodClique objects", "HTTP 403: you may not")
        await until(lambda: list(found.unready()) == [refused])
        assert opened.order == []
        del cluster.refused[CLIQUES]
        await until(lambda: sorted(opened.order) == ["p", "q"])


async def test_a_replacement_pod_waits_only_until_it_is_named_and_free_of_other_gates() -> None:
    cluster = demo()
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: sorted(opened.order) == ["p", "q"])
        cluster.remove(PODS, "team-a", "q")
        cluster.put(PODS, pod("r", GROVES, OURS))
        await settled(found)
        name_pods(cluster)
        await settled(found)
        assert sorted(opened.order) == ["p", "q"], "Grove holds it"
        opened.free("r", GROVES)
        await until(lambda: sorted(opened.order) == ["p", "q", "r"])


async def test_a_gang_is_released_once_its_pod_cliques_and_scaling_group_are_known() -> None:
    cluster = demo()
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    cluster.remove(CLIQUES, "team-a", "demo-0-a")
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await settled(found)
        clique = pod_clique("demo-0-a")
        clique["metadata"]["ownerReferences"] = controlled_by("PodCliqueScalingGroup", "demo-0-g", "g")
        cluster.put(CLIQUES, clique)
        await settled(found)
        assert opened.order == [], "nothing says yet whose the scaling group is"
        group = pod_clique("demo-0-g")
        group["metadata"]["uid"] = "g"
        cluster.put(SCALING_GROUPS, group)
        await until(lambda: sorted(opened.order) == ["p", "q"])


@pytest.mark.parametrize("spec", [{"nodeName": "n1"}, {}], ids=["on a node", "waiting"])
async def test_a_forged_pod_does_not_freeze_a_gang(spec: dict[str, Any]) -> None:
    cluster = world()
    forged = unowned("forged")
    forged["spec"] = spec
    cluster.put(PODS, forged)
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        cluster.apply(GANGS, podgang("demo-0-a"))
        await until(lambda: names(cluster) == ["demo-0-a"])
        assert [event["reason"] for event in cluster.events if event["reason"] == "GangShapeFrozen"] == []


async def test_forged_pods_are_counted_and_named_and_never_deleted() -> None:
    cluster = demo()
    cluster.put(PODS, unowned("forged"))
    deleting = replace(koordinator(standalone=False), deleted_escapes=frozenset({"unmutated", "stale", "foreign"}))
    async with running(cluster, settings=deleting) as found:
        await until(lambda: sample(found, "rollcall_escaped_pods", **UNOWNED) == 1)
        await until(lambda: [event["reason"] for event in cluster.events] == ["GangTooFewPods"])
        assert cluster.events[0]["note"] == Text("(also: GangPodsUnowned: 1 pod (forged) ", "uid")
        await settled(found)
        assert [path for method, path in cluster.writes if method == "DELETE"] == []
        cluster.remove(PODS, "team-a", "forged")
        await until(lambda: sample(found, "rollcall_escaped_pods", **UNOWNED) == 0)


def test_no_configuration_deletes_foreign_pods() -> None:
    with pytest.raises(ConfigurationError, match="unowned"):
        settings_from(
            {
                "apiVersion": "rollcall.dev/v1alpha1",
                "kind": "RollcallConfiguration",
                "escapes": {"delete": ["unowned"]},
            },
            "test",
        )


async def test_a_thousand_forged_pods_delay_a_gang_no_longer_than_one() -> None:
    cluster = demo()
    for index in range(1000):
        cluster.put(PODS, unowned(f"forged-{index}", "example.com/for-ever", OURS))
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: sorted(opened.order) == ["p", "q"])
        await until(lambda: sample(found, "rollcall_escaped_pods", **UNOWNED) == 1000)
        assert found.following.has_gate(next(iter(found.following.gangs)))
