"""The configuration of the `default-scheduler` profile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

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


def _released_generation(value: object) -> object:
    """Return `value`. Raises for `v1`, which releases of Rollcall up to 0.13 had before 1.38 was read."""
    if value == "v1":
        raise PydanticCustomError(
            "released_generation",
            "no Kubernetes serves Workload and PodGroup in v1; write auto or v1beta1, which also uses the "
            "CompositePodGroups of v1beta1 in Kubernetes 1.38",
        )
    return value


class KubeSettings(BackendSettings):
    """`gangScheduling` makes gangs of the Workload API, in the generation that the cluster serves.

    `flat` decides what happens to a PodGang of several PodGroups without a CompositePodGroup to hold them together.
    `schedulerGates` are the feature gates of kube-scheduler, which no API shows. If unset, they are assumed to match
    what the API server serves. `disruptionMode` is that of new gangs, unless their workload chooses another.
    """

    gangScheduling: bool = False
    flat: Literal["merge", "refuse", "allow"] = "merge"
    apiGeneration: Annotated[
        Literal["auto", "v1alpha1", "v1alpha2", "v1beta1"], BeforeValidator(_released_generation)
    ] = "auto"
    hierarchical: Annotated[Literal["auto", "required", "off"], BeforeValidator(unquoted_off)] = "auto"
    schedulerGates: list[Gate] | None = None
    disruptionMode: Literal["auto", "all", "single"] = "auto"


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KubeSettings]
