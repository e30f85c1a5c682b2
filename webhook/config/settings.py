"""Settings: the result of a configuration, ready for fast decisions. No pydantic here, and everything is resolved.

`webhook.config.file` makes the settings from a file; `admission` reads them. Each profile has its rules with their
actions, computed once for every mode that a namespace may set. Only the reconciler acts on the settings of
certificates, audit reports and remedies.

Watches and rights are both made from the list of followed kinds, so a service account may read exactly what is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from webhook.backends.base import Backend, GangMember, PodChanges, PodPriority
from webhook.errors import FactsUnavailable
from webhook.fit.packing import NOTHING_STATED, FitSettings
from webhook.model.admission_request import GROVE_OPERATORS, user_pattern
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import NO_EXCEPTIONS, Action, Exceptions
from webhook.model.grove import GroveGeneration
from webhook.model.keys import SHAPED_WORKLOADS, GroupKind, Record
from webhook.model.known_kinds import JOB_SETS, LEADER_WORKER_SETS
from webhook.model.kueue import INSTALLED, KueueSettings
from webhook.model.projections import Projection, Resource
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES
from webhook.validators.gang_scheduler import Choice, OutsideChoice, namespace_choice
from webhook.validators.registry import OF_OPTED_IN, BoundRule, IndexedRules, Proceed, Rule, Subject, go_on, seal_of
from webhook.workloads.known_workloads import general_to_reconciler, general_to_server
from webhook.workloads.kueue_integration import CheckMode
from webhook.workloads.workload_kinds import PYTHON_KINDS, WorkloadKinds


@dataclass(frozen=True, slots=True)
class Certificates:
    """Whether the reconciler manages the certificates, how long each is valid, at which part of its life it is renewed,
    and how long old and new CA overlap.
    """

    self_managed: bool = False
    ca_validity: timedelta = timedelta(days=365)
    leaf_validity: timedelta = timedelta(days=30)
    renew_at: float = 0.67
    overlap: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Auditing:
    """Whether the reconciler audits what is stored and writes Reports of openreports.io, and how often."""

    open_reports: bool = False
    every: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class RemedySettings:
    """Which causes the reconciler remedies, by the names in the configuration; how many seconds a cause must last, how
    many seconds a gang is left alone after its first remedy, and how many remedies there may be a minute. Each deleted
    pod counts as one.
    """

    causes: frozenset[str] = frozenset()
    settle_seconds: float = 30.0
    pause_seconds: float = 60.0
    per_minute: int = 10


# What is set without these sections of the configuration.
NO_CERTIFICATES = Certificates()
NO_REPORTS = Auditing()
NO_REMEDIES = RemedySettings()


# A namespace label: the strictest action of a rule there, one of deny, warn, audit, off.
ENFORCEMENT_LABEL = "rollcall.dev/enforcement"
# The ids of the rules that read Kueue's objects.
KUEUE_RULES = "kueue/"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The action of each rule: `ceiling` is the strictest action of any rule, `rules` sets actions by rule id."""

    ceiling: Action | None = None
    rules: Mapping[str, Action] = field(default_factory=dict)


class BoundRules:
    """Rules with their actions, under each ceiling that a namespace may set. Those of a ceiling are made when it is
    first asked for, because most ceilings never are.
    """

    __slots__ = ("_by_ceiling", "_every")

    def __init__(self, every: Iterable[BoundRule]) -> None:
        self._every = tuple(every)
        self._by_ceiling: dict[Action, IndexedRules] = {}

    def __getitem__(self, ceiling: Action) -> IndexedRules:
        bound = self._by_ceiling.get(ceiling)
        if bound is None:
            bound = self._by_ceiling[ceiling] = IndexedRules(
                BoundRule(declared, taken)
                for declared, action in self._every
                if (taken := Action.DENY if declared.fails_closed else min(action, ceiling)) is not Action.OFF
            )
        return bound

    def select(self, *subjects: Subject) -> BoundRules:
        """Returns those that judge one of `subjects`, so that no request has to skip the others."""
        return BoundRules(bound for bound in self._every if bound.rule.subject in subjects)

    def independent(self) -> BoundRules:
        """Returns those that hold whoever makes the gang."""
        return BoundRules(bound for bound in self._every if bound.rule.independent)


