"""The objects that a gang needs in the cluster: their name, who writes them, and whether those that exist match (no
I/O).

`plan` returns the objects, or why Rollcall skips the gang. Only the fields that Rollcall would send are compared; a
digest of the applied object in an annotation shows fields that were sent earlier and are no longer wanted. Where
Rollcall does not write the objects, it judges, explains and reports the gang. The objects have the PodGang's name when
they were first made. After Grove has renamed the PodGang, the pods that live decide, then the objects that live, and
last the PodGang's own name; `webhook.model.gang_objects.gang_joined` decides for one pod in the same way. The
LeaderWorkerSets that a workload made for its roles belong together if their names differ only in the role at the end;
their members are those that the workload states.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from webhook.admission.pod_admission import complete_record, record_with_train_job
from webhook.backends.base import PodChanges
from webhook.backends.topologies import inexpressible
from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import GangPod
from webhook.model import grove
from webhook.model.bounds import latest_equal
from webhook.model.facts import ClusterFacts
from webhook.model.findings import shown
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, GangObjects, LivingGang, gang_joined, is_divided, map_key
from webhook.model.grove import (
    LABEL_MANAGED_BY,
    GroveGeneration,
    PodGang,
    Present,
    controller_in,
    generation_of,
    no_count,
)
from webhook.model.keys import Api, ObjectKey, Record
from webhook.model.place import shared_name
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workload_record import SCHEDULER_LABEL, record_in
from webhook.workloads.known_workloads import workload_facts
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import OptedInGang, gang_of_first_groups, no_gang
from webhook.workloads.opted_in_workload import LeaderWorkerSetRole, OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

FIELD_MANAGER = MANAGED_BY_ROLLCALL
# Digest of what was applied to a gang object: shows that a field is no longer wanted.
APPLIED_ANNOTATION = "rollcall.dev/applied"
_DIGEST_CHARACTERS = 16


def add_digest(desired: Manifest) -> Manifest:
    """Returns a copy of `desired` with an annotation that holds its digest."""
    content = json.dumps(desired, sort_keys=True, separators=(",", ":"), default=dict).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_ANNOTATION: digest}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def holds(desired: Any, live: Any) -> bool:
    """Returns whether `live` has everything in `desired`. Lists must be equal in length and match item by item."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(key in live and holds(value, live[key]) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        same = isinstance(live, list) and len(live) == len(desired)
        return same and all(holds(entry, other) for entry, other in zip(desired, live, strict=True))
    return bool(desired == live)


def is_in_step(desired: Manifest, live: Manifest) -> bool:
    """Returns whether `live` needs no write to become `desired`, which `to_apply` made."""
    desired_metadata, metadata = desired["metadata"], live["metadata"]
    owners = metadata.get("ownerReferences", [])
    return (
        holds(desired["spec"], live.get("spec"))
        and holds(desired_metadata.get("labels", {}), metadata.get("labels", {}))
        and holds(desired_metadata.get("annotations", {}), metadata.get("annotations", {}))
        and all(
            any(holds(owner, live_owner) for live_owner in owners)
            for owner in desired_metadata.get("ownerReferences", [])
        )
    )


def first_difference(desired: Manifest, live: Manifest) -> str:
    """Returns the first field in which `live` differs from `desired`, as a text."""
    for part in ("spec", "metadata"):
        if (difference := _differs(desired[part], live.get(part), part)) is not None:
            return difference
    return "it was changed since it was applied"


def _differs(desired: Any, live: Any, path: str) -> str | None:
    if path == "metadata.ownerReferences" or path.endswith(APPLIED_ANNOTATION):
        return None
    if isinstance(desired, dict) and isinstance(live, dict):
        below = (_differs(value, live.get(key), f"{path}.{key}") for key, value in desired.items())
        return next((difference for difference in below if difference is not None), None)
    return None if holds(desired, live) else f"{path} is {shown(live)}, and should be {shown(desired)}"


