"""Escapes and strangers: pods of a gang that lack what preparation writes, and pods that name it without belonging to
it (no I/O).

Escapes bypassed the webhook, or the webhook's answer has changed since. PreparePod judges them: each field that it
would still change is a missing one. A stranger names a group of the gang by the mark that the scheduler reads, and
takes the place of a member. No label tells it from the other pods of its namespace, so these are searched page by
page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from webhook.backends.base import GangMember
from webhook.config.settings import Profile
from webhook.errors import FactsUnavailable
from webhook.gangs.key import GangKey
from webhook.gangs.members import READ, GangOwner, GangPod, read_gang_pod
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.gang_objects import JUDGED_PODS, GangObjectKey, StoredObject
from webhook.model.grove import OwnerReference, PodGang
from webhook.model.keys import Api, Record
from webhook.model.place import kept_controller, label_value
from webhook.model.pod_template import Pod
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.mutators.prepare_pod import GATE, STAMP_ANNOTATION, prepare_pod
from webhook.workloads.opted_in_gang import OptedInGang

_STAMP = f"/metadata/annotations/{STAMP_ANNOTATION.replace('/', '~1')}"


class Escape(StrEnum):
    """How a pod escaped; a metric's label."""

    # Created while the webhook was not called.
    UNMUTATED = "unmutated"
    # Prepared, but from other input than today's, or changed since.
    STALE = "stale"
    # Another scheduler or system has claimed it.
    FOREIGN = "foreign"
    # It names the gang, but no controller of the gang's workload made it. It is never counted as a member. It is never
    # deleted: no controller would recreate it, and it may belong to another user.
    UNOWNED = "unowned"
    # It should be in a gang, but its controller is of a kind that Rollcall does not know, so it has none. It is counted
    # by `webhook.reconciler.unknown_kinds`, and is never deleted.
    UNKNOWN_KIND = "unknownKind"


# Pods that may be deleted, because their controller recreates them.
DELETABLE = (Escape.UNMUTATED, Escape.STALE, Escape.FOREIGN)


class Escaped(NamedTuple):
    """A pod, how it escaped, and the wrong fields as JSON pointers."""

    pod: GangPod
    escape: Escape
    fields: tuple[str, ...]

    @property
    def dropped(self) -> tuple[str, ...]:
        """Fields of the pod's spec that preparation wrote and the API server dropped.

        Proof: the stamp from the same request is present and correct.
        """
        if self.escape is not Escape.STALE or _STAMP in self.fields:
            return ()
        return tuple(field for field in self.fields if field.startswith("/spec/") and field != "/spec/schedulerName")


class Escapes:
    """Tells how pods of one gang escaped. A gang may have thousands of pods, and few members."""

    def __init__(
        self, podgang: PodGang, profile: Profile, record: Record, facts: ClusterFacts, before: Escapes | None = None
    ) -> None:
        """`before` is what was told when the gang was last judged, of which most pods are still as they were."""
        self._podgang = podgang
        self._profile = profile
        self._record = record
        self._facts = facts
        self._members: dict[str, GangMember] = {}
        self._before = before if before is not None and before._profile is profile else None
        # The members that are as before.
        self._same: set[str] = set()
        self._answers: dict[str, tuple[GangPod, Escaped | None]] = {}

    def find_escaped(self, pods: Iterable[GangPod]) -> tuple[Escaped, ...]:
        """Returns the escaped ones of these pods."""
        escaped = tuple(escaped_pod for pod in pods if (escaped_pod := self.find_escape(pod)) is not None)
        self._before = None
        return escaped

    def find_escape(self, pod: GangPod) -> Escaped | None:
        """Returns how a pod escaped; None if it is correct, or if what it should have is not known."""
        try:
            member = self._member(pod)
        except FactsUnavailable:
            return None
        answer = None
        if self._before is not None and pod.podclique in self._same:
            answer = self._before._answers.get(pod.uid)
        if answer is None or answer[0] is not pod:
            answer = pod, self._looked_at(pod, member)
        self._answers[pod.uid] = answer
        return answer[1]

    def _looked_at(self, pod: GangPod, member: GangMember) -> Escaped | None:
        try:
            # The gate is always set here: the reconciler removes it from the pod, so its absence is not an escape.
            spec = {**pod.spec, "schedulingGates": [{"name": GATE}]}
            metadata = {"labels": dict(pod.labels), "annotations": dict(pod.annotations), "namespace": pod.namespace}
            prepared = prepare_pod(Pod({"metadata": metadata, "spec": spec}), self._profile, member)
        except (FactsUnavailable, Malformed):
            return None
        if prepared.claim is not None:
            return Escaped(pod, Escape.FOREIGN, (str(prepared.claim.path),))
        paths = (str(operation["path"]) for operation in prepared.operations)
        if not (fields := tuple(path for path in paths if not _may_be_there(path, pod))):
            return None
        kind = Escape.STALE if STAMP_ANNOTATION in pod.annotations else Escape.UNMUTATED
        return Escaped(pod, kind, fields)

    def _member(self, pod: GangPod) -> GangMember:
        """Returns the member that a pod is of. Raises `FactsUnavailable`."""
        member = self._members.get(pod.podclique)
        if member is None:
            podgang = self._podgang
            gang, clique = _names(pod, podgang)
            member = self._members[pod.podclique] = self._profile.member(
                pod.namespace,
                gang,
                clique,
                self._record,
                self._facts,
                grouped_as=podgang.grouped_as if isinstance(podgang, OptedInGang) else None,
                divided=clique in podgang.divided,
            )
            if self._before is not None and self._before._members.get(pod.podclique) == member:
                self._same.add(pod.podclique)
        return member