def bind(rules: Iterable[Rule], general: Enforcement, specific: Enforcement) -> BoundRules:
    """Returns the rules with their actions, for each ceiling that a namespace may set.

    A rule's action is its default, or what `specific`, else `general`, sets for its id. Then the ceiling is applied,
    and rules that are off are left out. A rule that fails closed always keeps `deny`: its gang could not be translated.
    """
    return BoundRules(
        BoundRule(declared, specific.rules.get(declared.id, general.rules.get(declared.id, declared.default)))
        for declared in rules
    )


class Profile:
    """One enabled scheduler: its backend, the pod gate, and its rules bound to actions.

    `prepared` caches the backend's pod changes for the members of gangs. The code of PreparePod fills and limits it.
    """

    __slots__ = (
        "backend",
        "ceiling",
        "controllers",
        "creation_rules",
        "every_rule",
        "gate",
        "independent_rules",
        "judged",
        "judged_in_files",
        "name",
        "name_rules",
        "object_rules",
        "opted_in_rules",
        "part_rules",
        "pod_rules",
        "prepared",
        "rules",
        "scale_rules",
        "seal",
        "set_rules",
        "unknown_rules",
    )

    def __init__(
        self,
        backend: Backend[Any],
        general: Enforcement,
        specific: Enforcement,
        *,
        gate: bool | None = None,
        controllers: tuple[str, ...] | None = None,
    ) -> None:
        """Without `gate` the backend decides whether pods are gated. Without `controllers` the backend names the users
        of the scheduler's own controllers.
        """
        self.name = backend.name
        self.backend = backend
        self.gate = backend.gate if gate is None else gate
        self.controllers = backend.controllers if controllers is None else controllers
        self.prepared: dict[GangMember, PodChanges] = {}
        self.ceiling = Action.DENY
        for ceiling in (specific.ceiling, general.ceiling):
            if ceiling is not None:
                self.ceiling = ceiling
                break
        self.every_rule = (*GENERAL_RULES, *backend.rules)
        self.rules = bind(self.every_rule, general, specific)
        # The rules about a PodCliqueSet with its pods, and the rules about a pod.
        self.set_rules = self.rules.select(Subject.WORKLOAD, Subject.ANY_WORKLOAD, Subject.POD, Subject.CHANGE)
        self.pod_rules = self.rules.select(Subject.POD)
        # The rules about a workload of another kind and its pod templates.
        self.opted_in_rules = self.rules.select(*OF_OPTED_IN, Subject.OPTED_IN_CHANGE, Subject.POD)
        self.seal = seal_of(self.every_rule, backend.settings)
        self.creation_rules = self.rules.select(Subject.POD_CREATION)
        self.part_rules = self.rules.select(Subject.PART)
        self.unknown_rules = self.rules.select(Subject.UNKNOWN_OWNER)
        self.scale_rules = self.rules.select(Subject.SCALE)
        self.independent_rules = self.rules.independent()
        # The rules about gang objects and other pods.
        self.object_rules = self.rules.select(Subject.OBJECT)
        # The rules about the names in an object of any kind, by their subject.
        self.name_rules = {subject: self.rules.select(subject) for subject in (Subject.KEYS, Subject.MANIFEST)}
        # The kinds of objects that it has rules about, besides PodCliqueSets and pods: in a cluster, in files.
        self.judged = backend.judged_kinds
        self.judged_in_files = backend.judged_in_files

    def member(  # noqa: PLR0913 - everything that the preparation of a pod depends on
        self,
        namespace: str,
        podgang: str,
        podclique: str,
        record: Record,
        facts: ClusterFacts,
        *,
        grouped_as: GroupKind | None = None,
        divided: bool = False,
    ) -> GangMember:
        """Returns a pod's member in its gang, with everything that its preparation depends on. `grouped_as` is the kind
        by which a scheduler that groups some kinds itself knows the pod of an opted-in workload, None for a pod of
        Grove. `divided` means that other gangs have pods of the PodClique.

        Raises `FactsUnavailable` if the known facts are not enough to prepare the pod.
        """
        backend = self.backend
        dialect = backend.dialect(facts)
        if dialect is None:
            raise FactsUnavailable(
                f"{self.name}: the cluster serves no version of its API, or it is not known whether it does"
            )
        priority = None
        if backend.carries_priority and record.priority_class is not None:
            priority_class = (facts.priority_classes or {}).get(record.priority_class)
            if priority_class is not None:
                priority = PodPriority(record.priority_class, priority_class.value, priority_class.preemption_policy)
        makes_gang = grouped_as is None or backend.makes_gangs_of(grouped_as)
        opted_in = grouped_as is not None
        return GangMember(namespace, podgang, podclique, record, dialect, priority, divided, opted_in, makes_gang)


