"""What kubelets would do with the pods of one namespace while a test waits: pods on nodes run and become ready, and
those that are deleted end. Nothing runs, so the test says which of them succeed and fail.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

import httpx

from tests.e2e.background import Background
from tests.e2e.control_plane import ADMIN, ControlPlane, Manifest
from tests.e2e.pod_life import finish, let_run, let_start

# After an answer that it could not use.
_PAUSE_SECONDS = 0.1


class Kubelet:
    """Follows the pods of a namespace on an event loop, until that is closed.

    `ready` says of a pod that runs whether it becomes ready at once; a test may replace it, and make others ready
    with `let_run`.
    """

    def __init__(self, plane: ControlPlane, namespace: str, background: Background) -> None:
        self.ready: Callable[[Manifest], bool] = lambda pod: True
        self._started: set[str] = set()
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        background.call(self._start())

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                async with aclosing(self._pods()) as pods:
                    async for pod in pods:
                        await asyncio.to_thread(self._tend, pod)
            except (httpx.HTTPError, AssertionError):
                # The control plane is away, or something else changed the pod first.
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _pods(self) -> AsyncGenerator[Manifest]:
        """The pods as they are, and then each change."""
        timeout = httpx.Timeout(10, read=None)
        headers = {"Authorization": f"Bearer {ADMIN}", "Accept-Encoding": "identity"}
        async with httpx.AsyncClient(
            base_url=self._plane.url, verify=self._plane.tls, headers=headers, timeout=timeout, trust_env=False
        ) as http:
            found = (await http.get(self._path)).raise_for_status().json()
            for pod in found["items"]:
                yield pod
            params = {"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"]}
            async with http.stream("GET", self._path, params=params) as stream:
                # `aiter_lines` leaves what it reads from open when it is broken off.
                read = cast("AsyncGenerator[bytes]", stream.aiter_raw())
                async with aclosing(read) as chunks:
                    rest = b""
                    async for chunk in chunks:
                        *lines, rest = (rest + chunk).split(b"\n")
                        for event in map(json.loads, lines):
                            if event["type"] in {"ADDED", "MODIFIED"}:
                                yield event["object"]

    def _tend(self, pod: Manifest) -> None:
        if "nodeName" not in pod["spec"]:
            return
        if "deletionTimestamp" in pod["metadata"]:
            finish(self._plane, pod)
        # An event may be older than what the test has said of the pod since.
        elif pod["metadata"]["uid"] not in self._started:
            self._started.add(pod["metadata"]["uid"])
            (let_run if self.ready(pod) else let_start)(self._plane, [pod])
