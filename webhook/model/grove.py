"""Grove's keys, its two generations, and read views over its PodGang and its ClusterTopologyBinding.

The keys are labels, annotations, gates and domains. Rollcall writes only the trigger, for a remedy. Grove
v0.1.0-alpha.12 and later serve PodGangMaps and put an epoch into the name of each PodGang: a number that Grove's
operator chooses, so it cannot be predicted. PodCliques and pods have the same names in both generations. Topology of a
PodGang is in node label keys, not in domains: Grove's operator has translated it. Source: ai-dynamo/grove, pull
request 778, operator/api/core/v1alpha1/clustertopologybinding.go, scheduler/api/core/v1alpha1/podgang.go and
operator/internal/controller/podcliqueset (2026-08).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.keys import LABEL_VALUE_LIMIT
from webhook.model.reading import Manifest, integer, mapping, sequence, text

if TYPE_CHECKING:
    from webhook.model.facts import ClusterFacts
    from webhook.workloads.pod_clique_set import ScalingGroup

GROUP = "grove.io"
SCHEDULER_GROUP = "scheduler.grove.io"

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY_GROVE = "grove-operator"
LABEL_PART_OF = "app.kubernetes.io/part-of"
LABEL_PODGANG = "grove.io/podgang"
LABEL_PODCLIQUE = "grove.io/podclique"
LABEL_REPLICA = "grove.io/podcliqueset-replica-index"
# On the PodGangs of v0.1.0-alpha.12 and later. Source: ai-dynamo/grove, pull request 778.
LABEL_EPOCH = "grove.io/epoch"
# On the pods of a scaling group: the group's full name, and the index of the replica.
LABEL_SCALING_GROUP = "grove.io/podcliquescalinggroup"
LABEL_SCALING_GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"

# On a PodGang: the scheduler that Grove prepares its pods for.
LABEL_SCHEDULER = "grove.io/scheduler-name"
# For these schedulers Grove's own backend prepares the pods and writes the PodGroups. They have the kind and the
# controller that Rollcall's would have.
WRITERS = frozenset({"volcano", "kai-scheduler"})

# On a PodGang with topology: the ClusterTopologyBinding of its domains.
TOPOLOGY_NAME = "grove.io/topology-name"

# A condition of a PodCliqueSet, True while the operator of v0.1.0-alpha.12 and later replaces the PodGangs of the
# versions before it. Source: pull request 778.
MIGRATING = "PodGangMigrationInProgress"

GATE = "grove.io/podgang-pending-creation"
# On a PodCliqueSet: Grove's operator reconciles it when the value changes. Source: ai-dynamo/grove,
# operator/internal/controller/podcliqueset/register.go (fcc3b3bb).
RECONCILE_TRIGGER = "grove.io/reconcile-trigger"
# How often at the least an operator with pull request 784 reconciles a PodClique without any event; without it
# (fcc3b3bb) only an event does. Source: ai-dynamo/grove, operator/internal/controller/podclique/reconciler.go: the
# smaller of `PodCliqueStatusResyncInterval` and the set's `terminationDelay`.
RESYNC_MINUTES = 3

MNNVL_GROUP = "grove.io/mnnvl-group"
# The value that removes a clique, a scaling group or a set from its parent's group.
MNNVL_NONE = "none"
# Read up to v0.1.0-alpha.8, ignored since. A manifest that has it still intends multi-node NVLink.
AUTO_MNNVL = "grove.io/auto-mnnvl"
AUTO_MNNVL_ENABLED = "enabled"

# Grove treats a clique as a GPU clique only if it requests this resource. GPUs from DRA claims do not count.
GPU_RESOURCE = "nvidia.com/gpu"


# In shown names: the number that Grove's operator chooses.
EPOCH = "<epoch>"
# Nanoseconds since 1970 have that many digits, until the year 2286.
EPOCH_DIGITS = 19
SHORTENED = f"Grove shortens PodGang names of more than {LABEL_VALUE_LIMIT} characters; they are shown in full"


class GroveGeneration(StrEnum):
    """A generation of Grove, in the words of `--grove` and of the configuration."""

    # v0.1.0-alpha.12 and later.
    POD_GANG_MAP = "podgangmap"
    # Up to v0.1.0-alpha.11.
    LEGACY = "legacy"


NEWEST = GroveGeneration.POD_GANG_MAP


def generation_of(facts: ClusterFacts, chosen: GroveGeneration | None = None) -> GroveGeneration:
    """Returns the generation that is `chosen`, else that of the known cluster, else the newest."""
    if chosen is not None:
        return chosen
    kinds = {api.kind for api in facts.apis or () if api.group == GROUP}
    older = "PodCliqueSet" in kinds and "PodGangMap" not in kinds
    return GroveGeneration.LEGACY if older else NEWEST


def is_shortened(shown: str) -> bool:
    """Returns whether Grove shortens the name of a PodGang that is shown with `EPOCH`."""
    return EPOCH in shown and len(shown) - len(EPOCH) + EPOCH_DIGITS > LABEL_VALUE_LIMIT


class PodGangNames(NamedTuple):
    """The names of the PodGangs of a generation. `replica` is `<PodCliqueSet>-<index>` in all of them."""

    generation: GroveGeneration
    epoch: str = EPOCH

    def first(self, replica: str) -> str:
        """Returns the name of the PodGang that starts first: the base gang, or the anchor."""
        return replica if self.generation is GroveGeneration.LEGACY else f"{replica}-{self.epoch}"

    def further(self, replica: str, group: ScalingGroup, index: int) -> str:
        """Returns the name of the PodGang of the replica `index` of a scaling group, above the group's minimum."""
        if self.generation is GroveGeneration.LEGACY:
            return f"{replica}-{group.name}-{index - group.min_available}"
        return f"{replica}-{self.epoch}-{group.name}-{index}"


