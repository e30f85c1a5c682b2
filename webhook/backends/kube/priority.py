"""The priority class that a gang of the Workload API can have. Shared by the rules and by `gangs`.

From 1.37 on the class is in the group's own objects. When they are created, the API server's Priority plugin turns it
into a number, as for pods. Up to 1.36 it is behind a gate, and the pods' priority counts.
"""

from __future__ import annotations

from webhook.backends.kube.generation import Generation
from webhook.model.known_objects import PriorityClass

CARRIES_CLASS = frozenset({Generation.V1BETA1, Generation.TREE})
# HighestUserDefinablePriority. With one of the system's own classes pods may exceed it, but groups may not (seen).
HIGHEST = 1_000_000_000


def class_problem(found: PriorityClass | None) -> str | None:
    """Why the API server would refuse a group with that class, or None."""
    if found is None:
        return "there is no such PriorityClass, so the API server would refuse the groups of the gang"
    if found.value > HIGHEST:
        return f"its value is {found.value}, and the API server refuses groups above {HIGHEST}"
    return None