def include_replaced(gang_objects: Sequence[Manifest], replaced: Iterable[Manifest | None]) -> list[Manifest]:
    """Returns the objects of a gang, and those of other gangs that it would take over: both may refuse a change."""
    uids = {live["metadata"].get("uid") for live in gang_objects}
    return [*gang_objects, *(live for live in replaced if live is not None and live["metadata"].get("uid") not in uids)]


def owner_of_ours(live: Manifest) -> str | None:
    """Returns the uid of what controls an object that Rollcall manages; None for every other object."""
    metadata = live["metadata"]
    is_managed = (metadata.get("labels") or {}).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    controller = controller_in(metadata) if is_managed else None
    return None if controller is None else controller.uid


def is_ours(live: Manifest, owners: Container[str]) -> bool:
    """Returns whether Rollcall manages the object and something with one of these uids controls it."""
    return owner_of_ours(live) in owners


def left_behind(live: Manifest, podgang: PodGang) -> bool:
    """Returns whether an earlier PodGang or workload of the same name owns the object, which is garbage then."""
    controller = controller_in(live["metadata"])
    if controller is None or controller.uid in podgang.owners:
        return False
    return controller[:3] in {podgang.owner[:3], podgang.reference[:3]}


def other_owner(live: Manifest, podgang: PodGang) -> str | None:
    """Returns the owner of the object if Rollcall may not write it for `podgang`; None if it may."""
    return stranger(live, podgang.owners)


def stranger(live: Manifest, owners: Container[str]) -> str | None:
    """Returns the owner of the object if its uid is not one of these; None if the object is ours or has no owner."""
    controller = controller_in(live["metadata"])
    if controller is not None:
        return None if controller.uid in owners else f"{controller.kind} {controller.name}"
    # No controller: Rollcall made it and its ownerReference was removed, or it existed before.
    manager = (live["metadata"].get("labels") or {}).get(LABEL_MANAGED_BY)
    if manager == MANAGED_BY_ROLLCALL:
        return None
    return f"another manager ({manager or 'it has no label ' + LABEL_MANAGED_BY})"


# kube-controller-manager removes it from a PodGroup of scheduling.k8s.io when no pod of the group runs any more. It is
# safe to remove under running pods: they name the group, and kube-scheduler counts them again once the group is written
# again (seen with v1.37.0).
PROTECTION = "scheduling.k8s.io/podgroup-protection"


def leaving(live: Manifest) -> HoldReason:
    """Returns why a gang waits for an object that is being deleted."""
    metadata = live["metadata"]
    why = f"{live['kind']} {metadata['name']} is being deleted"
    finalizers = [str(finalizer) for finalizer in sequence(metadata.get("finalizers"))]
    if finalizers == [PROTECTION]:
        command = (
            f"kubectl patch podgroups.scheduling.k8s.io {metadata['name']} -n {metadata['namespace']} "
            """--type=merge -p '{"metadata":{"finalizers":null}}'"""
        )
        return HoldReason(
            GangReason.OBJECT_LEAVING,
            f"{why}, and its finalizer {PROTECTION} keeps it while its pods run",
            f"remove the finalizer, and Rollcall writes the object again; running pods are not affected: {command}",
        )
    if finalizers:
        return HoldReason(GangReason.OBJECT_LEAVING, why, f"find out why its finalizer stays: {', '.join(finalizers)}")
    return HoldReason(GangReason.OBJECT_LEAVING, why, "check which finalizer keeps it")


EXTERNAL_LABEL = "grove.io/external-workload-managed"


