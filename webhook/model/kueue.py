"""Kueue: the names that it reads and writes (labels, annotations, scheduling gates, conditions and their reasons), and
how it is installed.

No API object says how Kueue is installed, so Rollcall's own configuration does; the defaults are those of Kueue's
installation. Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2, pkg/constants, pkg/controller/constants,
pkg/controller/jobs/{job,pod}/constants; apis/config/v1beta2, config/components/manager/controller_manager_config.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook.model.quantity import Version
from webhook.model.reading import NAMESPACE_NAME, Manifest, selects

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
# Kueue 0.19 is the last release that serves it.
OLD_VERSION = "v1beta1"

# A label: the LocalQueue of a workload or a pod. Kueue writes it itself where the namespace has a LocalQueue `default`.
QUEUE_NAME = f"{GROUP}/queue-name"
DEFAULT_QUEUE = "default"
# A label: the WorkloadPriorityClass. It orders the queue and never reaches a pod.
PRIORITY_CLASS = f"{GROUP}/priority-class"
# The value that Kueue's webhook writes, by default from 0.20 on, if a WorkloadPriorityClass has this name.
DEFAULT_PRIORITY_CLASS = "default"
# An annotation, formerly a label: the Workload that a workload or pod belongs to.
PREBUILT_WORKLOAD = f"{GROUP}/prebuilt-workload-name"
# A label: after how many seconds Kueue ends a workload.
MAX_EXECUTION_TIME = f"{GROUP}/max-exec-time-seconds"
# An annotation: who must remove it before Kueue admits the Workload.
ADMISSION_GATED_BY = f"{GROUP}/admission-gated-by"
# An annotation, since 0.20: the times of waitForPodsReady for one workload, which Kueue copies to its Workload.
WAIT_FOR_PODS_READY = f"{GROUP}/wait-for-pods-ready"

# Annotations of a Job: partial admission, and whether its completions follow its parallelism; elastic Jobs.
MIN_PARALLELISM = f"{GROUP}/job-min-parallelism"
COMPLETIONS_IN_STEP = f"{GROUP}/job-completions-equal-parallelism"
ELASTIC_JOB = f"{GROUP}/elastic-job"

# Plain pods. The name is an annotation, formerly a label; the others are annotations.
POD_GROUP_NAME = f"{GROUP}/pod-group-name"
POD_GROUP_TOTAL_COUNT = f"{GROUP}/pod-group-total-count"
POD_GROUP_FAST_ADMISSION = f"{GROUP}/pod-group-fast-admission"
# Since 0.20: how many pods of the group may be missing or not ready when Kueue calls the group ready.
POD_GROUP_MAX_NOT_READY_COUNT = f"{GROUP}/pod-group-max-not-ready-count"
ROLE_HASH = f"{GROUP}/role-hash"
# A label and a finalizer of pods that Kueue holds by a gate.
MANAGED = f"{GROUP}/managed"

# What Kueue writes on pods and templates when it admits a Workload. Another value that is already there is final: the
# Workload ends with the reason FailedToStart.
PODSET = f"{GROUP}/podset"
LOCAL_QUEUE_NAME = f"{GROUP}/local-queue-name"
CLUSTER_QUEUE_NAME = f"{GROUP}/cluster-queue-name"
WORKLOAD = f"{GROUP}/workload"

# On Kueue's Workloads: a label with the UID of the owner, and the group's index of a LeaderWorkerSet.
JOB_UID = f"{GROUP}/job-uid"
COMPONENT_INDEX = f"{GROUP}/component-workload-index"

# Annotations of a pod template that ask for a topology. The values are node label keys.
REQUIRED_TOPOLOGY = f"{GROUP}/podset-required-topology"
PREFERRED_TOPOLOGY = f"{GROUP}/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY = f"{GROUP}/podset-unconstrained-topology"
SLICE_REQUIRED_TOPOLOGY = f"{GROUP}/podset-slice-required-topology"
SLICE_SIZE = f"{GROUP}/podset-slice-size"
SLICE_CONSTRAINTS = f"{GROUP}/podset-slice-required-topology-constraints"
# Pod sets with the same name here are placed as one.
PODSET_GROUP_NAME = f"{GROUP}/podset-group-name"

ADMISSION_GATE = f"{GROUP}/admission"
TOPOLOGY_GATE = f"{GROUP}/topology"
ELASTIC_JOB_GATE = f"{GROUP}/elastic-job"
GATES = (ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_JOB_GATE)

# The value of managedBy of a workload whose pods run in another cluster, and the controller of its admission check.
MULTIKUEUE = f"{GROUP}/multikueue"
# The controller of an admission check that asks an autoscaler for the nodes of a workload.
PROVISIONING = f"{GROUP}/provisioning-request"
PROVISIONING_REQUEST = f"{GROUP}/provisioning-request"
# The manager of Kueue's entry in a TrainJob's runtimePatches. Every TrainJob gets the entry, held or not.
MANAGER = f"{GROUP}/manager"

# The pod set of a Job.
MAIN = "main"
# The name that Kueue gives the kinds it can hold, by kind.
FRAMEWORKS = {
    "Job": "batch/job",
    "JobSet": "jobset.x-k8s.io/jobset",
    "TrainJob": "trainer.kubeflow.org/trainjob",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
    "Pod": "pod",
}

# Kinds of operators that Kueue can hold, by group and kind.
OPERATOR_FRAMEWORKS = {
    (group, kind): f"{group}/{kind.lower()}"
    for group, kinds in (
        ("kubeflow.org", ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")),
        ("ray.io", ("RayCluster", "RayJob")),
    )
    for kind in kinds
}

# The kinds that make Jobs, JobSets or LeaderWorkerSets of their own and are held instead of these, by group and kind.
HOLDING_OWNERS = frozenset(
    {
        ("jobset.x-k8s.io", "JobSet"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayService"),
        ("kubeflow.org", "MPIJob"),
        ("workload.codeflare.dev", "AppWrapper"),
    }
)

# Values of stopPolicy.
NO_STOP, HOLD, HOLD_AND_DRAIN = "None", "Hold", "HoldAndDrain"

# Conditions of queues and checks, and of Workloads.
ACTIVE = "Active"
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
PODS_READY = "PodsReady"
PODS_SCHEDULED = "PodsScheduled"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
FINISHED = "Finished"
DEACTIVATION_TARGET = "DeactivationTarget"
WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"
BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"

WORKLOAD_CONDITIONS = frozenset(
    {
        QUOTA_RESERVED,
        ADMITTED,
        PODS_READY,
        PODS_SCHEDULED,
        EVICTED,
        PREEMPTED,
        REQUEUED,
        FINISHED,
        DEACTIVATION_TARGET,
        WAITING_FOR_REPLACEMENT_PODS,
        BLOCKED_ON_PREEMPTION_GATES,
    }
)

# Reasons of QuotaReserved=False.
INADMISSIBLE = "Inadmissible"
ADMISSION_GATED = "AdmissionGated"
WAITING = "Waiting"
ON_HOLD = "OnHold"
# The finer reasons of the gate UnadmittedWorkloadsObservability, which is on by default from 0.20 on.
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
WAITING_FOR_PODS_READY = "WaitingForPodsReady"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
NO_MATCHING_FLAVOR = "NoMatchingFlavor"
TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
PENDING_EVALUATION = "PendingEvaluation"
# Since 0.20.
DRA_RESOURCES_UNRESOLVED = "DRAResourcesUnresolved"
# Reasons of Admitted=False.
PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"
# Reasons of PodsReady, and causes of an eviction. The last one, since 0.20, is also a reason of PodsScheduled.
WAIT_FOR_START = "WaitForStart"
WAIT_FOR_RECOVERY = "WaitForRecovery"
WAIT_FOR_SCHEDULING = "WaitForScheduling"
# Reasons of Evicted. The last one is the start of a reason.
PODS_READY_TIMEOUT = "PodsReadyTimeout"
BY_ADMISSION_CHECK = "AdmissionCheck"
DEACTIVATED = "Deactivated"
SUCCEEDED, FAILED, OUT_OF_SYNC, OWNER_NOT_FOUND = "Succeeded", "Failed", "OutOfSync", "OwnerNotFound"

# States of an admission check in a Workload.
CHECK_PENDING, CHECK_READY, CHECK_RETRY, CHECK_REJECTED = "Pending", "Ready", "Retry", "Rejected"

# What Go's strconv.ParseBool reads as true, and as false.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(value: object) -> bool:
    """Returns whether Kueue reads the value of an annotation as true."""
    return isinstance(value, str) and value in _TRUE


def is_bool(value: str) -> bool:
    """Returns whether Kueue can read the value of an annotation as true or false."""
    return value in _TRUE or value in _FALSE


INSTALLED_FRAMEWORKS = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
# managedJobsNamespaceSelector of the installation: every namespace but these.
UNMANAGED = ("kube-system", "kueue-system")
INSTALLED_SELECTOR: Manifest = {
    "matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": list(UNMANAGED)}]
}


class ReadyTimes(NamedTuple):
    """For how many seconds Kueue waits for the pods of a workload: from its admission until all are ready, from its
    admission until all are on nodes, and after one was lost until all are ready again. None: without end. `stated`
    means that the workload has times of its own.
    """

    ready: int | None
    scheduled: int | None
    recovery: int | None
    stated: bool = False

    @property
    def start(self) -> int | None:
        """The shorter of the two times after the admission."""
        return self.ready if self.scheduled is None else self.scheduled


@dataclass(frozen=True, slots=True)
class KueueSettings:
    """How Kueue is installed. `release` is its major and minor version, None if the configuration does not state it.

    A Workload whose pods are not all ready `pods_ready_seconds` after its admission, or `recovery_seconds` after a pod
    was lost, is evicted; None: never. After `backoff_limit` evictions it is deactivated; None: never.
    """

    pods_ready_seconds: int | None = 1800
    recovery_seconds: int | None = 1800
    # waitForPodsReady.unscheduledTimeout, since 0.20: the same after an admission if not all pods are on nodes.
    unscheduled_seconds: int | None = None
    block_admission: bool = False
    backoff_limit: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600
    # objectRetentionPolicies.workloads.afterDeactivatedByKueue: a deactivated Workload is deleted with its Job.
    deletes_deactivated: bool = False
    # The gates SchedulerLibraryIntegration and TopologyAwareScheduling.
    scheduler_library: bool = False
    topology_aware: bool = True
    # The gates WorkloadLevelWaitForPodsReady and WaitForPodsReadyMaxNotReady, both since 0.20.
    workload_timeouts: bool = False
    max_not_ready: bool = False
    # The gate BringYourOwnPodGroup of the proposal KEP-13150, which no release has yet.
    counts_minimums: bool = False
    manage_without_queue_name: bool = False
    frameworks: frozenset[str] = frozenset(INSTALLED_FRAMEWORKS)
    # A label selector for namespaces, as managedJobsNamespaceSelector.
    managed_namespaces: Manifest = field(default_factory=lambda: INSTALLED_SELECTOR)
    release: Version | None = None
    # The names that this selector leaves out, if that is all it does: most do, and every decision asks.
    _left_out: frozenset[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_left_out", _names_left_out(self.managed_namespaces))

    def ready_times(self, annotation: object) -> ReadyTimes:
        """Returns the times of a workload whose annotation wait-for-pods-ready is `annotation`. Kueue refuses a
        workload with an invalid one.

        Source: kubernetes-sigs/kueue, keps/4803-workload-level-wait-for-pods-ready, keps/13502-unscheduled-pods-timeout
        and pkg/util/waitforpodsready (ParseAnnotation) on its main branch before v0.20.
        """
        if self.pods_ready_seconds is None:
            return ReadyTimes(None, None, None)
        stated = _stated_times(annotation) if self.workload_timeouts else None
        ready, recovery = (self.pods_ready_seconds, self.recovery_seconds) if stated is None else stated
        scheduled = None if self.unscheduled_seconds is None else min(self.unscheduled_seconds, ready)
        return ReadyTimes(ready, scheduled, recovery, stated is not None)

    def integrates(self, kind: str) -> bool:
        """Returns whether Kueue can hold this kind of workload, or pods."""
        return FRAMEWORKS.get(kind) in self.frameworks

    def manages_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool | None:
        """Returns whether Kueue manages a namespace; None if its labels would decide and are unknown (None)."""
        if self._left_out is not None:
            return name not in self._left_out
        selector = self.managed_namespaces
        if labels is None and not _selects_names_only(selector):
            return None
        return selects(selector, {NAMESPACE_NAME: name, **(labels or {})})


def _stated_times(annotation: object) -> tuple[int, int | None] | None:
    """Returns an annotation's time until all pods are ready, and the one after a loss, which is off at 0."""
    if not isinstance(annotation, str):
        return None
    try:
        stated = json.loads(annotation)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stated, dict):
        return None
    ready = stated.get("timeoutSeconds")
    recovery = stated.get("recoveryTimeoutSeconds")
    recovery = ready if recovery is None else recovery
    if type(ready) is not int or type(recovery) is not int or ready < 1 or recovery < 0:
        return None
    return ready, recovery or None


def _names_left_out(selector: Manifest) -> frozenset[str] | None:
    match selector:
        case {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [*values]}], **others}:
            only_names = key == NAMESPACE_NAME and not others and all(isinstance(value, str) for value in values)
            return frozenset(values) if only_names else None
    return None


def _selects_names_only(selector: Manifest) -> bool:
    keys = [*(selector.get("matchLabels") or {}), *(entry["key"] for entry in selector.get("matchExpressions") or ())]
    return all(key == NAMESPACE_NAME for key in keys)


# Kueue as its own manifests install it.
INSTALLED = KueueSettings()
