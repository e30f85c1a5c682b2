"""The generation of the Workload API that the cluster serves, decided by the kinds that it serves.

Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37.2, 1.38.0-beta.0). Kinds
decide, not versions, because PriorityClass is served under the same version names. kube-scheduler 1.37 reads PodGroups
through v1beta1 and CompositePodGroups through v1alpha3, and that of 1.38 reads all through v1beta1, so a cluster that
serves only v1alpha3 schedules neither. In 1.38 scheduling.k8s.io/v1 still has only PriorityClass.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeGuard

from webhook.backends.kube.settings import KubeSettings
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass

GROUP = "scheduling.k8s.io"
# What to do if a cluster serves the API only in versions that this release has not read.
UNREAD = (
    "use a release of Rollcall that knows them, or have the API server serve v1beta1, and on Kubernetes 1.37 v1alpha3"
)


class Generation(StrEnum):
    """How a gang is expressed. Only the last generation has gangs of several PodGroups."""

    V1ALPHA1 = "v1alpha1"
    V1ALPHA2 = "v1alpha2"
    V1BETA1 = "v1beta1"
    # PodGroups as in v1beta1, with CompositePodGroups over them.
    TREE = "v1beta1 with CompositePodGroup"


class Version(NamedTuple):
    """A version of a kind, and how its objects are written."""

    name: str
    generation: Generation


class Served(NamedTuple):
    """The generation to use, and the versions in which the cluster serves its kinds: of Workload and PodGroup, and of
    CompositePodGroup, None without trees.
    """

    generation: Generation
    version: str
    composites: str | None = None

    @property
    def kinds(self) -> tuple[Api, ...]:
        """The kinds of the gang objects, in order of creation."""
        found = [Api(GROUP, self.version, "Workload")]
        if self.composites is not None:
            found.append(Api(GROUP, self.composites, COMPOSITE.kind))
        if self.generation is not Generation.V1ALPHA1:
            found.append(Api(GROUP, self.version, "PodGroup"))
        return tuple(found)


# The versions of Workload and PodGroup, the preferred one first.
VERSIONS = (
    Version("v1beta1", Generation.V1BETA1),
    Version("v1alpha2", Generation.V1ALPHA2),
    Version("v1alpha1", Generation.V1ALPHA1),
)
# The versions of CompositePodGroup, the preferred one first. Its v1beta1 came with 1.38, with the fields of v1alpha3.
# Both are one kind of objects, and kube-scheduler 1.38 reads v1beta1.
COMPOSITE_VERSIONS = (
    Version("v1beta1", Generation.TREE),
    Version("v1alpha3", Generation.TREE),
)
# As 1.37 serves it, and as the first release that has a beta serves it.
COMPOSITE = Api(GROUP, "v1alpha3", "CompositePodGroup")
COMPOSITE_BETA = Api(GROUP, "v1beta1", COMPOSITE.kind)
_VERSIONS_OF = {"Workload": VERSIONS, "PodGroup": VERSIONS, COMPOSITE.kind: COMPOSITE_VERSIONS}

# From 1.37 on the priority class of a gang is in the group's own objects. When they are created, the API server's
# Priority plugin turns it into a number, as for pods.
CARRIES_CLASS = frozenset({Generation.V1BETA1, Generation.TREE})
# Of 1.36, and part of GenericWorkload from 1.37 on. While it is on, groups have a mode and a priority; while it is off,
# the API server drops both fields, and the pods' priority counts.
PREEMPTION_GATE = "WorkloadAwarePreemption"
# HighestUserDefinablePriority. With one of the system's own classes pods may exceed it, but groups only from 1.38 on.
HIGHEST = 1_000_000_000


def generation(settings: KubeSettings, apis: frozenset[Api] | None) -> Generation | None:
    """The generation to use; None if the cluster serves none, or if it is neither known nor stated."""
    found = served(settings, apis)
    return None if found is None else found.generation


def served(settings: KubeSettings, apis: frozenset[Api] | None) -> Served | None:
    """The generation to use, with its versions; None if the cluster serves none that Rollcall can write, or if it is
    neither known nor stated.
    """
    for version in (one for one in VERSIONS if settings.apiGeneration in {"auto", one.name}):
        if not known(apis):
            # The stated generation, as it is in the newest release.
            return None if settings.apiGeneration == "auto" else _with_trees(version, settings, COMPOSITE.version)
        if all(api in apis for api in Served(version.generation, version.name).kinds):
            names = (one.name for one in COMPOSITE_VERSIONS)
            trees = next((name for name in names if Api(GROUP, name, COMPOSITE.kind) in apis), None)
            # A gang without trees would be another gang.
            return None if trees is None and _newer(version, settings, apis) else _with_trees(version, settings, trees)
    return None


def unread(settings: KubeSettings, apis: frozenset[Api] | None) -> str | None:
    """What Rollcall would have to know, in words, if the cluster serves the Workload API only in versions that Rollcall
    has not read; None if it serves none, or one that Rollcall can write.
    """
    if not known(apis) or served(settings, apis) is not None:
        return None
    kinds = {"Workload", "PodGroup"} | ({COMPOSITE.kind} if _wants_trees(settings) else set())
    newer = sorted(f"{api.version} {api.kind}" for api in apis if api.kind in kinds and not _is_read(api))
    return _needed(f"{GROUP} {', '.join(newer)}") if newer else None


def unread_kind(api: Api) -> str | None:
    """What Rollcall would have to know to judge objects of the Workload API in that version; None if it knows it."""
    if api.group != GROUP or api.kind not in _VERSIONS_OF or _is_read(api):
        return None
    return _needed(f"{GROUP}/{api.version} {api.kind}")


def _is_read(api: Api) -> bool:
    """Whether this release has read a version of a kind of the Workload API."""
    # From 1.37 on Workloads and PodGroups are served in this version as well, with the fields of v1beta1.
    return api.version in {COMPOSITE.version, *(one.name for one in _VERSIONS_OF[api.kind])}


def _needed(what: str) -> str:
    return f"the fields of {what}, which this release of Rollcall has not read,"


# What each release serves of the Workload API with its feature gates on. 1.38 is not released yet.
RELEASES: Mapping[str, Served] = {
    "1.35": Served(Generation.V1ALPHA1, "v1alpha1"),
    "1.36": Served(Generation.V1ALPHA2, "v1alpha2"),
    "1.37": Served(Generation.TREE, "v1beta1", COMPOSITE.version),
    "1.38": Served(Generation.TREE, "v1beta1", COMPOSITE_BETA.version),
}


def is_assumed(settings: KubeSettings, facts: ClusterFacts) -> bool:
    """Whether what the cluster serves is that of the assumed release: nothing shows it, and the configuration states no
    other generation.
    """
    if facts.kubernetes is None or known(facts.apis):
        return False
    return settings.apiGeneration in {"auto", RELEASES[facts.kubernetes].version}


def workload_apis(settings: KubeSettings, facts: ClusterFacts) -> frozenset[Api] | None:
    """The kinds that the cluster serves, or that the assumed release does; None if neither is known."""
    if facts.kubernetes is None or not is_assumed(settings, facts):
        return facts.apis
    return frozenset((*(facts.apis or ()), *RELEASES[facts.kubernetes].kinds, Api(GROUP, "v1", "PriorityClass")))


def known(apis: frozenset[Api] | None) -> TypeGuard[frozenset[Api]]:
    """Whether `apis` shows which Workload API the cluster serves. Every cluster serves PriorityClass in this group. A
    list without the group was made from CRDs in files and does not show built-in kinds.
    """
    return apis is not None and any(api.group == GROUP for api in apis)


def _wants_trees(settings: KubeSettings) -> bool:
    if settings.hierarchical == "off":
        return False
    return settings.schedulerGates is None or "CompositePodGroup" in settings.schedulerGates


def _newer(version: Version, settings: KubeSettings, apis: frozenset[Api]) -> bool:
    """Whether trees would be used, and the cluster serves them in versions that are not read."""
    if version.generation is not Generation.V1BETA1 or not _wants_trees(settings):
        return False
    return any(api.group == GROUP and api.kind == COMPOSITE.kind and not _is_read(api) for api in apis)


def _with_trees(version: Version, settings: KubeSettings, composites: str | None) -> Served:
    if version.generation is not Generation.V1BETA1 or composites is None or not _wants_trees(settings):
        return Served(version.generation, version.name)
    return Served(Generation.TREE, version.name, composites)


def every_kind() -> tuple[Api, ...]:
    """The kinds of gang objects in all versions."""
    flat = (Served(one.generation, one.name) for one in VERSIONS)
    trees = (Served(Generation.TREE, VERSIONS[0].name, one.name) for one in COMPOSITE_VERSIONS)
    return tuple(dict.fromkeys(api for one in (*flat, *trees) for api in one.kinds))


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


def is_of_1_38(apis: frozenset[Api] | None) -> bool | None:
    """Whether the cluster is of Kubernetes 1.38 or newer; None if what it serves does not show that."""
    if not known(apis):
        return None
    if COMPOSITE_BETA in apis:
        return True
    # Without trees, 1.37 and 1.38 serve the same kinds.
    is_flat = COMPOSITE not in apis and Api(GROUP, VERSIONS[0].name, "Workload") in apis
    return None if is_flat else False


def class_problem(found: PriorityClass | None, apis: frozenset[Api] | None) -> str | None:
    """Why the API server would refuse a group with that class; None if it would not. If nothing shows that the cluster
    is of 1.38, a class of the system is refused: the pods of a gang whose groups are refused wait for ever.
    """
    if found is None:
        return "there is no such PriorityClass, so the API server would refuse the groups of the gang"
    if found.value > HIGHEST and is_of_1_38(apis) is not True:
        return f"its value is {found.value}, and before Kubernetes 1.38 the API server refuses groups above {HIGHEST}"
    return None
