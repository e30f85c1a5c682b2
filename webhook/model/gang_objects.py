"""The objects that Rollcall writes for gangs: their labels and owner, how they are found again, and which gang a pod
joins by them. StoredObject is the view over an object of another author.

The labels name the PodGang of today and the gang, which is the PodGang's name when the objects were first made. Grove
renames PodGangs while their pods run (v0.1.0-alpha.12 and later), and only PodCliques keep their names. So the objects
keep their names, and the gang of a PodClique is found by looking for objects that contain it. A backend names changes
that its scheduler cannot apply at every stage of a gang. Rollcall's report of OpenReports is recognised here as well
(openreports/reports-api, apis/openreports.io/v1alpha1).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import POD_GANG_BYTES, name_text, shared
from webhook.model.claims import Mark
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.grove import LABEL_MANAGED_BY, OwnerReference, PodGang, controller_in, is_pod_clique_set
from webhook.model.keys import LABEL_VALUE_LIMIT, Api, ObjectKey, cut_name
from webhook.model.known_objects import Indexed, Overlay
from webhook.model.pod_gang_map import PodGangMap
from webhook.model.projections import Projection, Resource, key_of, labels_of
from webhook.model.reading import EMPTY, Malformed, Manifest, integer, mapping, sequence, text
from webhook.workloads.opted_in_gang import GANG_LABEL


class JudgedKind(NamedTuple):
    """A kind that has rules, in any version. `plural` is its name in paths."""

    group: str
    kind: str
    plural: str
    namespaced: bool = True


JUDGED_PODS = JudgedKind("", "Pod", "pods")


class StoredObject:
    """An object to be stored. `version` is its API version, `old` the same object before an update."""

    __slots__ = ("annotations", "kind", "labels", "name", "namespace", "old", "raw", "spec", "version")

    def __init__(
        self, raw: Manifest, kind: str, version: str, namespace: str = "", old: StoredObject | None = None
    ) -> None:
        """Raises `Malformed` if metadata or spec have the wrong type."""
        self.raw = raw
        self.kind = kind
        self.version = version
        self.old = old
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        self.spec = mapping(raw.get("spec"))

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.namespace or "default", self.name


class Stage(IntEnum):
    """The stage of a gang: it has no pods, or its pods all wait, or at least one pod is on a node."""

    EMPTY = 0
    WAITING = 1
    BOUND = 2


class Frozen(NamedTuple):
    """A change of an existing gang that its scheduler cannot apply at every stage.

    Up to the stage `until`, the change can be made: first the objects in `recreated` (as they are in the cluster) are
    deleted, then the desired objects are written. After that stage, no object of the gang is written.
    """

    # What changed, in words: "the minimum of demo-0-worker goes from 2 to 3".
    what: str
    # Why the scheduler cannot follow, as the end of a sentence.
    why: str
    until: Stage
    recreated: tuple[Manifest, ...] = ()


# On a gang object of a PodGang that stands for several members: their names, separated by commas.
MEMBERS_ANNOTATION = "rollcall.dev/members"
# On the same objects: those members that other gangs have too, whose groups have the gang's name in theirs.
DIVIDED_ANNOTATION = "rollcall.dev/divided"
# On a gang object that was lost while its gang ran, and created again with minimums that the pods on nodes meet.
RESTORED_ANNOTATION = "rollcall.dev/restored"
# On a gang object whose minimum was raised in place: when, as RFC 3339 with microseconds. It is written with the raise.
RAISED_ANNOTATION = "rollcall.dev/raised"
# The value of app.kubernetes.io/managed-by: apply and prune touch only objects with this label.
MANAGED_BY_ROLLCALL = "rollcall"


# Phases of a PodGroup, of any scheduler, whose pods were on nodes.
_STARTED_PHASES = frozenset({"Scheduled", "Running", "Finished", "Failed", "Completed"})
_STARTED_COUNTS = ("scheduled", "running", "succeeded", "failed")
# What is kept of the status of an object that says so.
STARTED = {"started": True}


def says_started(live: Manifest) -> bool:
    """Returns whether a scheduler has noted on a gang object that its pods were on nodes. Raises `Malformed`."""
    status = mapping(live.get("status"))
    if status == STARTED or text(status.get("phase")) in _STARTED_PHASES:
        return True
    return any((integer(status.get(count)) or 0) > 0 for count in _STARTED_COUNTS)


# The conditions of groups of the Workload API that say whether they were placed: of 1.36, of 1.37 and newer, and of
# 1.38. Source: k8s.io/api scheduling/v1alpha2 (v0.36.3), scheduling/v1beta1 (v0.38.0-beta.0).
_PLACED = frozenset({"PodGroupScheduled", "PodGroupInitiallyScheduled", "CompositePodGroupInitiallyScheduled"})
# A scheduler's message may list every node.
_MESSAGE_CHARACTERS = 400


class GroupCondition(NamedTuple):
    """Why kube-scheduler has not placed a group yet, as it says in a condition of the group itself."""

    # `CompositePodGroup demo-0`.
    group: str
    reason: str
    message: str


def not_placed(live: Manifest) -> Manifest | None:
    """Returns the condition that says why a group was not placed, cut; None if it has none. Raises `Malformed`."""
    for raw in sequence(mapping(live.get("status")).get("conditions")):
        condition = mapping(raw)
        kind = text(condition.get("type"))
        if kind in _PLACED and condition.get("status") == "False":
            message = " ".join((text(condition.get("message")) or "").split())
            kept = {"reason": name_text(condition.get("reason")) or "", "message": message[:_MESSAGE_CHARACTERS]}
            return {"type": kind, "status": "False", **kept}
    return None


def group_conditions(objects: Iterable[Manifest]) -> Iterator[GroupCondition]:
    """Yields why groups among these objects were not placed, groups of groups first. Raises `Malformed`."""
    conditions = [
        GroupCondition(f"{group['kind']} {group['metadata']['name']}", condition["reason"], condition["message"])
        for group in objects
        if (condition := not_placed(group)) is not None
    ]
    return iter(sorted(conditions))


def is_raised(desired: Any, live: Any) -> bool:
    """Returns whether a number in the spec `desired` is larger than in the spec `live`, or has no counterpart there: a
    minimum was raised, or a member is new. Entries of lists are compared by name.
    """
    if isinstance(desired, Mapping):
        before = live if isinstance(live, Mapping) else EMPTY
        return any(is_raised(value, before.get(key)) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        before = _entries_by_name(live if isinstance(live, list | tuple) else ())
        return any(is_raised(entry, before.get(key)) for key, entry in _entries_by_name(desired).items())
    if not isinstance(desired, int) or isinstance(desired, bool):
        return False
    return desired > (live if isinstance(live, int) else 0)


def _entries_by_name(entries: Sequence[Any]) -> dict[Any, Any]:
    return {
        entry["name"] if isinstance(entry, Mapping) and isinstance(entry.get("name"), str) else place: entry
        for place, entry in enumerate(entries)
    }


def raised_at(live: Manifest | None) -> str | None:
    """Returns the value of `rollcall.dev/raised` of a gang object, None if it has none. Raises `Malformed`."""
    return text(mapping(mapping(mapping(live).get("metadata")).get("annotations")).get(RAISED_ANNOTATION))


def is_restored(live: Manifest | None) -> bool:
    """Returns whether the gang object was lost while its gang ran, and has lower minimums since."""
    return RESTORED_ANNOTATION in mapping(mapping(mapping(live).get("metadata")).get("annotations"))


def unrestored(live: Manifest | None) -> Manifest | None:
    """Returns `live` as if it had never been lost."""
    if live is None or not is_restored(live):
        return live
    annotations = {key: value for key, value in live["metadata"]["annotations"].items() if key != RESTORED_ANNOTATION}
    return {**live, "metadata": {**live["metadata"], "annotations": annotations}}


def gang_metadata(
    podgang: PodGang, name: str, labels: Mapping[str, str] = EMPTY, annotations: Mapping[str, str] = EMPTY
) -> Manifest:
    """Returns the metadata of an object of `podgang`: its name, its labels, and the reference that deletes it with its
    owner.

    A name may be longer than a label's value. In a label it is cut, as it is in a name.
    """
    gang_labels = {podgang.gang_label: podgang.name, GANG_LABEL: podgang.gang, **labels}
    if podgang.gang_label != GANG_LABEL and podgang.member_label not in labels:
        annotations = {**annotations, MEMBERS_ANNOTATION: ",".join(member.name for member in podgang.members)}
        if podgang.divided:
            annotations[DIVIDED_ANNOTATION] = ",".join(sorted(podgang.divided))
    metadata: Manifest = {
        "name": name,
        "namespace": podgang.namespace,
        "labels": {
            grove.LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL,
            **{key: cut_name(value, LABEL_VALUE_LIMIT) for key, value in gang_labels.items()},
        },
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    if podgang.owner.uid is not None:
        metadata["ownerReferences"] = [owner_reference(podgang.owner)]
    return metadata


def owner_reference(owner: OwnerReference) -> dict[str, Any]:
    """Returns the reference by which the garbage collector deletes an object with its owner."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


