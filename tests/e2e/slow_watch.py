"""An API server whose watches of one kind are late, for a scheduler: an HTTP proxy on loopback that holds back what a
watch delivers. Everything else passes at once.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.e2e.control_plane import ADMIN, ControlPlane

_CHUNK_BYTES = 65536
# Those of one hop, and those that the proxy sets itself.
_OF_A_HOP = frozenset({"connection", "host", "transfer-encoding", "content-length", "authorization", "accept-encoding"})


class SlowWatch:
    """The proxy. `seconds` is how late a watch of the kind `plural` is, and may be changed; `late` counts what was held
    back. `kubeconfig` leads to it. `close` ends it.
    """

    def __init__(self, plane: ControlPlane, plural: str) -> None:
        self.seconds = 0.0
        self.late = 0
        self._plane = plane
        self._plural = plural
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: schedulers ask often."""

        def passed(request: BaseHTTPRequestHandler) -> None:
            outer.answer(request)

        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            setattr(Handler, f"do_{verb}", passed)
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator that leads to the proxy."""
        path = self._plane.folder / f"slow-{self._plural}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "user", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "user"}}],
            "current-context": "here",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Ask the API server the same, and pass its answer on."""
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _OF_A_HOP}
        headers["Authorization"] = f"Bearer {ADMIN}"
        there = urlsplit(self._plane.url)
        connection = HTTPSConnection(str(there.hostname), int(there.port or 443), context=self._plane.tls)
        try:
            connection.request(request.command, request.path, body or None, headers)
            self._reply(request, connection.getresponse())
        except (OSError, ValueError, HTTPException):
            # One of the two sides is gone.
            request.close_connection = True
        finally:
            connection.close()

    def _reply(self, request: BaseHTTPRequestHandler, found: HTTPResponse) -> None:
        watches = "watch=true" in request.path or "watch=1" in request.path
        request.send_response(found.status)
        for key, value in found.getheaders():
            if key.lower() not in _OF_A_HOP:
                request.send_header(key, value)
        if not watches:
            content = found.read()
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)
            return
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        if f"/{self._plural}" in urlsplit(request.path).path:
            self._hold_back(request, found)
        else:
            while chunk := found.read1(_CHUNK_BYTES):
                _send(request, chunk)
        _send(request, b"")

    def _hold_back(self, request: BaseHTTPRequestHandler, found: HTTPResponse) -> None:
        """Pass on each part of a watch so many seconds after it came, in its order."""
        parts: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

        def send() -> None:
            with suppress(OSError, ValueError):
                while (part := parts.get())[1]:
                    if (left := part[0] + self.seconds - time.monotonic()) > 0:
                        self.late += 1
                        threading.Event().wait(left)
                    _send(request, part[1])

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        try:
            while chunk := found.read1(_CHUNK_BYTES):
                parts.put((time.monotonic(), chunk))
        finally:
            parts.put((0.0, b""))
            sender.join()


class _Server(ThreadingHTTPServer):
    """Says nothing of schedulers that go away."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _send(request: BaseHTTPRequestHandler, chunk: bytes) -> None:
    request.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
    request.wfile.flush()
