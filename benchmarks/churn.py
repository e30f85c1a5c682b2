"""The lives of many gangs on a real API server, so many requests a second in all: each is created, changed and deleted,
and then comes another.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from itertools import count

from tests.e2e.background import Background
from tests.e2e.control_plane import OPERATOR, ControlPlane, Manifest
from tests.e2e.grove_operator import Played
from tests.e2e.raw_client import Answer, RawClient
from tests.e2e.workloads import nvlink, two_cliques

_GROVE = "/apis/grove.io/v1alpha1/namespaces"
_POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces"
_GANGS = "/apis/scheduler.grove.io/v1alpha1/namespaces"
_AT_ONCE = "gracePeriodSeconds=0"
# What the API server makes of a denial of an invalid object.
_REFUSED = 422
_GONE = 404
_LOOK_SECONDS = 1.0


class Churn:
    """The gangs of one namespace, on a loop of its own, until `close`."""

    def __init__(self, plane: ControlPlane, namespace: str, rate: float, gangs: int, background: Background) -> None:
        self.kinds: Counter[str] = Counter()
        self.failed: list[str] = []
        self.alive = 0
        self._plane = plane
        self._namespace = namespace
        self._rate = rate
        self._background = background
        self._client = RawClient(plane.url, plane.tls, OPERATOR)
        self._numbers = count(1)
        self._begun = self._due = time.monotonic()
        self._lives = background.call(self._begin(gangs))

    @property
    def requests(self) -> int:
        """How many requests there have been."""
        return self.kinds.total()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._begun

    def close(self) -> None:
        """End it. What is there stays."""
        self._background.call(self._close())

    async def _begin(self, gangs: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._live()) for _ in range(gangs)]

    async def _close(self) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        self._client.close()

    async def _live(self) -> None:
        while True:
            self.alive += 1
            try:
                await self._life(f"gang-{next(self._numbers)}")
            except (OSError, EOFError, _FailedError) as error:
                self.failed.append(str(error) or repr(error))
            finally:
                self.alive -= 1

    async def _life(self, name: str) -> None:
        """What becomes of one gang. Twenty-three requests, one of them refused, while nothing is late."""
        ask, space = self._ask, self._namespace
        sets, podgangs = f"{_GROVE}/{space}/podcliquesets", f"{_GANGS}/{space}/podgangs"
        played = Played(self._plane, await ask("create PodCliqueSet", "POST", sets, two_cliques(name, space)))
        for clique in played.cliques:
            played.took(
                await ask("create PodClique", "POST", f"{_GROVE}/{space}/podcliques", played.pod_clique(clique))
            )
        (gang,) = played.podgangs
        await ask("create PodGang", "POST", podgangs, played.new_podgang(gang))
        pods = [
            await ask("create Pod", "POST", f"/api/v1/namespaces/{space}/pods", played.pod(clique, index))
            for clique in played.cliques
            for index in range(clique.replicas)
        ]
        paths = [f"/api/v1/namespaces/{space}/pods/{pod['metadata']['name']}" for pod in pods]
        groups = played.pod_groups(gang, pods)
        await ask("change PodGang", "PATCH", f"{podgangs}/{gang}", {"spec": {"podgroups": groups}})
        note = {"metadata": {"annotations": {"example.com/note": name}}}
        await ask("change PodCliqueSet", "PATCH", f"{sets}/{name}", note)
        await ask("refuse PodCliqueSet", "POST", sets, nvlink(f"{name}-refused", space), code=_REFUSED)
        groups[-1]["minReplicas"] = 1
        await ask("change PodGang", "PATCH", f"{podgangs}/{gang}", {"spec": {"podgroups": groups}})
        for path in paths:
            await ask("change Pod", "PATCH", path, note)
        for path in paths:
            await ask("delete Pod", "DELETE", f"{path}?{_AT_ONCE}")
        await ask("delete PodGang", "DELETE", f"{podgangs}/{gang}")
        await ask("delete PodCliqueSet", "DELETE", f"{sets}/{name}")
        for clique in played.cliques:
            await self._until_gone(f"{_POD_GROUPS}/{space}/podgroups/{clique.name}")

    async def _until_gone(self, path: str) -> None:
        """Wait for the garbage collector. A gang has gone when its PodGroups have: otherwise more and more would be
        stored, which both processes keep in memory.
        """
        while (await self._answer("look at PodGroup", "GET", path)).code != _GONE:
            await asyncio.sleep(_LOOK_SECONDS)

    async def _ask(self, kind: str, method: str, path: str, body: Manifest | None = None, code: int = 0) -> Manifest:
        """What is answered. With `code` it is that which must come."""
        answer = await self._answer(kind, method, path, body)
        if answer.code != code if code else answer.code >= 300:
            raise _FailedError(f"{kind}: {answer.message}")
        found: Manifest = json.loads(answer.body)
        return found

    async def _answer(self, kind: str, method: str, path: str, body: Manifest | None = None) -> Answer:
        """The answer, when it is this request's turn."""
        self._due = max(self._due + 1 / self._rate, time.monotonic() - 1)
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        answer = await self._client.send(self._client.request(method, path, body))
        self.kinds[kind] += 1
        return answer


class _FailedError(Exception):
    """A request did not come to what it should have."""
