"""Kueue's objects: the few values that rules, the health of gangs and explanations need of them, and how the objects
become facts.

All sizes are bounded. A text of another author is cut, and a list that is too long is unknown (None) or cut. Source:
kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.bounds import MOST_CHARACTERS, MOST_ITEMS, list_kept, name_text
from webhook.model.grove import controller_in
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import Indexed
from webhook.model.projections import Projection, Resource, key_of, name_of
from webhook.model.reading import Manifest, flag, integer, mapping, sequence, text


class LocalQueue(NamedTuple):
    """A LocalQueue: its ClusterQueue, and whether Kueue admits workloads by it. `active` is None for a queue that Kueue
    has not seen yet. `message` is Kueue's reason.
    """

    cluster_queue: str | None
    stop_policy: str = kueue.NO_STOP
    active: bool | None = None
    reason: str = ""
    message: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the queue admits nothing by its own stopPolicy."""
        return self.stop_policy != kueue.NO_STOP


class FlavorQuota(NamedTuple):
    """The quota of one resource in one flavor of a ClusterQueue, as quantities. None: no limit."""

    flavor: str
    resource: str
    nominal: str
    borrowing: str | None = None
    lending: str | None = None


class ClusterQueue(NamedTuple):
    """A ClusterQueue. `flavors` are the names of its flavors, each once and in order, `quotas` their amounts (None if
    there are too many to keep), `checks` the names of its admission checks, and `namespaces` its namespaceSelector:
    True selects every namespace, False none, None some.
    """

    cohort: str | None = None
    flavors: tuple[str, ...] = ()
    quotas: tuple[FlavorQuota, ...] | None = ()
    checks: tuple[str, ...] = ()
    stop_policy: str = kueue.NO_STOP
    active: bool | None = None
    reason: str = ""
    message: str = ""
    namespaces: bool | None = None

    @property
    def stopped(self) -> bool:
        """Whether the queue admits nothing by its own stopPolicy."""
        return self.stop_policy != kueue.NO_STOP


class Cohort(NamedTuple):
    """A Cohort and its parent."""

    parent: str | None = None


class ResourceFlavor(NamedTuple):
    """A ResourceFlavor. With `topology` Kueue chooses nodes; `node_labels` become the nodeSelector (None: too many)."""

    topology: str | None = None
    node_labels: tuple[tuple[str, str], ...] | None = ()


class AdmissionCheck(NamedTuple):
    """An AdmissionCheck: the name of its controller, and whether that is active."""

    controller: str | None = None
    active: bool | None = None
    message: str = ""


class KueueCondition(NamedTuple):
    """A condition of a Workload. `at` is its lastTransitionTime."""

    type: str
    status: bool
    reason: str
    message: str
    at: str


class CheckState(NamedTuple):
    """An admission check in a Workload: Pending, Ready, Retry or Rejected."""

    name: str
    state: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """A pod set of a Workload. `admitted`: its pods by the current admission; `placed`: Kueue chose the nodes."""

    name: str
    count: int
    min_count: int | None = None
    admitted: int | None = None
    placed: bool = False


class Owner(NamedTuple):
    """The controller of a Workload."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Evictions:
    """How often a Workload was evicted, by reason and the cause behind it."""

    reason: str
    count: int
    cause: str = ""


class KueueWorkload(NamedTuple):
    """A Workload of Kueue, not of scheduling.k8s.io. `cluster_queue` is the one that has reserved its quota."""

    queue: str | None = None
    cluster_queue: str | None = None
    active: bool = True
    owner: Owner | None = None
    # The label with the UID of the job that it is made for.
    job_uid: str | None = None
    # The index of a LeaderWorkerSet's group.
    component_index: str | None = None
    pods: tuple[WorkloadPods, ...] = ()
    conditions: tuple[KueueCondition, ...] = ()
    checks: tuple[CheckState, ...] = ()
    requeue_count: int | None = None
    requeue_at: str | None = None
    priority: int | None = None
    evictions: tuple[Evictions, ...] = ()
    created: str = ""
    # The annotation wait-for-pods-ready.
    stated_times: str | None = None

    def condition(self, type_: str) -> KueueCondition | None:
        return next((condition for condition in self.conditions if condition.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Returns whether the condition of that type is True."""
        condition = self.condition(type_)
        return condition is not None and condition.status

    @property
    def finished(self) -> bool:
        """Whether Kueue has ended its work on it."""
        return self.is_true(kueue.FINISHED)

    @property
    def admitted(self) -> bool:
        """Whether it may start."""
        return self.is_true(kueue.ADMITTED)


