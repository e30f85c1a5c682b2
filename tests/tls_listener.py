"""A small TLS server for clients that inspect certificates: it reads once, answers, and closes the connection."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def tls_listener(context: ssl.SSLContext, answer: bytes = b"") -> Iterator[int]:
    """The port where every client is served with `context`, and gets this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_serve, args=(listening, context, answer), daemon=True).start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, context: ssl.SSLContext, answer: bytes) -> None:
    while True:
        try:
            plain, _ = listening.accept()
        except OSError:
            return
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as shown:
            shown.recv(4096)
            shown.sendall(answer)
