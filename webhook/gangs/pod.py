"""One pod of a gang, as far as anybody here asks: where it stands, and what it carries.

Kept of its spec is what is small: containers, volumes and the like decide nothing about a gang, and are most of a pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.pod_parts import BASE_PODGANG, Part, parts_of
from webhook.model import grove
from webhook.model.bounds import name_text
from webhook.model.keys import ObjectKey
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workloads.facts import PROJECTIONS
from webhook.model.workloads.gang import GANG_LABEL, MEMBER_LABEL
from webhook.model.workloads.place import LWS_SIZE, label_value, membership, place_of
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.pod_controllers import kept_controller
from webhook.model.workloads.podgang import OwnerReference
from webhook.mutators.prepare_pod import GATE

# Pods that name a PodGang, of whatever owner.
OF_GANGS = {"labelSelector": grove.LABEL_PODGANG}
# Pods that were prepared for a gang of a workload that is not Grove's.
OF_OWNED_GANGS = {"labelSelector": f"{GANG_LABEL},!{grove.LABEL_PODGANG}"}

# What one pod takes at most, whatever is in it: its parts, its first gates and the scheduler's message.
POD_BYTES = 40 * 1024
# A pod has one gate or two. Of more the first are told, and that others are left is all that matters.
_GATES = 8
# A scheduler's message groups nodes by reason.
_MESSAGE_CHARACTERS = 1024
_INT32_DIGITS = 10


class Unscheduled(NamedTuple):
    """What the scheduler says of a pod that it has not placed: the reason and message of PodScheduled=False."""

    reason: str
    message: str


class GangPod(NamedTuple):
    """A pod that names a PodGang, or is of a workload that is not Grove's: then `podgang` and `podclique` are its gang
    and its member there, as labels say them, `kind` and `workload` say whose it is, and `group` which one of a
    LeaderWorkerSet, of `size` pods. `node` is where it was bound, `gates` are the names of its first scheduling gates,
    and `gate` is where Rollcall's stands among all of them. `controller` is the object that the pod names as its
    controller. `labels`, `annotations` and `spec` are what preparation may have written, as `pod_parts` keeps them, and
    `cut` says of which of them more was there.
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

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def gang(self) -> GangKey:
        """The gang that it is of."""
        return GangKey(self.namespace, self.podgang, self.kind, self.workload)

    @property
    def counts(self) -> bool:
        """Whether it is one of its gang's pods still: one that fails or leaves is replaced."""
        return not (self.leaving or self.failed)


def read_gang_pod(raw: Manifest) -> tuple[ObjectKey, GangPod]:
    """The projection of a pod. Raises `Malformed`."""
    namespace, name = key = key_of(raw)
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    parts = parts_of(raw)
    gates = [text(mapping(gate).get("name")) or "" for gate in sequence(spec.get("schedulingGates"))]
    return key, GangPod(
        namespace,
        name,
        text(metadata.get("uid")) or "",
        text(parts.labels.get(grove.LABEL_PODGANG)) or "",
        text(parts.labels.get(grove.LABEL_PODCLIQUE)) or "",
        text(parts.labels.get(BASE_PODGANG)),
        text(spec.get("nodeName")),
        metadata.get("deletionTimestamp") is not None,
        status.get("phase") == "Failed",
        tuple(name_text(gate) or "" for gate in gates[:_GATES]),
        gates.index(GATE) if GATE in gates else None,
        _unscheduled(status),
        text(metadata.get("creationTimestamp")) or "",
        kept_controller(metadata),
        *parts,
    )


def read_owned_pod(raw: Manifest) -> tuple[ObjectKey, GangPod]:
    """The projection of a pod that bears the label of a workload that is not Grove's. One that no such workload made
    has no `kind`; one that was not prepared is put where it would belong, if its JobSet does not start in turn. Raises
    `Malformed`.
    """
    key, found = read_gang_pod(raw)
    # One whose names are longer than any object's has no controller.
    place = None if found.controller is None else place_of(Pod(raw))
    if place is None:
        return key, found._replace(podgang="", podclique="", kind="")
    would_be = membership(place, sequenced=False)
    size = text(found.annotations.get(LWS_SIZE)) if place.group else None
    return key, found._replace(
        podgang=text(found.labels.get(GANG_LABEL)) or label_value(would_be.gang),
        podclique=text(found.labels.get(MEMBER_LABEL)) or label_value(would_be.member),
        kind=_KINDS[place.owner.part],
        workload=place.owner.name,
        group=place.group,
        size=_size(size),
    )


def _size(said: str | None) -> int | None:
    """What an annotation, which is anybody's to write, says of a size: an int32, as its CRD has it. Of a number beyond
    some thousand digits Python makes an error, and that would end the watch.
    """
    return int(said) if said is not None and said.isdecimal() and len(said) <= _INT32_DIGITS else None


# By the part of the facts where a pod's place says that its workload is.
_KINDS = {projection.part: projection.resource.api.kind for projection in PROJECTIONS}


def _unscheduled(status: Mapping[str, Any]) -> Unscheduled | None:
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        said = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        # SchedulingGated is the API server's word, which nobody takes back before a scheduler looks at the pod.
        if said and (reason := text(condition.get("reason")) or "") != "SchedulingGated":
            return Unscheduled(name_text(reason) or "", (text(condition.get("message")) or "")[:_MESSAGE_CHARACTERS])
    return None
