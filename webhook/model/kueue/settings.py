"""KueueSettings: how Kueue is installed. No API object says this, so Rollcall's own configuration does.

The defaults are those of Kueue's installation. Source: kubernetes-sigs/kueue v0.19, apis/config/v1beta2,
config/components/manager/controller_manager_config.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook.model.kueue.keys import FRAMEWORKS
from webhook.model.reading import Manifest
from webhook.model.selectors import NAMESPACE_NAME, selects
from webhook.model.version import Version

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
        """Whether Kueue can hold this kind of workload, or pods."""
        return FRAMEWORKS.get(kind) in self.frameworks

    def manages_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool | None:
        """Whether Kueue manages the workloads of a namespace. `labels` are its labels, None if they are unknown; then
        the answer may be unknown, too.
        """
        if self._left_out is not None:
            return name not in self._left_out
        selector = self.managed_namespaces
        if labels is None and not _by_name_only(selector):
            return None
        return selects(selector, {NAMESPACE_NAME: name, **(labels or {})})


def _stated_times(annotation: object) -> tuple[int, int | None] | None:
    """The time until all pods are ready and the one after a loss, which is off at 0, as an annotation states them."""
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
            only_names = key == NAMESPACE_NAME and not others and all(isinstance(one, str) for one in values)
            return frozenset(values) if only_names else None
    return None


def _by_name_only(selector: Manifest) -> bool:
    keys = [*(selector.get("matchLabels") or {}), *(one["key"] for one in selector.get("matchExpressions") or ())]
    return all(key == NAMESPACE_NAME for key in keys)


# Kueue as its own manifests install it.
INSTALLED = KueueSettings()
