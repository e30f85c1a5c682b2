"""PodGang: a read view over Grove's gang.

Topology here is in node label keys, not in domains: Grove's operator has translated it. Source: ai-dynamo/grove,
scheduler/api/core/v1alpha1/podgang.go, operator/internal/controller/podcliqueset/components/podgang/syncflow.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple

from webhook.model import grove
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.reading import Manifest, integer, mapping, sequence, text


class OwnerReference(NamedTuple):
    """A reference to the object that owns another and is deleted with it."""

    api_version: str
    kind: str
    name: str
    uid: str | None

    @property
    def group(self) -> str:
        """The API group of its kind."""
        return self.api_version.rpartition("/")[0]


def controller_in(metadata: Mapping[str, Any]) -> OwnerReference | None:
    """The reference to the controller among an object's owner references."""
    for raw in sequence(metadata.get("ownerReferences")):
        found = mapping(raw)
        if found.get("controller") is True:
            return OwnerReference(
                text(found.get("apiVersion")) or "",
                text(found.get("kind")) or "",
                text(found.get("name")) or "",
                text(found.get("uid")),
            )
    return None


def is_pod_clique_set(reference: OwnerReference) -> bool:
    """Whether a reference names a PodCliqueSet."""
    return (reference.kind, reference.group) == ("PodCliqueSet", grove.GROUP)


class PackConstraint(NamedTuple):
    """The required and the preferred node label key, and their paths."""

    path: FieldPath
    required: str | None
    preferred: str | None


class Member(NamedTuple):
    """One of the PodGang's `podgroups`: the pods of one PodClique."""

    path: FieldPath
    name: str
    min_replicas: int
    pods: int
    constraint: PackConstraint


class GroupConfig(NamedTuple):
    """One of its `topologyConstraintGroupConfigs`: a constraint on a subset of the members."""

    path: FieldPath
    name: str
    members: tuple[str, ...]
    constraint: PackConstraint


# See `PodGang.present`.
Present = Callable[[], Mapping[str, int] | None]


def no_count() -> None:
    """No pod on a node was prepared for the gang, or it is not known which."""
    return