PART = "gang_objects"
# The members that are read of one object. A tenant may write an object with tens of thousands, and the index keeps
# half a kilobyte for each.
MOST_MEMBERS = 1000


# Each other empty set is an object of its own.
_UNDIVIDED: frozenset[str] = frozenset()


class LivingGang(NamedTuple):
    """What a gang object says of its gang: the gang's name, the PodGang that it is for, and the members in it. `moved`
    means that its PodCliqueSet owns it, and not the PodGang. `divided` are the members that other gangs have too, whose
    groups have this gang's name in theirs. The gang of an opted-in workload has no PodGang, and its members are not
    listed.
    """

    gang: str
    podgang: str
    members: tuple[str, ...]
    moved: bool
    divided: frozenset[str] = frozenset()
    # The uid of the PodCliqueSet or the opted-in workload that owns it.
    owner: str = ""


# The kind of a gang object with its namespace and name: a cluster may serve a kind in several versions.
GangObjectKey = tuple[Api, str, str]


class PodsGroup(NamedTuple):
    """The group that a pod names: the path and the name, and the keys of the gang objects that may say whose it is.
    `unread` is the part of the facts that is needed for more of these keys and is unknown.
    """

    at: FieldPath
    name: str
    objects: tuple[GangObjectKey, ...]
    unread: str | None = None


