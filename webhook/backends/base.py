"""The contract of a backend: everything that Rollcall knows about one scheduler.

A backend is pure. It is given views, facts and its own settings, and answers with findings, changes and desired
objects; it reads no cluster, no clock and no file. Grove's own Backend interface (Init, ValidatePodCliqueSet,
PreparePod, SyncPodGang) is the model, with the translation separated from the writing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict

from webhook.model.capabilities import Capability, CapabilityTable
from webhook.model.claims import CLAIMS, Mark
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.keys import Api, Record
from webhook.model.known_objects import SpecField
from webhook.model.projections import Projection, Resource
from webhook.model.reading import Manifest
from webhook.model.stored_object import Judged
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.version import Version
from webhook.model.workloads.podgang import PodGang
from webhook.validators.registry import Rule


class BackendSettings(BaseModel):
    """The base of a backend's part of the configuration: unknown keys are mistakes, and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PodPriority(NamedTuple):
    """The three fields by which a pod has a priority; the API server refuses a pod in which they do not agree."""

    class_name: str
    value: int
    preemption_policy: str


class GangMember(NamedTuple):
    """What a pod is prepared from: its namespace, the labels that place it in a gang, and its record. Hashable."""

    namespace: str
    podgang: str
    podclique: str
    record: Record
    # What `Backend.dialect` said of the cluster.
    dialect: str = ""
    # The priority that the workload's class gives its pods, where the backend carries it to them.
    priority: PodPriority | None = None
    # Whether it is of a workload that is not Grove's. `podgang` and `podclique` are then its gang and its member there.
    owned: bool = False


@dataclass(frozen=True, slots=True)
class PodChanges:
    """What a backend wants on a pod. `inputs` is all that it depended on, for the stamp: never a rule or our version.

    `labels` and `annotations` are set, `default_labels` and the fields of the spec in `default_fields` only where the
    pod has none of that key. `priority` is set where the pod names no class of its own.
    """

    scheduler_name: str
    inputs: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    default_labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    default_fields: Mapping[str, Any] = field(default_factory=dict)
    priority: PodPriority | None = None
    # Whether the pod bears Rollcall's stamp.
    stamped: bool = True


class DriftReason(StrEnum):
    """What is wrong with a topology object, in the words of Grove's condition SchedulerTopologyDrift."""

    DRIFT = "Drift"
    NOT_FOUND = "TopologyNotFound"


class Stage(IntEnum):
    """How far a gang has come: it has no pods, it has pods and none of them is on a node, or one of them is."""

    EMPTY = 0
    WAITING = 1
    BOUND = 2


class Frozen(NamedTuple):
    """A change of a living gang that its scheduler does not follow at every stage.

    Up to the stage `until` it can be made: the objects in `anew`, as they are in the cluster, are deleted first, and
    what is desired is written then. Later nothing of the gang is written.
    """

    # What changed, as one would say it: "the minimum of demo-0-worker goes from 2 to 3".
    what: str
    # Why the scheduler cannot follow, as the end of a sentence.
    why: str
    until: Stage
    anew: tuple[Manifest, ...] = ()


class TopologyDrift(NamedTuple):
    """How the scheduler's topology object of that name differs from Grove's ClusterTopologyBinding."""

    name: str
    reason: DriftReason
    message: str


class Trees(NamedTuple):
    """The kind of the groups of which one may be below another, and the field of their spec that says below which."""

    resource: Resource
    parent: str


S = TypeVar("S", bound=BackendSettings)


