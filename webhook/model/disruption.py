"""How pods of a gang may be preempted: each separately, or only all together. What a workload chooses, and what decides
if it chooses nothing: whether the gang needs every pod that it has.

The size of a Grove gang is read from its PodCliqueSet: a new PodGang does not list its pods yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from webhook.model import grove
from webhook.model.bounds import is_cut, list_kept
from webhook.model.keys import Record
from webhook.model.reading import text
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet
from webhook.model.workloads.podgang import PodGang

# On a workload: its choice, which its new gangs follow.
DISRUPTION_LABEL = "rollcall.dev/disruption-mode"
# Stands for the index of a scaling group's replica. No name contains it.
_INDEX = "*"


class Disruption(StrEnum):
    """How pods of a group may be disrupted: each separately, or only all together."""

    SINGLE = "single"
    ALL = "all"

    @property
    def meaning(self) -> str:
        """What preemption does to such a gang."""
        one = "preemption may take single pods of a running gang"
        return "preemption takes all pods of a gang, or none" if self is Disruption.ALL else one


# The choice that depends on the gang.
AUTO = "auto"
CHOICES = (AUTO, *Disruption)


def has_spare_pods(clique: Clique) -> bool:
    """Whether a clique has, or may get, more pods than its minimum."""
    return clique.min_available != clique.replicas or bool(clique.spec.get("autoScalingConfig"))


def spare_cliques(workload: PodCliqueSet) -> tuple[str, ...]:
    """The cliques of a set that have spare pods, as the end of their PodCliques' names."""
    return list_kept(tuple(end for end, one in podclique_ends(workload) if has_spare_pods(one)))


def needs_every_pod(podgang: PodGang, record: Record) -> bool:
    """Whether the minimum of a gang is its size. `record` is the record of its workload."""
    if (
        podgang.elastic
        or is_cut(record.spare)
        or any(member.pods > member.min_replicas > 0 for member in podgang.members)
    ):
        return False
    workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
    patterns = [_podclique(workload, end) for end in record.spare]
    return not any(pattern.fullmatch(member.name) for member in podgang.members for pattern in patterns)


def podclique_ends(workload: PodCliqueSet) -> Iterator[tuple[str, Clique]]:
    """The cliques of a set, each with the end of its PodCliques' names: "worker", or "prefill-*-worker" in a scaling
    group.
    """
    for one in workload.cliques:
        yield (one.name if one.group is None else f"{one.group.name}-{_INDEX}-{one.name}"), one


def is_podclique(name: str, workload: str, end: str) -> bool:
    """Whether a PodClique is of the clique of a set with this end."""
    return _podclique(workload, end).fullmatch(name) is not None


def _podclique(workload: str, end: str) -> re.Pattern[str]:
    """A pattern of the names of a clique's PodCliques: one for each replica of the set and of the scaling group."""
    index = r"[0-9]+"
    return re.compile(f"{re.escape(workload)}-{index}-{re.escape(end).replace(re.escape(_INDEX), index)}")