class KueueWorkloads(Indexed[ObjectKey, KueueWorkload]):
    """Kueue's Workloads by namespace and name, indexed by the UIDs of their owners, as well. An owner is in the same
    namespace: what a Workload of another one says of it, any user may have written.
    """

    @staticmethod
    def terms(key: ObjectKey, value: KueueWorkload) -> Iterable[Hashable]:
        """Returns the UIDs of the owner: for a group of a LeaderWorkerSet, each with the index of the group."""
        uids = {value.job_uid, value.owner.uid if value.owner is not None else None} - {None}
        return ((key[0], uid, value.component_index) for uid in uids)

    def workloads_of_owner(self, namespace: str, uid: str, component_index: str | None = None) -> Set[ObjectKey]:
        """Returns the Workloads that are made for the object with this UID, or for a group of it."""
        return self.having((namespace, uid, component_index))


# What is kept of a message of Kueue, and of a check's controller. A condition may have 32 KiB.
_MESSAGE, _CHECK_MESSAGE = 512, 256
# Kueue's own limits are 18 pod sets and 8 checks. It has fewer conditions and reasons for an eviction.
_MOST_PODS, _MOST_CHECKS, _MOST_CONDITIONS, _MOST_EVICTIONS = 18, 8, 32, 8
_CUT = "..."


