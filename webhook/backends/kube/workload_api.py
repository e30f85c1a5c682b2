"""The Workload API: the configuration of the `default-scheduler` profile, the generation that the cluster serves,
decided by the kinds that it serves, the kinds that are judged, the names of Rollcall's own objects, and the disruption
mode of a gang.

Kinds decide, not versions, because PriorityClass is served under the same version names. kube-scheduler 1.37 reads
PodGroups through v1beta1 and CompositePodGroups through v1alpha3, and that of 1.38 reads all through v1beta1, so a
cluster that serves only v1alpha3 schedules neither. In 1.38 scheduling.k8s.io/v1 still has only PriorityClass.

In 1.35 a pod names a Workload and an entry of it; later it names a PodGroup. In 1.37 the PodGroup has the PodClique's
name, with and without trees, so switching `hierarchical` changes no name.

All groups of a gang have the same disruption mode, because a group below a group with mode `all` cannot have mode
`single`. The API server never lets the mode of an existing object change. 1.35 has no such field. While the gate
WorkloadAwarePreemption is off, 1.36 drops the field, and shows its default, `Pod`, in a PodGroup (seen).

Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37.2, 1.38.0-beta.0); KEP-5710.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard

from pydantic import BeforeValidator

from webhook.backends.base import BackendSettings, unquoted_off
from webhook.model.admission_request import CONTROLLER_MANAGER, JOB_CONTROLLER
from webhook.model.capabilities import (
    AUTO,
    CHOICES,
    SUPPORTED,
    Capability,
    CapabilityTable,
    Disruption,
    depends,
    needs_every_pod,
    unsupported,
)
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import JudgedKind
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record, cut_name, label_name, pod_group_name
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import Manifest, mapping, sequence
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


class KindVersion(NamedTuple):
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
        apis = [Api(GROUP, self.version, "Workload")]
        if self.composites is not None:
            apis.append(Api(GROUP, self.composites, COMPOSITE.kind))
        if self.generation is not Generation.V1ALPHA1:
            apis.append(Api(GROUP, self.version, "PodGroup"))
        return tuple(apis)


# The versions of Workload and PodGroup, the preferred one first.
VERSIONS = (
    KindVersion("v1beta1", Generation.V1BETA1),
    KindVersion("v1alpha2", Generation.V1ALPHA2),
    KindVersion("v1alpha1", Generation.V1ALPHA1),
)
# The versions of CompositePodGroup, the preferred one first. Its v1beta1 came with 1.38, with the fields of v1alpha3.
# Both are one kind of objects, and kube-scheduler 1.38 reads v1beta1.
COMPOSITE_VERSIONS = (KindVersion("v1beta1", Generation.TREE), KindVersion("v1alpha3", Generation.TREE))
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
    """Returns the generation to use; None if the cluster serves none, or if it is neither known nor stated."""
    versions = served(settings, apis)
    return None if versions is None else versions.generation


def served(settings: KubeSettings, apis: frozenset[Api] | None) -> Served | None:
    """Returns the generation to use, with its versions; None if the cluster serves none that Rollcall can write, or if
    it is neither known nor stated.
    """
    for version in (candidate for candidate in VERSIONS if settings.apiGeneration in {"auto", candidate.name}):
        if not shows_workload_api(apis):
            # The stated generation, as it is in the newest release.
            return None if settings.apiGeneration == "auto" else _tree_versions(version, settings, COMPOSITE.version)
        if all(api in apis for api in Served(version.generation, version.name).kinds):
            names = (candidate.name for candidate in COMPOSITE_VERSIONS)
            trees = next((name for name in names if Api(GROUP, name, COMPOSITE.kind) in apis), None)
            # A gang without trees would be another gang.
            return (
                None if trees is None and _newer(version, settings, apis) else _tree_versions(version, settings, trees)
            )
    return None


def unread(settings: KubeSettings, apis: frozenset[Api] | None) -> str | None:
    """Returns what Rollcall would have to know, in words, if the cluster serves the Workload API only in versions that
    Rollcall has not read; None if it serves none, or one that Rollcall can write.
    """
    if not shows_workload_api(apis) or served(settings, apis) is not None:
        return None
    kinds = {"Workload", "PodGroup"} | ({COMPOSITE.kind} if _wants_trees(settings) else set())
    newer = sorted(f"{api.version} {api.kind}" for api in apis if api.kind in kinds and not _is_read(api))
    return _needed(f"{GROUP} {', '.join(newer)}") if newer else None


def unread_kind(api: Api) -> str | None:
    """Returns what Rollcall would have to know to judge objects of the Workload API in that version; None if it knows
    it.
    """
    if api.group != GROUP or api.kind not in _VERSIONS_OF or _is_read(api):
        return None
    return _needed(f"{GROUP}/{api.version} {api.kind}")


def _is_read(api: Api) -> bool:
    # From 1.37 on Workloads and PodGroups are served in this version as well, with the fields of v1beta1.
    return api.version in {COMPOSITE.version, *(version.name for version in _VERSIONS_OF[api.kind])}


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
    """Returns whether what the cluster serves is that of the assumed release: nothing shows it, and the configuration
    states no other generation.
    """
    if facts.kubernetes is None or shows_workload_api(facts.apis):
        return False
    return settings.apiGeneration in {"auto", RELEASES[facts.kubernetes].version}


def workload_apis(settings: KubeSettings, facts: ClusterFacts) -> frozenset[Api] | None:
    """Returns the kinds that the cluster serves, or that the assumed release does; None if neither is known."""
    if facts.kubernetes is None or not is_assumed(settings, facts):
        return facts.apis
    return frozenset((*(facts.apis or ()), *RELEASES[facts.kubernetes].kinds, Api(GROUP, "v1", "PriorityClass")))


def shows_workload_api(apis: frozenset[Api] | None) -> TypeGuard[frozenset[Api]]:
    """Returns whether `apis` shows which Workload API the cluster serves. Every cluster serves PriorityClass in this
    group. A list without the group was made from CRDs in files and does not show built-in kinds.
    """
    return apis is not None and any(api.group == GROUP for api in apis)


def _wants_trees(settings: KubeSettings) -> bool:
    if settings.hierarchical == "off":
        return False
    return settings.schedulerGates is None or "CompositePodGroup" in settings.schedulerGates


def _newer(version: KindVersion, settings: KubeSettings, apis: frozenset[Api]) -> bool:
    """Returns whether trees would be used, and the cluster serves them in versions that are not read."""
    if version.generation is not Generation.V1BETA1 or not _wants_trees(settings):
        return False
    return any(api.group == GROUP and api.kind == COMPOSITE.kind and not _is_read(api) for api in apis)


def _tree_versions(version: KindVersion, settings: KubeSettings, composites: str | None) -> Served:
    if version.generation is not Generation.V1BETA1 or composites is None or not _wants_trees(settings):
        return Served(version.generation, version.name)
    return Served(Generation.TREE, version.name, composites)


def every_kind() -> tuple[Api, ...]:
    """Returns the kinds of gang objects in all versions."""
    flat = (Served(version.generation, version.name) for version in VERSIONS)
    trees = (Served(Generation.TREE, VERSIONS[0].name, version.name) for version in COMPOSITE_VERSIONS)
    return tuple(dict.fromkeys(api for versions in (*flat, *trees) for api in versions.kinds))


def missing(settings: KubeSettings) -> str:
    """Returns the kinds that the cluster would have to serve, in words."""
    version = "v1beta1" if settings.apiGeneration == "auto" else settings.apiGeneration
    pod_group = "" if version == "v1alpha1" else " and PodGroup"
    return f"{GROUP}/{version} Workload{pod_group}"


def may_carry_class(spoken: Generation, settings: KubeSettings) -> bool:
    """Returns whether groups get their priority class: in 1.36 unless the scheduler is known to ignore it."""
    gates = settings.schedulerGates
    ignored = gates is not None and PREEMPTION_GATE not in gates
    return spoken in CARRIES_CLASS or (spoken is Generation.V1ALPHA2 and not ignored)


def is_of_1_38(apis: frozenset[Api] | None) -> bool | None:
    """Returns whether the cluster is of Kubernetes 1.38 or newer; None if what it serves does not show that."""
    if not shows_workload_api(apis):
        return None
    if COMPOSITE_BETA in apis:
        return True
    # Without trees, 1.37 and 1.38 serve the same kinds.
    is_flat = COMPOSITE not in apis and Api(GROUP, VERSIONS[0].name, "Workload") in apis
    return None if is_flat else False


def class_problem(priority_class: PriorityClass | None, apis: frozenset[Api] | None) -> str | None:
    """Returns why the API server would refuse a group with that class; None if it would not. If nothing shows that the
    cluster is of 1.38, a class of the system is refused: the pods of a gang whose groups are refused wait for ever.
    """
    if priority_class is None:
        return "there is no such PriorityClass, so the API server would refuse the groups of the gang"
    value = priority_class.value
    if value > HIGHEST and is_of_1_38(apis) is not True:
        return f"its value is {value}, and before Kubernetes 1.38 the API server refuses groups above {HIGHEST}"
    return None


WORKLOADS = JudgedKind(GROUP, "Workload", "workloads")
POD_GROUPS = JudgedKind(GROUP, "PodGroup", "podgroups")
COMPOSITES = JudgedKind(GROUP, COMPOSITE.kind, "compositepodgroups")
GROUPS = (POD_GROUPS, COMPOSITES)

# The Job controller makes the Workload and the PodGroup of a Job (gate WorkloadWithJob, 1.36 and newer). Its user
# depends on kube-controller-manager's --use-service-account-credentials, which kubeadm sets. Source: k8s.io/kubernetes,
# pkg/controller/job/job_scheduling_manager.go (v1.36.3, v1.37.0).
CONTROLLERS = (JOB_CONTROLLER, CONTROLLER_MANAGER)

# Objects have DNS subdomain names.
OBJECT_LIMIT = 253
# The one template of a merged gang.
MERGED = "gang"
ROOT = "root"
# The end of the name of every composite, and of no PodGroup. kube-scheduler 1.37 keeps both by name, so it never places
# a PodGroup that has the name of a composite (seen); PodCliques and Jobs may have the name of any gang.
COMPOSITE_SUFFIX = ".composite"
_ROOM = OBJECT_LIMIT - len(COMPOSITE_SUFFIX)


def pod_group(podgang: str, podclique: str, generation: Generation, *, merged: bool, divided: bool = False) -> str:
    """Returns the name of the PodGroup for one member of a PodGang, or for all its members if they are merged.
    `divided` means that other PodGangs have pods of the PodClique.
    """
    if merged:
        name = cut_name(podgang, OBJECT_LIMIT)
    elif generation is Generation.V1ALPHA2:
        name = pod_group_name(podgang, podclique, OBJECT_LIMIT)
    else:
        name = cut_name(f"{podgang}-{podclique}" if divided else podclique, OBJECT_LIMIT)
    return cut_name(f"{name}-pods", OBJECT_LIMIT) if is_composite(name) else name


def template(name: str, kind: str = "leaf", taken: Iterable[str] = ()) -> str:
    """Returns the name of a template: the member's own if that is a DNS label and not in `taken`, else a hash."""
    return label_name(name, kind, taken=(ROOT, *taken))


