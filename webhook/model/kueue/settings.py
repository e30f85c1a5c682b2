"""KueueSettings: how Kueue is installed. No API object says this, so Rollcall's own configuration does.

The defaults are those of Kueue's installation. Source: kubernetes-sigs/kueue v0.19, apis/config/v1beta2,
config/components/manager/controller_manager_config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class KueueSettings:
    """How Kueue is installed. `release` is its major and minor version, None if the configuration does not state it.

    A Workload whose pods are not all ready `pods_ready_seconds` after its admission, or `recovery_seconds` after a pod
    was lost, is evicted; None: never. After `backoff_limit` evictions it is deactivated; None: never.
    """

    pods_ready_seconds: int | None = 1800
    recovery_seconds: int | None = 1800
    block_admission: bool = False
    backoff_limit: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600
    # objectRetentionPolicies.workloads.afterDeactivatedByKueue: a deactivated Workload is deleted with its Job.
    deletes_deactivated: bool = False
    # The gates SchedulerLibraryIntegration and TopologyAwareScheduling.
    scheduler_library: bool = False
    topology_aware: bool = True
    manage_without_queue_name: bool = False
    frameworks: frozenset[str] = frozenset(INSTALLED_FRAMEWORKS)
    # A label selector for namespaces, as managedJobsNamespaceSelector.
    managed_namespaces: Manifest = field(default_factory=lambda: INSTALLED_SELECTOR)
    release: Version | None = None
    # The names that this selector leaves out, if that is all it does: most do, and every decision asks.
    _left_out: frozenset[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_left_out", _names_left_out(self.managed_namespaces))

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
