"""The generation of the Workload API that the cluster serves, decided by the kinds that it serves.

Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37). Kinds decide, not versions,
because PriorityClass was once served under the same version names. kube-scheduler 1.37 reads PodGroups through v1beta1
and CompositePodGroups through v1alpha3, so a cluster that serves only v1alpha3 schedules neither.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeGuard

from webhook.backends.kube.settings import KubeSettings
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass

GROUP = "scheduling.k8s.io"


class Generation(StrEnum):
    """How a gang is expressed. Only the last generation has gangs of several PodGroups."""

    V1ALPHA1 = "v1alpha1"
    V1ALPHA2 = "v1alpha2"
    V1BETA1 = "v1beta1"
    # v1beta1, with CompositePodGroups of v1alpha3 over the PodGroups.
    TREE = "v1beta1 with CompositePodGroup"

    @property
    def version(self) -> str:
        """The version of Workload and PodGroup."""
        return "v1beta1" if self is Generation.TREE else self.value


_WORKLOAD = {version: Api(GROUP, version, "Workload") for version in ("v1alpha1", "v1alpha2", "v1beta1")}
_POD_GROUP = {version: Api(GROUP, version, "PodGroup") for version in ("v1alpha2", "v1beta1")}
COMPOSITE = Api(GROUP, "v1alpha3", "CompositePodGroup")

# From 1.37 on the priority class of a gang is in the group's own objects. When they are created, the API server's
# Priority plugin turns it into a number, as for pods.
CARRIES_CLASS = frozenset({Generation.V1BETA1, Generation.TREE})
# Of 1.36, and part of GenericWorkload from 1.37 on. While it is on, groups have a mode and a priority; while it is off,
# the API server drops both fields, and the pods' priority counts.
PREEMPTION_GATE = "WorkloadAwarePreemption"
# HighestUserDefinablePriority. With one of the system's own classes pods may exceed it, but groups may not (seen).
HIGHEST = 1_000_000_000


def generation(settings: KubeSettings, apis: frozenset[Api] | None) -> Generation | None:
    """The generation to use; None if the cluster serves none, or if it is neither known nor stated."""
    if not known(apis):
        stated = None if settings.apiGeneration == "auto" else settings.apiGeneration
        if stated == "v1beta1" and settings.hierarchical != "off":
            return Generation.TREE
        return None if stated is None else Generation(stated)
    for version in ("v1beta1", "v1alpha2", "v1alpha1"):
        wanted = settings.apiGeneration in {"auto", version}
        if wanted and _WORKLOAD[version] in apis and _POD_GROUP.get(version, _WORKLOAD[version]) in apis:
            if version == "v1beta1" and _has_trees(settings, apis):
                return Generation.TREE
            return Generation(version)
    return None


def known(apis: frozenset[Api] | None) -> TypeGuard[frozenset[Api]]:
    """Whether `apis` shows which Workload API the cluster serves. Every cluster serves PriorityClass in this group. A
    list without the group was made from CRDs in files and does not show built-in kinds.
    """
    return apis is not None and any(api.group == GROUP for api in apis)


def _has_trees(settings: KubeSettings, apis: frozenset[Api]) -> bool:
    if settings.hierarchical == "off" or COMPOSITE not in apis:
        return False
    return settings.schedulerGates is None or "CompositePodGroup" in settings.schedulerGates


def kinds(spoken: Generation | None) -> tuple[Api, ...]:
    """The kinds of a generation's gang objects, in order of creation."""
    if spoken is None:
        return ()
    groups = (_POD_GROUP[spoken.version],) if spoken.version in _POD_GROUP else ()
    trees = (COMPOSITE,) if spoken is Generation.TREE else ()
    return (_WORKLOAD[spoken.version], *trees, *groups)


def missing(settings: KubeSettings) -> str:
    """The kinds that the cluster would have to serve, in words."""
    version = "v1beta1" if settings.apiGeneration == "auto" else settings.apiGeneration
    pod_group = "" if version == "v1alpha1" else " and PodGroup"
    return f"{GROUP}/{version} Workload{pod_group}"


def may_carry_class(spoken: Generation, settings: KubeSettings) -> bool:
    """Whether groups get their priority class: in 1.36 unless the scheduler is known to ignore it."""
    gates = settings.schedulerGates
    ignored = gates is not None and PREEMPTION_GATE not in gates
    return spoken in CARRIES_CLASS or (spoken is Generation.V1ALPHA2 and not ignored)


def class_problem(found: PriorityClass | None) -> str | None:
    """Why the API server would refuse a group with that class, or None."""
    if found is None:
        return "there is no such PriorityClass, so the API server would refuse the groups of the gang"
    if found.value > HIGHEST:
        return f"its value is {found.value}, and the API server refuses groups above {HIGHEST}"
    return None
