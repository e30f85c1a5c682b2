"""Which of the pods that name a gang are its members (no I/O).

Anyone who may create a pod can write any label, so a label does not make a member. The controller does, by its uid. For
Grove's gangs the PodGang must name the pod as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhook.gangs.pod import GangPod
from webhook.model import grove
from webhook.model.reading import mapping
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.kinds import is_a
from webhook.model.workloads.pod_controllers import POD_CLIQUES, kept_controller
from webhook.model.workloads.podgang import OwnerReference, PodGang


class Roster(NamedTuple):
    """The pods that name a gang. Only `members` count.

    The PodGang does not name the pods in `unnamed` yet. The pods in `unowned` have its labels and were not made by a
    controller of the gang's workload. Neither were `strangers`: they only name a group of the gang by the mark of its
    scheduler. These were searched for, if the gang waits; `further` is how many there are besides.
    """

    members: Sequence[GangPod] = ()
    unnamed: Sequence[GangPod] = ()
    unowned: Sequence[GangPod] = ()
    strangers: Sequence[GangPod] = ()
    further: int = 0

    @property
    def unnamed_with_gate(self) -> list[GangPod]:
        """The pods that Grove's gate holds until the PodGang names them."""
        return [pod for pod in self.unnamed if pod.counts and grove.GATE in pod.gates]

    @property
    def pods(self) -> list[GangPod]:
        """All pods that name the gang, as far as they are kept."""
        return [*self.members, *self.unnamed, *self.unowned, *self.strangers]


def roster(podgang: PodGang, pods: Iterable[tuple[GangPod, Sequence[OwnerReference]]]) -> Roster:
    """Split pods that name a gang, each with the controllers above it, into members and others."""
    members: list[GangPod] = []
    unnamed: list[GangPod] = []
    unowned: list[GangPod] = []
    named = None if isinstance(podgang, OptedInGang) else _named(podgang)
    workload = GangWorkload.of(podgang)
    for pod, above in pods:
        if workload is None or not workload.controls(above) or (named is not None and above[0].name != pod.podclique):
            unowned.append(pod)
        elif named is not None and (pod.podclique, pod.name) not in named:
            unnamed.append(pod)
        else:
            members.append(pod)
    return Roster(members, unnamed, unowned)


class GangWorkload(NamedTuple):
    """The workload of a gang: its uid, and whether PodCliques make its pods."""

    uid: str | None
    has_cliques: bool

    @classmethod
    def of(cls, podgang: PodGang) -> GangWorkload | None:
        """The workload of a gang; None for a PodGang without a controller."""
        if isinstance(podgang, OptedInGang):
            return cls(podgang.workload.uid, has_cliques=False)
        workload = kept_controller(mapping(podgang.raw.get("metadata")))
        return None if workload is None else cls(workload.uid, has_cliques=True)

    def controls(self, above: Sequence[OwnerReference]) -> bool:
        """Whether a pod with these controllers belongs to the workload."""
        if self.has_cliques and not (above and is_a(above[0], POD_CLIQUES)):
            return False
        return any(owner.uid == self.uid for owner in (above[1:] if self.has_cliques else above))


def is_controlled(podgang: PodGang, above: Sequence[OwnerReference]) -> bool:
    """Whether a pod with these controllers belongs to the gang's workload."""
    workload = GangWorkload.of(podgang)
    return workload is not None and workload.controls(above)


def _named(podgang: PodGang) -> set[tuple[str, str]]:
    """Pairs of member and pod name, from the PodGang."""
    return {(member, pod) for member, pods in podgang.pod_names().items() for pod in pods}
