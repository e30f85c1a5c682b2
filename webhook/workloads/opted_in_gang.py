"""The gangs of an opted-in workload, in the form of PodGangs that the backends take, or why it has none; and the
topology that it asks for by annotations.

A Job is one gang. A JobSet is one gang with a member for each replicated Job; if these start in turn, each is a
separate gang. Each group of a LeaderWorkerSet is one gang; its pods show which groups exist. The gangs of a declared
kind are those that its WorkloadShape says. Each scheduler has its own keys for topology and reads them at its own
places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.admission_request import value_at
from webhook.model.capabilities import Use
from webhook.model.claims import claims_on
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.findings import shown
from webhook.model.grove import Member, OwnerReference, PackConstraint, PodGang
from webhook.model.keys import GroupKind, Needed, Record
from webhook.model.known_kinds import DEFAULT_SCHEDULER
from webhook.model.place import Place, group_name, groups_together, membership
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.workloads import volcano_job
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import Hindrance, LeaderWorkerSetRole, OptedInWorkload, Part
from webhook.workloads.trainjob import TrainerJobSet

KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"
KOORDINATOR_TOPOLOGY = "gang.scheduling.koordinator.sh/network-topology-spec"
VOLCANO_MODE = "volcano.sh/network-topology-mode"
VOLCANO_TIER = "volcano.sh/network-topology-highest-tier"

# The systems that read each key, as named in `webhook.model.claims`.
READERS: Mapping[str, str] = {
    KAI_TOPOLOGY: "KAI",
    KAI_REQUIRED: "KAI",
    KAI_PREFERRED: "KAI",
    KOORDINATOR_TOPOLOGY: "Koordinator",
    VOLCANO_MODE: "Volcano",
    VOLCANO_TIER: "Volcano",
}


class AnnotationPlace(Enum):
    """Where an annotation is."""

    WORKLOAD = "the workload"
    JOBS = "the template of a JobSet's Jobs"
    PODS = "the pod template"


class Annotations(NamedTuple):
    """The annotations of one place of a workload."""

    holder: AnnotationPlace
    path: FieldPath
    values: Mapping[str, Any]

    def asks(self, *keys: str) -> list[Use]:
        """Returns those of the keys that have a value, with their places."""
        return [Use(self.path / key, value) for key in keys if (value := text(self.values.get(key)))]


def annotations_of_workload(workload: OptedInWorkload) -> Annotations:
    """Returns the annotations of the workload itself."""
    return Annotations(AnnotationPlace.WORKLOAD, ANNOTATIONS, workload.annotations)


def annotations_of_jobs(workload: OptedInWorkload) -> Iterator[Annotations]:
    """Yields the annotations of the Jobs of each part of a JobSet."""
    if isinstance(workload, JobSet):
        for index, part in enumerate(workload.parts):
            annotations = mapping(workload.job_metadata(index).get("annotations"))
            yield Annotations(AnnotationPlace.JOBS, part.path / "template" / "metadata" / "annotations", annotations)


def annotations_of_pods(part: Part) -> Annotations:
    """Returns the annotations of a part's pods."""
    return Annotations(AnnotationPlace.PODS, part.template.annotations_path, part.template.annotations)


def every_place(workload: OptedInWorkload) -> Iterator[Annotations]:
    """Yields the annotations of the workload, of its Jobs, and of its distinct pod templates."""
    yield annotations_of_workload(workload)
    yield from annotations_of_jobs(workload)
    yield from map(annotations_of_pods, workload.distinct_parts)


def requests(workload: OptedInWorkload, job_set: OptedInWorkload | None) -> list[tuple[str, Use]]:
    """Returns each annotation that asks for topology, with its reader: of a workload, and of its JobSet if given."""
    uses = [(_reader(use), use) for place in every_place(workload) for use in place.asks(*READERS)]
    if isinstance(job_set, TrainerJobSet):
        of_made = [use for place in every_place(job_set) for use in place.asks(*READERS)]
        uses += [(_reader(use), Use(job_set.path_in_train_job(use.path), use.value)) for use in of_made]
    return uses


def _reader(use: Use) -> str:
    return READERS[str(use.path.parts[-1])]


def domains(place: Annotations) -> tuple[str | None, str | None]:
    """Returns the domains that a place requires and prefers: KAI's levels, Koordinator's layers, Volcano's tier."""
    stated = {use.path.parts[-1]: str(use.value) for use in place.asks(*READERS)}
    required, preferred = stated.get(KAI_REQUIRED), stated.get(KAI_PREFERRED)
    tier = stated.get(VOLCANO_TIER)
    if tier is not None and stated.get(VOLCANO_MODE, "hard").lower() != "soft":
        required = required or f"tier {tier}"
    layers = _layers(stated.get(KOORDINATOR_TOPOLOGY))
    return required or layers.get("MustGather"), preferred or layers.get("PreferGather")