class Backend(ABC, Generic[S]):
    """One scheduler, with the settings of its profile.

    `settings_model` validates the profile's `config`; `rules` is what this backend judges besides the general rules.
    """

    name: ClassVar[str]
    settings_model: ClassVar[type[BackendSettings]]
    rules: ClassVar[tuple[Rule, ...]] = ()
    # What its rules may know of a cluster beyond what every backend's do.
    projections: ClassVar[tuple[Projection, ...]] = ()
    # By group and kind, what its rules read of the gang objects that somebody else stores, in the words of
    # validators/shape.py: so that a field of the wrong type is told by its place.
    shapes: ClassVar[Mapping[tuple[str, str], Mapping[str, Any]]] = {}
    # Whether its pods bear the pod gate where the profile does not say: for a scheduler that binds some pods of a gang
    # while others are still gated.
    gate: ClassVar[bool] = False
    # The kinds of its gang objects: without them the cluster cannot run a gang for it.
    required_apis: tuple[Api, ...] = ()
    # What else to do about a gang that the scheduler holds without a reason that can be seen, where it is known for
    # that; it follows a sentence that says what to do.
    when_held: ClassVar[str] = ""
    # Whose memberships on a pod it reads, in the words of `webhook.model.claims`.
    reads_claims_of: ClassVar[frozenset[str]] = frozenset()
    # Whether it makes the gangs of workloads that are not Grove's by itself: nothing may be written beside.
    groups_owners: ClassVar[bool] = False
    # The users that the scheduler and its own controllers are where its charts are installed as they say: the gang
    # objects that these write are not judged. What a controller of somebody else's writes is.
    controllers: ClassVar[tuple[str, ...]] = ()
    # What it writes that an older CRD of those kinds would drop in silence.
    required_fields: tuple[SpecField, ...] = ()
    # The cluster-scoped kind of its topology objects, None for a scheduler that has none. Each binding has one object
    # at most: Grove's `schedulerTopologyBindings` names one for each scheduler.
    topology_kind: ClassVar[Resource | None] = None

    def __init__(self, settings: S, scheduler_version: Version | None = None) -> None:
        self.settings = settings
        self.scheduler_version = scheduler_version

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        """Why a stated scheduler version cannot be worked with at all, or None."""
        return None

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        """The kinds of its gang objects in such a cluster, in the order of their creation: what to follow, and where to
        look for what is no longer needed.
        """
        return self.required_apis

    @property
    def writable_kinds(self) -> tuple[Api, ...]:
        """Every kind that `gang_kinds` may name, whatever the cluster: what a reconciler must be allowed to write."""
        return self.gang_kinds(NOTHING_KNOWN)

    @property
    def makes_gangs_of_owners(self) -> bool:
        """Whether the gangs of workloads that are not Grove's are Rollcall's to make for it, under these settings."""
        return bool(self.writable_kinds) and not self.groups_owners

    def followed(self, *, objects: bool) -> tuple[Projection, ...]:
        """Of its `projections`, those that a cluster is to be followed for under these settings: by who judges gang
        `objects` that somebody else stores, or by who does not.
        """
        judging = objects and bool(self.judged_kinds)
        return tuple(found for found in self.projections if judging or not found.for_objects)

    @property
    def judged_kinds(self) -> tuple[Judged, ...]:
        """The kinds of objects that are judged when somebody else stores them: those that its rules are about."""
        return tuple(dict.fromkeys(judged for declared in self.rules for judged in declared.kinds))

    @property
    def judged_pods(self) -> str | None:
        """Of pods that are not Grove's, those that its rules are about: a CEL expression over `object`, so that the API
        server asks about no others. None where there are none.
        """
        return None

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        """The marks on a pod by which the scheduler knows its gang: any one of these sets of them, whole. An empty set
        says that it needs none besides its name. The net (docs/net.md) is compiled from them.

        Here: what `prepare_pod` writes for one gang otherwise than for another, and every mark of a known system. A
        backend that can prepare no pod without knowing the cluster must say it itself, or its name is enough.
        """
        dialect = self.dialect(NOTHING_KNOWN)
        if dialect is None:
            return ((),)
        one, other = (
            self.prepare_pod(GangMember("default", gang, f"{gang}-worker", Record(self.name), dialect))
            for gang in ("demo-0", "other-1")
        )
        return (tuple(_marks(one, other)),)

    @property
    def trees(self) -> Trees | None:
        """Its groups of groups, which are looked through for circles, whoever stores them. None where it has none."""
        return None

    @property
    def carries_priority(self) -> bool:
        """Whether pods must be given the priority of their workload's class, because Grove does not."""
        return False

    def dialect(self, facts: ClusterFacts) -> str | None:
        """What of the cluster a pod's preparation depends on, such as the generation of an API, as a word; it becomes
        part of `GangMember`. None where it cannot be told, and no pod can be prepared.
        """
        return ""

    @property
    def implied(self) -> tuple[Capability, ...]:
        """The capabilities that these settings make every workload use, whether it asks or not."""
        return ()

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        """What this backend will not be able to do with the cluster as it is, one reason each. Empty is all well."""
        missing = [] if facts.apis is None else [api for api in self.required_apis if api not in facts.apis]
        old = [wanted for wanted in self.required_fields if facts.lacks_field(wanted)]
        return (
            *(f"{self.name}: the cluster does not serve {api}; its workloads are refused" for api in missing),
            *(
                f"{self.name}: the cluster's {wanted.api} has no spec.{wanted.name}, which came with {wanted.since}; "
                "its workloads are refused"
                for wanted in old
            ),
        )

    @property
    @abstractmethod
    def capabilities(self) -> CapabilityTable:
        """What the scheduler honours, under these settings."""

    @abstractmethod
    def prepare_pod(self, member: GangMember) -> PodChanges:
        """What a pod of the gang must carry. Pure and total: the same member gives the same changes, for any names."""

    @abstractmethod
    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        """The scheduler's objects for a PodGang, in the order of creation, complete but for what `adopt` decides.

        `record` is that of the PodGang's workload: what a PodGang itself does not say, such as a clique's quota.

        Raises `Inexpressible` where the scheduler cannot express the PodGang as a whole; never an object in part.
        """

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        """The last step before a write of a gang object or a topology object: `desired` with those of `live`'s fields
        that must survive. `live` is None at creation. Neither argument is changed.

        Raises `Malformed` where a field of `live` that it reads is of the wrong type; nothing is written then.
        """
        return desired

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        """What of the way from `live` to `desired` must not simply be written over a gang that has pods; None where all
        of it may.

        `desired` is what the gang should have, after `adopt`, in the order of creation; `live` is what of its own it
        has, complete or not: the last attempt may have ended in the middle. Raises `Malformed` as `adopt` does.
        """
        return None

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        """The scheduler's own object for Grove's topology; none where the binding names one that somebody else keeps.
        Raises `Inexpressible`.
        """
        return []

    def topology_must_be_remade(self, desired: Manifest, live: Manifest) -> bool:
        """Whether `live` can only become `desired` by being deleted and created again, because what differs is
        immutable. Raises `Malformed`.
        """
        return False

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        """How the object that stands for `binding` differs from it; None where all is well, or there is none to be."""
        return None


def _marks(one: PodChanges, other: PodChanges) -> Iterator[Mark]:
    """What tells the pods of two gangs apart."""
    yield from (Mark("spec", field) for field in one.default_fields)
    known = {mark.key: mark.value for mark, _ in CLAIMS}
    parts: tuple[tuple[Literal["labels", "annotations"], Mapping[str, str], Mapping[str, str]], ...] = (
        ("labels", one.labels, other.labels),
        ("annotations", one.annotations, other.annotations),
    )
    for part, ours, theirs in parts:
        for key, value in ours.items():
            if key in known or theirs.get(key) != value:
                yield Mark(part, key, known.get(key))
