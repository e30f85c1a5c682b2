"""The pod gate: removed last, and from all pods of a complete gang."""

from __future__ import annotations

import httpx

from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.gated_pods import GATED, GROVES, OURS, Opened, pod
from tests.unit.reconciler.grove import CLIQUES, name_pods, pod_clique, put_pods
from tests.unit.reconciler.running_reconciler import GANGS, GROUPS, names, podgang, running, sample, world
from tests.waiting import until


async def test_the_gate_is_removed_from_all_pods_once_the_objects_exist_and_no_other_gate_is_left() -> None:
    cluster = world("demo-0-a")
    for name in ("p", "q"):
        put_pods(cluster, pod(name, GROVES, OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.idle)
        assert opened.order == [], "Grove holds them"
        opened.free("p", GROVES)
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inStep") > 0)
        await until(lambda: found.idle)
        assert opened.order == [], "one free pod is half a gang"
        opened.free("q", GROVES)
        await until(lambda: sorted(opened.order) == ["p", "q"])
    assert opened.asked[0] == (
        '[{"op":"test","path":"/spec/schedulingGates/0/name","value":"rollcall.dev/gang-sync"},'
        '{"op":"remove","path":"/spec/schedulingGates/0"}]'
    )


async def test_the_gate_stays_while_a_member_lacks_pods_or_the_objects_cannot_be_written() -> None:
    cluster = world()
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        assert opened.order == [], "demo-0-b has no pods yet"
        foreign = {"metadata": {"name": "demo-0-c", "namespace": "team-a"}, "spec": {"minMember": 9}}
        cluster.put(GROUPS, foreign)
        cluster.put(CLIQUES, pod_clique("demo-0-c"))
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c", minimum=1))
        put_pods(cluster, pod("r", OURS, clique="demo-0-b"), pod("s", OURS, clique="demo-0-c"))
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="conflict") > 0)
        assert opened.order == [], "a foreign object"
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=1))
        name_pods(cluster)
        await until(lambda: sorted(opened.order) == ["p", "q", "r"])


async def test_a_later_gated_pod_is_released_and_a_deleted_one_is_no_error() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("p"), pod("q"))
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        cluster.answering = lambda request: (
            httpx.Response(404, json=failure(404, "gone")) if "/pods/" in request.url.path else None
        )
        put_pods(cluster, pod("late", OURS))
        await until(lambda: ("PATCH", "/api/v1/namespaces/team-a/pods/late") in cluster.writes)
        await until(lambda: found.idle)
        # A gang that is created before its objects are read is retried, which is not an error.
        unread = sample(found, "rollcall_retries_total", why="unknown")
        assert sample(found, "rollcall_reconciled_total", outcome="failed") == unread
