"""The section `kueue`: how Kueue is installed, by the keys of Kueue's own Configuration, so that its text can be used.

It has only the keys on which a gang depends. Source: kubernetes-sigs/kueue v0.19, apis/config/v1beta2,
pkg/config/validation.go.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from webhook.config.sections import DURATION_PATTERN, InnerSection, Section, read_switch
from webhook.model.kueue import INSTALLED, INSTALLED_FRAMEWORKS, INSTALLED_SELECTOR, KueueSettings
from webhook.model.quantity import Version

Duration = Annotated[str, Field(pattern=DURATION_PATTERN)]
Framework = Literal[
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
]
_Seconds = Annotated[int, Field(ge=0, le=2_147_483_647)]
_UNITS = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}


def _quoted(value: object) -> object:
    """Refuses a release that YAML reads as a number: 0.20 would become 0.2."""
    if isinstance(value, int | float):
        raise ValueError("must be a string; quote it")
    return value


class RequeuingSection(InnerSection):
    """What Kueue does after an eviction because of pods that are not ready."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoffLimitCount: _Seconds | None = None
    backoffBaseSeconds: _Seconds = INSTALLED.backoff_base_seconds
    backoffMaxSeconds: _Seconds = INSTALLED.backoff_max_seconds


class PodsReadySection(InnerSection):
    """How long Kueue waits for all pods of a workload to be ready. `enable: false` stands for the feature gate
    DisableWaitForPodsReady, and for a configuration of v1beta1 that does not enable it.
    """

    enable: bool = True
    timeout: Duration = "30m"
    recoveryTimeout: Duration | None = None
    # Of Kueue 0.20. Kueue refuses the first one without its feature gate, and the second one only bounds what a
    # workload may state.
    unscheduledTimeout: Duration | None = None
    maxTimeoutOnWorkload: Duration | None = None
    blockAdmission: bool = False
    requeuingStrategy: RequeuingSection = RequeuingSection()


class ExpressionSection(InnerSection):
    """One entry of matchExpressions."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_values(self) -> Self:
        if (self.operator in {"In", "NotIn"}) is not bool(self.values):
            raise ValueError("In and NotIn need values, and the other operators have none")
        return self


class SelectorSection(InnerSection):
    """A label selector for namespaces."""

    matchLabels: dict[str, str] = Field(default_factory=dict)
    matchExpressions: list[ExpressionSection] = Field(default_factory=list)


class IntegrationsSection(InnerSection):
    """The kinds of workloads that Kueue can hold."""

    frameworks: Annotated[list[Framework], Field(min_length=1)] | None = None


class FeatureGatesSection(InnerSection):
    """Kueue's feature gates on which a gang depends."""

    SchedulerLibraryIntegration: bool = False
    TopologyAwareScheduling: bool = True
    WorkloadLevelWaitForPodsReady: bool = False
    WaitForPodsReadyMaxNotReady: bool = False
    BringYourOwnPodGroup: bool = False


class WorkloadRetentionSection(InnerSection):
    """How long Kueue keeps Workloads."""

    afterFinished: Duration | None = None
    afterDeactivatedByKueue: Duration | None = None


class RetentionSection(InnerSection):
    """How long Kueue keeps its objects."""

    workloads: WorkloadRetentionSection = WorkloadRetentionSection()


class KueueSection(Section):
    """How Kueue is installed, by the keys of its own Configuration. It is no object of the API, so it cannot be read.
    The defaults are those that Kueue is installed with. Rules use them where the cluster has Kueue. `admissionCheck` is
    whether the reconciler answers AdmissionChecks with the controllerName rollcall.dev/gang: not (`off`), always with
    Ready and an event (`audit`), or with Rejected for what can never start (`on`). `version` is Kueue's release, for
    files; a cluster shows it.
    """

    waitForPodsReady: PodsReadySection = PodsReadySection()
    manageJobsWithoutQueueName: bool = False
    managedJobsNamespaceSelector: SelectorSection | None = None
    integrations: IntegrationsSection = IntegrationsSection()
    featureGates: FeatureGatesSection = FeatureGatesSection()
    objectRetentionPolicies: RetentionSection = RetentionSection()
    # The two keys that Kueue does not have.
    version: Annotated[Literal["0.19", "0.20"] | None, BeforeValidator(_quoted)] = None
    admissionCheck: Annotated[Literal["off", "audit", "on"], BeforeValidator(read_switch)] = "off"


def kueue_settings(section: KueueSection) -> KueueSettings:
    """Returns how Kueue is installed according to the section."""
    ready, requeuing = section.waitForPodsReady, section.waitForPodsReady.requeuingStrategy
    # Kueue reads a timeout of 0 as its default, and a recovery of 0 as off.
    timeout = seconds_of(ready.timeout) or INSTALLED.pods_ready_seconds
    recovery = timeout if ready.recoveryTimeout is None else seconds_of(ready.recoveryTimeout) or None
    return KueueSettings(
        pods_ready_seconds=timeout if ready.enable else None,
        recovery_seconds=recovery if ready.enable else None,
        unscheduled_seconds=(seconds_of(ready.unscheduledTimeout or "0") or None) if ready.enable else None,
        block_admission=ready.enable and ready.blockAdmission,
        backoff_limit=requeuing.backoffLimitCount,
        backoff_base_seconds=requeuing.backoffBaseSeconds,
        backoff_max_seconds=requeuing.backoffMaxSeconds,
        deletes_deactivated=section.objectRetentionPolicies.workloads.afterDeactivatedByKueue is not None,
        scheduler_library=section.featureGates.SchedulerLibraryIntegration,
        topology_aware=section.featureGates.TopologyAwareScheduling,
        workload_timeouts=section.featureGates.WorkloadLevelWaitForPodsReady,
        max_not_ready=section.featureGates.WaitForPodsReadyMaxNotReady,
        counts_minimums=section.featureGates.BringYourOwnPodGroup,
        manage_without_queue_name=section.manageJobsWithoutQueueName,
        frameworks=frozenset(section.integrations.frameworks or INSTALLED_FRAMEWORKS),
        managed_namespaces=_selector(section.managedJobsNamespaceSelector),
        release=None if section.version is None else Version.parse(section.version),
    )


def _selector(section: SelectorSection | None) -> dict[str, Any]:
    return INSTALLED_SELECTOR if section is None else section.model_dump(exclude_defaults=True)


def seconds_of(duration: str) -> int:
    """Returns a duration as Go writes it in seconds, rounded up."""
    parts = re.findall(r"([0-9.]+)(h|ms|m|s)", duration)
    return ceil(sum((Fraction(amount) * _UNITS[unit] for amount, unit in parts), Fraction(0)))
