"""The projection of one pod of a gang.

Only the small part of its spec is kept. Containers, volumes and the like are most of a pod, and do not matter for a
gang.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.loss_causes import LossCause, cause_in
from webhook.gangs.pod_gpus import gpus_of
from webhook.gangs.pod_parts import BASE_PODGANG, Part, parts_of
from webhook.gangs.pod_spec import spec_text
from webhook.model import grove
from webhook.model.bounds import name_text, shared
from webhook.model.keys import ObjectKey
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workloads.gang import GANG_LABEL, MEMBER_LABEL
from webhook.model.workloads.place import LWS_SIZE, Place, label_value, membership
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.pod_controllers import kept_controller
from webhook.model.workloads.podgang import OwnerReference
from webhook.model.workloads.shapes.kinds import PYTHON_KINDS, WorkloadKinds
from webhook.mutators.prepare_pod import GATE

# Pods that name a PodGang, regardless of their owner.
OF_GANGS = {"labelSelector": grove.LABEL_PODGANG}
# Pods that were prepared for a gang of an opted-in workload.
OF_OPTED_IN_GANGS = {"labelSelector": f"{GANG_LABEL},!{grove.LABEL_PODGANG}"}

# Upper bound of one projection in memory: its parts, its first gates, the scheduler's message and its spec as text.
POD_BYTES = 48 * 1024
# A pod usually has one gate or two. Only the first are kept; of the rest it only matters that they exist.
_GATES = 8
# A scheduler's message groups nodes by reason.
_MESSAGE_CHARACTERS = 1024
_INT32_DIGITS = 10
# `2026-09-01T12:00:00Z`.
_TIME_CHARACTERS = 20


class Unscheduled(NamedTuple):
    """The scheduler's reason and message for a pod it has not placed, from the condition PodScheduled=False."""

    reason: str
    message: str


class GangPod(NamedTuple):
    """A pod that names a PodGang, or belongs to an opted-in workload.

    For an opted-in workload, `podgang` and `podclique` are the gang and member from its labels. `kind` and `workload`
    are its workload, `group` is its group in a LeaderWorkerSet, and `size` the group's number of pods.

    `node` is the node it was bound to. `gates` are the names of its first scheduling gates; `gate` is the index of
    Rollcall's gate among all of them. `controller` is the controller that the pod names. `labels`, `annotations` and
    `spec` are what preparation may have written, as `pod_parts` keeps them. `cut` lists those of the three that were
    shortened. `needs` is what decides which nodes have room for it, as `pod_spec` keeps it; None for a pod on a node.

    `taken_by` is why it is being taken off its node. `placed` is when it was bound to the node, as the API server wrote
    it, and `gpus` how many whole GPUs it holds there.
    """

    namespace: str
    name: str
    uid: str
    podgang: str
    podclique: str
    base: str | None
    node: str | None
    leaving: bool
    failed: bool
    gates: tuple[str, ...]
    gate: int | None
    unscheduled: Unscheduled | None
    created: str
    controller: OwnerReference | None
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    cut: frozenset[Part]
    kind: str = POD_GANG
    workload: str = ""
    group: str = ""
    size: int | None = None
    needs: str | None = None
    taken_by: LossCause | None = None
    placed: str = ""
    gpus: int = 0

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def gang(self) -> GangKey:
        """The key of its gang."""
        return GangKey(self.namespace, self.podgang, self.kind, self.workload)

    @property
    def workload_name(self) -> str:
        """The name of its workload."""
        return str(self.labels.get(grove.LABEL_PART_OF) or "") if self.kind == POD_GANG else self.workload

    @property
    def counts(self) -> bool:
        """Whether the pod counts for its gang: a failed or terminating pod will be replaced."""
        return not (self.leaving or self.failed)


