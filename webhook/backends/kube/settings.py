"""The configuration of the `default-scheduler` profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from webhook.backends.base import BackendSettings
from webhook.backends.setting_values import unquoted_off
from webhook.validators.registry import Context

Gate = Literal[
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims",
]


class KubeSettings(BackendSettings):
    """`gangScheduling` makes gangs of the Workload API, in the generation that the cluster serves.

    `flat` decides what happens to a PodGang of several PodGroups without a CompositePodGroup to hold them together.
    `schedulerGates` are the feature gates of kube-scheduler, which no API shows. If unset, they are assumed to match
    what the API server serves. `disruptionMode` is that of new gangs, unless their workload chooses another.
    """

    gangScheduling: bool = False
    flat: Literal["merge", "refuse", "allow"] = "merge"
    apiGeneration: Literal["auto", "v1alpha1", "v1alpha2", "v1beta1"] = "auto"
    hierarchical: Annotated[Literal["auto", "required", "off"], BeforeValidator(unquoted_off)] = "auto"
    schedulerGates: list[Gate] | None = None
    disruptionMode: Literal["auto", "all", "single"] = "auto"


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KubeSettings]