def workload(podgang: str) -> str:
    return cut_name(podgang, OBJECT_LIMIT)


def root(podgang: str) -> str:
    """Returns the name of the composite over the whole gang."""
    return _composite(podgang)


def composite(podgang: str, config: str) -> str:
    """Returns the name of a composite below the root. The prefix is always kept: a scaled PodGang may have the name of
    `config`.
    """
    return _composite(f"{podgang}-{config}")


def _composite(name: str) -> str:
    return f"{cut_name(name, _ROOM)}{COMPOSITE_SUFFIX}"


def is_composite(name: str) -> bool:
    """Returns whether Rollcall gives this name to composites, and to no PodGroup."""
    return name.endswith(COMPOSITE_SUFFIX)


ONE_BY_ONE: CapabilityTable = {
    Capability.GANG: unsupported(
        why="gangScheduling is off in the profile, so no gang is made and the pods start one by one",
        remedy="turn it on (Kubernetes 1.35 or newer), or choose a gang scheduler",
    ),
    Capability.RESOURCE_CLAIMS: SUPPORTED,
}

_ON_TREES = depends("CompositePodGroup, in Kubernetes 1.37 or newer with its feature gates on")
GANGS: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: _ON_TREES,
    Capability.CLIQUE_MINIMUM: depends("CompositePodGroup, or a gang of one clique"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.TOPOLOGY_WORKLOAD: _ON_TREES,
    Capability.TOPOLOGY_SCALING_GROUP: _ON_TREES,
    Capability.TOPOLOGY_CLIQUE: _ON_TREES,
    Capability.TOPOLOGY_DIVERGENT: _ON_TREES,
    Capability.TOPOLOGY_PREFERRED: unsupported(
        why="the Workload API supports only required topology, not preferred topology",
        remedy="remove the preference, or require the domain",
    ),
    Capability.MULTI_NODE_NVLINK: unsupported(
        why="kube-scheduler does not keep a multi-node NVLink group inside one NVLink domain",
        remedy='set "grove.io/mnnvl-group": "none" on the clique, or choose another scheduler',
    ),
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.PRIORITY_CLASS: SUPPORTED,
}