class SkipReason(StrEnum):
    """Why Rollcall skips a gang; a metric's label."""

    LEAVING = "leaving"
    # Its workload predates Rollcall or was admitted while Rollcall was down. Its pods are not prepared either.
    UNRECORDED = "unrecorded"
    NO_PROFILE = "noProfile"
    GROVE = "groveWrites"
    EXTERNAL = "external"
    # PodGangs only. It has neither pods nor a PodClique that could make them, nor objects of before.
    EMPTY = "empty"
    # Opted-in workloads only. It has no pods now, and may be resumed with other pods.
    SUSPENDED = "suspended"
    # Another system has claimed its pods, or its own controller makes its gang.
    CLAIMED = "claimed"
    # Its scheduler makes its gang.
    SCHEDULER = "schedulerWrites"


# Gangs of opted-in workloads that have no owner yet, or another one: Rollcall deletes the objects it made for them.
UNWANTED = frozenset({SkipReason.SUSPENDED, SkipReason.SCHEDULER})


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The objects of a gang in the order of their creation, and the profile that makes them."""

    profile: Profile
    objects: list[Manifest]


def plan(podgang: PodGang, facts: ClusterFacts, settings: Settings, *, empty: bool = False) -> GangPlan | SkipReason:
    """Returns the objects that `podgang` needs, or why it is skipped. `empty` as for `decided`.

    Raises `FactsUnavailable` if its workload is not known, `Inexpressible` if its scheduler cannot express it.
    """
    profile = decided(podgang, facts, settings, empty=empty)
    if isinstance(profile, SkipReason):
        return profile
    if isinstance(podgang, OptedInGang):
        if not profile.backend.makes_gangs_of(podgang.grouped_as):
            return GangPlan(profile, [])
        if (barred := no_gang(podgang.workload)) is not None and (hindrance := barred.hindrance) is not None:
            raise inexpressible(hindrance.rule, hindrance.at, hindrance.value, hindrance.why, remedy=hindrance.remedy)
    return GangPlan(profile, profile.backend.gang_objects(podgang, _require_record(podgang, facts), facts))


def decided(podgang: PodGang, facts: ClusterFacts, settings: Settings, *, empty: bool = False) -> Profile | SkipReason:
    """Returns the profile that makes the objects of `podgang`, or why it is skipped. No object is made. `empty` as by
    `PodGangs.is_empty`.

    Raises `FactsUnavailable` if its workload is not known.
    """
    if mapping(podgang.raw.get("metadata")).get("deletionTimestamp") is not None:
        return SkipReason.LEAVING
    if not isinstance(podgang, OptedInGang):
        if podgang.labels.get(EXTERNAL_LABEL) == "true":
            return SkipReason.EXTERNAL
        if is_groves(podgang):
            return SkipReason.GROVE
        if empty:
            # Before its workload is looked for: a PodGang may name one that never comes.
            return SkipReason.EMPTY
    record = _require_record(podgang, facts)
    if record.scheduler is None:
        return SkipReason.UNRECORDED
    profile = settings.profiles.get(record.scheduler)
    if profile is None:
        return SkipReason.NO_PROFILE
    skipped = _workload_skip(podgang, profile) if isinstance(podgang, OptedInGang) else None
    return skipped or profile


def is_groves(podgang: PodGang) -> bool:
    """Returns whether Grove's own backend prepares the pods of a PodGang, and writes its gang objects."""
    return podgang.labels.get(grove.LABEL_SCHEDULER) in grove.WRITERS


def _require_record(podgang: PodGang, facts: ClusterFacts) -> Record:
    record = recorded(podgang, facts)
    if record is None:
        workload = f"{podgang.namespace}/{podgang.labels.get(grove.LABEL_PART_OF)}"
        raise FactsUnavailable(f"the PodCliqueSet {workload} of the PodGang is not known")
    return record


def _workload_skip(gang: OptedInGang, profile: Profile) -> SkipReason | None:
    if not profile.backend.makes_gangs_of(gang.grouped_as):
        return SkipReason.SCHEDULER if profile.backend.groups_opted_in else None
    if gang.workload.suspended:
        return SkipReason.SUSPENDED
    barred = no_gang(gang.workload)
    return SkipReason.CLAIMED if barred is not None and barred.hindrance is None else None


