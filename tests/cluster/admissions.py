"""A steady load of admissions through a real API server: so many a second, whatever becomes of the earlier ones, and
each outcome is kept.

An admission has failed if the API server refuses the object or does not answer, and as well if it stores what no
webhook has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import NamedTuple

import httpx

from tests.cluster.background import Background
from tests.cluster.control_plane import OPERATOR, ControlPlane, Manifest
from tests.cluster.grove_operator import Played
from tests.cluster.workloads import two_cliques

# Most are tried alone, so that etcd does not grow.
_TRIED = {"dryRun": "All"}
_MERGE = {"Content-Type": "application/merge-patch+json"}
# Longer than any webhook may take, so that the API server says what has happened.
_TIMEOUT_SECONDS = 20.0


class Outcome(NamedTuple):
    """What came of one admission: when it was due, how long it took from then on, and what was wrong with it."""

    due: float
    seconds: float
    wrong: str


class Ask(NamedTuple):
    """One request whose answer a webhook has a part in."""

    method: str
    path: str
    body: Manifest
    stored: bool


class Admissions:
    """The load, on a loop of its own. It goes on until `stop`."""

    def __init__(self, plane: ControlPlane, played: Played, rate: float, background: Background) -> None:
        self.outcomes: list[Outcome] = []
        self.begun = time.monotonic()
        self._rate = rate
        self._played = played
        self._background = background
        self._plane = plane
        self._running: set[asyncio.Task[None]] = set()
        self._task = background.call(self._begin())

    async def _begin(self) -> asyncio.Task[None]:
        self._http = httpx.AsyncClient(
            base_url=self._plane.url,
            verify=self._plane.tls,
            headers={"Authorization": f"Bearer {OPERATOR}"},
            timeout=_TIMEOUT_SECONDS,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
        )
        self.begun = time.monotonic()
        return asyncio.create_task(self._send())

    async def _send(self) -> None:
        number = 0
        while True:
            due = self.begun + number / self._rate
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            one = asyncio.create_task(self._one(number, due))
            self._running.add(one)
            one.add_done_callback(self._running.discard)
            number += 1

    async def _one(self, number: int, due: float) -> None:
        ask = self._ask(number)
        params = {} if ask.stored else _TRIED
        headers = _MERGE if ask.method == "PATCH" else {}
        try:
            answer = await self._http.request(ask.method, ask.path, params=params, json=ask.body, headers=headers)
        except httpx.TransportError as error:
            wrong = f"no answer: {error!r}"
        else:
            wrong = _wrong(answer)
        self.outcomes.append(Outcome(due, time.monotonic() - due, wrong))
        if ask.stored and not wrong:
            name = answer.json()["metadata"]["name"]
            await self._http.delete(f"{ask.path}/{name}", params={"gracePeriodSeconds": "0"})

    def _ask(self, number: int) -> Ask:
        """Of twenty: fourteen pods, four new sets and two changed ones; of each kind some are stored."""
        namespace, place = self._played.namespace, number % 20
        sets = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"
        if place in {0, 5, 10, 15}:
            return Ask("POST", sets, two_cliques(f"set-{number}", namespace), stored=place == 0)
        if place in {2, 12}:
            note = {"metadata": {"annotations": {"example.com/note": str(number)}}}
            return Ask("PATCH", f"{sets}/{self._played.name}", note, stored=False)
        clique = self._played.cliques[number % len(self._played.cliques)]
        pod = self._played.pod(clique, number % 100)
        return Ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod, stored=place == 7)

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self.begun

    def wait(self) -> None:
        """Wait until what is due has been answered, without asking for more."""
        self._background.call(self._end())

    async def _end(self) -> None:
        self._task.cancel()
        await asyncio.gather(*self._running)

    def close(self) -> None:
        """End, answered or not."""
        self._background.call(self._close())

    async def _close(self) -> None:
        self._task.cancel()
        for one in self._running:
            one.cancel()
        await self._http.aclose()


def _wrong(answer: httpx.Response) -> str:
    """What is wrong with an answer, or nothing."""
    if answer.is_error:
        return f"{answer.status_code}: {answer.json().get('message')}"
    found = answer.json()
    metadata = found["metadata"]
    if found["kind"] == "Pod":
        if found["spec"]["schedulerName"] != "koord-scheduler" or "rollcall.dev/stamp" not in metadata["annotations"]:
            return f"pod {metadata['name']} was admitted unseen"
    elif "rollcall.dev/scheduler" not in metadata.get("labels", {}):
        return f"{found['kind']} {metadata['name']} was admitted unseen"
    return ""


def percentile(outcomes: Iterable[Outcome], percent: float) -> float:
    """The time in milliseconds within which so many percent were answered."""
    times = sorted(outcome.seconds for outcome in outcomes)
    return times[min(len(times) - 1, int(len(times) * percent / 100))] * 1000 if times else 0.0