def read_gang_pod(raw: Manifest) -> tuple[ObjectKey, GangPod]:
    """The projection of a pod. Raises `Malformed`."""
    namespace, name = key = key_of(raw)
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    parts = parts_of(raw)
    gates = [text(mapping(gate).get("name")) or "" for gate in sequence(spec.get("schedulingGates"))]
    node = None if (named := text(spec.get("nodeName"))) is None else shared(named)
    return key, GangPod(
        namespace,
        name,
        text(metadata.get("uid")) or "",
        text(parts.labels.get(grove.LABEL_PODGANG)) or "",
        text(parts.labels.get(grove.LABEL_PODCLIQUE)) or "",
        text(parts.labels.get(BASE_PODGANG)),
        node,
        metadata.get("deletionTimestamp") is not None,
        status.get("phase") == "Failed",
        tuple(name_text(gate) or "" for gate in gates[:_GATES]),
        gates.index(GATE) if GATE in gates else None,
        _unscheduled(status),
        shared(text(metadata.get("creationTimestamp")) or ""),
        kept_controller(metadata),
        *parts,
        needs=spec_text(spec) if node is None else None,
        taken_by=cause_in(status),
        placed="" if node is None else _placed(status),
        gpus=0 if node is None else gpus_of(spec),
    )


def read_opted_in_pod(raw: Manifest, kinds: WorkloadKinds = PYTHON_KINDS) -> tuple[ObjectKey, GangPod]:
    """The projection of a pod with the record label of an opted-in workload. Raises `Malformed`.

    A pod that no such workload made has an empty `kind`. A pod that was not prepared gets the gang it would belong to
    if its JobSet does not start its parts in order.
    """
    key, found = read_gang_pod(raw)
    # A controller reference whose names are too long to be valid is not kept.
    place = None if found.controller is None else kinds.place_of(Pod(raw))
    if place is None:
        return key, found._replace(podgang="", podclique="", kind="")
    place = _without_role(place, text(found.labels.get(GANG_LABEL)))
    would_be = membership(place, sequenced=False)
    size = text(found.annotations.get(LWS_SIZE)) if place.group else None
    return key, found._replace(
        podgang=text(found.labels.get(GANG_LABEL)) or label_value(would_be.gang),
        podclique=text(found.labels.get(MEMBER_LABEL)) or label_value(would_be.member),
        kind=kinds.title_of(place.workload),
        workload=place.workload.name,
        group=place.group,
        size=_size(size),
    )


def _without_role(place: Place, label: str | None) -> Place:
    """The place in the LeaderWorkerSet of a role, for a group that does not start together with others. Its label tells
    that; a pod that was not prepared gets the gang it would belong to if one group of each role does.
    """
    if place.made is None:
        return place
    shared, own = membership(place, sequenced=False), membership(place.made, sequenced=False)
    is_own = shared == own if label is None else label == label_value(own.gang)
    return place.made if is_own else place


def _size(said: str | None) -> int | None:
    """The size in an annotation, an int32 as in the CRD; None if it is not one.

    Any user can write the annotation. `int` raises an error for a few thousand digits, which would end the watch.
    """
    if said is None or len(said) > _INT32_DIGITS or not (said.isascii() and said.isdecimal()):
        return None
    return int(said)


def _placed(status: Mapping[str, Any]) -> str:
    """When the pod was bound to its node; empty if that is not known."""
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return shared((text(condition.get("lastTransitionTime")) or "")[:_TIME_CHARACTERS])
    return ""


def _unscheduled(status: Mapping[str, Any]) -> Unscheduled | None:
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        said = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        # SchedulingGated is set by the API server. It stays until a scheduler processes the pod.
        if said and (reason := text(condition.get("reason")) or "") != "SchedulingGated":
            return _latest(name_text(reason) or "", (text(condition.get("message")) or "")[:_MESSAGE_CHARACTERS])
    return None


@lru_cache(maxsize=1024)
def _latest(reason: str, message: str) -> Unscheduled:
    """One object for equal messages among the latest: a scheduler says the same of all pods of a gang."""
    return Unscheduled(reason, message)
