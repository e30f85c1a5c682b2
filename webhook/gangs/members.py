"""The pods of a gang: what is kept of each, which of them are members, and why one was lost (no I/O).

A small part of a pod is kept. Containers, volumes and the like are most of a pod, and do not matter for a gang. The
keys that Rollcall reads are kept first; other labels and annotations are left out where they do not fit. Anyone who
may create a pod can write any label, so a label does not make a member: the controller does, by its uid, and for
Grove's gangs the PodGang must name the pod as well. GPUs are counted by extended resources named `VENDOR/gpu`; parts
of GPUs and devices of ResourceClaims are not.

A controller that takes a pod off its node writes the condition DisruptionTarget before it deletes the pod. Source:
Kubernetes 1.37, pkg/scheduler/framework/preemption/executor.go,
pkg/controller/{podgc,tainteviction,devicetainteviction}, pkg/registry/core/pod/storage/eviction.go,
pkg/kubelet/{eviction,preemption,nodeshutdown}. koord-scheduler 1.8 (coscheduling/core/preemption.go), Volcano
(pkg/scheduler/cache/cache.go) and KAI (pkg/scheduler/cache/evictor) write the reason of kube-scheduler, also if they
reclaim a queue's share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from webhook.gangs.key import POD_GANG, GangKey
from webhook.model import grove, kueue
from webhook.model.bounds import Row, entries_kept, latest_equal, name_text, shared
from webhook.model.capabilities import KAI_QUEUE, QOS_LABEL, QUOTA_LABEL
from webhook.model.claims import CLAIMS
from webhook.model.grove import OwnerReference, PodGang
from webhook.model.keys import ObjectKey
from webhook.model.known_kinds import is_a
from webhook.model.place import (
    JOB_INDEX,
    LWS_REVISION,
    LWS_SIZE,
    NAME_LABELS,
    POD_CLIQUES,
    REPLICATED_JOB_NAME,
    Place,
    kept_controller,
    label_value,
    membership,
)
from webhook.model.pod_template import Pod, requests_of_container, total_requests
from webhook.model.projections import PLACEMENT_FIELDS, key_of
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.mutators.prepare_pod import GATE, STAMP_ANNOTATION
from webhook.workloads.opted_in_gang import GANG_LABEL, MEMBER_LABEL, OptedInGang
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds


class LossCause(StrEnum):
    """Why a pod was lost; a metric's label."""

    PREEMPTION = "preemption"
    NODE_LOSS = "nodeLoss"
    EVICTION = "eviction"
    # Deleted by a user or a controller, without a reason in the pod.
    DELETION = "deletion"
    # It ended by itself.
    FAILURE = "failure"
    # Rollcall did not see how it was lost.
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """What happened to the pod, in a sentence."""
        return _WORDS[self]


_WORDS = {
    LossCause.PREEMPTION: "preempted",
    LossCause.NODE_LOSS: "lost with its node",
    LossCause.EVICTION: "evicted",
    LossCause.DELETION: "deleted",
    LossCause.FAILURE: "failed",
    LossCause.UNKNOWN: "lost while Rollcall did not watch",
}
# By the reason of the condition. Every other reason is one of another controller that takes pods off their nodes.
_BY_REASON = {
    "PreemptionByScheduler": LossCause.PREEMPTION,
    "DeletionByTaintManager": LossCause.NODE_LOSS,
    "DeletionByDeviceTaintManager": LossCause.NODE_LOSS,
    "DeletionByPodGC": LossCause.NODE_LOSS,
}
# The kubelet has one reason for all that it does; the status of the pod says what it was.
_OF_KUBELET = "TerminationByKubelet"
_BY_STATUS = {"Preempting": LossCause.PREEMPTION, "Terminated": LossCause.NODE_LOSS}


def cause_in(status: Mapping[str, Any]) -> LossCause | None:
    """Returns why a pod is taken off its node, by its status; None if no controller says so. Raises `Malformed`."""
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        # False means that the disruption was called off.
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = text(condition.get("reason")) or ""
            if reason == _OF_KUBELET:
                return _BY_STATUS.get(text(status.get("reason")) or "", LossCause.EVICTION)
            return _BY_REASON.get(reason, LossCause.EVICTION)
    return None