def is_elsewhere(podgang: PodGang, facts: ClusterFacts, settings: Settings) -> bool:
    """Returns whether this is the gang of an opted-in workload and Rollcall does not make that gang."""
    if not isinstance(podgang, OptedInGang):
        return False
    profile = settings.profiles.get(podgang.workload.scheduler or "")
    if profile is None:
        return False
    if podgang.workload.managed_elsewhere is not None:
        # It is shown, and nothing is written for it.
        return False
    barred = no_gang(podgang.workload)
    return not profile.backend.makes_gangs_of(podgang.grouped_as) or (barred is not None and barred.hindrance is None)


def recorded(podgang: PodGang, facts: ClusterFacts) -> Record | None:
    """Returns the record of a gang's workload, or of a PodGang without one; None if the workload is not known."""
    if isinstance(podgang, OptedInGang):
        record = record_with_train_job(workload_facts(podgang.workload), facts)
        return record if podgang.above is None else complete_record(record, podgang.above)
    workload = text(podgang.labels.get(grove.LABEL_PART_OF))
    if workload is None:
        spec = mapping(podgang.raw.get("spec"))
        metadata = mapping(podgang.raw.get("metadata"))
        return record_in(metadata, text(podgang.labels.get(SCHEDULER_LABEL)), text(spec.get("priorityClassName")))
    records = facts.pod_clique_sets
    return None if records is None else records.get((podgang.namespace, workload))


_KAI = "kai-scheduler"


class GangObjectWriter(StrEnum):
    """Who writes the gang objects of a gang."""

    ROLLCALL = "Rollcall"
    GROVE = "Grove"
    SCHEDULER = "scheduler"
    OTHER = "other"
    NONE = "none"

    @property
    def meaning(self) -> str:
        """What that means, as a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    GangObjectWriter.ROLLCALL: "Rollcall writes its gang objects",
    GangObjectWriter.GROVE: "Grove's own backend writes its gang objects; Rollcall writes nothing, and reports",
    GangObjectWriter.SCHEDULER: "its scheduler makes its gang objects itself; Rollcall writes nothing, and reports",
    GangObjectWriter.OTHER: "another system writes its gang objects; Rollcall writes nothing, and reports",
    GangObjectWriter.NONE: "no gang objects are written for it",
}
_SKIPPED = {
    SkipReason.GROVE: GangObjectWriter.GROVE,
    SkipReason.EXTERNAL: GangObjectWriter.OTHER,
    SkipReason.CLAIMED: GangObjectWriter.OTHER,
    SkipReason.SCHEDULER: GangObjectWriter.SCHEDULER,
}


def writer_of(podgang: PodGang, facts: ClusterFacts, settings: Settings) -> GangObjectWriter:
    """Returns who writes the gang objects of `podgang`."""
    try:
        decision = decided(podgang, facts, settings)
    except FactsUnavailable:
        return GangObjectWriter.NONE
    if not isinstance(decision, SkipReason):
        return GangObjectWriter.ROLLCALL if decision.backend.writable_kinds else GangObjectWriter.NONE
    if decision is SkipReason.GROVE and _is_podgrouper_s(podgang, facts):
        return GangObjectWriter.SCHEDULER
    return _SKIPPED.get(decision, GangObjectWriter.NONE)


def _is_podgrouper_s(podgang: PodGang, facts: ClusterFacts) -> bool:
    """Returns whether KAI's podgrouper makes the PodGroup of a PodGang: Grove's kai backend wrote none up to
    v0.1.0-alpha.11.

    Source: ai-dynamo/grove, pull request 725.
    """
    older = generation_of(facts) is GroveGeneration.LEGACY
    return older and podgang.labels.get(grove.LABEL_SCHEDULER) == _KAI


class GangName(NamedTuple):
    """The name of a gang. `present` is that of `PodGang`."""

    gang: str
    present: Present = no_count


class NameEvidence(NamedTuple):
    """What the name of a gang is decided from.

    `holders` are the gangs that contain one of its members. `pods` returns its pods, and is only called if the objects
    leave a doubt. It raises `FactsUnavailable` if the pods are not read. `prepared` returns what preparation would
    write on a pod in a gang of that name, None if its scheduler is not known. `workload` returns its PodCliqueSet.
    """

    holders: Sequence[LivingGang]
    pods: Callable[[], Sequence[GangPod]]
    prepared: Callable[[GangPod, str], PodChanges] | None
    facts: ClusterFacts
    workload: Callable[[], PodCliqueSet | None]


def gang_of(podgang: PodGang, evidence: NameEvidence) -> PodGang:
    """Returns the PodGang with its gang's name. Raises `Malformed`, and `FactsUnavailable` as `evidence.pods` does."""
    gang_name = _decide_name(podgang, evidence)
    return podgang.add_gang_state(
        gang_name.gang, divided=_divided(podgang, gang_name.gang, evidence), present=gang_name.present
    )