def marked_group(pod: StoredObject, api: Api, marks: Iterable[Mark]) -> PodsGroup | None:
    """Returns the group that the first of these labels and annotations names that is not empty."""
    for mark in marks:
        values, at = (pod.labels, LABELS) if mark.part == "labels" else (pod.annotations, ANNOTATIONS)
        if (name := name_text(values.get(mark.key))) is not None:
            return PodsGroup(at / mark.key, name, ((api, pod.key[0], name),))
    return None


class GangObjects(Indexed[GangObjectKey, LivingGang]):
    """Rollcall's gang objects, indexed by the members of their PodGangs."""

    @staticmethod
    def terms(key: GangObjectKey, value: LivingGang) -> Iterable[Hashable]:
        """Returns the namespace and name of each member."""
        return ((key[1], member) for member in value.members)

    def gangs_of_member(self, namespace: str, podclique: str) -> list[LivingGang]:
        """Returns the gangs that contain a PodClique."""
        return [self[key] for key in self.having((namespace, podclique))]

    def overlaid(self, changes: Mapping[GangObjectKey, LivingGang | None]) -> GangObjects:
        """Returns these objects with some of them changed (None for a removed one), without a copy."""
        return _OverlaidObjects(self, changes)


class _OverlaidObjects(Overlay[GangObjectKey, LivingGang], GangObjects):
    """Gang objects with a few changes."""


