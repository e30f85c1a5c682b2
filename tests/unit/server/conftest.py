"""A server over real TLS on a free port, ways to send requests to it, and played time."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.played import PlayedClock, PlayedLoop, run
from tests.series import no_series_appears
from tests.unit.worlds import koordinator
from tests.waiting import LIMIT_SECONDS, turns
from webhook.certificates.files import (
    CA_FILE,
    CERTIFICATE_FILE,
    KEY_FILE,
    Pair,
    load_pair,
    make_development_certificates,
    server_context,
)
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.model.facts import NO_FACTS
from webhook.server.lane import Lane
from webhook.server.routes import create_app
from webhook.server.state import ServerState
from webhook.validators.examples import clique, pod_clique_set

__all__ = ["no_series_appears"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """An event loop whose time passes when nothing is left to do."""
    return "asyncio", {"loop_factory": PlayedLoop}


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
    # The certificate is valid at the time of the machine, as its clients require.
    return ServerState(koordinator(), NO_FACTS, pair, clock=PlayedClock(MACHINE_CLOCK.now()))


class StoppedAtOnce(uvicorn.Server):
    """A server in a thread that begins and stops at once; uvicorn's looks every 100 ms whether it should stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    async def main_loop(self) -> None:
        """Wait for the stop."""
        # Sets the headers of all answers.
        await self.on_tick(0)
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._serving.set()
        await self._stopping.wait()

    def begin(self) -> int:
        """Serve, and return the port."""
        self._thread.start()
        assert self._serving.wait(LIMIT_SECONDS), "the server did not start"
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        """Stop, and wait for the end."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(LIMIT_SECONDS)
        assert not self._thread.is_alive(), "the server did not stop"


class TlsServer:
    """A server over TLS whose application can be exchanged."""

    def __init__(self, pair: Pair) -> None:
        self.app: ASGIApp | None = None
        config = uvicorn.Config(
            self, port=0, lifespan="off", log_config=None, ssl_context_factory=lambda _, __: server_context(pair)
        )
        self._server = StoppedAtOnce(config)
        self.url = f"https://localhost:{self._server.begin()}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""
        assert self.app is not None
        await self.app(scope, receive, send)

    def stop(self) -> None:
        """Stop, and wait for the end."""
        self._server.stop()


@pytest.fixture(scope="session")
def tls_server(certificates: Path) -> Iterator[TlsServer]:
    """A server that each test gives its application."""
    server = TlsServer(load_pair(certificates / CERTIFICATE_FILE, certificates / KEY_FILE))
    yield server
    server.stop()


@pytest.fixture
def client(state: ServerState, certificates: Path, tls_server: TlsServer) -> Iterator[httpx.Client]:
    """A client of a server with that state, over TLS, that trusts its authority and nothing else."""
    tls_server.app = create_app(state)
    context = ssl.create_default_context(cafile=str(certificates / CA_FILE))
    with httpx.Client(base_url=tls_server.url, verify=context, trust_env=False, timeout=LIMIT_SECONDS) as asking:
        yield asking


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


class HeldThread:
    """A lane, with a piece of work that keeps its thread until the end of the block."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._released = threading.Event()
        self._call: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> HeldThread:
        loop = asyncio.get_running_loop()
        self._call = loop.create_task(
            self._lane.run(
                lambda turn: turn.run(self._released.wait, LIMIT_SECONDS),
                size=1,
                caller="holder",
                deadline=float("inf"),
                receive=asyncio.Event().wait,  # type: ignore[arg-type]
                done=lambda: None,
            )
        )
        await turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._released.set()
        assert self._call is not None
        assert await self._call


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

    async def to(self, app: ASGIApp) -> Call:
        """Make the call."""
        await app(self.scope, self.receive, self.send)
        return self

    def answered_by(self, app: ASGIApp | ServerState) -> Call:
        """Make the call on an event loop of its own, in played time."""
        return run(self.to(create_app(app) if isinstance(app, ServerState) else app))

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
