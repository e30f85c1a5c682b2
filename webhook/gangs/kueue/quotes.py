"""Kueue's messages as a message of ours may quote them: short, and without objects of other namespaces.

A Workload of one namespace waits for Workloads of others, so a message about the first may name the others.
"""

from __future__ import annotations

import re
from collections.abc import Container

# A message about a topology lists every reason that excludes a node.
_LONGEST = 300
# Kueue names the workload that preempts another by its UIDs, and both by their cohorts. A long message is cut.
# Source: pkg/scheduler/preemption/preemption.go, preemptionMessage.
_UIDS = re.compile(r" \((?:UID|JobUID): [^)]*(?:\)|$)")
_PATHS = re.compile(r"; preemptor path: [^;]*; preemptee path: \S*")
# A namespace has no dot, so `example.com/gpu` is not an object.
_OBJECT = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([a-z0-9][-.a-z0-9]*[a-z0-9]|[a-z0-9])(?![\w/])")
_ELSEWHERE = "an object of another namespace"


def quoted(message: str, namespace: str, namespaces: Container[str] | None) -> str:
    """A message of Kueue as it may be shown in `namespace`. `namespaces` are all namespaces, None if they are
    unknown.
    """

    def shown(found: re.Match[str]) -> str:
        other = found[1] != namespace and (namespaces is None or found[1] in namespaces)
        return _ELSEWHERE if other else found[0]

    words = " ".join(_PATHS.sub("", _UIDS.sub("", message)).split())
    said = _OBJECT.sub(shown, words).rstrip(".")
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 3]}..."