def _decide_name(podgang: PodGang, evidence: NameEvidence) -> GangName:
    gangs = {holder.gang for holder in evidence.holders}
    if len(gangs) == 1 and all(holder.podgang == podgang.name for holder in evidence.holders):
        return GangName(gangs.pop())
    if grove.LABEL_EPOCH in podgang.labels and evidence.facts.pod_gang_maps is None:
        raise FactsUnavailable("the PodGangMaps are not read yet")
    joined = gang_joined(podgang.name, evidence.holders, evidence.facts.pod_gang_map(podgang.namespace, podgang.labels))
    if evidence.prepared is None:
        return GangName(joined or podgang.name)
    counted = (pod for pod in evidence.pods() if pod.counts)
    pods = sorted(counted, key=lambda pod: (pod.node is None, pod.created, pod.name))
    workload = evidence.workload() if pods else None
    for pod in pods:
        candidates = dict.fromkeys((joined or podgang.name, podgang.name, *_earlier(pod, workload)))
        gang_name = next((gang for gang in candidates if _is_in(pod, gang, evidence.prepared)), None)
        if gang_name is not None:
            present = partial(_count_present, podgang, pods, gang_name, evidence.prepared)
            return GangName(gang_name) if pod.node is None else GangName(gang_name, present)
    return GangName(joined or podgang.name)


def _count_present(
    podgang: PodGang, pods: Sequence[GangPod], gang: str, prepared: Callable[[GangPod, str], PodChanges]
) -> Mapping[str, int] | None:
    counts = Counter(pod.podclique for pod in pods if pod.node is not None and _is_in(pod, gang, prepared))
    return counts if any(counts[member.name] < member.min_replicas for member in podgang.members) else None


def _divided(podgang: PodGang, gang: str, evidence: NameEvidence) -> frozenset[str]:
    """Returns the members whose pods are divided over several gangs."""
    where = evidence.facts.pod_gang_map(podgang.namespace, podgang.labels)
    holders: dict[str, list[LivingGang]] = {}
    for holder in evidence.holders:
        for member in holder.members:
            holders.setdefault(member, []).append(holder)
    names = (member.name for member in podgang.members)
    return frozenset(name for name in names if is_divided(gang, podgang.name, name, holders.get(name, ()), where))


def _earlier(pod: GangPod, workload: PodCliqueSet | None) -> Iterator[str]:
    """Yields the names that Grove up to v0.1.0-alpha.11 gave the PodGang of a pod."""
    base = map_key(pod.namespace, pod.labels)
    if base is None:
        return
    group = str(pod.labels.get(grove.LABEL_SCALING_GROUP) or "")
    index = str(pod.labels.get(grove.LABEL_SCALING_GROUP_REPLICA) or "")
    scaling_groups = () if workload is None else workload.scaling_groups
    least = {f"{base[1]}-{scaling_group.name}": scaling_group.min_available for scaling_group in scaling_groups}
    above = int(index) - least[group] if group in least and index.isascii() and index.isdecimal() else -1
    yield base[1] if above < 0 else f"{group}-{above}"


