"""Sockets to listen on: both IPv6 and IPv4 unless an address says otherwise, as in Go's servers."""

from __future__ import annotations

import os
import socket

from webhook.errors import InputError

# Every address of the machine, IPv6 and IPv4.
EVERYWHERE = ""
# Addresses that mean every address of the machine.
WILDCARDS = frozenset({EVERYWHERE, "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
LOOPBACKS = ("127.0.0.1", "::1")
_BACKLOG = 2048


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises `InputError` if that fails.

    `::` includes IPv4. `EVERYWHERE` is the same, or only IPv4 if the machine has no IPv6.
    """
    try:
        if host == EVERYWHERE and not socket.has_dualstack_ipv6():
            return socket.create_server((host, port), backlog=_BACKLOG)
        wildcard = host in {EVERYWHERE, "::"}
        family = socket.AF_INET6 if wildcard or ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=wildcard)
    except OSError as error:
        # An unknown host name has no errno of the system, and Python repeats the reason in brackets.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else str(error.strerror or error).partition(" (")[0]
        where = f"{host} port {port}" if host else f"port {port}"
        raise InputError("", f"cannot listen on {where}: {why}") from None


def reached_at(listener: socket.socket) -> tuple[str, int]:
    """Return the address and port of the socket for a client on this machine."""
    host, port = listener.getsockname()[:2]
    if host == "::":
        # The socket also accepts IPv4, and a machine may have only one of the two loopback addresses.
        return next((own for own in LOOPBACKS if _has(own)), "::1"), port
    return "127.0.0.1" if host in WILDCARDS else host, port


def _has(address: str) -> bool:
    """Return whether this machine has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