def capabilities(settings: KubeSettings) -> CapabilityTable:
    return GANGS if settings.gangScheduling else ONE_BY_ONE


FIELD = "disruptionMode"
TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
# The values of 1.36.
_OF_1_36 = {Disruption.SINGLE: "Pod", Disruption.ALL: "PodGroup"}


def mode_of(podgang: PodGang, record: Record, settings: KubeSettings) -> Disruption:
    """Returns the mode of a new gang: the workload's choice, else the profile's. An unknown choice counts as none."""
    choice = record.disruption
    if choice is None or choice not in CHOICES:
        choice = settings.disruptionMode
    if choice != AUTO:
        return Disruption(choice)
    return Disruption.ALL if needs_every_pod(podgang, record) else Disruption.SINGLE


def mode_field(mode: Disruption, spoken: Generation) -> Manifest:
    """Returns the field of a group or template in a generation; nothing in 1.35."""
    if spoken is Generation.V1ALPHA1:
        return {}
    return {FIELD: _OF_1_36[mode] if spoken is Generation.V1ALPHA2 else {mode.value: {}}}


def stated_mode(spec: Mapping[str, Any]) -> Disruption | None:
    """Returns the mode that a group or template states in any generation; None if it states none. Raises
    `Malformed`.
    """
    stated = spec.get(FIELD)
    if stated is None:
        return None
    together = stated == _OF_1_36[Disruption.ALL] if isinstance(stated, str) else mapping(stated).get("all") is not None
    return Disruption.ALL if together else Disruption.SINGLE