def _may_be_there(path: str, pod: GangPod) -> bool:
    """Returns whether a field that preparation would write may be among those cut from the stored pod."""
    *_, part, key = path.split("/")
    key = key.replace("~1", "/").replace("~0", "~")
    return any(part == cut and key not in READ[cut] and key not in getattr(pod, cut) for cut in pod.cut)


def unowned_escapes(pods: Iterable[GangPod]) -> tuple[Escaped, ...]:
    """Returns the pods that name a gang but do not belong to its workload, without failed and terminating ones."""
    return tuple(Escaped(pod, Escape.UNOWNED, ("/metadata/ownerReferences",)) for pod in pods if pod.counts)


def _names(pod: GangPod, podgang: PodGang) -> tuple[str, str]:
    """Returns the gang and member names that the pod was prepared from; its labels may hold them shortened."""
    if not isinstance(podgang, OptedInGang):
        return podgang.gang, pod.podclique
    of = (member.name for member in podgang.members if label_value(member.name) == pod.podclique)
    return podgang.name, next(of, pod.podclique)


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
    workload: GangOwner | None
    pod_names: Collection[str]
    above: Above

    def has(self, pod: str, controller: OwnerReference | None) -> bool:
        """Returns whether a pod with that controller is known to name the gang, or belongs to it."""
        return pod in self.pod_names or (self.workload is not None and self.workload.controls(self.above(controller)))


class StrangerSearch:
    """A search through the pods of a namespace for the strangers of its gangs."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._backends = [profile.backend for profile in profiles if profile.backend.judged_marks]
        self._gangs: dict[GangKey, SoughtGang] = {}
        self._of: dict[GangObjectKey, GangKey] = {}
        self._pods: dict[GangKey, list[GangPod]] = {}
        self._further: dict[GangKey, int] = {}

    def add(self, gang: SoughtGang, gang_objects: Iterable[Manifest]) -> None:
        """Searches for the strangers of a gang, too, which has these gang objects of Rollcall's."""
        self._gangs[gang.key] = gang
        for live in gang_objects:
            group, _, version = str(live["apiVersion"]).rpartition("/")
            metadata, api = live["metadata"], Api(group, version, str(live["kind"]))
            self._of[api, metadata.get("namespace") or "default", metadata["name"]] = gang.key

    @property
    def is_needed(self) -> bool:
        """Whether any pod could name a group of these gangs."""
        return bool(self._of and self._backends)

    def see(self, pods: Iterable[Manifest]) -> None:
        """Goes through some pods of the namespace; all pages come in the order of names."""
        for raw in pods:
            try:
                self._see(raw)
            except Malformed:
                # The API server stores no such pod.
                continue

    def strangers(self) -> Mapping[GangKey, Strangers]:
        return {key: Strangers(tuple(self._pods.get(key, ())), self._further.get(key, 0)) for key in self._gangs}

    def _see(self, raw: Manifest) -> None:
        pod = StoredObject(raw, JUDGED_PODS.kind, "v1")
        for key in self._claimed_gangs(pod):
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

    def _claimed_gangs(self, pod: StoredObject) -> Iterable[GangKey]:
        """Returns the gangs of which a pod names a group, each once."""
        groups = (backend.named_group(pod, NO_FACTS) for backend in self._backends)
        every = (self._of.get(key) for group in groups if group is not None for key in group.objects)
        return dict.fromkeys(gang for gang in every if gang is not None)


def still_strangers(gang: SoughtGang, before: Strangers) -> Strangers:
    """Returns the strangers that do not name the gang by labels or belong to it now: a list may be ahead of watches."""
    left = tuple(pod for pod in before.pods if not gang.has(pod.name, pod.controller))
    return before if len(left) == len(before.pods) else Strangers(left, before.further)


def _outline(raw: Manifest, gang: GangKey) -> GangPod:
    """Returns what is kept of a stranger: its name, its node and its controller. Its labels do not matter."""
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