class NamespaceDefaults(NamedTuple):
    """The configuration of a namespace that has no labels of its own."""

    scheduler: str | None = None
    enforcement: Action | None = None
    opt_out: bool | None = None


# The rules about the object's shape and about the choice itself, before any profile: each of them fails closed.
SHAPE_BOUND = bind(SHAPE_RULES, Enforcement(), Enforcement())[Action.DENY]
CHOICE_BOUND = bind(CHOICE_RULES, Enforcement(), Enforcement())[Action.DENY]
CHOICE_RULE_IDS = frozenset(declared.id for declared in CHOICE_RULES)


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of the webhook with the API server."""

    failure_policy: str = "Fail"
    timeout_seconds: int = 5
    excluded_namespaces: tuple[str, ...] = ()
    # off, Audit, Warn or Deny.
    net: str = "off"

    @property
    def must_answer(self) -> bool:
        """Whether an object that Rollcall did not answer for is refused."""
        return self.failure_policy == "Fail"


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Which users are trusted. Rollcall writes gang objects as one of `reconcilers`. Gang objects of `exempt_users` are
    not judged. Pods that `grove_operators` create are Grove's.
    """

    reconcilers: tuple[str, ...] = ()
    exempt_users: tuple[str, ...] = ()
    grove_operators: tuple[str, ...] = GROVE_OPERATORS

    def is_grove_operator(self, user: str) -> bool:
        """Returns whether pods that `user` creates are Grove's."""
        return not {user, user_pattern(user)}.isdisjoint(self.grove_operators)


