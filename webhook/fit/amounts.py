"""Amounts of resources as Kubernetes writes them: cpu in cores or milli cores, memory with a binary suffix."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.model.amounts import is_cpu

_BINARY = (
    (1 << 60, "Ei"),
    (1 << 50, "Pi"),
    (1 << 40, "Ti"),
    (1 << 30, "Gi"),
    (1 << 20, "Mi"),
    (1 << 10, "Ki"),
    (1, ""),
)
_BYTES = ("memory", "ephemeral-storage", "hugepages-", "kubernetes.io/batch-memory", "kubernetes.io/mid-memory")
# More digits than this are not read.
_MOST_DIGITS = 10**6


def amount(resource: str, number: int) -> str:
    """Return an amount without its resource: `1500m`, `64Gi`, `8`. Long numbers of bytes are cut to a tenth."""
    if is_cpu(resource):
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if number and resource.removeprefix("limits.").removeprefix("requests.").startswith(_BYTES):
        size, suffix = next(one for one in _BINARY if number % one[0] == 0)
        if number // size < _MOST_DIGITS:
            return f"{number // size}{suffix}"
        size, suffix = next(one for one in _BINARY if number >= one[0])
        tenths = number * 10 // size
        return f"{tenths // 10}.{tenths % 10}{suffix}"
    return str(number)


def amount_of(resource: str, number: int) -> str:
    """Return an amount with its resource: `8 nvidia.com/gpu`."""
    return f"{amount(resource, number)} {resource}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def sentence_list(words: Sequence[str]) -> str:
    """Return words as they stand in a sentence: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1] if words else "")))