_GPU = "/gpu"
# In Koordinator's own resource 100 is one GPU; its pods ask for whole GPUs under the name of the vendor.
_NO_WHOLE = "koordinator.sh/gpu"
# No node has more. A larger number is a mistake, and would hide all others in a sum.
_MOST = 1024


def gpus_of(spec: Mapping[str, Any]) -> int:
    """Returns the whole GPUs that a stored pod holds; 0 if its requests cannot be read."""
    try:
        containers = (raw for part in ("containers", "initContainers") for raw in sequence(spec.get(part)))
        requests = (requests_of_container(mapping(container), from_limits=True) for container in containers)
        if not any(_is_gpu(name) for names in requests for name in names):
            return 0
        totals = total_requests(spec)
    except Malformed:
        return 0
    amounts = (amount for name, amount in totals.items() if _is_gpu(name) and amount is not None)
    return min(int(sum(amounts)), _MOST)


def _is_gpu(resource: str) -> bool:
    return resource.endswith(_GPU) and resource != _NO_WHOLE


_latest_spec = latest_equal(1024)

# The longest text that is kept. A pod with more of it is not judged; affinity and tolerations rarely take 2 KiB.
SPEC_CHARACTERS = 8 * 1024
_OF_PODS = (*PLACEMENT_FIELDS, "hostNetwork")
_OF_CONTAINERS = ("name", "resources", "ports", "restartPolicy")


def spec_text(spec: Mapping[str, Any]) -> str | None:
    """Returns what matters of a pod's spec, shared by equal pods; None if it is too long. Raises `Malformed`."""
    kept: dict[str, Any] = {field: spec[field] for field in _OF_PODS if spec.get(field)}
    for field in ("containers", "initContainers"):
        if containers := sequence(spec.get(field)):
            kept[field] = [_container(mapping(container)) for container in containers]
    content = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return _latest_spec(content) if len(content) <= SPEC_CHARACTERS else None


def spec_in(text: str) -> Manifest:
    """Returns the part of the spec that `spec_text` wrote."""
    spec: Manifest = json.loads(text)
    return spec


def _container(container: Mapping[str, Any]) -> Manifest:
    return {field: container[field] for field in _OF_CONTAINERS if container.get(field)}


_latest_row = latest_equal(4096)

Part = Literal["labels", "annotations", "spec"]

# A label on pods of scaled gangs: Grove removes their gates only after this gang runs.
BASE_PODGANG = "grove.io/base-podgang"
# By these keys a pod names its Workload of Kueue, the first first.
KUEUE_NAMES = (kueue.WORKLOAD, kueue.PREBUILT_WORKLOAD, kueue.POD_GROUP_NAME)

