"""Pods that have gates, and an API server where gates are removed."""

from __future__ import annotations

from typing import Any

import httpx

from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import grove_pod
from tests.unit.worlds import koordinator

# Koordinator's gangs with the gate, and pods that only have a gang's labels, as a metric counts them.
GATED = koordinator(standalone=False, gate=True)
UNOWNED = {"scheduler": "koord-scheduler", "escape": "unowned"}
OURS, GROVES = "rollcall.dev/gang-sync", "grove.io/podgang-pending-creation"


def pod(name: str, *gates: str, gang: str = "demo-0", clique: str = "demo-0-a") -> dict[str, Any]:
    return grove_pod(name, clique, gang, schedulingGates=[{"name": gate} for gate in gates])


class Opened:
    """Answers requests about the pods of a world; `order` lists the pods whose gate was removed."""

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
        """A user removes a gate from a pod."""
        known = self._cluster.get(PODS, "team-a", name)
        assert known is not None
        known["spec"]["schedulingGates"].remove({"name": gate})
        self._cluster.tell(PODS, "MODIFIED", known)
