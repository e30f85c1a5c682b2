"""What the burst is measured against: a webhook that allows everything and reads only the uid of a review.

It answers over the TLS and HTTP/1.1 that an API server expects of a webhook, with as little work as Python needs for
that. Below `/patching` each answer has the same patch, as large as that of a pod of a gang. `GET /counts` returns what
it has received.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from collections import Counter
from typing import cast

import uvloop

PATCHING = "/patching"
_END = b"\r\n\r\n"
_ANSWER = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true%s}}'
_CHANGES: tuple[tuple[str, str, object], ...] = (
    ("add", "/metadata/labels/pod-group.scheduling.sigs.k8s.io", "set-0-0-frontend"),
    ("add", "/metadata/annotations", {}),
    ("add", "/metadata/annotations/rollcall.dev~1stamp", "koord-scheduler/0123456789abcdef"),
    ("replace", "/spec/schedulerName", "koord-scheduler"),
    ("add", "/spec/schedulingGates/-", {"name": "rollcall.dev/gang-sync"}),
    ("add", "/metadata/annotations/rollcall.dev~1seal", "set-0-0/set-0-0-frontend/0123456789ab"),
)
_PATCH = json.dumps([{"op": op, "path": path, "value": value} for op, path, value in _CHANGES]).encode()
_PATCHED = b',"patchType":"JSONPatch","patch":"%s"' % base64.b64encode(_PATCH)


class _Connection(asyncio.Protocol):
    """One connection of the API server. It sends its next review when the last one is answered."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._counts["connections"] += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, body = self._received.partition(_END)
        if not ended or len(body) < _length(head):
            return
        self._received = b""
        if head.startswith(b"GET"):
            self._send(json.dumps(self._counts).encode())
            return
        prefix, _, path = head.split(b" ", 2)[1].split(b"?")[0].decode().rpartition("/")
        path = f"/{path}"
        uid = body.partition(b'"uid":"')[2].partition(b'"')[0]
        answer = _ANSWER % (uid, _PATCHED if prefix == PATCHING else b"")
        self._counts[path] += 1
        self._counts[f"{path} bytes"] += len(body)
        self._send(answer)

    def _send(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


async def _serve(port: int, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    counts: Counter[str] = Counter()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(counts), "127.0.0.1", port, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), *sys.argv[2:4]))