def _kind(kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource(Api(kueue.GROUP, kueue.VERSION, kind), plural, namespaced)


LOCAL_QUEUE_KIND = _kind("LocalQueue", "localqueues", namespaced=True)
CLUSTER_QUEUE_KIND = _kind("ClusterQueue", "clusterqueues")
COHORT_KIND = _kind("Cohort", "cohorts")
RESOURCE_FLAVOR_KIND = _kind("ResourceFlavor", "resourceflavors")
TOPOLOGY_KIND = _kind("Topology", "topologies")
ADMISSION_CHECK_KIND = _kind("AdmissionCheck", "admissionchecks")
WORKLOAD_KIND = _kind("Workload", "workloads", namespaced=True)


def _message(value: object, most: int = _MESSAGE) -> str:
    message = text(value) or ""
    return message if len(message) <= most else f"{message[: most - len(_CUT)]}{_CUT}"


def _conditions(raw: Manifest) -> Iterator[KueueCondition]:
    for condition in map(mapping, islice(sequence(mapping(raw.get("status")).get("conditions")), _MOST_CONDITIONS)):
        yield KueueCondition(
            name_text(condition.get("type")) or "",
            condition.get("status") == "True",
            name_text(condition.get("reason")) or "",
            _message(condition.get("message")),
            name_text(condition.get("lastTransitionTime")) or "",
        )


def _active(raw: Manifest) -> tuple[bool | None, str, str]:
    """Returns whether Kueue calls a queue or a check active (None: not said yet), its reason and message."""
    active = next((condition for condition in _conditions(raw) if condition.type == kueue.ACTIVE), None)
    return (None, "", "") if active is None else (active.status, active.reason, active.message)


def _stop_policy(spec: Mapping[str, Any]) -> str:
    return name_text(spec.get("stopPolicy")) or kueue.NO_STOP


def _local_queue(raw: Manifest) -> tuple[ObjectKey, LocalQueue]:
    spec = mapping(raw.get("spec"))
    return key_of(raw), LocalQueue(name_text(spec.get("clusterQueue")), _stop_policy(spec), *_active(raw))


def _cluster_queue(raw: Manifest) -> tuple[str, ClusterQueue]:
    spec = mapping(raw.get("spec"))
    flavors = tuple(dict.fromkeys(name_text(flavor.get("name")) or "" for flavor in _flavors(spec)))
    strategy = sequence(mapping(spec.get("admissionChecksStrategy")).get("admissionChecks"))
    names = [mapping(entry).get("name") for entry in strategy]
    # The second name of each field is that of v1beta1, in which files may still be written.
    checks = tuple(name_text(name) or "" for name in (*names, *sequence(spec.get("admissionChecks"))))
    return name_of(raw), ClusterQueue(
        name_text(spec.get("cohortName")) or name_text(spec.get("cohort")),
        list_kept(flavors),
        _quotas(spec),
        list_kept(checks),
        _stop_policy(spec),
        *_active(raw),
        namespaces=_selected(spec),
    )


def _selected(spec: Mapping[str, Any]) -> bool | None:
    """Returns whether a ClusterQueue selects every namespace or, as without a selector, none; None: some."""
    selector = spec.get("namespaceSelector")
    if selector is None:
        return False
    return None if any(mapping(selector).values()) else True


def _flavors(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in sequence(spec.get("resourceGroups")):
        yield from map(mapping, sequence(mapping(group).get("flavors")))


def _quotas(spec: Mapping[str, Any]) -> tuple[FlavorQuota, ...] | None:
    quotas: list[FlavorQuota] = []
    for flavor in _flavors(spec):
        for quota in map(mapping, sequence(flavor.get("resources"))):
            if len(quotas) == MOST_ITEMS:
                return None
            borrowing, lending = _amount(quota.get("borrowingLimit")), _amount(quota.get("lendingLimit"))
            name, resource = name_text(flavor.get("name")) or "", name_text(quota.get("name")) or ""
            quotas.append(FlavorQuota(name, resource, _amount(quota.get("nominalQuota")) or "0", borrowing, lending))
    return tuple(quotas)


def _amount(value: object) -> str | None:
    # A file may write a number.
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else name_text(value)


def _cohort(raw: Manifest) -> tuple[str, Cohort]:
    return name_of(raw), Cohort(name_text(mapping(raw.get("spec")).get("parentName")))


def _resource_flavor(raw: Manifest) -> tuple[str, ResourceFlavor]:
    spec = mapping(raw.get("spec"))
    labels = tuple((key, text(value) or "") for key, value in mapping(spec.get("nodeLabels")).items())
    fits = len(labels) <= MOST_ITEMS and sum(len(key) + len(value) for key, value in labels) <= MOST_CHARACTERS
    return name_of(raw), ResourceFlavor(name_text(spec.get("topologyName")), labels if fits else None)


def _topology(raw: Manifest) -> tuple[str, tuple[str, ...]]:
    levels = sequence(mapping(raw.get("spec")).get("levels"))
    return name_of(raw), list_kept(tuple(name_text(mapping(level).get("nodeLabel")) or "" for level in levels))


def _admission_check(raw: Manifest) -> tuple[str, AdmissionCheck]:
    active, _, message = _active(raw)
    return name_of(raw), AdmissionCheck(name_text(mapping(raw.get("spec")).get("controllerName")), active, message)


def _workload(raw: Manifest) -> tuple[ObjectKey, KueueWorkload]:
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    controller = controller_in(metadata)
    owner = None
    if controller is not None:
        owner = Owner(*(name_text(value) or "" for value in (controller.kind, controller.name, controller.uid)))
    requeue = mapping(status.get("requeueState"))
    # Each type once.
    conditions = {state.type: state for state in _conditions(raw) if state.type in kueue.WORKLOAD_CONDITIONS}
    return key_of(raw), KueueWorkload(
        queue=name_text(spec.get("queueName")),
        cluster_queue=name_text(mapping(status.get("admission")).get("clusterQueue")),
        active=spec.get("active") is None or flag(spec["active"]),
        owner=owner,
        job_uid=name_text(mapping(metadata.get("labels")).get(kueue.JOB_UID)),
        component_index=name_text(mapping(metadata.get("annotations")).get(kueue.COMPONENT_INDEX)),
        pods=tuple(_pods(spec, mapping(status.get("admission")))),
        conditions=tuple(conditions.values()),
        checks=tuple(_checks(status)),
        requeue_count=integer(requeue.get("count")),
        requeue_at=name_text(requeue.get("requeueAt")),
        priority=integer(spec.get("priority")),
        evictions=tuple(_evictions(status)),
        created=name_text(metadata.get("creationTimestamp")) or "",
        stated_times=name_text(mapping(metadata.get("annotations")).get(kueue.WAIT_FOR_PODS_READY)),
    )


def _pods(spec: Mapping[str, Any], admission: Mapping[str, Any]) -> Iterator[WorkloadPods]:
    assigned = islice(sequence(admission.get("podSetAssignments")), _MOST_PODS)
    by_name = {text(entry.get("name")) or kueue.MAIN: entry for entry in map(mapping, assigned)}
    for pod_set in map(mapping, islice(sequence(spec.get("podSets")), _MOST_PODS)):
        name, count = text(pod_set.get("name")) or kueue.MAIN, integer(pod_set.get("count")) or 0
        assignment = by_name.get(name)
        admitted = None
        if assignment is not None:
            stated = integer(assignment.get("count"))
            admitted = count if stated is None else stated
        placed = assignment is not None and assignment.get("topologyAssignment") is not None
        yield WorkloadPods(name_text(name) or "", count, integer(pod_set.get("minCount")), admitted, placed)


def _checks(status: Mapping[str, Any]) -> Iterator[CheckState]:
    for check in map(mapping, islice(sequence(status.get("admissionChecks")), _MOST_CHECKS)):
        message = _message(check.get("message"), _CHECK_MESSAGE)
        yield CheckState(name_text(check.get("name")) or "", name_text(check.get("state")) or "", message)


def _evictions(status: Mapping[str, Any]) -> Iterator[Evictions]:
    evictions = sequence(mapping(status.get("schedulingStats")).get("evictions"))
    for eviction in map(mapping, islice(evictions, _MOST_EVICTIONS)):
        reason, cause = name_text(eviction.get("reason")) or "", name_text(eviction.get("underlyingCause")) or ""
        yield Evictions(reason, integer(eviction.get("count")) or 0, cause)


_CONDITIONS = "status.conditions"
LOCAL_QUEUES = Projection(
    "local_queues", LOCAL_QUEUE_KIND, _local_queue, fields=("spec.clusterQueue", "spec.stopPolicy", _CONDITIONS)
)
CLUSTER_QUEUES = Projection(
    "cluster_queues",
    CLUSTER_QUEUE_KIND,
    _cluster_queue,
    fields=(
        "spec.cohortName",
        "spec.resourceGroups",
        "spec.admissionChecksStrategy",
        "spec.stopPolicy",
        "spec.namespaceSelector",
        _CONDITIONS,
    ),
)
COHORTS = Projection("cohorts", COHORT_KIND, _cohort, fields=("spec.parentName",))
RESOURCE_FLAVORS = Projection(
    "resource_flavors", RESOURCE_FLAVOR_KIND, _resource_flavor, fields=("spec.topologyName", "spec.nodeLabels")
)
TOPOLOGIES = Projection("kueue_topologies", TOPOLOGY_KIND, _topology, fields=("spec.levels",))
ADMISSION_CHECKS = Projection(
    "admission_checks", ADMISSION_CHECK_KIND, _admission_check, fields=("spec.controllerName", _CONDITIONS)
)
WORKLOADS = Projection(
    "kueue_workloads",
    WORKLOAD_KIND,
    _workload,
    KueueWorkloads,
    fields=(
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "metadata.creationTimestamp",
        "spec.queueName",
        "spec.active",
        "spec.priority",
        "spec.podSets.name",
        "spec.podSets.count",
        "spec.podSets.minCount",
        "status.admission.clusterQueue",
        "status.admission.podSetAssignments.name",
        "status.admission.podSetAssignments.count",
        # Whether there is one. The rest of it names nodes.
        "status.admission.podSetAssignments.topologyAssignment.levels",
        "status.admissionChecks",
        "status.requeueState",
        "status.schedulingStats.evictions",
        _CONDITIONS,
    ),
)
# What rules read, and so what is followed in a cluster. Workloads are read by what explains gangs.
FOLLOWED = (LOCAL_QUEUES, CLUSTER_QUEUES, RESOURCE_FLAVORS, TOPOLOGIES, ADMISSION_CHECKS)
# What files may contain. No rule reads a Cohort: each ClusterQueue names its own.
KUEUE_PROJECTIONS = (*FOLLOWED, COHORTS)