def is_written_for(value: Any, *, of_1_37: bool) -> bool:
    """Returns whether an API server of that version accepts a value of the field."""
    if not of_1_37:
        return value in _OF_1_36.values()
    return value in [{mode.value: {}} for mode in Disruption]


def keep_mode(spec: Manifest, live: Mapping[str, Any]) -> Manifest:
    """Returns `spec` with the mode of the existing object or template `live`, even if that has none. Raises
    `Malformed`.
    """
    rest = {key: value for key, value in spec.items() if key != FIELD}
    return rest if stated_mode(live) is None else {**rest, FIELD: live[FIELD]}


def settled(desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
    """Returns `desired` with the mode of the gang's existing objects, also for those that are missing. Raises
    `Malformed`.
    """
    first = next(iter([*_groups(live), *_templates(live)]), None)
    if first is None:
        return list(desired)
    # A group has the mode in its spec, a Workload in all its templates.
    return [
        {**manifest, "spec": (_set_modes if manifest["kind"] == "Workload" else keep_mode)(manifest["spec"], first)}
        for manifest in desired
    ]


def mode_in(objects: Sequence[Manifest]) -> Disruption | None:
    """Returns the mode that the groups of a gang state; None if there is none. Raises `Malformed`."""
    return next((mode for spec in _groups(objects) if (mode := stated_mode(spec)) is not None), None)


def _groups(objects: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    return [mapping(manifest.get("spec")) for manifest in objects if manifest["kind"] != "Workload"]


def _templates(objects: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    specs = [mapping(manifest.get("spec")) for manifest in objects if manifest["kind"] == "Workload"]
    return [mapping(entry) for spec in specs for field in TEMPLATES for entry in sequence(spec.get(field))]


def _set_modes(holder: Manifest, live: Mapping[str, Any]) -> Manifest:
    changed = {
        field: [keep_mode(_set_modes(entry, live), live) for entry in holder[field]]
        for field in TEMPLATES
        if field in holder
    }
    return {**holder, **changed}
