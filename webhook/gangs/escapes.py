"""Escapes: pods of a gang that lack what preparation writes (no I/O).

They bypassed the webhook, or the webhook's answer has changed since. PreparePod judges them: each field that it would
still change is a missing one. Pods that have a gang's labels but do not belong to it are escapes too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from webhook.backends.base import GangMember
from webhook.config.settings import Profile
from webhook.errors import FactsUnavailable
from webhook.gangs.pod import GangPod
from webhook.gangs.pod_parts import READ
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.reading import Malformed
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.place import label_value
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import PodGang
from webhook.mutators.prepare_pod import GATE, STAMP_ANNOTATION, prepare_pod

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

    def among(self, pods: Iterable[GangPod]) -> tuple[Escaped, ...]:
        """The escaped ones of these pods."""
        escaped = tuple(one for pod in pods if (one := self.of(pod)) is not None)
        self._before = None
        return escaped

    def of(self, pod: GangPod) -> Escaped | None:
        """How a pod escaped; None if it is correct, or if what it should have is not known."""
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
        """The member that a pod is of. Raises `FactsUnavailable`."""
        found = self._members.get(pod.podclique)
        if found is None:
            podgang = self._podgang
            gang, clique = _names(pod, podgang)
            found = self._members[pod.podclique] = self._profile.member(
                pod.namespace,
                gang,
                clique,
                self._record,
                self._facts,
                grouped_as=podgang.grouped_as if isinstance(podgang, OptedInGang) else None,
                divided=clique in podgang.divided,
            )
            if self._before is not None and self._before._members.get(pod.podclique) == found:
                self._same.add(pod.podclique)
        return found


def _may_be_there(path: str, pod: GangPod) -> bool:
    """Whether a field that preparation would write may be among the fields that were left out of the stored pod."""
    *_, part, key = path.split("/")
    key = key.replace("~1", "/").replace("~0", "~")
    return any(part == cut and key not in READ[cut] and key not in getattr(pod, cut) for cut in pod.cut)


def not_its_own(pods: Iterable[GangPod]) -> tuple[Escaped, ...]:
    """The pods that name a gang but do not belong to its workload, without failed and terminating ones."""
    return tuple(Escaped(pod, Escape.UNOWNED, ("/metadata/ownerReferences",)) for pod in pods if pod.counts)


def _names(pod: GangPod, podgang: PodGang) -> tuple[str, str]:
    """The gang and member names that the pod was prepared from; its labels may hold them shortened."""
    if not isinstance(podgang, OptedInGang):
        return podgang.gang, pod.podclique
    of = (member.name for member in podgang.members if label_value(member.name) == pod.podclique)
    return podgang.name, next(of, pod.podclique)
