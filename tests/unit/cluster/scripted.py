"""A scripted Kubernetes API: each answer is given once, in order, and the requests are recorded.

For what a real API server cannot be made to do on demand: fail half way, send nonsense, forget its history. What it
does of itself is for the cluster tests.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.played import PlayedClock, elapse
from tests.waiting import until_set
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import Clock

# One step: a status and a body, an exception, or the lines of a watch. A number among the lines is so many seconds of
# silence, and `...` keeps the watch open.
Step = tuple[int, Any] | Exception | list[Any]
# For plain HTTP, or where no connection is ever made. Reading the authorities of the system takes a while.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Script(httpx.AsyncBaseTransport):
    """Answers the requests in turn; when the script is over, it is silent for ever."""

    def __init__(self, *steps: Step, headers: Mapping[str, str] | None = None) -> None:
        self.asked: list[httpx.Request] = []
        self.over = asyncio.Event()
        self._steps = list(steps)
        self._headers = headers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The next answer."""
        self.asked.append(request)
        if not self._steps:
            self.over.set()
            await asyncio.Event().wait()
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, list):
            return httpx.Response(200, content=_lines(step, self.over))
        code, body = step
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.Response(code, content=content, headers=self._headers)

    async def done(self) -> None:
        """Waits until the script is over. Raises `TimeoutError`."""
        await until_set(self.over, "the end of the script")

    @property
    def paths(self) -> list[str]:
        """The requested paths, with the relevant parameters."""
        told = []
        for request in self.asked:
            params = {key: value for key, value in request.url.params.items() if key in {"resourceVersion", "continue"}}
            told.append(f"{request.url.path} {params}" if params else request.url.path)
        return told


async def _lines(step: Sequence[Any], over: asyncio.Event) -> AsyncIterator[bytes]:
    for line in step:
        if line is ...:
            over.set()
            await asyncio.Event().wait()
        if isinstance(line, Exception):
            raise line
        if isinstance(line, float):
            await elapse(line)
            continue
        yield line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"


def client(
    script: httpx.AsyncBaseTransport,
    authorization: Callable[[], str | None] | None = None,
    *,
    clock: Clock | None = None,
) -> Client:
    """A client that asks the script, without credentials unless `authorization` returns some."""
    access = Access("https://cluster", NO_TLS, authorization or (lambda: None))
    built = Client(access, script, clock=clock or PlayedClock())
    if authorization is None:
        # Credentials are read in a thread, and how long that takes depends on the machine.
        built._credentials = (None, math.inf)
    return built


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Runs `work`, which has no end, beside a test."""
    task = asyncio.create_task(work)
    try:
        yield task
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def listed(version: str, *items: Any, token: str | None = None) -> Step:
    """A page of a list."""
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return 200, {"kind": "List", "metadata": metadata, "items": list(items)}


def failure(code: int, message: str) -> dict[str, Any]:
    """A Status."""
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


def event(kind: str, raw: dict[str, Any]) -> dict[str, Any]:
    """A watch event."""
    return {"type": kind, "object": raw}


def namespace(name: str, version: str = "1", **labels: str) -> dict[str, Any]:
    """A Namespace."""
    return {"metadata": {"name": name, "resourceVersion": version, "labels": labels}}


def quota(name: str, where: str, *, parent: bool = False) -> dict[str, Any]:
    """An ElasticQuota."""
    labels = {"quota.scheduling.koordinator.sh/is-parent": str(parent).lower()}
    return {"metadata": {"name": name, "namespace": where, "resourceVersion": "1", "labels": labels}}