class BindingLevel(NamedTuple):
    """A level of the topology: Grove's name for it, and the node label key. In a file either may be missing."""

    path: FieldPath
    domain: str | None
    key: str | None


class ClusterTopologyBinding:
    """A ClusterTopologyBinding (grove.io/v1alpha1). `levels` are listed broadest first."""

    __slots__ = ("levels", "name", "raw", "references", "uid")

    def __init__(self, raw: Manifest) -> None:
        self.raw = raw
        metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
        self.name = text(metadata.get("name")) or ""
        self.uid = text(metadata.get("uid"))
        self.levels = []
        for index, entry in enumerate(sequence(spec.get("levels"))):
            level = mapping(entry)
            self.levels.append(
                BindingLevel(SPEC / "levels" / Item(index), text(level.get("domain")), text(level.get("key")))
            )
        # By schedulerName: a topology object that someone else manages. For the other schedulers the operator makes
        # one.
        self.references: dict[str, str] = {}
        for entry in sequence(spec.get("schedulerTopologyBindings")):
            binding = mapping(entry)
            scheduler, reference = text(binding.get("schedulerName")), text(binding.get("topologyReference"))
            if scheduler and reference:
                self.references[scheduler] = reference


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
    """Returns the reference to the controller among an object's owner references."""
    for raw in sequence(metadata.get("ownerReferences")):
        reference = mapping(raw)
        if reference.get("controller") is True:
            return OwnerReference(
                text(reference.get("apiVersion")) or "",
                text(reference.get("kind")) or "",
                text(reference.get("name")) or "",
                text(reference.get("uid")),
            )
    return None


def is_pod_clique_set(reference: OwnerReference) -> bool:
    """Returns whether a reference names a PodCliqueSet."""
    return (reference.kind, reference.group) == ("PodCliqueSet", GROUP)


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
    """Returns None: no pod on a node was prepared for the gang, or it is not known which."""


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
    gang_label: ClassVar[str] = LABEL_PODGANG
    member_label: ClassVar[str] = LABEL_PODCLIQUE

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

    def add_gang_state(self, gang: str, *, divided: frozenset[str], present: Present) -> PodGang:
        """Returns the same PodGang with what is known of its gang."""
        podgang = copy(self)
        podgang.gang, podgang.divided, podgang.present = gang or self.name, divided, present
        return podgang

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
        return OwnerReference(f"{SCHEDULER_GROUP}/v1alpha1", "PodGang", self.name, self.uid)

    @property
    def owners(self) -> frozenset[str]:
        """The uids that may control its gang objects: the PodGang owns them until a PodCliqueSet controls it."""
        return frozenset(uid for uid in (self.uid, self.owner.uid) if uid)

    @property
    def pod_clique_set(self) -> OwnerReference | None:
        """The PodCliqueSet that controls it; None for a PodGang that someone else made."""
        controller = controller_in(mapping(self.raw.get("metadata")))
        return controller if controller is not None and is_pod_clique_set(controller) else None

    @property
    def workload_kind(self) -> str:
        return "PodCliqueSet"

    def pod_names(self) -> dict[str, list[str]]:
        """Returns by member the names of the pods in its `podReferences`, without those of other namespaces."""
        by_member: dict[str, list[str]] = {}
        for group in map(mapping, sequence(mapping(self.raw.get("spec")).get("podgroups"))):
            names = by_member.setdefault(text(group.get("name")) or "", [])
            for reference in map(mapping, sequence(group.get("podReferences"))):
                if text(reference.get("namespace")) == self.namespace:
                    names.append(text(reference.get("name")) or "")
        return by_member

    @property
    def group_configs(self) -> list[GroupConfig]:
        """The constraints on subsets of its members: one per scaling-group replica with topology and members."""
        field = "topologyConstraintGroupConfigs"
        configs = []
        for index, config in enumerate(sequence(mapping(self.raw.get("spec")).get(field))):
            raw = mapping(config)
            name = text(raw.get("name"))
            path = SPEC / field / Item(index, name)
            members = tuple(text(member) or "" for member in sequence(raw.get("podGroupNames")))
            if members:
                configs.append(GroupConfig(path, name or "", members, _constraint(raw, path)))
        return configs

    @property
    def constraints(self) -> list[PackConstraint]:
        """Every constraint in the PodGang: the whole gang's, those on subsets, and its members'."""
        grouped = [config.constraint for config in self.group_configs]
        return [self.constraint, *grouped, *(member.constraint for member in self.members)]

    @property
    def topology_name(self) -> str | None:
        """The ClusterTopologyBinding with which Grove's operator translated its domains."""
        return text(self.annotations.get(TOPOLOGY_NAME))

    def effective(self, member: Member) -> PackConstraint:
        """Returns a member's constraint; the gang's constraint fills in what the member does not state."""
        constraint, whole = member.constraint, self.constraint
        path = constraint.path if constraint.required or constraint.preferred else whole.path
        return PackConstraint(path, constraint.required or whole.required, constraint.preferred or whole.preferred)


def _member(raw: Mapping[str, Any], index: int) -> Member:
    name = text(raw.get("name")) or ""
    path = SPEC / "podgroups" / Item(index, name or None)
    minimum = integer(raw.get("minReplicas")) or 0
    return Member(path, name, minimum, len(sequence(raw.get("podReferences"))), _constraint(raw, path))


def _constraint(holder: Mapping[str, Any], path: FieldPath) -> PackConstraint:
    pack = mapping(mapping(holder.get("topologyConstraint")).get("packConstraint"))
    place = path / "topologyConstraint" / "packConstraint"
    return PackConstraint(place, text(pack.get("required")), text(pack.get("preferred")))