@dataclass(frozen=True, slots=True)
class Serving:
    """The settings of the server. Request bodies and their decoded values may take `body_memory_percent` of the memory
    limit. A connection is closed at about `connection_seconds` of age, 0 for never. After SIGTERM calls are answered
    for `drain_seconds` more.
    """

    max_in_flight: int = 256
    max_connections: int = 512
    body_memory_percent: int = 25
    connection_seconds: int = 600
    drain_seconds: int = 15
    # Whether POST /check and /capabilities are answered; None: only without a cluster.
    check: bool | None = None


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where OpenTelemetry traces go, nowhere by default, and what share of the traces is sampled that no caller has
    decided about.
    """

    endpoint: str = ""
    sample_ratio: float = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration. With `standalone` there is no cluster: the workload of a pod cannot be read, and the
    scheduler of pods and of updates is chosen as at CREATE. `forced` judges everything as if workloads chose that
    scheduler by their label, and `forced_by` is how the caller asked for that; with `overrides` it does not matter what
    their pods name. `proceed` is called between rules, and raises to end a judgement whose caller no longer waits.
    """

    profiles: Mapping[str, Profile]
    default: str
    namespaces: Mapping[str, NamespaceDefaults] = field(default_factory=dict)
    registration: Registration = Registration()
    # Which escaped pods the reconciler deletes: unmutated, stale, foreign.
    deleted_escapes: frozenset[str] = frozenset()
    serving: Serving = Serving()
    certificates: Certificates = NO_CERTIFICATES
    tracing: Tracing = Tracing()
    tenancy: Tenancy = Tenancy()
    standalone: bool = False
    # The generation of Grove that is shown where no cluster is known; None: the newest.
    grove: GroveGeneration | None = None
    forced: str | None = None
    forced_by: str = ""
    overrides: bool = False
    # Whether a workload may opt out, in a namespace without a setting of its own.
    opt_out: bool = False
    available: tuple[str, ...] = ()
    proceed: Proceed = go_on
    # By group and kind: the profiles that have rules about such objects.
    judging: Mapping[tuple[str, str], tuple[Profile, ...]] = field(default_factory=dict)
    # The keys of labels that some profile's settings say its scheduler reads.
    configured_keys: frozenset[str] = frozenset()
    kueue: KueueSettings = INSTALLED
    # Whether the reconciler answers Kueue's AdmissionChecks.
    admission_check: CheckMode = CheckMode.OFF
    auditing: Auditing = NO_REPORTS
    # What is stated of the cluster for whether gangs fit.
    fit: FitSettings = NOTHING_STATED
    kinds: WorkloadKinds = PYTHON_KINDS
    exceptions: Exceptions = NO_EXCEPTIONS
    # What the reconciler does itself for gangs that would otherwise need a person.
    remedies: RemedySettings = NO_REMEDIES
    # The users whose gang objects are not judged: Rollcall's own, the schedulers' controllers, and configured users.
    exempt_users: frozenset[str] = frozenset()
    # By which each admission of a workload is also judged, without effect on its answer.
    shadows: tuple[Shadow, ...] = ()
    # Whether a refusal names the other schedulers that could run the workload.
    compares: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "available", tuple(self.profiles))
        judging: dict[tuple[str, str], tuple[Profile, ...]] = {}
        for profile in self.profiles.values():
            for judged in profile.judged_in_files:
                judging[judged[:2]] = (*judging.get(judged[:2], ()), profile)
        object.__setattr__(self, "judging", judging)
        keys = frozenset(key for profile in self.profiles.values() for key in profile.backend.configured_keys)
        object.__setattr__(self, "configured_keys", keys)
        controllers = (user for profile in self.profiles.values() for user in profile.controllers)
        exempt = frozenset((*self.tenancy.reconcilers, *self.tenancy.exempt_users, *controllers))
        object.__setattr__(self, "exempt_users", exempt)

    @property
    def all_settings(self) -> tuple[Settings, ...]:
        """These settings and those of the shadows: all that admissions are judged by."""
        return (self, *(shadow.settings for shadow in self.shadows))

    def shape_of(self, kind: tuple[str, str]) -> Mapping[str, Any]:
        """Returns the shape that the rules about a kind expect of its objects."""
        shapes = (profile.backend.shapes.get(kind) for profile in self.judging.get(kind, ()))
        return next((shape for shape in shapes if shape is not None), {})

    @property
    def forced_choice(self) -> Choice | None:
        """The choice of the caller, whatever the objects say; None if the objects choose."""
        if self.forced is None:
            return None
        at = LABELS / SCHEDULER_LABEL
        return Choice(self.forced, at, self.available, self.forced_by, forced=True, overrides=self.overrides)

    def scheduler_of_namespace(self, facts: ClusterFacts, namespace: str) -> OutsideChoice | None:
        """Returns the scheduler that a namespace chooses: by its label, else by the configuration."""
        chosen = namespace_choice(facts, namespace)
        if chosen is None and namespace in self.namespaces:
            configured = self.namespaces[namespace].scheduler
            return (
                None
                if configured is None
                else OutsideChoice(configured, f"namespaces.{namespace} of the configuration")
            )
        return chosen

    def permits_opt_out(self, namespace: str) -> bool:
        """Returns whether a workload in `namespace` may say that it is no gang."""
        opt_out = self.namespaces[namespace].opt_out if namespace in self.namespaces else None
        return self.opt_out if opt_out is None else opt_out

    @property
    def makes_opted_in_gangs(self) -> bool:
        """Whether Rollcall makes the gangs of workloads that are not Grove's, for any enabled scheduler."""
        return bool(self.gang_workloads)

    @property
    def gang_workloads(self) -> Mapping[str, Resource]:
        """The kinds of opted-in workloads whose gangs Rollcall makes for any enabled scheduler, by the kind of
        their gangs' keys. LeaderWorkerSets are among them if they may be made for the roles of one of these kinds.
        """
        workloads = {
            title: resource
            for title, resource in self.kinds.gang_workloads.items()
            if self._makes_gangs_of(resource.api.group_kind)
        }
        if any(self._makes_gangs_of(shape.group_kind) for shape in self.kinds.with_roles):
            workloads[LEADER_WORKER_SETS.api.kind] = LEADER_WORKER_SETS
        return workloads

    def _makes_gangs_of(self, kind: GroupKind) -> bool:
        return any(profile.backend.makes_gangs_of(kind) for profile in self.profiles.values())

    @property
    def makes_gangs(self) -> bool:
        """Whether Rollcall makes gang objects for any enabled scheduler."""
        return any(profile.backend.writable_kinds for profile in self.profiles.values())

    @property
    def judges_kueue(self) -> bool:
        """Whether a rule about Kueue is on, for any enabled scheduler."""
        return any(
            bound.rule.id.startswith(KUEUE_RULES)
            for profile in self.profiles.values()
            for bound in profile.rules[Action.DENY]
        )

    def ceiling(self, profile: Profile, facts: ClusterFacts, namespace: str) -> Action:
        """Returns the strictest action of a rule of `profile` in `namespace`. A label with an unknown mode counts as
        missing.
        """
        label = facts.namespace_label(namespace, ENFORCEMENT_LABEL)
        action = None if label is None else Action.parse(label)
        if action is None and namespace in self.namespaces:
            action = self.namespaces[namespace].enforcement
        return profile.ceiling if action is None else action


