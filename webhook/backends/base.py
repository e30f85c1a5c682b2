"""The contract of a backend: everything that Rollcall knows about one scheduler.

A backend is pure. It gets views, facts and its own settings, and returns findings, changes and desired objects. It
reads no cluster, clock or file. The model is Grove's own Backend interface (Init, ValidatePodCliqueSet, PreparePod,
SyncPodGang), with the translation separated from the writing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from webhook.model.capabilities import Capability, CapabilityTable, Disruption
from webhook.model.claims import CLAIMS, Mark
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Unjudged
from webhook.model.gang_objects import Frozen, JudgedKind, PodsGroup, StoredObject, living_gangs, marked_group
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Api, Record, is_subdomain
from webhook.model.known_objects import SpecField
from webhook.model.pod_groups import Trees
from webhook.model.projections import Projection, Resource
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.model.topology_tree import NodeLabels, NodeTopology, TopologyDrift
from webhook.validators.gang_scheduler import GangScheduler
from webhook.validators.registry import Rule

# Whether topology objects that are made from one binding are only compared, or also written.
TopologyObjects = Literal["compare", "write"]


def unquoted_off(value: object) -> object:
    """Returns the word `off` for False: YAML 1.1 reads a plain `off` as false, and so do tools that rewrite files."""
    return "off" if value is False else value


def _binding_name(name: str) -> str:
    if not is_subdomain(name):
        raise PydanticCustomError("binding_name", "is not a valid name of a ClusterTopologyBinding")
    return name


# The name of a ClusterTopologyBinding.
BindingName = Annotated[str, AfterValidator(_binding_name)]


class BackendSettings(BaseModel):
    """The base of a backend's part of the configuration: unknown keys are errors, and values are not coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PodPriority(NamedTuple):
    """The three priority fields of a pod. The API server refuses a pod in which they disagree."""

    class_name: str
    value: int
    preemption_policy: str


class GangMember(NamedTuple):
    """What a pod is prepared from: its namespace, the labels that place it in a gang, and its record. Hashable."""

    namespace: str
    podgang: str
    podclique: str
    record: Record
    # The result of `Backend.dialect` for the cluster.
    dialect: str = ""
    # The priority from the workload's class, where the backend gives it to the pods.
    priority: PodPriority | None = None
    # Whether other gangs have pods of the same PodClique, so that this gang's group of it needs a name of its own.
    divided: bool = False
    # True for a pod of an opted-in workload. `podgang` and `podclique` are then its gang and its member in that gang.
    opted_in: bool = False
    # Whether Rollcall makes the objects of its gang. Of an opted-in workload the scheduler may make them itself.
    gang_by_rollcall: bool = True


@dataclass(frozen=True, slots=True)
class PodChanges:
    """The changes that a backend wants on a pod. `inputs` are all values that the changes depend on; the stamp is made
    from them. Rules and Rollcall's version are never inputs.

    `labels` and `annotations` are always set. `default_labels` and the spec fields in `default_fields` are set only if
    the pod does not have that key. `priority` is set if the pod names no class itself.
    """

    scheduler_name: str
    inputs: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    default_labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    default_fields: Mapping[str, Any] = field(default_factory=dict)
    priority: PodPriority | None = None
    # Whether the pod has Rollcall's stamp.
    stamped: bool = True


class Wake(StrEnum):
    """What makes a scheduler try a gang again that it has forgotten."""

    # Raise the minimum of one of its PodGroups above the number of pods, and set it back.
    RAISE_MINIMUM = "raiseMinimum"
    # Change any annotation of one of its PodGroups.
    ANNOTATE = "annotate"


S = TypeVar("S", bound=BackendSettings)