def living_gang(manifest: Manifest) -> LivingGang | None:
    """Returns what a gang object says; None for an object that Rollcall did not make, that is being deleted, or that
    lists more than `MOST_MEMBERS`. Raises `Malformed`.
    """
    metadata = mapping(manifest.get("metadata"))
    labels = mapping(metadata.get("labels"))
    podgang, gang = name_text(labels.get(grove.LABEL_PODGANG)), name_text(labels.get(GANG_LABEL))
    managed = labels.get(grove.LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    if not managed or metadata.get("deletionTimestamp") is not None:
        return None
    controller = controller_in(metadata)
    if podgang is None:
        if gang is None or controller is None:
            return None
        return LivingGang(shared(gang), "", (), moved=False, owner=shared(name_text(controller.uid) or ""))
    moved = controller is not None and is_pod_clique_set(controller)
    if controller is not None and not moved:
        podgang = controller.name
    podclique = name_text(labels.get(grove.LABEL_PODCLIQUE))
    annotations = mapping(metadata.get("annotations"))
    listed = text(annotations.get(MEMBERS_ANNOTATION)) or ""
    if podclique is None and listed.count(",") >= MOST_MEMBERS:
        return None
    # A tenant may write a member twice, and the index has each once.
    several = tuple(dict.fromkeys(member for member in listed.split(",") if member))
    members = several if podclique is None else (podclique,)
    divided = frozenset((text(annotations.get(DIVIDED_ANNOTATION)) or "").split(",")).intersection(members)
    owner = (name_text(controller.uid) or "") if moved and controller is not None else ""
    return LivingGang(shared(gang or podgang), shared(podgang), members, moved, divided or _UNDIVIDED, shared(owner))


def gangs_of_set(holders: Iterable[LivingGang], uid: str | None) -> list[LivingGang]:
    """Returns the gangs that a PodCliqueSet may own, not those of a deleted one of the same name."""
    return [holder for holder in holders if not uid or holder.owner in {"", uid}]


def gang_joined(podgang: str, holders: Iterable[LivingGang], pod_gang_map: PodGangMap | None) -> str | None:
    """Returns the gang that a pod of `podgang` joins, whose PodClique is in the gangs `holders`; None if it joins none
    of them.

    A gang of another PodGang is joined only if that PodGang is gone: the replica's PodGangMap still has the PodGangs
    that share a PodClique with this one. Without a map no two PodGangs share one.
    """
    gangs = list(holders)
    names = {holder.gang: None for holder in gangs if holder.podgang == podgang}
    if names:
        # Whatever else an object says, the name of a renamed gang counts.
        return next((gang for gang in names if gang != podgang), podgang)
    # A tenant may write any number of objects for one PodGang.
    podgangs = {holder.podgang for holder in gangs}
    living = set() if pod_gang_map is None else {name for name in podgangs if pod_gang_map.entry_of(name)}
    return next((holder.gang for holder in gangs if holder.podgang not in living), None)


def is_divided(
    gang: str, podgang: str, podclique: str, holders: Iterable[LivingGang], pod_gang_map: PodGangMap | None
) -> bool:
    """Returns whether the pods of a PodClique are divided over several gangs, and those in `gang` need a group of a
    name of its own.

    The gang's objects say so, if there are any. Else the PodGang that the map names first keeps the plain name: Grove
    adds later ones behind it. If the map is older than the PodGang, the gang that exists keeps it.
    """
    gangs = list(holders)
    same_gang = [holder for holder in gangs if holder.gang == gang]
    if same_gang or pod_gang_map is None:
        return any(podclique in holder.divided for holder in same_gang)
    mine = pod_gang_map.entry_of(podgang)
    return bool(gangs) if mine is None else next(pod_gang_map.entries_with(podclique), mine) != mine


def map_key(namespace: str, labels: Mapping[str, object]) -> ObjectKey | None:
    """Returns the namespace and name of the PodGangMap of an object with Grove's labels."""
    workload, replica = labels.get(grove.LABEL_PART_OF), labels.get(grove.LABEL_REPLICA)
    return (namespace, f"{workload}-{replica}") if isinstance(workload, str) and isinstance(replica, str) else None


@cache
def living_gangs(resource: Resource) -> Projection:
    """Returns the projection of one kind of gang objects."""

    def read(raw: Manifest) -> tuple[GangObjectKey, LivingGang] | None:
        gang = living_gang(raw)
        return None if gang is None else ((resource.api, *key_of(raw)), gang)

    selector = f"{grove.LABEL_MANAGED_BY}={MANAGED_BY_ROLLCALL}"
    return Projection(
        PART, resource, read, GangObjects, for_objects=True, label_selector=selector, most=POD_GANG_BYTES, shared=True
    )


REPORTS = Resource(Api("openreports.io", "v1alpha1", "Report"), "reports")
# Of the one report of a namespace. A report of that name without Rollcall's label is another program's.
REPORT_NAME = "rollcall"
REPORT_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY_ROLLCALL}"


def is_rollcall_report(raw: Manifest) -> bool:
    """Returns whether Rollcall wrote a report."""
    try:
        return labels_of(raw).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    except Malformed:
        return False
