"""The pod gate: the last to go, from a whole gang at once."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.scripted import failure
from tests.core.worlds import koordinator
from tests.reconciler.cluster import PODS, WritableWorld
from tests.reconciler.test_reconciler import GANGS, GROUPS, names, podgang, running, sample, told, until, world

OURS, GROVES = "rollcall.dev/gang-sync", "grove.io/podgang-pending-creation"


def pod(name: str, *gates: str, gang: str = "demo-0", clique: str = "demo-0-a") -> dict[str, Any]:
    labels = {"grove.io/podgang": gang, "grove.io/podclique": clique}
    metadata = {"name": name, "namespace": "team-a", "labels": labels}
    return {"metadata": metadata, "spec": {"schedulingGates": [{"name": gate} for gate in gates]}}


class Opened:
    """Answers for the pods of a world; `order` tells from which the gate came off."""

    def __init__(self, cluster: WritableWorld) -> None:
        self.order: list[str] = []
        self.asked: list[str] = []
        self._cluster = cluster
        cluster.answering = self

    def __call__(self, request: httpx.Request) -> httpx.Response | None:
        if "/pods/" not in request.url.path:
            return None
        name = request.url.path.rpartition("/")[2]
        self.order.append(name)
        self.asked.append(request.content.decode())
        self.free(name, OURS)
        return httpx.Response(200, json={"metadata": {"name": name, "namespace": "team-a"}})

    def free(self, name: str, gate: str) -> None:
        """Somebody takes a gate off a pod."""
        known = self._cluster.get(PODS, "team-a", name)
        assert known is not None
        known["spec"]["schedulingGates"].remove({"name": gate})
        self._cluster.tell(PODS, "MODIFIED", known)


GATED = koordinator(standalone=False, gate=True)


def test_the_gate_comes_off_all_pods_once_the_objects_are_there_and_no_other_gate_is() -> None:
    async def story() -> None:
        cluster = world("demo-0-a")
        for name in ("p", "q"):
            cluster.put(PODS, pod(name, GROVES, OURS))
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

    told(story())


def test_the_gate_stays_while_a_member_has_fewer_pods_than_it_needs_or_the_objects_cannot_be_written() -> None:
    async def story() -> None:
        cluster = world()
        for name in ("p", "q"):
            cluster.put(PODS, pod(name, OURS))
        opened = Opened(cluster)
        async with running(cluster, settings=GATED) as found:
            await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
            await until(lambda: found.idle)
            assert opened.order == [], "demo-0-b has no pods yet"
            foreign = {"metadata": {"name": "demo-0-c", "namespace": "team-a"}, "spec": {"minMember": 9}}
            cluster.put(GROUPS, foreign)
            cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c", minimum=1))
            for name, clique in (("r", "demo-0-b"), ("s", "demo-0-c")):
                cluster.put(PODS, pod(name, OURS, clique=clique))
            await until(lambda: sample(found, "rollcall_reconciled_total", outcome="conflict") > 0)
            assert opened.order == [], "an object is somebody else's"
            cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=1))
            await until(lambda: sorted(opened.order) == ["p", "q", "r", "s"])

    told(story())


def test_a_gated_pod_that_comes_later_is_not_kept_waiting_and_one_that_went_is_no_error() -> None:
    async def story() -> None:
        cluster = world("demo-0-a")
        for name in ("p", "q"):
            cluster.put(PODS, pod(name))
        async with running(cluster, settings=GATED) as found:
            await until(lambda: names(cluster) == ["demo-0-a"])
            cluster.answering = lambda request: (
                httpx.Response(404, json=failure(404, "gone")) if "/pods/" in request.url.path else None
            )
            cluster.put(PODS, pod("late", OURS))
            await until(lambda: ("PATCH", "/api/v1/namespaces/team-a/pods/late") in cluster.writes)
            await until(lambda: found.idle)
            assert sample(found, "rollcall_reconciled_total", outcome="failed") == 0

    told(story())