# Keys that Rollcall reads, which are always kept.
READ: Mapping[Part, frozenset[str]] = {
    "labels": frozenset(
        {
            grove.LABEL_MANAGED_BY,
            grove.LABEL_PART_OF,
            grove.LABEL_PODGANG,
            grove.LABEL_PODCLIQUE,
            grove.LABEL_REPLICA,
            grove.LABEL_SCALING_GROUP,
            grove.LABEL_SCALING_GROUP_REPLICA,
            BASE_PODGANG,
            GANG_LABEL,
            MEMBER_LABEL,
            *NAME_LABELS.values(),
            REPLICATED_JOB_NAME,
            JOB_INDEX,
            LWS_REVISION,
            QUOTA_LABEL,
            QOS_LABEL,
            KAI_QUEUE,
            *KUEUE_NAMES,
            *(mark.key for mark, _ in CLAIMS if mark.part == "labels"),
        }
    ),
    "annotations": frozenset(
        {STAMP_ANNOTATION, LWS_SIZE, *KUEUE_NAMES, *(mark.key for mark, _ in CLAIMS if mark.part == "annotations")}
    ),
    "spec": frozenset(
        {
            "schedulerName",
            "priorityClassName",
            "priority",
            "preemptionPolicy",
            *(mark.key for mark, _ in CLAIMS if mark.part == "spec"),
        }
    ),
}
# Bytes for the other keys. Pods with the sidecars and networks of a large cluster need less.
_ROOM: Mapping[Part, int] = {"labels": 8 * 1024, "annotations": 6 * 1024, "spec": 4 * 1024}
# Fields of a pod's spec that do not matter for its gang and are most of it. Its node and its gates are read separately.
_UNREAD = frozenset(
    {
        "affinity",
        "containers",
        "dnsConfig",
        "ephemeralContainers",
        "hostAliases",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "schedulingGates",
        "securityContext",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
# kubectl's copy of the whole manifest.
_COPY = "kubectl.kubernetes.io/last-applied-configuration"


# Each other empty set is an object of its own.
_WHOLE: frozenset[Part] = frozenset()


class PodParts(NamedTuple):
    """The kept parts of a pod, which preparation may have written. `cut` lists the parts that were shortened."""

    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    cut: frozenset[Part]


def parts_of(raw: Manifest) -> PodParts:
    """Returns the parts of a pod that are kept. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    annotations = {key: value for key, value in mapping(metadata.get("annotations")).items() if key != _COPY}
    spec = {field: value for field, value in mapping(raw.get("spec")).items() if field not in _UNREAD}
    labels = mapping(metadata.get("labels"))
    whole: dict[Part, Mapping[str, Any]] = {"labels": labels, "annotations": annotations, "spec": spec}
    kept = {part: _shared(entries_kept(entries, READ[part], _ROOM[part])) for part, entries in whole.items()}
    cut = frozenset(part for part, entries in whole.items() if len(kept[part]) < len(entries)) or _WHOLE
    return PodParts(kept["labels"], kept["annotations"], kept["spec"], cut)


def _shared(entries: Mapping[str, Any]) -> Row[Any]:
    """Returns the same entries, with one object for equal keys and texts: the pods of a gang differ in few of them."""
    values = (shared(value) if type(value) is str else value for value in entries.values())
    row = Row[Any](_places(tuple(entries)), tuple(values))
    try:
        return _latest_row(row)
    except TypeError:
        # A value that is a list or a map.
        return row


@lru_cache(maxsize=4096)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {shared(key): place for place, key in enumerate(keys)}


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
        return GangKey(self.namespace, self.podgang, self.kind, self.workload)

    @property
    def workload_name(self) -> str:
        return str(self.labels.get(grove.LABEL_PART_OF) or "") if self.kind == POD_GANG else self.workload

    @property
    def counts(self) -> bool:
        """Whether the pod counts for its gang: a failed or terminating pod will be replaced."""
        return not (self.leaving or self.failed)


def read_gang_pod(raw: Manifest) -> tuple[ObjectKey, GangPod]:
    """Returns the projection of a pod. Raises `Malformed`."""
    namespace, name = key = key_of(raw)
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    parts = parts_of(raw)
    gates = [text(mapping(gate).get("name")) or "" for gate in sequence(spec.get("schedulingGates"))]
    node = None if (node_name := text(spec.get("nodeName"))) is None else shared(node_name)
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
    """Returns the projection of a pod with the record label of an opted-in workload. Raises `Malformed`.

    A pod that no such workload made has an empty `kind`. A pod that was not prepared gets the gang it would belong to
    if its JobSet does not start its parts in order.
    """
    key, pod = read_gang_pod(raw)
    # A controller reference whose names are too long to be valid is not kept.
    place = None if pod.controller is None else kinds.place_of(Pod(raw))
    if place is None:
        return key, pod._replace(podgang="", podclique="", kind="")
    place = _role_place(place, text(pod.labels.get(GANG_LABEL)))
    would_be = membership(place, sequenced=False)
    size = text(pod.annotations.get(LWS_SIZE)) if place.group else None
    return key, pod._replace(
        podgang=text(pod.labels.get(GANG_LABEL)) or label_value(would_be.gang),
        podclique=text(pod.labels.get(MEMBER_LABEL)) or label_value(would_be.member),
        kind=kinds.title_of(place.workload),
        workload=place.workload.name,
        group=place.group,
        size=_size(size),
    )


def _role_place(place: Place, label: str | None) -> Place:
    """Returns the place in the LeaderWorkerSet of a role, for a group that does not start together with others. Its
    label tells that; a pod that was not prepared gets the gang it would belong to if one group of each role does.
    """
    if place.role_place is None:
        return place
    shared, role_membership = membership(place, sequenced=False), membership(place.role_place, sequenced=False)
    is_own = shared == role_membership if label is None else label == label_value(role_membership.gang)
    return place.role_place if is_own else place


def _size(digits: str | None) -> int | None:
    """Returns the size in an annotation, an int32 as in the CRD; None if it is not one.

    Any user can write the annotation. `int` raises an error for a few thousand digits, which would end the watch.
    """
    if digits is None or len(digits) > _INT32_DIGITS or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits)


def _placed(status: Mapping[str, Any]) -> str:
    """Returns when the pod was bound to its node; empty if that is not known."""
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return shared((text(condition.get("lastTransitionTime")) or "")[:_TIME_CHARACTERS])
    return ""


def _unscheduled(status: Mapping[str, Any]) -> Unscheduled | None:
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        is_waiting = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        # SchedulingGated is set by the API server. It stays until a scheduler processes the pod.
        if is_waiting and (reason := text(condition.get("reason")) or "") != "SchedulingGated":
            return _shared_reason(name_text(reason) or "", (text(condition.get("message")) or "")[:_MESSAGE_CHARACTERS])
    return None


@lru_cache(maxsize=1024)
def _shared_reason(reason: str, message: str) -> Unscheduled:
    """Returns one object for equal messages among the latest: a scheduler says the same of all pods of a gang."""
    return Unscheduled(reason, message)


class PodEnd(NamedTuple):
    """A pod that was on a node and counted, as it was, the controllers above it, and why it does not count any more."""

    pod: GangPod
    above: Sequence[OwnerReference]
    cause: LossCause


def cause_of_end(before: GangPod, after: GangPod | None, *, watched: bool) -> LossCause | None:
    """Returns why a pod that counted on a node does not count any more; None if it still does, or never did. `after` is
    None for a pod that is gone. `watched`: its deletion was reported, and did not happen between two lists.
    """
    if before.node is None or not before.counts:
        return None
    if after is not None and after.uid == before.uid:
        if after.counts:
            return None
        return after.taken_by or before.taken_by or (LossCause.DELETION if after.leaving else LossCause.FAILURE)
    return before.taken_by or (LossCause.DELETION if watched else LossCause.UNKNOWN)


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
    """Splits pods that name a gang, each with the controllers above it, into members and others."""
    members: list[GangPod] = []
    unnamed: list[GangPod] = []
    unowned: list[GangPod] = []
    name_pairs = None
    if not isinstance(podgang, OptedInGang):
        name_pairs = {(member, name) for member, names in podgang.pod_names().items() for name in names}
    workload = GangOwner.find(podgang)
    for pod, above in pods:
        if (
            workload is None
            or not workload.controls(above)
            or (name_pairs is not None and above[0].name != pod.podclique)
        ):
            unowned.append(pod)
        elif name_pairs is not None and (pod.podclique, pod.name) not in name_pairs:
            unnamed.append(pod)
        else:
            members.append(pod)
    return Roster(members, unnamed, unowned)


class GangOwner(NamedTuple):
    """The workload of a gang: its uid, and whether PodCliques make its pods."""

    uid: str | None
    has_cliques: bool

    @classmethod
    def find(cls, podgang: PodGang) -> GangOwner | None:
        """Returns the workload of a gang; None for a PodGang without a controller."""
        if isinstance(podgang, OptedInGang):
            return cls(podgang.workload.uid, has_cliques=False)
        workload = kept_controller(mapping(podgang.raw.get("metadata")))
        return None if workload is None else cls(workload.uid, has_cliques=True)

    def controls(self, above: Sequence[OwnerReference]) -> bool:
        """Returns whether a pod with these controllers belongs to the workload."""
        if self.has_cliques and not (above and is_a(above[0], POD_CLIQUES)):
            return False
        return any(owner.uid == self.uid for owner in (above[1:] if self.has_cliques else above))


def is_controlled(podgang: PodGang, above: Sequence[OwnerReference]) -> bool:
    """Returns whether a pod with these controllers belongs to the gang's workload."""
    workload = GangOwner.find(podgang)
    return workload is not None and workload.controls(above)
