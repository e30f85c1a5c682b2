"""The scheduler of a workload: how it is chosen, and what the rules for every scheduler ask of it.

The choice is the workload's label, else the name in its pod templates, else its namespace's (its label, or the
configuration's `namespaces`), else the default.
It is a label and not an annotation, because webhook selectors and `kubectl get -l` see only labels.
`default-scheduler` in a pod template does not count as a choice: the API server writes it into every pod without a
schedulerName, and stock Grove accepts only the schedulers of its own profiles.

`GangScheduler` is the scheduler that was chosen. A backend is one, and overrides what differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import Ceilings, FitSettings, Packing, PackingRole, PodReading, Roles, roles_of
from webhook.model import known_kinds
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, SPEC, FieldPath
from webhook.model.keys import GroupKind
from webhook.model.reading import text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.workloads.known_workloads import VIEWS
from webhook.workloads.opted_in_workload import OptedInWorkload, SchedulerGroups
from webhook.workloads.pod_clique_set import PodCliqueSet

DEFAULT_SCHEDULER = known_kinds.DEFAULT_SCHEDULER
# What chooses the scheduler if nothing else does, in words.
DEFAULT_PROFILE = "default"
# The field of an object that is nearest to a choice of its namespace.
NAMESPACE = METADATA / "namespace"


class Choice(NamedTuple):
    """The chosen scheduler and the field that chose it, with the possible profile names.

    `source` says in words what chose it, if that is no field of the object. `forced`: the caller asks what would happen
    if the workload had that label, or its namespace had it. `overrides`: what the pods name does not count either.
    """

    scheduler: str
    path: FieldPath
    available: tuple[str, ...] = ()
    source: str = ""
    forced: bool = False
    overrides: bool = False

    @property
    def chooser(self) -> str:
        """What chose the scheduler, in words."""
        return self.source or str(self.path)


class NamedScheduler(NamedTuple):
    """A schedulerName that counts as a choice, and its path."""

    scheduler: str
    path: FieldPath


class OutsideChoice(NamedTuple):
    """A choice that is made outside of the object, and what made it, in words."""

    scheduler: str
    source: str


def label_choice(labels: object) -> NamedScheduler | None:
    """Returns the choice in a workload's labels."""
    name = text(labels.get(SCHEDULER_LABEL)) if isinstance(labels, dict) else None
    return None if name is None else NamedScheduler(name, LABELS / SCHEDULER_LABEL)


def template_names(workload: PodCliqueSet) -> Iterable[NamedScheduler]:
    """Yields the schedulerNames of the pod templates, without those that do not count as a choice."""
    for clique in workload.cliques:
        name = clique.scheduler_name if "schedulerName" in clique.pod_spec else None
        if name is not None and name != DEFAULT_SCHEDULER:
            yield NamedScheduler(name, clique.path / "spec" / "podSpec" / "schedulerName")


def choose(
    labelled: NamedScheduler | None,
    template_choices: Iterable[NamedScheduler],
    namespace: OutsideChoice | None,
    default: str,
    available: tuple[str, ...],
) -> Choice:
    """Returns the choice for a workload: its label, else its templates' name, else the namespace's (`namespace`), else
    `default`.

    The rules of `webhook.validators.choice` check that the name is a profile's and that the templates agree.
    """
    stated = labelled or next(iter(template_choices), None)
    if stated is not None:
        return Choice(stated.scheduler, stated.path, available)
    if namespace is not None:
        return Choice(namespace.scheduler, NAMESPACE, available, namespace.source)
    return Choice(default, SPEC, available, DEFAULT_PROFILE)


def namespace_choice(facts: ClusterFacts, namespace: str) -> OutsideChoice | None:
    """Returns the choice in the namespace's label, if the namespace is known."""
    name = text(facts.namespace_label(namespace, SCHEDULER_LABEL))
    return None if name is None else OutsideChoice(name, f"the label {SCHEDULER_LABEL} of Namespace {namespace}")


# In kube-scheduler's framework: the longest wait in Permit, and when a pod that nothing has moved is tried again.
_MOST_PERMIT_SECONDS = 900
_FLUSH_SECONDS = 300


def permit_retry_seconds(schedule_timeout: int) -> int:
    """Returns how long a gang may wait for its next attempt if a plugin keeps its placed pods in Permit for that
    time.
    """
    return min(schedule_timeout, _MOST_PERMIT_SECONDS) + _FLUSH_SECONDS


class Limit(NamedTuple):
    """A queue or quota of the scheduler itself that limits a workload. `called` is what messages call it: "the KAI
    Queue". `own` is the queue that the workload is in: the limit may be that of a queue above it.
    """

    title: str
    name: str
    workload_queue: str


class GangScheduler:
    """A scheduler that holds the pods of a gang until all of them fit."""

    # Whether the scheduler itself makes the gangs of opted-in workloads: those of the kinds in Python, and of the
    # declared kinds in `grouped_kinds`. Rollcall writes no gang objects for these.
    groups_opted_in: ClassVar[bool] = False
    # The declared kinds, by group and kind, whose pods it groups so that they start together.
    grouped_kinds: ClassVar[frozenset[GroupKind]] = frozenset()
    # Whether it surely allocates devices to claims by Kubernetes' own plugin DynamicResources.
    allocates_devices: ClassVar[bool] = False

    @property
    def makes_opted_in_gangs(self) -> bool:
        """Whether Rollcall makes the gangs of all opted-in workloads for this scheduler, under these settings."""
        return False

    def makes_gangs_of(self, kind: GroupKind) -> bool:
        """Returns whether Rollcall makes the gangs of opted-in workloads of that group and kind. A scheduler that
        groups some kinds itself may leave others to Rollcall.
        """
        return self.makes_opted_in_gangs

    def groups(self, kind: GroupKind) -> bool:
        """Returns whether it groups the pods of workloads of that group and kind itself, so that they start
        together.
        """
        return self.groups_opted_in and (kind in VIEWS or kind in self.grouped_kinds)

    def own_minimums(self, workload: OptedInWorkload) -> Mapping[FieldPath, int]:
        """Returns the minimum of each part of a workload in the group that it makes itself, by the path of the part's
        pod template. Empty if Rollcall makes the group, or if the scheduler needs all pods.
        """
        return {}

    def scheduler_groups(self, workload: OptedInWorkload) -> SchedulerGroups | None:
        """Returns the groups that it makes itself of a workload. None if Rollcall, or the workload's operator, makes
        them.
        """
        return None

    @property
    def retry_seconds(self) -> int:
        """How long a gang may wait for its next attempt, at most, although there is room; 0 if that is not known to
        take long.
        """
        return 0

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        """Returns the queues or quotas that limit an opted-in workload, as far as they are known."""
        return iter(())

    def pod_reading(self, settings: FitSettings) -> PodReading:
        """Returns by which arithmetic it compares pods with nodes. By default only requests are compared."""
        return PodReading(affinity=False, taints=False, ports=False, apart=False, spread=False)

    def roles(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Roles:
        """Returns the roles of a gang as it reads their pods. Raises `Malformed`."""
        return roles_of(shape, self.pod_reading(settings), facts if self.allocates_devices else None)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        """Returns what it must place at one moment before it starts any pod of a gang, without ceilings."""
        return Packing((), unknown=("it is not known how this scheduler places a gang",))

    def ceilings(self, shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts) -> Ceilings:
        """Returns the limits of its own queues and quotas on a gang with these roles."""
        return Ceilings()


NO_GANG_SCHEDULER = GangScheduler()
