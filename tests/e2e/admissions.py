"""A steady load of admissions through a real API server: a fixed rate, with each outcome recorded. On a machine that is
too slow the rate drops; no queue builds up.

An admission has failed if the API server refuses the object or does not answer, and as well if it admits what no
webhook has seen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import NamedTuple

from tests.e2e.background import Background
from tests.e2e.control_plane import OPERATOR, ControlPlane
from tests.e2e.grove_operator import Played
from tests.e2e.raw_client import Answer, RawClient
from tests.e2e.workloads import two_cliques

# So many wait for an answer at most. An API server opens a connection for each call beyond those that it has, and keeps
# 25: far more at once would measure handshakes.
_AT_ONCE = 24
# Of a stall no more than this is made good for.
_BEHIND_SECONDS = 1.0
_GLANCE_SECONDS = 0.1


class Outcome(NamedTuple):
    """The result of one admission: its start, its duration, and what was wrong with it."""

    asked: float
    seconds: float
    wrong: str


class Ask(NamedTuple):
    """One request whose answer a webhook has a part in."""

    request: bytes
    # The mark of an answer that a webhook has seen.
    seen: bytes
    # Where it is stored; nothing where it is only tried.
    stored: str = ""


class Admissions:
    """The load, on its own event loop. It runs until `wait` or `close`."""

    def __init__(self, plane: ControlPlane, played: Played, rate: float, background: Background) -> None:
        self.outcomes: list[Outcome] = []
        # When this process itself got no turn for a second or more, and for how long: then others got none either, and
        # what runs out of time is the machine's doing.
        self.stalls: list[tuple[float, float]] = []
        self._rate = rate
        self._background = background
        self._client = RawClient(plane.url, plane.tls, OPERATOR)
        self._asks = cycle(_asks(self._client, played))
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()
        self.begun = time.monotonic()
        self._tasks = background.call(self._begin())

    async def _begin(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._send()), asyncio.create_task(self._watch())]

    async def _watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_GLANCE_SECONDS)
            if (late := time.monotonic() - before - _GLANCE_SECONDS) >= 1:
                self.stalls.append((before, late))

    async def _send(self) -> None:
        due = self.begun
        while True:
            # In any case the others get their turn. What could not be sent when it was due is not made good for.
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._room.acquire()
            one = asyncio.create_task(self._one(next(self._asks)))
            self._running.add(one)
            one.add_done_callback(self._ended)
            due = max(due + 1 / self._rate, time.monotonic() - _BEHIND_SECONDS)

    def _ended(self, one: asyncio.Task[None]) -> None:
        self._running.discard(one)
        self._room.release()
        if not one.cancelled():
            one.result()

    async def _one(self, ask: Ask) -> None:
        asked = time.monotonic()
        answer: Answer | None = None
        try:
            answer = await self._client.send(ask.request)
        except (OSError, EOFError) as error:
            wrong = f"no answer: {error!r}"
        else:
            wrong = _wrong(ask, answer)
        self.outcomes.append(Outcome(asked, time.monotonic() - asked, wrong))
        if ask.stored and answer is not None and not wrong:
            name = json.loads(answer.body)["metadata"]["name"]
            await self._client.send(self._client.request("DELETE", f"{ask.stored}/{name}?gracePeriodSeconds=0"))

    @property
    def seconds(self) -> float:
        """The seconds since its start."""
        return time.monotonic() - self.begun

    def wait(self) -> None:
        """Wait until what is due has been answered, without asking for more."""
        self._background.call(self._end())

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._running)

    def close(self) -> None:
        """End, answered or not."""
        self._background.call(self._close())

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for one in self._running:
            one.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._client.close()


def _asks(client: RawClient, played: Played) -> Iterator[Ask]:
    """Twenty: fourteen pods of a gang, four new sets and two changed ones. One pod and one set are stored for a moment,
    the others only tried, so that etcd does not grow.
    """
    pods = f"/api/v1/namespaces/{played.namespace}/pods"
    sets = f"/apis/grove.io/v1alpha1/namespaces/{played.namespace}/podcliquesets"
    tried = "dryRun=All"
    for number in range(20):
        if number % 5 == 0:
            stored = number == 0
            # Its name must be free again when it is stored the next time.
            workload = two_cliques("set", played.namespace)
            if stored:
                del workload["metadata"]["name"]
                workload["metadata"]["generateName"] = "set-"
            request = client.request("POST", f"{sets}?{'' if stored else tried}", workload)
            yield Ask(request, b"rollcall.dev/scheduler", sets if stored else "")
        elif number in {2, 12}:
            change = {"metadata": {"annotations": {"example.com/note": str(number)}}}
            request = client.request("PATCH", f"{sets}/{played.name}?{tried}", change)
            yield Ask(request, b"rollcall.dev/scheduler")
        else:
            stored = number == 7
            pod = played.pod(played.cliques[number % len(played.cliques)], number)
            request = client.request("POST", f"{pods}?{'' if stored else tried}", pod)
            yield Ask(request, b"rollcall.dev/stamp", pods if stored else "")


def _wrong(ask: Ask, answer: Answer) -> str:
    """What is wrong with an answer, or nothing."""
    if answer.code not in {200, 201}:
        return answer.message
    return "" if ask.seen in answer.body else f"it was admitted unseen: {answer.body[:200]!r}"


def percentile(outcomes: Iterable[Outcome], percent: float) -> float:
    """The time in milliseconds within which so many percent were answered."""
    times = sorted(outcome.seconds for outcome in outcomes)
    return times[min(len(times) - 1, int(len(times) * percent / 100))] * 1000 if times else 0.0
