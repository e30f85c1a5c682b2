"""The facts that kube-scheduler's rules read of the Workload API's objects, in each of its generations.

Each reader reads the fields of all generations, because the first reader of a kind reads all its documents in files. No
field has two meanings. Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from webhook.backends.kube import disruption
from webhook.backends.kube.generation import COMPOSITE, COMPOSITE_VERSIONS, GROUP, VERSIONS, Generation
from webhook.backends.kube.keys import COMPOSITES, POD_GROUPS, WORKLOADS
from webhook.model.bounds import name_text
from webhook.model.disruption import Disruption
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.group_pods import GroupPod, GroupPods, waits
from webhook.model.group_tree import MAX_DEPTH, Group, Groups, Trees, Workload
from webhook.model.keys import Api, ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.shared_claims import MAX_CLAIMS, claims_in
from webhook.validators.selection import DEFAULT_SCHEDULER

# The lists that contain templates, and whether the templates are composites: first 1.35's lists, then the later ones.
_LISTS = {"podGroups": False, "podGroupTemplates": False, "compositePodGroupTemplates": True}
PARENT = "parentCompositePodGroupName"
# The groups of groups, which exist since 1.37, in each version of them.
TREES = tuple(
    Trees(Resource(Api(GROUP, version.name, COMPOSITE.kind), COMPOSITES.plural), PARENT)
    for version in COMPOSITE_VERSIONS
)


class Template(NamedTuple):
    """A template of a Workload, its path, and its spec as written."""

    name: str
    path: FieldPath
    group: Group
    spec: Mapping[str, Any]


def templates_in(spec: Mapping[str, Any]) -> Iterator[Template]:
    """Every template of a Workload's spec; a composite comes before its contents. Raises `Malformed`."""
    # A work list instead of recursion: other authors decide how deep templates are nested.
    holders: list[tuple[Mapping[str, Any], FieldPath, str | None]] = [(spec, SPEC, None)]
    while holders:
        holder, place, parent = holders.pop()
        for field, composite in _LISTS.items():
            for index, entry in enumerate(sequence(holder.get(field))):
                found = mapping(entry)
                name = text(found.get("name")) or ""
                path = place / field / Item(index, name)
                yield Template(name, path, group_in(found, composite=composite, parent=parent), found)
                if composite:
                    holders.append((found, path, name))


def group_in(spec: Mapping[str, Any], *, composite: bool, parent: str | None = None) -> Group:
    """A group from the spec of a PodGroup or CompositePodGroup, or from a template. Raises `Malformed`."""
    return Group(
        composite=composite,
        minimum=minimum_in(spec, composite=composite),
        parent=parent or text(spec.get(PARENT)),
        workload=text(_reference_in(spec).get("workloadName")),
        template=template_in(spec),
        disruption=disruption.read(spec) or Disruption.SINGLE,
        topology=topology_in(spec),
        priority_class=text(spec.get("priorityClassName")),
        priority=integer(spec.get("priority")),
        preemption=name_text(spec.get("preemptionPolicy")),
        claims=tuple(islice(claims_in(spec), MAX_CLAIMS)),
    )


def template_in(spec: Mapping[str, Any]) -> str | None:
    """The name of the template that a PodGroup or CompositePodGroup names. Raises `Malformed`."""
    reference = _reference_in(spec)
    return text(reference.get("templateName")) or text(reference.get("podGroupTemplateName"))


