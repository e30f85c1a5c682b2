"""The gang that a pod joins: found by its PodClique in the gang objects that exist, and not computed from a name.

Grove renames PodGangs while their pods run (v0.1.0-alpha.12 and later), and only PodCliques keep their names. The
name of a gang's objects is in the pods already, where it mostly cannot be changed. So the objects keep their names, and
the gang of a PodClique is found by looking for objects that contain this PodClique.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from webhook.model import grove
from webhook.model.bounds import POD_GANG_BYTES, name_text, shared
from webhook.model.claims import Mark
from webhook.model.fields import ANNOTATIONS, LABELS, FieldPath
from webhook.model.gang_object import DIVIDED_ANNOTATION, MANAGED_BY_ROLLCALL, MEMBERS_ANNOTATION
from webhook.model.indexed import Indexed, Overlay
from webhook.model.keys import Api, ObjectKey
from webhook.model.pod_gang_map import PodGangMap
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.model.workloads.gang import GANG_LABEL
from webhook.model.workloads.podgang import controller_in, is_pod_clique_set

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


class NamedGroup(NamedTuple):
    """The group that a pod names: the path and the name, and the keys of the gang objects that may say whose it is.
    `unread` is the part of the facts that is needed for more of these keys and is unknown.
    """

    at: FieldPath
    name: str
    objects: tuple[GangObjectKey, ...]
    unread: str | None = None


def marked_group(pod: StoredObject, api: Api, marks: Iterable[Mark]) -> NamedGroup | None:
    """The group that the first of these labels and annotations names that is not empty."""
    for mark in marks:
        values, at = (pod.labels, LABELS) if mark.part == "labels" else (pod.annotations, ANNOTATIONS)
        if (name := name_text(values.get(mark.key))) is not None:
            return NamedGroup(at / mark.key, name, ((api, pod.key[0], name),))
    return None


class GangObjects(Indexed[GangObjectKey, LivingGang]):
    """Rollcall's gang objects, indexed by the members of their PodGangs."""

    @staticmethod
    def terms(key: GangObjectKey, value: LivingGang) -> Iterable[Hashable]:
        """The namespace and name of each member."""
        return ((key[1], member) for member in value.members)

    def of_member(self, namespace: str, podclique: str) -> list[LivingGang]:
        """The gangs that contain a PodClique."""
        return [self[key] for key in self.having((namespace, podclique))]

    def overlaid(self, changes: Mapping[GangObjectKey, LivingGang | None]) -> GangObjects:
        """These objects with some of them changed (None for a removed one), without a copy."""
        return _Overlaid(self, changes)


class _Overlaid(Overlay[GangObjectKey, LivingGang], GangObjects):
    """Gang objects with a few changes."""


def living_gang(manifest: Manifest) -> LivingGang | None:
    """What a gang object says; None for an object that Rollcall did not make, that is being deleted, or that lists more
    than `MOST_MEMBERS`. Raises `Malformed`.
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
    own = name_text(labels.get(grove.LABEL_PODCLIQUE))
    annotations = mapping(metadata.get("annotations"))
    listed = text(annotations.get(MEMBERS_ANNOTATION)) or ""
    if own is None and listed.count(",") >= MOST_MEMBERS:
        return None
    # A tenant may write a member twice, and the index has each once.
    members = (own,) if own is not None else tuple(dict.fromkeys(member for member in listed.split(",") if member))
    divided = frozenset((text(annotations.get(DIVIDED_ANNOTATION)) or "").split(",")).intersection(members)
    owner = (name_text(controller.uid) or "") if moved and controller is not None else ""
    return LivingGang(
        shared(gang or podgang),
        shared(podgang),
        members,
        moved,
        divided or _UNDIVIDED,
        shared(owner),
    )


def of_set(holders: Iterable[LivingGang], uid: str | None) -> list[LivingGang]:
    """Those of the gangs that a PodCliqueSet may own: not those of a deleted one of the same name, whose objects go."""
    return [one for one in holders if not uid or one.owner in {"", uid}]


def gang_joined(podgang: str, holders: Iterable[LivingGang], known: PodGangMap | None) -> str | None:
    """The gang that a pod of `podgang` joins, whose PodClique is in the gangs `holders`; None if it joins none of them.

    A gang of another PodGang is joined only if that PodGang is gone: `known`, the replica's PodGangMap, still has the
    PodGangs that share a PodClique with this one. Without a map no two PodGangs share one.
    """
    found = list(holders)
    own = {one.gang: None for one in found if one.podgang == podgang}
    if own:
        # Whatever else an object says, the name of a renamed gang counts.
        return next((gang for gang in own if gang != podgang), podgang)
    # A tenant may write any number of objects for one PodGang.
    living = set() if known is None else {name for name in {one.podgang for one in found} if known.entry_of(name)}
    return next((one.gang for one in found if one.podgang not in living), None)


def is_divided(
    gang: str, podgang: str, podclique: str, holders: Iterable[LivingGang], known: PodGangMap | None
) -> bool:
    """Whether the pods of a PodClique are divided over several gangs, and those in `gang` need a group of a name of
    its own.

    The gang's objects say so, if there are any. Else the PodGang that the map names first keeps the plain name: Grove
    adds later ones behind it. If the map is older than the PodGang, the gang that exists keeps it.
    """
    found = list(holders)
    own = [one for one in found if one.gang == gang]
    if own or known is None:
        return any(podclique in one.divided for one in own)
    mine = known.entry_of(podgang)
    return bool(found) if mine is None else next(known.entries_with(podclique), mine) != mine


def map_key(namespace: str, labels: Mapping[str, object]) -> ObjectKey | None:
    """The namespace and name of the PodGangMap of an object with Grove's labels."""
    workload, replica = labels.get(grove.LABEL_PART_OF), labels.get(grove.LABEL_REPLICA)
    return (namespace, f"{workload}-{replica}") if isinstance(workload, str) and isinstance(replica, str) else None


@cache
def living_gangs(resource: Resource) -> Projection:
    """The projection of one kind of gang objects."""

    def read(raw: Manifest) -> tuple[GangObjectKey, LivingGang] | None:
        found = living_gang(raw)
        return None if found is None else ((resource.api, *key_of(raw)), found)

    selector = f"{grove.LABEL_MANAGED_BY}={MANAGED_BY_ROLLCALL}"
    return Projection(
        PART, resource, read, GangObjects, for_objects=True, label_selector=selector, most=POD_GANG_BYTES, shared=True
    )