def _layers(written: str | None) -> dict[str, str]:
    """Returns the last layer of each strategy in a network-topology-spec; none if it is not one."""
    try:
        entries = sequence(mapping(json.loads(written or "null")).get("gatherStrategy"))
        return {
            text(mapping(entry).get("strategy")) or "": text(mapping(entry).get("layer")) or "" for entry in entries
        }
    except (ValueError, RecursionError, Malformed):
        return {}


# On the pods and gang objects of opted-in workloads: the gang and the member, cut to the length of a label value.
GANG_LABEL = "rollcall.dev/gang"
MEMBER_LABEL = "rollcall.dev/gang-member"
_UNCONSTRAINED = PackConstraint(SPEC, None, None)


class OptedInGang(PodGang):
    """A gang of an opted-in workload, in the form of a PodGang. Its objects are deleted with the workload."""

    __slots__ = ("above", "grouped_as", "parts", "workload")

    gang_label = GANG_LABEL
    member_label = MEMBER_LABEL

    def __init__(
        self,
        workload: OptedInWorkload,
        name: str,
        members: Iterable[tuple[str, int]],
        parts: Mapping[str, tuple[Part, ...]],
        minimums: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`members` are the names and pods of its members; `parts` has the parts of each. `minimums` are the numbers of
        pods that the gang needs of those members of which it does not need all.
        """
        metadata: Manifest = {**workload.metadata, "name": name, "namespace": workload.namespace, "uid": workload.uid}
        super().__init__({"metadata": metadata, "spec": {"priorityClassName": workload.priority_class}})
        self.workload = workload
        self.parts = parts
        # By which kind a scheduler that groups some kinds itself knows the pods: `WorkloadKinds.grouped_as`.
        self.grouped_as: GroupKind = workload.resource.api.group_kind
        # The record of the workload that made `workload` for one of its roles.
        self.above: Record | None = None
        self.elastic = any(part.elastic for member_parts in parts.values() for part in member_parts)
        self.members = [
            Member(SPEC, member, minimums.get(member, pods), pods, _UNCONSTRAINED) for member, pods in members
        ]

    @property
    def owner(self) -> OwnerReference:
        """The workload."""
        return self.workload.reference

    @property
    def reference(self) -> OwnerReference:
        """The workload."""
        return self.workload.reference

    @property
    def workload_kind(self) -> str:
        return self.workload.kind


class NoGang(NamedTuple):
    """Why Rollcall does not make the gang objects of a workload: others make them, or a hindrance exists. `is_made`
    means that Rollcall makes those of an object that the workload's controller makes.
    """

    at: FieldPath
    why: str
    hindrance: Hindrance | None = None
    is_made: bool = False


def no_gang(workload: OptedInWorkload) -> NoGang | None:
    """Returns why Rollcall makes no gang for a workload: someone else does, or the gang could never be complete."""
    if (other := workload.managed_elsewhere) is not None:
        at = workload.managed_path
        return NoGang(at, f"{at} says that {shown(other)} runs it, so no pods are made here")
    for left in workload.leaves():
        return NoGang(left.at, left.why, is_made=left.is_made)
    for template in workload.templates:
        for claim in claims_on(template):
            return NoGang(claim.path, f"{claim.path} says that {claim.system} has claimed its pods")
    for hindrance in workload.hindrances:
        return NoGang(hindrance.at, hindrance.why, hindrance)
    return None


def template_record(workload: OptedInWorkload) -> str | None:
    """Returns the scheduler recorded in all pod templates of a workload; None if they have none, or several."""
    labels = [value_at(workload.raw, path / SCHEDULER_LABEL)[1] for path in workload.marked_paths]
    return labels[0] if labels and isinstance(labels[0], str) and all(label == labels[0] for label in labels) else None


def is_claimed(workload: OptedInWorkload) -> bool:
    """Returns whether a pod template says that another system has claimed its pods."""
    return any(any(claims_on(template)) for template in workload.templates)


def asks_for_gang(workload: OptedInWorkload) -> bool:
    """Returns whether a workload says itself that its pods belong together: by Rollcall's label, a field of its
    controller, a group that its pods name, or another scheduler than Kubernetes' own.
    """
    if workload.scheduler is not None or workload.native_path is not None or is_claimed(workload):
        return True
    return scheduler_of_pods(workload) is not None


def scheduler_of_pods(workload: OptedInWorkload) -> Use | None:
    """Returns the first scheduler other than Kubernetes' own that the pods of a workload name, and its path. Volcano
    writes its own name into the pods of its Jobs.
    """
    for part in workload.distinct_parts:
        if (name := text(part.template.spec.get("schedulerName"))) not in {None, "", DEFAULT_SCHEDULER}:
            return Use(part.template.spec_path / "schedulerName", name)
    if volcano_job.is_volcano_job(workload):
        name = text(workload.spec.get("schedulerName")) or volcano_job.SCHEDULER
        return None if name == DEFAULT_SCHEDULER else Use(SPEC / "schedulerName", name)
    return None


def has_foreign_gang(workload: OptedInWorkload) -> bool:
    """Returns whether something else makes its gang, and Rollcall makes that of no object below it either."""
    return any(not left.is_made for left in workload.leaves())


def starts_alone(workload: OptedInWorkload) -> bool:
    """Returns whether no gang of a workload would have more than one pod."""
    if isinstance(workload, LeaderWorkerSet):
        return workload.size <= 1
    if not (workload.has_gangs or workload.left_to):
        return True
    if workload.gang_per_part and workload.crd:
        return all(part.needed <= 1 for part in workload.parts)
    return sum(part.pods for part in workload.parts) <= 1


def gangs_of(workload: OptedInWorkload) -> Iterator[OptedInGang]:
    """Yields all gangs of a workload; parts without pods are left out, and of a declared kind those that no gang needs.
    For a LeaderWorkerSet, its groups when no rollout is running, without a revision; `group_gang` makes the gangs of
    existing pods. For a workload with roles, the gang of their first groups and one further group of each role, because
    all further groups are alike; `gang_of_first_groups` makes the gang of those that exist.
    """
    if isinstance(workload, Job):
        members = [(workload.name, part.pods) for part in workload.parts if part.pods > 0]
        if members:
            yield OptedInGang(workload, workload.name, members, {workload.name: workload.parts})
    elif isinstance(workload, LeaderWorkerSet):
        for index in range(workload.replicas):
            yield group_gang(workload, str(index))
    elif workload.together is not None:
        yield from gangs_of_roles(workload, workload.name)
    elif workload.has_gangs or workload.left_to:
        yield from _gangs_of_parts(workload)


def names_of(workload: OptedInWorkload) -> frozenset[str]:
    """Returns the names of the gangs and members of a workload, which no other workload may use. Empty for a
    LeaderWorkerSet, and for a workload with roles: its names contain a revision that is unknown before its pods exist.
    """
    if isinstance(workload, LeaderWorkerSet) or workload.together is not None or not workload.has_gangs:
        return frozenset()
    gangs = list(gangs_of(workload))
    return frozenset({*(gang.name for gang in gangs), *(member.name for gang in gangs for member in gang.members)})


def _gangs_of_parts(workload: OptedInWorkload) -> Iterator[OptedInGang]:
    gangs: dict[str, list[tuple[str, int]]] = {}
    parts: dict[str, tuple[Part, ...]] = {}
    minimums: dict[str, int] = {}
    # Asked once: the answer takes a look at every part.
    sequenced = workload.gang_per_part
    for part in workload.parts:
        if part.needed > 0:
            names = membership(Place(Needed("", workload.key), part.name), sequenced=sequenced)
            gangs.setdefault(names.gang, []).append((names.member, part.pods))
            parts[names.member] = (part,)
            minimums[names.member] = part.needed
    for name, members in gangs.items():
        yield OptedInGang(workload, name, members, {member: parts[member] for member, _ in members}, minimums)


def gangs_of_roles(workload: OptedInWorkload, name: str) -> Iterator[OptedInGang]:
    """Yields the gang `name` of the first groups of a workload's roles, then that of one further group of each role."""
    yield from gang_of_first_groups(workload, name, workload.roles)
    for role in workload.roles:
        count = groups_together(role.part.name, workload.together or {})
        if role.groups > count:
            alone = group_name(f"{name}-{role.part.name}", count)
            yield OptedInGang(workload, alone, [(alone, role.size)], {alone: (role.part,)})


def gang_of_first_groups(
    workload: OptedInWorkload, name: str, roles: Iterable[LeaderWorkerSetRole]
) -> Iterator[OptedInGang]:
    """Yields the gang `name` of the first groups of these roles, unless none has any."""
    together = workload.together or {}
    members: dict[str, LeaderWorkerSetRole] = {}
    for role in roles:
        if role.groups > 0 and role.size > 0:
            leader_worker_set = f"{name}-{role.part.name}"
            members |= {
                group_name(leader_worker_set, index): role for index in range(groups_together(role.part.name, together))
            }
    if members:
        sizes = [(member, role.size) for member, role in members.items()]
        yield OptedInGang(workload, name, sizes, {member: (role.part,) for member, role in members.items()})


def group_gang(workload: LeaderWorkerSet, group: str, size: int | None = None) -> OptedInGang:
    """Returns the gang of one group, named by index and revision. `size` is that revision's, if known."""
    names = membership(Place(Needed("leader_worker_sets", workload.key), "", group), sequenced=False)
    members = [(names.member, workload.size if size is None else size)]
    return OptedInGang(workload, names.gang, members, {names.member: workload.parts})
