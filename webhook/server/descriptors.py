"""How many connections the limit of open files allows, with descriptors kept back for all else."""

from __future__ import annotations

import resource

# The kubelet and Prometheus, what they leave open, and room for them beside a flood.
HEALTH_CONNECTIONS = 64
# One asks, for ConfigMaps of one namespace.
NEXT_CONNECTIONS = 16
# Watches of some thirty kinds and 48 further requests to the API server, files of certificates, the log, the event
# loop's own.
KEPT_BACK = 96
# With fewer the API servers of a cluster would take each other's.
LEAST = 16


def raise_limit(wanted: int) -> int:
    """Raise the limit of open files as far as `wanted` needs and may be; the limit from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + HEALTH_CONNECTIONS + NEXT_CONNECTIONS + KEPT_BACK
    if soft < needed:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def serving_connections(wanted: int, limit: int) -> int:
    """How many connections the serving port may have: `wanted`, or what `limit` open files leave."""
    return max(LEAST, min(wanted, limit - HEALTH_CONNECTIONS - NEXT_CONNECTIONS - KEPT_BACK))
