"""A server over real TLS on a free port, and ways to send requests to it."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.series import no_series_appears
from tests.unit.worlds import koordinator
from webhook.certificates.files import (
    CA_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    load_pair,
    make_development_certificates,
    server_context,
)
from webhook.model.facts import NOTHING_KNOWN
from webhook.server.app import create_app
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

__all__ = ["no_series_appears"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development certificates in a folder."""
    folder = tmp_path_factory.mktemp("certificates")
    make_development_certificates(folder)
    return folder


@pytest.fixture
def state(certificates: Path) -> ServerState:
    """The state of a standalone server with koord-scheduler as its default."""
    pair = load_pair(certificates / CERTIFICATE_FILE, certificates / KEY_FILE)
    return ServerState(koordinator(), NOTHING_KNOWN, pair)


class StoppedAtOnce(uvicorn.Server):
    """A server that looks every few milliseconds whether it should stop; uvicorn's looks every 100 ms."""

    async def main_loop(self) -> None:
        """Wait for the stop."""
        # Sets the headers of all answers.
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.005)


@pytest.fixture
def client(state: ServerState, certificates: Path) -> Iterator[httpx.Client]:
    """A client of that server, over TLS, that trusts its authority and nothing else."""
    assert state.certificate is not None
    config = uvicorn.Config(
        create_app(state),
        port=0,
        lifespan="off",
        log_config=None,
        ssl_context_factory=lambda _, __: server_context(state.certificate),  # type: ignore[arg-type]
    )
    server = StoppedAtOnce(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start within 10 s"
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    context = ssl.create_default_context(cafile=str(certificates / CA_FILE))
    with httpx.Client(base_url=f"https://localhost:{port}", verify=context, trust_env=False) as asking:
        yield asking
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive(), "the server did not stop within 10 s"


def review(manifest: Any = None, **fields: Any) -> dict[str, Any]:
    """An AdmissionReview of a CREATE of `manifest`; keywords replace fields of the request."""
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    if manifest is not None and manifest.get("kind") == "Pod":
        kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "operation": "CREATE",
        "name": "demo",
        "namespace": "default",
        "object": pod_clique_set() if manifest is None else manifest,
        "oldObject": None,
        "dryRun": False,
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def refused(**fields: Any) -> dict[str, Any]:
    """A review that koord-scheduler's rules refuse."""
    manifest = pod_clique_set(
        clique("worker", requests={"nvidia.com/gpu": "8"}), annotations={"grove.io/mnnvl-group": "train"}
    )
    return review(manifest, **fields)


class Call:
    """One ASGI call by hand: what arrives message by message, and what is sent back."""

    def __init__(self, *messages: dict[str, Any], path: str = "/validate", query: str = "", headers: Any = ()) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers],
        }
        self._messages = list(messages)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> Any:
        """The next message; waits for ever if there is none."""
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        """Keep what is sent."""
        self.sent.append(message)

    async def to(self, app: Any) -> Call:
        """Make the call."""
        await app(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.sent[0]["status"])

    @property
    def text(self) -> str:
        """The answer's body."""
        return b"".join(message.get("body", b"") for message in self.sent[1:]).decode()


def body(content: Any, *, more: bool = False) -> dict[str, Any]:
    """A message that carries (a part of) the body."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return {"type": "http.request", "body": raw, "more_body": more}
