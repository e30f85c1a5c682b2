"""What is kept of Kueue's objects: the few values that rules, the health of gangs and explanations need.

All sizes are bounded. A text of another author is cut, and a list that is too long is unknown (None) or cut.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.indexed import Indexed
from webhook.model.keys import ObjectKey
from webhook.model.kueue import keys


class LocalQueue(NamedTuple):
    """A LocalQueue: its ClusterQueue, and whether Kueue admits workloads by it. `active` is None for a queue that Kueue
    has not seen yet. `message` is Kueue's reason.
    """

    cluster_queue: str | None
    stop_policy: str = keys.NO_STOP
    active: bool | None = None
    reason: str = ""
    message: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the queue admits nothing by its own stopPolicy."""
        return self.stop_policy != keys.NO_STOP


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
    stop_policy: str = keys.NO_STOP
    active: bool | None = None
    reason: str = ""
    message: str = ""
    namespaces: bool | None = None

    @property
    def stopped(self) -> bool:
        """Whether the queue admits nothing by its own stopPolicy."""
        return self.stop_policy != keys.NO_STOP


class Cohort(NamedTuple):
    """A Cohort and its parent."""

    parent: str | None = None


class ResourceFlavor(NamedTuple):
    """A ResourceFlavor. With a `topology`, Kueue chooses the nodes of the pods. `node_labels` become their
    nodeSelector; None if there are too many to keep.
    """

    topology: str | None = None
    node_labels: tuple[tuple[str, str], ...] | None = ()


class AdmissionCheck(NamedTuple):
    """An AdmissionCheck: the name of its controller, and whether that is active."""

    controller: str | None = None
    active: bool | None = None
    message: str = ""


class Condition(NamedTuple):
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
    """A pod set of a Workload: `admitted` is its number of pods by the current admission, None without one. `placed`
    means that Kueue chose the nodes.
    """

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
    """A Workload of Kueue, not to be confused with a Workload of scheduling.k8s.io. `cluster_queue` is the one that has
    reserved its quota.
    """

    queue: str | None = None
    cluster_queue: str | None = None
    active: bool = True
    owner: Owner | None = None
    # The label with the UID of the job that it is made for.
    job_uid: str | None = None
    # The index of a LeaderWorkerSet's group.
    component_index: str | None = None
    pods: tuple[WorkloadPods, ...] = ()
    conditions: tuple[Condition, ...] = ()
    checks: tuple[CheckState, ...] = ()
    requeue_count: int | None = None
    requeue_at: str | None = None
    priority: int | None = None
    evictions: tuple[Evictions, ...] = ()
    created: str = ""
    # The annotation wait-for-pods-ready.
    stated_times: str | None = None

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type."""
        return next((one for one in self.conditions if one.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether the condition of that type is True."""
        found = self.condition(type_)
        return found is not None and found.status

    @property
    def finished(self) -> bool:
        """Whether Kueue has ended its work on it."""
        return self.is_true(keys.FINISHED)

    @property
    def admitted(self) -> bool:
        """Whether it may start."""
        return self.is_true(keys.ADMITTED)


class KueueWorkloads(Indexed[ObjectKey, KueueWorkload]):
    """Kueue's Workloads by namespace and name, indexed by the UIDs of their owners, as well. An owner is in the same
    namespace: what a Workload of another one says of it, any user may have written.
    """

    @staticmethod
    def terms(key: ObjectKey, value: KueueWorkload) -> Iterable[Hashable]:
        """The UIDs of the owner: for a group of a LeaderWorkerSet, each with the index of the group."""
        uids = {value.job_uid, value.owner.uid if value.owner is not None else None} - {None}
        return ((key[0], uid, value.component_index) for uid in uids)

    def of_owner(self, namespace: str, uid: str, component_index: str | None = None) -> Set[ObjectKey]:
        """The Workloads that are made for the object with this UID, or for a group of it."""
        return self.having((namespace, uid, component_index))
