"""Which of the pods that name a gang are its members (no I/O).

Anyone who may create a pod can write any label, so a label does not make a member. The controller does, by its uid. For
Grove's gangs the PodGang must name the pod as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhook.gangs.pod import GangPod
from webhook.model.reading import mapping
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.kinds import is_a
from webhook.model.workloads.pod_controllers import POD_CLIQUES, kept_controller
from webhook.model.workloads.podgang import OwnerReference, PodGang


class Roster(NamedTuple):
    """The pods that name a gang. Only `members` count.

    The PodGang does not name the pods in `unnamed` yet. The pods in `unowned` were not made by a controller of the
    gang's workload.
    """

    members: Sequence[GangPod] = ()
    unnamed: Sequence[GangPod] = ()
    unowned: Sequence[GangPod] = ()

    @property
    def pods(self) -> list[GangPod]:
        """All pods that name the gang."""
        return [*self.members, *self.unnamed, *self.unowned]


def roster(podgang: PodGang, pods: Iterable[tuple[GangPod, Sequence[OwnerReference]]]) -> Roster:
    """Split pods that name a gang, each with the controllers above it, into members and others."""
    members: list[GangPod] = []
    unnamed: list[GangPod] = []
    unowned: list[GangPod] = []
    named = None if isinstance(podgang, OptedInGang) else _named(podgang)
    uid = _workload_uid(podgang)
    for pod, above in pods:
        if not _is_below(uid, podgang, above) or (named is not None and above[0].name != pod.podclique):
            unowned.append(pod)
        elif named is not None and (pod.podclique, pod.name) not in named:
            unnamed.append(pod)
        else:
            members.append(pod)
    return Roster(members, unnamed, unowned)


def is_controlled(podgang: PodGang, above: Sequence[OwnerReference]) -> bool:
    """Whether a pod with these controllers belongs to the gang's workload."""
    return _is_below(_workload_uid(podgang), podgang, above)


def _workload_uid(podgang: PodGang) -> str | None:
    if isinstance(podgang, OptedInGang):
        return podgang.workload.uid
    workload = kept_controller(mapping(podgang.raw.get("metadata")))
    return None if workload is None else workload.uid


def _is_below(uid: str | None, podgang: PodGang, above: Sequence[OwnerReference]) -> bool:
    if isinstance(podgang, OptedInGang):
        return any(found.uid == uid for found in above)
    if uid is None or not above:
        return False
    return is_a(above[0], POD_CLIQUES) and any(found.uid == uid for found in above[1:])


def _named(podgang: PodGang) -> set[tuple[str, str]]:
    """Pairs of member and pod name, from the PodGang."""
    return {(member, pod) for member, pods in podgang.pod_names().items() for pod in pods}
