"""The limits of this process: its memory, and how many connections its open files allow, with descriptors reserved for
other uses. Unused memory is returned to the system.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
from collections.abc import Callable
from pathlib import Path

# For the kubelet and Prometheus, their open connections, and some room during a flood.
HEALTH_CONNECTIONS = 64
# One client calls it: the API server, for ConfigMaps of one namespace.
NEXT_CONNECTIONS = 16
# For watches of some thirty kinds, 48 more requests to the API server, certificate files, the log, and the event loop.
KEPT_BACK = 96
# With fewer connections the API servers of a cluster would replace each other's.
LEAST = 16


def raise_limit(connections: int) -> int:
    """Raises the limit of open files as far as so many connections need, at most to the hard limit, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + HEALTH_CONNECTIONS + NEXT_CONNECTIONS + KEPT_BACK
    if soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def serving_connections(connections: int, limit: int) -> int:
    """Returns how many of these connections the serving port may have: as many as `limit` open files allow."""
    return max(LEAST, min(connections, limit - HEALTH_CONNECTIONS - NEXT_CONNECTIONS - KEPT_BACK))


_CGROUP = Path("/sys/fs/cgroup")
# Control groups version 2 and version 1. In a container both have its own limit here.
_FILES = ("memory.max", "memory/memory.limit_in_bytes")
# The limit in the manifests, assumed if there is none: a server alone on a large machine needs no more.
ASSUMED_LIMIT = 512 * 1024 * 1024
# Version 1 writes "no limit" as a number close to 2^63.
_UNLIMITED = 1 << 60
# How often memory is checked, and how much it must have grown: returning it takes some milliseconds.
LOOK_SECONDS = 5.0
GROWN_BYTES = 32 * 1024 * 1024
# From malloc.h of glibc. Python allocates 256 KiB for each read from a TLS connection, which must stay cheap.
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 384 * 1024
# The net number of new containers before a collection. Requests free theirs at once, so only kept objects add up.
_GC_THRESHOLD = 50_000


def memory_limit(cgroup: Path = _CGROUP) -> int:
    """Returns the limit of the control group in bytes, as the kubelet sets it for a container; `ASSUMED_LIMIT` if
    there is none or it cannot be read.
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
    """Returns the resident memory of the process; 0 if it cannot be read."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def return_large_blocks() -> None:
    """Makes the C library return every large block when it is freed. By default glibc keeps freed blocks of the size of
    a body, in pieces that fit no other body: 250 uploads under a budget of 128 MiB took 540 MiB.

    Source: mallopt(3), which stops moving the threshold once it is set. Other C libraries do not have it.
    """
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def make_collections_rare() -> None:
    """Makes garbage collection rare. Loaded objects stay for the life of the process, and requests leave no cycles. But
    each request makes some hundred containers, so with Python's default threshold nearly every request would trigger a
    collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


async def give_back_memory() -> None:
    """Returns memory that the C library keeps after a burst to the system, until cancelled. A thousand connections that
    carried 250 KB each left 300 MiB in use, although 200 MiB of it were free.
    """
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    least = resident_bytes()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if trim is not None and resident_bytes() > least + GROWN_BYTES:
            # ctypes releases the GIL during the call.
            await asyncio.to_thread(trim, 0)
            least = resident_bytes()
        least = min(least, resident_bytes())