@dataclass(frozen=True, slots=True)
class Shadow:
    """Settings by which admissions are also judged, without effect on their answers. `name` is the scheduler that all
    workloads are judged for, or with `is_file` the name of another configuration file.
    """

    name: str
    settings: Settings
    is_file: bool = False


def followed_projections(settings: Settings, *, objects: bool) -> tuple[Projection, ...]:
    """Returns the projections for admission, which also judges gang `objects` of other authors; without `objects` those
    for the reconciler. A server does not wait for those that only its shadows need.
    """
    projections = list(_followed(settings, objects=objects))
    for shadow in settings.shadows if objects else ():
        # Several kinds fill one part only if all of them say so.
        filled = {projection.part for projection in projections if not projection.shared}
        # Shadows judge no gang objects.
        judged = (projection for projection in _followed(shadow.settings, objects=True) if not projection.for_objects)
        others = (projection for projection in judged if projection.part not in filled)
        optional = {projection._replace(awaited=False) for projection in projections}
        projections += [late for projection in others if (late := projection._replace(awaited=False)) not in optional]
    return tuple(projections)


def _followed(settings: Settings, *, objects: bool) -> tuple[Projection, ...]:
    if objects:
        general = general_to_server(kueue=settings.judges_kueue)
    else:
        kueue = settings.makes_gangs or settings.admission_check is not CheckMode.OFF
        # The record of a TrainJob completes that of its JobSet.
        general = general_to_reconciler(opted_in=JOB_SETS.api.kind in settings.gang_workloads, kueue=kueue)
    backends = (profile.backend for profile in settings.profiles.values())
    shaped = settings.kinds.projections if objects else ()
    declared = (projection for projection in shaped if projection.part == SHAPED_WORKLOADS)
    every = (
        *general,
        *declared,
        *(projection for backend in backends for projection in backend.followed(objects=objects)),
    )
    return tuple(dict.fromkeys(every))