class Backend(GangScheduler, ABC, Generic[S]):
    """One scheduler, with the settings of its profile.

    `settings_model` validates the profile's `config`. `rules` are this backend's rules, in addition to the general
    rules.
    """

    name: ClassVar[str]
    settings_model: ClassVar[type[BackendSettings]]
    rules: ClassVar[tuple[Rule, ...]] = ()
    # Facts that its rules need, in addition to the facts that every backend reads. Each of them fills a field of
    # `ClusterFacts`. An outside backend may fill an existing field, and cannot add one.
    projections: ClassVar[tuple[Projection, ...]] = ()
    # By group and kind: the fields that its rules read of gang objects stored by other authors, in the format of
    # validators/shape.py. With it, a field of the wrong type is reported with its path.
    shapes: ClassVar[Mapping[tuple[str, str], Mapping[str, Any]]] = {}
    # The labels and annotations by which a pod names its group, of the kind of its gang heads; the first that is not
    # empty counts. A backend whose pods name their group in a field overrides `named_group`.
    group_marks: ClassVar[tuple[Mark, ...]] = ()
    # Whether its pods have the pod gate by default. Set for a scheduler that binds some pods of a gang while other pods
    # still have a gate.
    gate: ClassVar[bool] = False
    # The kinds of its gang objects. Without them the cluster cannot run a gang for this scheduler.
    required_apis: tuple[Api, ...] = ()
    # An extra instruction for a gang that the scheduler holds without a visible reason, if the scheduler is known to do
    # that. It is appended to the remedy.
    when_held: ClassVar[str] = ""
    # Whether its scheduler changes the status of a gang object when it has seen a raised minimum, and writes it only
    # over the version that it has read: then a status that changes after the raise proves that it has seen the raise.
    shows_raises: ClassVar[bool] = False
    # What makes it try a gang again that it has forgotten; None if it is not known to forget any.
    wake: ClassVar[Wake | None] = None
    # The systems whose gang memberships on a pod this scheduler reads, as named in `webhook.model.claims`.
    reads_claims_of: ClassVar[frozenset[str]] = frozenset()
    # The users of the scheduler and its own controllers, if its charts are installed with their defaults. Gang objects
    # written by these users are not judged. Objects written by other controllers are judged.
    controllers: ClassVar[tuple[str, ...]] = ()
    # Fields that it writes and that an older CRD of those kinds would drop silently.
    required_fields: tuple[SpecField, ...] = ()
    # The cluster-scoped kind of its topology objects; None if the scheduler has none, or its settings use none. Each
    # binding has at most one object: Grove's `schedulerTopologyBindings` names one per scheduler. The exception are
    # topologies with `topology_from_nodes`.
    topology_kind: Resource | None = None
    # The only ClusterTopologyBinding that its topology objects are made from; None if each binding has its own object,
    # empty if the settings should name one and do not.
    topology_binding: str | None = None
    # Whether a gang with a required domain starts only if all its pods that wait have room there, also those above the
    # minimum.
    gathers_surplus: ClassVar[bool] = False
    # Whether its topology objects are written. Otherwise they are only compared.
    topology_written: bool = True
    # Whether they are made from the labels of nodes as well, so that a binding has many: then `node_topology_objects`
    # and `node_topology_drift` are asked, and not the methods that they stand beside.
    topology_from_nodes: ClassVar[bool] = False

    def __init__(self, settings: S, scheduler_version: Version | None = None) -> None:
        self.settings = settings
        self.scheduler_version = scheduler_version

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        """Returns why the backend cannot work with this scheduler version at all, or None."""
        return None

    def assumed(self, facts: ClusterFacts) -> str | None:
        """Returns what it takes for granted about a cluster that these facts do not show, in words; or None."""
        return None

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        """Returns the kinds of its gang objects in this cluster, in order of creation. These kinds are watched, and
        searched for objects that are no longer needed.
        """
        return self.required_apis

    @property
    def writable_kinds(self) -> tuple[Api, ...]:
        """Every kind that `gang_kinds` may return for any cluster. A reconciler needs the right to write them."""
        return self.gang_kinds(NO_FACTS)

    @property
    def makes_opted_in_gangs(self) -> bool:
        """Whether it has gang objects and groups no opted-in pods itself."""
        return bool(self.writable_kinds) and not self.groups_opted_in

    def followed(self, *, objects: bool) -> tuple[Projection, ...]:
        """Returns the projections that are watched in a cluster under these settings. `objects`: whether the caller
        judges gang objects of other authors.
        """
        judging = objects and bool(self.judged_kinds)
        read = tuple(projection for projection in self.projections if judging or not projection.for_objects)
        return (*read, *(living_gangs(resource) for resource in self.gang_heads)) if objects else read

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        """The kinds of those gang objects that together contain every member of a gang, in each version that a cluster
        may serve. A server follows them, to find the gang of a pod whose PodGang was renamed.
        """
        return ()

    @property
    def judged_kinds(self) -> tuple[JudgedKind, ...]:
        """The kinds of other authors' objects that its rules judge."""
        return tuple(dict.fromkeys(judged for declared in self.rules for judged in declared.kinds))

    def unread(self, api: Api) -> Unjudged | None:
        """Returns what it would have to know to judge objects of a kind in that version; None if it can judge them."""
        return None

    @property
    def judged_in_files(self) -> tuple[JudgedKind, ...]:
        """The kinds of other authors' objects that its rules judge in files; in a cluster only `judged_kinds` are."""
        return self.judged_kinds

    @property
    def judged_marks(self) -> tuple[Mark, ...]:
        """The marks of the pods, other than Grove's, that its rules judge: the API server sends a pod with any of these
        keys, and no other. Empty if its rules judge no such pods.
        """
        return self.group_marks

    def named_group(self, pod: StoredObject, facts: ClusterFacts) -> PodsGroup | None:
        """Returns the group that a pod names by the marks that the scheduler reads; None if it names none, or if the
        scheduler reads no such marks. Raises `Malformed`.
        """
        return marked_group(pod, self.gang_heads[0].api, self.group_marks) if self.group_marks else None

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        """The sets of marks by which the scheduler knows a pod's gang: one complete set is enough. An empty set means
        that the scheduler needs no mark besides its name. The net is compiled from these sets
        (docs/explanation/net.md).

        By default: the keys that `prepare_pod` writes differently for different gangs, plus every mark of a known
        system. A backend that cannot prepare a pod without knowing the cluster must override this; otherwise its name
        alone is enough.
        """
        dialect = self.dialect(NO_FACTS)
        if dialect is None:
            return ((),)
        first, second = (
            self.prepare_pod(GangMember("default", gang, f"{gang}-worker", Record(self.name), dialect))
            for gang in ("demo-0", "other-1")
        )
        return (tuple(_marks(first, second)),)

    @property
    def trees(self) -> tuple[Trees, ...]:
        """Its trees of groups, which are checked for cycles no matter who stores the groups: one for each version of
        their kind, the preferred one first. Empty if it has no such trees.
        """
        return ()

    @property
    def configured_keys(self) -> frozenset[str]:
        """The keys of labels that the settings say the scheduler reads."""
        return frozenset()

    @property
    def carries_priority(self) -> bool:
        """Whether pods must get the priority of their workload's class, because Grove does not set it."""
        return False

    def dialect(self, facts: ClusterFacts) -> str | None:
        """Returns a word for the part of the cluster that the preparation of a pod depends on, such as the generation
        of an API. It becomes part of `GangMember`. None if it is unknown; then no pod can be prepared.
        """
        return ""

    @property
    def implied(self) -> tuple[Capability, ...]:
        """The capabilities that every workload uses under these settings, even if it does not ask for them."""
        return ()

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        """Returns why this backend cannot fully work with the cluster, one reason per problem; empty if none."""
        missing = [] if facts.apis is None else [api for api in self.required_apis if api not in facts.apis]
        old = [lacked for lacked in self.required_fields if facts.lacks_field(lacked)]
        return (
            *(f"{self.name}: the cluster does not serve {api}; its workloads are refused" for api in missing),
            *(
                f"{self.name}: the cluster's {lacked.api} has no spec.{lacked.name}, which came with {lacked.since}; "
                "its workloads are refused"
                for lacked in old
            ),
        )

    @property
    @abstractmethod
    def capabilities(self) -> CapabilityTable:
        """What the scheduler honours, under these settings."""

    @abstractmethod
    def prepare_pod(self, member: GangMember) -> PodChanges:
        """Returns the changes that a pod of the gang needs. Pure and total: the same member gives the same changes, for
        any names.
        """

    @abstractmethod
    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        """Returns the scheduler's objects for a PodGang, in order of creation. Only what `adopt` decides is missing.

        `record` is the record of the PodGang's workload. It has values that a PodGang lacks, such as a clique's quota.

        Raises `Inexpressible` if the scheduler cannot express the whole PodGang; never returns a partial object.
        """

    def settle(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
        """Returns `desired`, the objects of a gang, with what its existing objects `live` have decided for the whole
        gang and cannot change. It comes before `adopt`, which sees one object. Raises `Malformed` as `adopt` does.
        """
        return list(desired)

    def disruption_mode(self, objects: Sequence[Manifest]) -> Disruption | None:
        """Returns how preemption treats the gang with these objects; None if unstated. Raises `Malformed`."""
        return None

    def may_be_started(self, objects: Sequence[Manifest]) -> bool:
        """Returns whether its scheduler may remember a start that these objects do not state. Raises `Malformed`."""
        return False

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        """Returns `desired` with those fields of `live` that must survive: the last step before a gang object or
        topology object is written. `live` is None at creation. Neither argument is changed.

        Raises `Malformed` if a field of `live` that it reads has the wrong type; then nothing is written.
        """
        return desired

    def restore(self, desired: Manifest, present: Mapping[str, int]) -> Manifest:
        """Returns `desired`, a gang object that was lost while its gang ran, as it is created again. Only called if no
        object of the gang is left. `present` is how many pods on nodes are in the gang, by member; the others have
        another group. `desired` is not changed.
        """
        return desired

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        """Returns the changes from `live` to `desired` that must not simply be written over a gang that has pods; None
        if all of them may be written.

        `desired` are the gang's objects after `adopt`, in order of creation. `live` are the gang's existing objects,
        perhaps incomplete: the last attempt may have stopped in the middle. Raises `Malformed` as `adopt` does.
        """
        return None

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        """Returns the scheduler's own objects for Grove's topology; empty if the binding names an object that someone
        else manages. Raises `Inexpressible`.
        """
        return []

    def topology_must_be_remade(self, desired: Manifest, live: Manifest) -> bool:
        """Returns whether `live` can become `desired` only by deleting and recreating it, because an immutable field
        differs. Raises `Malformed`.
        """
        return False

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        """Returns how the scheduler's topology object for `binding` differs from it; None if it does not."""
        return None

    def node_topology_objects(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> NodeTopology:
        """Returns the scheduler's own objects for a topology that is made from the labels of nodes. `live` are the
        existing objects of others by name, which must stay as they are. Raises `Inexpressible`.
        """
        return NodeTopology((), ())

    def node_topology_drift(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> TopologyDrift | None:
        """Returns how the topology in all existing objects, of any author, differs from the binding and the labels."""
        return None


def _marks(first: PodChanges, second: PodChanges) -> Iterator[Mark]:
    """Yields the marks that differ between the pods of two gangs."""
    yield from (Mark("spec", field) for field in first.default_fields)
    values_by_key = {mark.key: mark.value for mark, _ in CLAIMS}
    parts: tuple[tuple[Literal["labels", "annotations"], Mapping[str, str], Mapping[str, str]], ...] = (
        ("labels", first.labels, second.labels),
        ("annotations", first.annotations, second.annotations),
    )
    for part, ours, theirs in parts:
        for key, value in ours.items():
            if key in values_by_key or theirs.get(key) != value:
                yield Mark(part, key, values_by_key.get(key))