def _reference_in(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference of a group to its Workload, which has another form in 1.36."""
    return mapping(spec.get("workloadRef")) or mapping(mapping(spec.get("podGroupTemplateRef")).get("workload"))


def minimum_in(spec: Mapping[str, Any], *, composite: bool) -> int | None:
    """The minimum of a gang; None for a group that is not a gang. Raises `Malformed`."""
    policy = mapping(spec.get("schedulingPolicy")) or mapping(spec.get("policy"))
    return integer(mapping(policy.get("gang")).get("minGroupCount" if composite else "minCount"))


def topology_in(spec: Mapping[str, Any]) -> str | None:
    """The node label key of a group's topology; a group has at most one. Raises `Malformed`."""
    constraints = sequence(mapping(spec.get("schedulingConstraints")).get("topology"))
    return text(mapping(constraints[0]).get("key")) if constraints else None


class Membership(NamedTuple):
    """The group that a pod names. In the first generation it is an entry of a Workload, and `replica` separates gangs
    with the same entry.
    """

    group: str
    workload: str | None = None
    replica: str | None = None


def membership_of(spec: Mapping[str, Any]) -> Membership | None:
    """The group that a pod's spec names; None if it names none. Raises `Malformed`."""
    group = text(mapping(spec.get("schedulingGroup")).get("podGroupName"))
    if group is not None:
        return Membership(group)
    reference = mapping(spec.get("workloadRef"))
    group, workload = text(reference.get("podGroup")), text(reference.get("name"))
    if group is None or workload is None:
        return None
    return Membership(group, workload, text(reference.get("podGroupReplicaKey")))


def read_workload(raw: Manifest) -> tuple[ObjectKey, Workload]:
    """A Workload of any generation. Raises `Malformed`."""
    return key_of(raw), Workload({found.name: found.group for found in templates_in(mapping(raw.get("spec")))})


def read_pod_group(raw: Manifest) -> tuple[ObjectKey, Group]:
    """A PodGroup of 1.36 or later. Raises `Malformed`."""
    return key_of(raw), group_in(mapping(raw.get("spec")), composite=False)


def read_composite_pod_group(raw: Manifest) -> tuple[ObjectKey, Group]:
    """A CompositePodGroup. Raises `Malformed`."""
    return key_of(raw), group_in(mapping(raw.get("spec")), composite=True)


def read_group_pod(raw: Manifest) -> tuple[ObjectKey, GroupPod] | None:
    """The group and scheduler of a pod that waits for a node and names a group; None for any other pod. Raises
    `Malformed`.
    """
    spec = mapping(raw.get("spec"))
    group = membership_of(spec)
    # In a file a pod may have no name yet: the cluster gives it one.
    if group is None or not waits(raw) or text(mapping(raw.get("metadata")).get("name")) is None:
        return None
    key = key_of(raw)
    return key, GroupPod((key[0], group), scheduler_of(spec))


def scheduler_of(spec: Mapping[str, Any]) -> str:
    """The scheduler that a pod's spec names. The API server accepts a name of any length. Raises `Malformed`."""
    return name_text(spec.get("schedulerName")) or DEFAULT_SCHEDULER


GROUP_PODS = Projection(
    "group_pods",
    PODS,
    read_group_pod,
    GroupPods,
    for_objects=True,
    # Pods on nodes are most of a cluster's pods. A pod that is bound leaves this watch as if it were deleted.
    field_selector="spec.nodeName=",
    # Only one rule needs these pods. A server without the right to read them (for example after upgrading only the
    # server) still has the other facts.
    awaited=False,
    fields=(
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "spec.schedulerName",
        "spec.schedulingGroup",
        "spec.workloadRef",
        "status.phase",
    ),
)
# What `rollcall facts` writes: these objects name groups, minimums and topology keys, and nothing else.
_OF_WORKLOADS = tuple(f"spec.{field}" for field in _LISTS)
_OF_GROUPS = tuple(
    f"spec.{field}"
    for field in (
        "disruptionMode",
        "parentCompositePodGroupName",
        "podGroupTemplateRef",
        "policy",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "resourceClaims",
        "schedulingConstraints",
        "schedulingPolicy",
        "workloadRef",
    )
)
# The versions of which files are understood.
_READ = frozenset(one.name for one in (*VERSIONS, *COMPOSITE_VERSIONS))
# In each generation a gang has one Workload.
WORKLOADS_OF_GANGS = tuple(Resource(Api(GROUP, version.name, WORKLOADS.kind), WORKLOADS.plural) for version in VERSIONS)
# In each generation but the first a pod names a PodGroup.
POD_GROUPS_OF_GANGS = tuple(
    Resource(Api(GROUP, version.name, "PodGroup"), "podgroups")
    for version in VERSIONS
    if version.generation is not Generation.V1ALPHA1
)
PROJECTIONS = (
    *(
        Projection("workloads", resource, read_workload, for_objects=True, fields=_OF_WORKLOADS, versions=_READ)
        for resource in WORKLOADS_OF_GANGS
    ),
    *(
        Projection(
            "pod_groups",
            resource,
            read_pod_group,
            Groups,
            for_objects=True,
            fields=_OF_GROUPS,
            versions=_READ,
        )
        for resource in POD_GROUPS_OF_GANGS
    ),
    *(
        Projection(
            "composite_pod_groups",
            trees.resource,
            read_composite_pod_group,
            Groups,
            for_objects=True,
            fields=_OF_GROUPS,
            versions=_READ,
        )
        for trees in TREES
    ),
    GROUP_PODS,
)

_POLICY: dict[str, Any] = {"gang": {"minCount": int, "minGroupCount": int}}
_GROUP: dict[str, Any] = {
    "parentCompositePodGroupName": str,
    "workloadRef": {"workloadName": str, "templateName": str},
    "podGroupTemplateRef": {"workload": {"workloadName": str, "podGroupTemplateName": str}},
    "schedulingPolicy": _POLICY,
    "policy": _POLICY,
    "schedulingConstraints": {"topology": [{"key": str}]},
    # A string in 1.36, and an object since.
    disruption.FIELD: (str, dict),
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
}


def _templates(levels: int) -> dict[str, Any]:
    """The lists of templates, as deep as a Workload may nest them. Deeper lists have no path."""
    template = {"name": str, **_GROUP}
    below = _templates(levels - 1) if levels else {}
    return {"podGroupTemplates": [template], "compositePodGroupTemplates": [{**template, **below}]}


# The fields that are read of the Workload API's objects stored by other authors, with the type of each field.
# The fields of all generations.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    WORKLOADS[:2]: {"spec": {"podGroups": [{"name": str, **_GROUP}], **_templates(MAX_DEPTH)}},
    POD_GROUPS[:2]: {"spec": _GROUP},
    COMPOSITES[:2]: {"spec": _GROUP},
}
