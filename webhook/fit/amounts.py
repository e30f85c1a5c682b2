"""Amounts of resources as people write them: cpu in cores or milli, memory in binary units, all else as a number."""

from __future__ import annotations

from collections.abc import Iterable

_MILLI = 1000
_STEP = 1024
_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
# In a table: devices first, because a gang seldom lacks anything else.
_LAST = {"cpu": 1, "memory": 2, "ephemeral-storage": 3, "pods": 5}


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as Kubernetes writes it. `amount` is in milli for cpu and in units for all else."""
    if resource == "cpu":
        return f"{amount // _MILLI}" if amount % _MILLI == 0 else f"{amount}m"
    return _in_bytes(amount) if resource.startswith(_BYTES) else f"{amount}"


def _in_bytes(amount: int) -> str:
    """Return bytes in the largest unit of which there are ten, with one digit after the point if need be."""
    power = 0
    while power + 1 < len(_SUFFIXES) and abs(amount) >= 10 * _STEP ** (power + 1):
        power += 1
    unit = _STEP**power
    return f"{amount // unit}{_SUFFIXES[power]}" if amount % unit == 0 else f"{amount / unit:.1f}{_SUFFIXES[power]}"


def in_order(resources: Iterable[str]) -> list[str]:
    """Return resources in the order of a table: devices, cpu, memory, then the others, the pod slots last."""
    return sorted(resources, key=lambda one: (_LAST.get(one, 0 if "/" in one else 4), one))
