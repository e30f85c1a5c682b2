"""The pods of a gang that are on nodes that exist (no I/O).

When a node is deleted, its pods stay for a minute: the garbage collector of pods gives the node 40 seconds to come
back.
Source: Kubernetes 1.37, pkg/controller/podgc/gc_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from webhook.gangs.pod import GangPod
from webhook.gangs.pod_reasons import Tally, tallies
from webhook.model.workloads.podgang import PodGang


class BoundMembers(NamedTuple):
    """How many pods are on existing nodes (`bound`), the GPUs that they hold, and how many pods members lack to start
    (`lacking`). `orphans` are on nodes that are gone, `ended` were on nodes and do not count any more. `missing` are
    the names of pods that the PodGang names and that do not exist. `replaced` is true if a pod without a node was
    created after another pod of its gang was bound: so the gang had started before.
    """

    bound: int
    gpus: int
    lacking: int
    orphans: tuple[GangPod, ...]
    ended: tuple[GangPod, ...]
    missing: tuple[str, ...]
    replaced: bool

    @property
    def is_whole(self) -> bool:
        """Whether every member has as many pods on existing nodes as it needs to start."""
        return not self.lacking

    def without(self, names: Container[str]) -> BoundMembers:
        """The same without the pods of these names among those that ended or are missing."""
        ended = tuple(pod for pod in self.ended if pod.name not in names)
        return self._replace(ended=ended, missing=tuple(name for name in self.missing if name not in names))

    @property
    def had_started(self) -> bool:
        """Whether a gang with too few pods on nodes must have started before: a scheduler binds no gang that lacks
        pods, and none before all pods exist that it needs.
        """
        return self.bound > 0 and bool(self.orphans or self.ended or self.missing or self.replaced)


def bound_members(podgang: PodGang, pods: Sequence[GangPod], exists: Callable[[str], bool]) -> BoundMembers:
    """Count the pods of a gang; `exists` tells whether there is a node of that name. Raises `Malformed`."""
    bound: list[GangPod] = []
    orphans: list[GangPod] = []
    waiting: list[GangPod] = []
    lacking, missing = 0, list[str]()
    known, named = {pod.name for pod in pods}, podgang.pod_names()
    for tally in tallies(podgang, pods):
        here = _on_nodes(tally, exists, bound, orphans, waiting)
        if here < tally.member.min_replicas:
            lacking += tally.member.min_replicas - here
            missing += [name for name in named.get(tally.member.name, ()) if name and name not in known]
    first = min((pod.placed for pod in bound if pod.placed), default="")
    return BoundMembers(
        len(bound),
        sum(pod.gpus for pod in bound),
        lacking,
        tuple(orphans),
        tuple(pod for pod in pods if not pod.counts and pod.node is not None),
        tuple(missing),
        bool(first) and any(pod.created > first for pod in waiting),
    )


def _on_nodes(
    tally: Tally,
    exists: Callable[[str], bool],
    bound: list[GangPod],
    orphans: list[GangPod],
    waiting: list[GangPod],
) -> int:
    """Sort the pods of one member, and return how many are on existing nodes."""
    before = len(bound)
    for pod in tally.pods:
        (waiting if pod.node is None else bound if exists(pod.node) else orphans).append(pod)
    return len(bound) - before


def latest(pods: Iterable[GangPod], most: int) -> list[GangPod]:
    """At most so many of the pods, those that were bound last."""
    return sorted(pods, key=lambda pod: (pod.placed, pod.name), reverse=True)[: max(most, 0)]
