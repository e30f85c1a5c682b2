"""A watch on the pods of a namespace, at the API server itself, for tests that count what happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from tests.e2e.control_plane import ADMIN, ControlPlane, Manifest


@contextmanager
def pods_seen(plane: ControlPlane, namespace: str, see: Callable[[str, Manifest], None]) -> Iterator[None]:
    """Call `see` with the type and the pod of each event while the block runs, on a thread of its own."""
    stopped = threading.Event()

    def watch() -> None:
        path, version = f"/api/v1/namespaces/{namespace}/pods", "0"
        headers = {"Authorization": f"Bearer {ADMIN}"}
        with httpx.Client(base_url=plane.url, verify=plane.tls, headers=headers, timeout=2, trust_env=False) as http:
            while not stopped.is_set():
                try:
                    params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
                    with http.stream("GET", path, params=params) as stream:
                        for line in stream.iter_lines():
                            event = json.loads(line)
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                                see(event["type"], event["object"])
                except httpx.TransportError:
                    continue

    with running(watch, stopped):
        yield


@contextmanager
def repeated(act: Callable[[], None], seconds: float) -> Iterator[None]:
    """Do something each so many seconds while the block runs, on a thread of its own."""
    stopped = threading.Event()

    def again() -> None:
        while not stopped.wait(seconds):
            act()

    with running(again, stopped):
        yield


@contextmanager
def running(work: Callable[[], None], stopped: threading.Event) -> Iterator[None]:
    """Run `work` on a thread while the block runs; `stopped` ends it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(30)
