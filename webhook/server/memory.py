"""How much memory this process may use, and giving back what it uses no more."""

from __future__ import annotations

import asyncio
import ctypes
import resource
from collections.abc import Callable
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
# Control groups of version 2, and of version 1. In a container both show its own limit here.
_FILES = ("memory.max", "memory/memory.limit_in_bytes")
# What the manifests set, and what is assumed where nobody sets a limit: a server that is alone on a large machine needs
# no more.
ASSUMED_LIMIT = 512 * 1024 * 1024
# Version 1 writes "no limit" as a number close to 2^63.
_UNLIMITED = 1 << 60
# How often memory is looked at, and how much it must have grown: giving back takes some milliseconds.
LOOK_SECONDS = 5.0
GROWN_BYTES = 32 * 1024 * 1024
# From malloc.h of glibc. Python takes 256 KiB for each read from a TLS connection, which must stay cheap.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 384 * 1024


def memory_limit(cgroup: Path = _CGROUP) -> int:
    """The limit of the control group, as the kubelet sets it for a container, in bytes; `ASSUMED_LIMIT` where there is
    none, or where it cannot be read.
    """
    for name in _FILES:
        try:
            written = (cgroup / name).read_text().strip()
        except OSError:
            continue
        if written.isdigit() and 0 < int(written) < _UNLIMITED:
            return int(written)
    return ASSUMED_LIMIT


def resident_bytes() -> int:
    """What the process has in memory now; 0 where that is not told."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def return_large_blocks() -> None:
    """Have the C library return every large block when it is freed. By itself it keeps blocks of the size of a body
    once one was freed, in pieces that no other body fits into: 250 uploads under a budget of 128 MiB took 540 MiB.

    Source: mallopt(3), which stops moving the threshold once it is set. Other C libraries do not have it.
    """
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


async def give_back_memory() -> None:
    """Return to the system what the C library keeps for itself after a burst, until cancelled: a thousand connections
    that carried 250 KB each left 300 MiB, of which 200 were free.
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    least = resident_bytes()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if trim is not None and resident_bytes() > least + GROWN_BYTES:
            # Without the interpreter's lock.
            await asyncio.to_thread(trim, 0)
            least = resident_bytes()
        least = min(least, resident_bytes())