def _is_in(pod: GangPod, gang: str, prepared: Callable[[GangPod, str], PodChanges]) -> bool:
    """Returns whether a pod was prepared as a member of a gang: it has everything that would differ in another gang."""
    try:
        mine, other = (prepared(pod, name) for name in (gang, f"{gang}-other"))
    except FactsUnavailable:
        return False
    return all(
        holder.get(key) == value
        for holder, ours, theirs in _parts(pod, mine, other)
        for key, value in ours.items()
        if theirs.get(key) != value
    )


def _parts(
    pod: GangPod, mine: PodChanges, other: PodChanges
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]:
    yield pod.labels, mine.labels, other.labels
    yield pod.annotations, mine.annotations, other.annotations
    yield pod.spec, mine.default_fields, other.default_fields


def gangs_of_sets(workload: OptedInWorkload, sets: Iterable[LeaderWorkerSet]) -> Iterator[OptedInGang]:
    """Yields the gangs of the first groups, one a revision; the workload controls `sets`. Raises `Malformed`."""
    revisions: dict[str, dict[str, LeaderWorkerSet]] = {}
    for leader_worker_set in sets:
        role, maker = text(leader_worker_set.labels.get(workload.role_label)), leader_worker_set.controller
        if role is not None and maker is not None and maker.uid == workload.uid:
            name = shared_name(leader_worker_set.name, role)
            if name != leader_worker_set.name:
                revisions.setdefault(name, {})[role] = leader_worker_set
    stated = {role.part.name: role for role in workload.roles}
    for name, made_for in revisions.items():
        roles = {role: _role(role, leader_worker_set, stated.get(role)) for role, leader_worker_set in made_for.items()}
        # Sets are made one after the other, and without the next one the first must not start. A revision with another
        # role is an old one.
        every = {**stated, **roles} if roles.keys() <= stated.keys() else roles
        yield from gang_of_first_groups(workload, name, every.values())


def _role(name: str, leader_worker_set: LeaderWorkerSet, stated: LeaderWorkerSetRole | None) -> LeaderWorkerSetRole:
    return LeaderWorkerSetRole(
        leader_worker_set.parts[-1]._replace(name=name),
        leader_worker_set.replicas if stated is None else stated.groups,
        leader_worker_set.size,
    )


# The objects of a gang share what is kept of it.
_latest = latest_equal(1024)


class MemberGangs:
    """The gangs of the objects of one kind, by their members."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # The gangs of objects that have the name of their only member, without that member.
        self._by_name: dict[ObjectKey, LivingGang] = {}
        # Those of all other objects.
        self._others = GangObjects()

    def put(self, key: ObjectKey, gang: LivingGang | None) -> None:
        """Notes what an object says now; None if it is for no gang or does not exist."""
        if gang is not None and gang.members == (key[1],):
            self._by_name[key] = _latest(gang._replace(members=()))
            gang = None
        else:
            self._by_name.pop(key, None)
        where = (self._api, *key)
        # A gang object of an opted-in workload lists no members.
        if gang is not None and gang.members:
            self._others[where] = gang
        else:
            self._others.pop(where, None)

    def having(self, namespace: str, members: list[str]) -> Iterator[LivingGang]:
        """Yields the gangs that contain one of these members, once for each object."""
        for member in dict.fromkeys(members):
            if (gang := self._by_name.get((namespace, member))) is not None:
                yield gang._replace(members=(member,))
        for key in dict.fromkeys(key for member in members for key in self._others.having((namespace, member))):
            yield self._others[key]
