"""Pods that name a group of a gang by the mark that its scheduler reads, and do not belong to the gang (no I/O).

Such a pod takes the place of a member. No label tells it from the other pods of its namespace, so it is not watched:
the pods of the namespace are searched for it, page by page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.config.settings import Profile
from webhook.gangs.key import GangKey
from webhook.gangs.pod import GangPod, read_gang_pod
from webhook.gangs.roster import GangWorkload
from webhook.model.facts import NOTHING_KNOWN
from webhook.model.keys import Api
from webhook.model.living_gang import GangObjectKey
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.stored_object import PODS, StoredObject
from webhook.model.workloads.pod_controllers import kept_controller
from webhook.model.workloads.podgang import OwnerReference

# How many strangers of a gang are kept, the first by name; the others are counted. Anyone who may create pods in a
# namespace can make any number of them.
KEPT = 10
_ENDED = frozenset({"Succeeded", "Failed"})


class Strangers(NamedTuple):
    """The strangers of a gang: some of them, and how many there are `further`."""

    pods: tuple[GangPod, ...] = ()
    further: int = 0


NO_STRANGERS = Strangers()
# Returns the chain of controllers above a pod that names that controller.
Above = Callable[[OwnerReference | None], Sequence[OwnerReference]]


class SoughtGang(NamedTuple):
    """A gang whose strangers are searched for: its workload, the names of the pods that are known to name it, and the
    controllers above other pods. Little of it is kept, because a namespace may have thousands of such gangs.
    """

    key: GangKey
    workload: GangWorkload | None
    known: Collection[str]
    above: Above

    def has(self, pod: str, controller: OwnerReference | None) -> bool:
        """Whether a pod with that controller is known to name the gang, or belongs to it."""
        return pod in self.known or (self.workload is not None and self.workload.controls(self.above(controller)))


class StrangerSearch:
    """A search through the pods of a namespace for the strangers of its gangs."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._backends = [profile.backend for profile in profiles if profile.backend.judged_marks]
        self._gangs: dict[GangKey, SoughtGang] = {}
        self._of: dict[GangObjectKey, GangKey] = {}
        self._pods: dict[GangKey, list[GangPod]] = {}
        self._further: dict[GangKey, int] = {}

    def add(self, gang: SoughtGang, own: Iterable[Manifest]) -> None:
        """Search for the strangers of a gang, too, which has these gang objects of Rollcall's."""
        self._gangs[gang.key] = gang
        self._of.update((_object_key(live), gang.key) for live in own)

    @property
    def is_needed(self) -> bool:
        """Whether any pod could name a group of these gangs."""
        return bool(self._of and self._backends)

    def see(self, pods: Iterable[Manifest]) -> None:
        """Go through some pods of the namespace; all pages come in the order of names."""
        for raw in pods:
            try:
                self._see(raw)
            except Malformed:
                # The API server stores no such pod.
                continue

    def found(self) -> Mapping[GangKey, Strangers]:
        """The strangers of each gang, so far."""
        return {key: Strangers(tuple(self._pods.get(key, ())), self._further.get(key, 0)) for key in self._gangs}

    def _see(self, raw: Manifest) -> None:
        pod = StoredObject(raw, PODS.kind, "v1")
        for key in self._named(pod):
            metadata = mapping(raw.get("metadata"))
            ended = mapping(raw.get("status")).get("phase") in _ENDED
            if ended or metadata.get("deletionTimestamp") is not None:
                continue
            if self._gangs[key].has(pod.name, kept_controller(metadata)):
                continue
            kept = self._pods.setdefault(key, [])
            if len(kept) < KEPT:
                kept.append(_outline(raw, key))
            else:
                self._further[key] = self._further.get(key, 0) + 1

    def _named(self, pod: StoredObject) -> Iterable[GangKey]:
        """The gangs of which a pod names a group, each once."""
        named = (backend.named_group(pod, NOTHING_KNOWN) for backend in self._backends)
        every = (self._of.get(key) for group in named if group is not None for key in group.objects)
        return dict.fromkeys(gang for gang in every if gang is not None)


def still_strangers(gang: SoughtGang, before: Strangers) -> Strangers:
    """The strangers without those that have turned out to name the gang by its labels, or to belong to it: a list may
    be ahead of the watches.
    """
    left = tuple(pod for pod in before.pods if not gang.has(pod.name, pod.controller))
    return before if len(left) == len(before.pods) else Strangers(left, before.further)


def _object_key(live: Manifest) -> GangObjectKey:
    group, _, version = str(live["apiVersion"]).rpartition("/")
    metadata: Mapping[str, Any] = live["metadata"]
    return Api(group, version, str(live["kind"])), metadata.get("namespace") or "default", metadata["name"]


def _outline(raw: Manifest, gang: GangKey) -> GangPod:
    """What is kept of a stranger: its name, its node and its controller. Its labels do not matter."""
    _, pod = read_gang_pod(raw)
    return pod._replace(
        podgang=gang.name,
        podclique="",
        base=None,
        kind=gang.kind,
        workload=gang.workload,
        unscheduled=None,
        labels={},
        annotations={},
        spec={},
        cut=frozenset(),
        needs=None,
    )