class PodGang:
    """A PodGang (scheduler.grove.io/v1alpha1)."""

    __slots__ = (
        "annotations",
        "constraint",
        "divided",
        "elastic",
        "gang",
        "labels",
        "members",
        "name",
        "namespace",
        "present",
        "raw",
        "uid",
    )

    kind = "PodGang"
    # On its pods and on its gang objects: the labels that name the gang and the member.
    gang_label: ClassVar[str] = grove.LABEL_PODGANG
    member_label: ClassVar[str] = grove.LABEL_PODCLIQUE

    def __init__(
        self,
        raw: Manifest,
        namespace: str | None = None,
        gang: str | None = None,
        *,
        divided: frozenset[str] = frozenset(),
        present: Present = no_count,
    ) -> None:
        """`gang` is the name that its gang objects are made under, its own if it was never renamed. `divided` are its
        members that other PodGangs have too: Grove may divide the pods of a PodClique over several. `present` counts
        its pods on nodes that were prepared for this name, by member; it returns None if no member has fewer than it
        needs. It prepares every pod, so it is called only if an object is missing.
        """
        self.raw = raw
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace or "default"
        self.gang = gang or self.name
        self.divided, self.present = divided, present
        # Whether pods may join it that its workload does not ask for yet. Of a PodGang the record says that.
        self.elastic = False
        self.uid = text(metadata.get("uid"))
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        spec = mapping(raw.get("spec"))
        self.constraint = _constraint(spec, SPEC)
        self.members = [_member(mapping(group), index) for index, group in enumerate(sequence(spec.get("podgroups")))]

    def named(self, gang: str, *, divided: frozenset[str], present: Present) -> PodGang:
        """The same PodGang with what is known of its gang."""
        found = copy(self)
        found.gang, found.divided, found.present = gang or self.name, divided, present
        return found

    @property
    def owner(self) -> OwnerReference:
        """The owner of its gang objects: its PodCliqueSet, because Grove renames PodGangs while their pods run. It
        deletes the old one before it creates the new one. A PodGang that no PodCliqueSet controls owns them itself, as
        does one whose name is too long for a label: its objects could not be found again.
        """
        workload = self.pod_clique_set
        if workload is None or len(self.name) > LABEL_VALUE_LIMIT:
            return self.reference
        return workload

    @property
    def reference(self) -> OwnerReference:
        """The reference to the PodGang."""
        return OwnerReference(f"{grove.SCHEDULER_GROUP}/v1alpha1", "PodGang", self.name, self.uid)

    @property
    def owners(self) -> frozenset[str]:
        """The uids that may control its gang objects: the PodGang owns them until a PodCliqueSet controls it."""
        return frozenset(uid for uid in (self.uid, self.owner.uid) if uid)

    @property
    def pod_clique_set(self) -> OwnerReference | None:
        """The PodCliqueSet that controls it; None for a PodGang that someone else made."""
        found = controller_in(mapping(self.raw.get("metadata")))
        return found if found is not None and is_pod_clique_set(found) else None

    @property
    def workload_kind(self) -> str:
        """The kind of its workload."""
        return "PodCliqueSet"

    def pod_names(self) -> dict[str, list[str]]:
        """By member: the names of the pods in its `podReferences`. Pods of other namespaces are left out."""
        found: dict[str, list[str]] = {}
        for group in map(mapping, sequence(mapping(self.raw.get("spec")).get("podgroups"))):
            names = found.setdefault(text(group.get("name")) or "", [])
            for reference in map(mapping, sequence(group.get("podReferences"))):
                if text(reference.get("namespace")) == self.namespace:
                    names.append(text(reference.get("name")) or "")
        return found

    @property
    def group_configs(self) -> list[GroupConfig]:
        """The constraints on subsets of its members: one per replica of a scaling group with topology. A constraint
        without members is left out.
        """
        field = "topologyConstraintGroupConfigs"
        found = []
        for index, config in enumerate(sequence(mapping(self.raw.get("spec")).get(field))):
            raw = mapping(config)
            name = text(raw.get("name"))
            path = SPEC / field / Item(index, name)
            members = tuple(text(member) or "" for member in sequence(raw.get("podGroupNames")))
            if members:
                found.append(GroupConfig(path, name or "", members, _constraint(raw, path)))
        return found

    @property
    def constraints(self) -> list[PackConstraint]:
        """Every constraint in the PodGang: the whole gang's, those on subsets, and its members'."""
        grouped = [config.constraint for config in self.group_configs]
        return [self.constraint, *grouped, *(member.constraint for member in self.members)]

    @property
    def topology_name(self) -> str | None:
        """The ClusterTopologyBinding with which Grove's operator translated its domains."""
        return text(self.annotations.get(grove.TOPOLOGY_NAME))

    def effective(self, member: Member) -> PackConstraint:
        """A member's constraint; the gang's constraint fills in what the member does not state."""
        own, whole = member.constraint, self.constraint
        path = own.path if own.required or own.preferred else whole.path
        return PackConstraint(path, own.required or whole.required, own.preferred or whole.preferred)


def _member(raw: Mapping[str, Any], index: int) -> Member:
    name = text(raw.get("name")) or ""
    path = SPEC / "podgroups" / Item(index, name or None)
    minimum = integer(raw.get("minReplicas")) or 0
    return Member(path, name, minimum, len(sequence(raw.get("podReferences"))), _constraint(raw, path))


def _constraint(holder: Mapping[str, Any], path: FieldPath) -> PackConstraint:
    pack = mapping(mapping(holder.get("topologyConstraint")).get("packConstraint"))
    place = path / "topologyConstraint" / "packConstraint"
    return PackConstraint(place, text(pack.get("required")), text(pack.get("preferred")))
