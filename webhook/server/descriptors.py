"""How many connections the limit of open files allows, with descriptors reserved for other uses."""

from __future__ import annotations

import resource

# For the kubelet and Prometheus, their open connections, and some room during a flood.
HEALTH_CONNECTIONS = 64
# One client calls it: the API server, for ConfigMaps of one namespace.
NEXT_CONNECTIONS = 16
# For watches of some thirty kinds, 48 more requests to the API server, certificate files, the log, and the event loop.
KEPT_BACK = 96
# With fewer connections the API servers of a cluster would replace each other's.
LEAST = 16


def raise_limit(wanted: int) -> int:
    """Raise the limit of open files as far as `wanted` needs and the hard limit allows. Return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + HEALTH_CONNECTIONS + NEXT_CONNECTIONS + KEPT_BACK
    if soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def serving_connections(wanted: int, limit: int) -> int:
    """Return how many connections the serving port may have: `wanted`, or what `limit` open files leave."""
    return max(LEAST, min(wanted, limit - HEALTH_CONNECTIONS - NEXT_CONNECTIONS - KEPT_BACK))
