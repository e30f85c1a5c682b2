"""Stored groups of the Workload API: the facts that kube-scheduler's rules read in each generation, a group's
template, neighbours in its tree and priority, the objects that rules show as examples, and what the API server refuses
in a single group by the schemas.

Each reader reads the fields of all generations, because the first reader of a kind reads all its documents in files.
No field has two meanings. In a cluster the API server refuses wrong schemas before a validating webhook sees them, so
the rule about them is for files.

Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from webhook.backends.kube import workload_api
from webhook.backends.kube.workload_api import (
    COMPOSITE,
    COMPOSITE_BETA,
    COMPOSITE_VERSIONS,
    COMPOSITES,
    GROUP,
    GROUPS,
    HIGHEST,
    POD_GROUPS,
    VERSIONS,
    WORKLOADS,
    Generation,
    RuleContext,
    is_of_1_38,
    workload_apis,
)
from webhook.model import pod_groups
from webhook.model.bounds import name_text
from webhook.model.capabilities import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.gang_objects import StoredObject
from webhook.model.keys import Api, Needed, ObjectKey, is_key, is_label, is_subdomain
from webhook.model.known_kinds import PODS
from webhook.model.known_objects import PriorityClass, TopologyBinding
from webhook.model.pod_template import MAX_CLAIMS, claims_in
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, integer, is_unrendered, mapping, sequence, text
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Example, Results, rule

# The lists that contain templates, and whether the templates are composites: first 1.35's lists, then the later ones.
_LISTS = {"podGroups": False, "podGroupTemplates": False, "compositePodGroupTemplates": True}
PARENT = "parentCompositePodGroupName"
# The groups of groups, which exist since 1.37, in each version of them.
TREES = tuple(
    pod_groups.Trees(Resource(Api(GROUP, version.name, COMPOSITE.kind), COMPOSITES.plural), PARENT)
    for version in COMPOSITE_VERSIONS
)


class Template(NamedTuple):
    """A template of a Workload, its path, and its spec as written."""

    name: str
    path: FieldPath
    group: pod_groups.TreeGroup
    spec: Mapping[str, Any]


def templates_in(spec: Mapping[str, Any]) -> Iterator[Template]:
    """Yields every template of a Workload's spec; a composite comes before its contents. Raises `Malformed`."""
    # A work list instead of recursion: other authors decide how deep templates are nested.
    holders: list[tuple[Mapping[str, Any], FieldPath, str | None]] = [(spec, SPEC, None)]
    while holders:
        holder, place, parent = holders.pop()
        for field, composite in _LISTS.items():
            for index, entry in enumerate(sequence(holder.get(field))):
                template = mapping(entry)
                name = text(template.get("name")) or ""
                path = place / field / Item(index, name)
                yield Template(name, path, group_in(template, composite=composite, parent=parent), template)
                if composite:
                    holders.append((template, path, name))


def group_in(spec: Mapping[str, Any], *, composite: bool, parent: str | None = None) -> pod_groups.TreeGroup:
    """Returns a group from the spec of a PodGroup or CompositePodGroup, or from a template. Raises `Malformed`."""
    return pod_groups.TreeGroup(
        composite=composite,
        minimum=minimum_in(spec, composite=composite),
        parent=parent or text(spec.get(PARENT)),
        workload=text(_reference_in(spec).get("workloadName")),
        template=template_in(spec),
        disruption=workload_api.stated_mode(spec) or Disruption.SINGLE,
        topology=topology_in(spec),
        priority_class=text(spec.get("priorityClassName")),
        priority=integer(spec.get("priority")),
        preemption=name_text(spec.get("preemptionPolicy")),
        claims=tuple(islice(claims_in(spec), MAX_CLAIMS)),
    )


def template_in(spec: Mapping[str, Any]) -> str | None:
    """Returns the name of the template that a PodGroup or CompositePodGroup names. Raises `Malformed`."""
    reference = _reference_in(spec)
    return text(reference.get("templateName")) or text(reference.get("podGroupTemplateName"))


def _reference_in(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(spec.get("workloadRef")) or mapping(mapping(spec.get("podGroupTemplateRef")).get("workload"))


def minimum_in(spec: Mapping[str, Any], *, composite: bool) -> int | None:
    """Returns the minimum of a gang; None for a group that is not a gang. Raises `Malformed`."""
    policy = mapping(spec.get("schedulingPolicy")) or mapping(spec.get("policy"))
    return integer(mapping(policy.get("gang")).get("minGroupCount" if composite else "minCount"))


def topology_in(spec: Mapping[str, Any]) -> str | None:
    """Returns the node label key of a group's topology; a group has at most one. Raises `Malformed`."""
    constraints = sequence(mapping(spec.get("schedulingConstraints")).get("topology"))
    return text(mapping(constraints[0]).get("key")) if constraints else None


class GroupMembership(NamedTuple):
    """The group that a pod names. In the first generation it is an entry of a Workload, and `replica` separates gangs
    with the same entry.
    """

    group: str
    workload: str | None = None
    replica: str | None = None


def membership_of(spec: Mapping[str, Any]) -> GroupMembership | None:
    """Returns the group that a pod's spec names; None if it names none. Raises `Malformed`."""
    group = text(mapping(spec.get("schedulingGroup")).get("podGroupName"))
    if group is not None:
        return GroupMembership(group)
    reference = mapping(spec.get("workloadRef"))
    group, workload = text(reference.get("podGroup")), text(reference.get("name"))
    if group is None or workload is None:
        return None
    return GroupMembership(group, workload, text(reference.get("podGroupReplicaKey")))


def read_workload(raw: Manifest) -> tuple[ObjectKey, pod_groups.WorkloadTemplates]:
    """Returns a Workload of any generation. Raises `Malformed`."""
    key, templates = key_of(raw), templates_in(mapping(raw.get("spec")))
    return key, pod_groups.WorkloadTemplates({template.name: template.group for template in templates})


def read_pod_group(raw: Manifest) -> tuple[ObjectKey, pod_groups.TreeGroup]:
    """Returns a PodGroup of 1.36 or later. Raises `Malformed`."""
    return key_of(raw), group_in(mapping(raw.get("spec")), composite=False)


def read_composite_pod_group(raw: Manifest) -> tuple[ObjectKey, pod_groups.TreeGroup]:
    """Returns a CompositePodGroup. Raises `Malformed`."""
    return key_of(raw), group_in(mapping(raw.get("spec")), composite=True)


def read_group_pod(raw: Manifest) -> tuple[ObjectKey, pod_groups.GroupPod] | None:
    """Returns the group and scheduler of a pod that waits for a node and names a group; None for any other pod. Raises
    `Malformed`.
    """
    spec = mapping(raw.get("spec"))
    group = membership_of(spec)
    # In a file a pod may have no name yet: the cluster gives it one.
    if group is None or not pod_groups.waits(raw) or text(mapping(raw.get("metadata")).get("name")) is None:
        return None
    key = key_of(raw)
    return key, pod_groups.GroupPod((key[0], group), scheduler_of(spec))


def scheduler_of(spec: Mapping[str, Any]) -> str:
    """Returns the scheduler that a pod's spec names. The API server accepts a name of any length. Raises
    `Malformed`.
    """
    return name_text(spec.get("schedulerName")) or DEFAULT_SCHEDULER


GROUP_PODS = Projection(
    "group_pods",
    PODS,
    read_group_pod,
    pod_groups.GroupPods,
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
_READ = frozenset(version.name for version in (*VERSIONS, *COMPOSITE_VERSIONS))
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
            pod_groups.Groups,
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
            pod_groups.Groups,
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
    workload_api.FIELD: (str, dict),
    "priorityClassName": str,
    "priority": int,
    "preemptionPolicy": str,
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
}


def _templates(levels: int) -> dict[str, Any]:
    """Returns the lists of templates, as deep as a Workload may nest them. Deeper lists have no path."""
    template = {"name": str, **_GROUP}
    below = _templates(levels - 1) if levels else {}
    return {"podGroupTemplates": [template], "compositePodGroupTemplates": [{**template, **below}]}


# The fields that are read of the Workload API's objects stored by other authors, with the type of each field.
# The fields of all generations.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    WORKLOADS[:2]: {"spec": {"podGroups": [{"name": str, **_GROUP}], **_templates(pod_groups.MAX_DEPTH)}},
    POD_GROUPS[:2]: {"spec": _GROUP},
    COMPOSITES[:2]: {"spec": _GROUP},
}

# At most this many groups directly below a new group are checked. Ordinary trees have fewer.
MOST_BELOW = 32

PARENT_PATH = SPEC / PARENT
# The policy of pods and groups without a PriorityClass that says otherwise.
PREEMPTS = "PreemptLowerPriority"
REFERENCE = SPEC / "workloadRef"


def group_of(stored: StoredObject) -> pod_groups.TreeGroup:
    """Returns the PodGroup or CompositePodGroup that is judged. Raises `Malformed`."""
    return group_in(stored.spec, composite=stored.kind == COMPOSITES.kind)


def pod_group_of(pod: StoredObject, facts: ClusterFacts) -> tuple[ObjectKey, pod_groups.TreeGroup | None]:
    """Returns the key of the PodGroup that a pod names, and the PodGroup if it is known. Raises `Malformed`."""
    key = (pod.key[0], text(mapping(pod.spec.get("schedulingGroup")).get("podGroupName")) or "")
    return key, None if facts.pod_groups is None else facts.pod_groups.get(key)


def is_of_1_37(stored: StoredObject) -> bool:
    """Returns whether an object is of the generation that has trees. The API server of that generation looks up no
    Workload.
    """
    return stored.version not in {"v1alpha1", "v1alpha2"}


def is_refused(stored: StoredObject, context: RuleContext) -> bool:
    """Returns whether what only 1.38 refuses is refused: the cluster, or the version of the object, is of 1.38 or
    newer.
    """
    return bool(is_of_1_38(workload_apis(context.settings, context.facts))) or (
        stored.kind == COMPOSITES.kind and stored.version == COMPOSITE_BETA.version
    )


def strongest_action(stored: StoredObject, context: RuleContext) -> Action:
    """Returns the strongest action for what only 1.38 refuses: before it, and in an unknown release, a warning."""
    return Action.DENY if is_refused(stored, context) else Action.WARN


def workload_key(stored: StoredObject, group: pod_groups.TreeGroup) -> ObjectKey | None:
    return None if group.workload is None else (stored.key[0], group.workload)


class DeclaredTemplate(NamedTuple):
    """The template that a group names, its Workload, and the fact that says so."""

    workload: pod_groups.WorkloadTemplates
    group: pod_groups.TreeGroup
    needed: Needed


def template_of(stored: StoredObject, group: pod_groups.TreeGroup, facts: ClusterFacts) -> DeclaredTemplate | None:
    """Returns the template that a group names, if it is known and of the group's kind."""
    key = workload_key(stored, group)
    workload = None if key is None else (facts.workloads or {}).get(key)
    if key is None or workload is None or group.template is None:
        return None
    template = workload.templates.get(group.template)
    if template is None or template.composite != group.composite:
        return None
    return DeclaredTemplate(workload, template, Needed("workloads", key))


# The ancestors of a group, nearest first.
Chain = list[tuple[ObjectKey, pod_groups.TreeGroup]]


def known_ancestors(stored: StoredObject, group: pod_groups.TreeGroup, context: RuleContext) -> Chain:
    """Returns the known ancestors of the judged group; in a cycle they include the group itself."""
    return list(pod_groups.ancestors(stored.key, group, context.facts.composite_pod_groups or {}))


class GroupNeighbour(NamedTuple):
    """A group directly above or directly below the judged group."""

    # Its description in messages: "CompositePodGroup demo above it".
    called: str
    above: bool
    group: pod_groups.TreeGroup
    needed: Needed


def parent_of(stored: StoredObject, group: pod_groups.TreeGroup, facts: ClusterFacts) -> GroupNeighbour | None:
    """Returns the parent of a group; None if it is unknown or is the group itself."""
    key = (stored.key[0], group.parent or "")
    parent = None if facts.composite_pod_groups is None else facts.composite_pod_groups.get(key)
    if parent is None or (group.composite and key == stored.key):
        return None
    return GroupNeighbour(f"{COMPOSITES.kind} {key[1]} above it", True, parent, Needed("composite_pod_groups", key))


def neighbours(stored: StoredObject, group: pod_groups.TreeGroup, facts: ClusterFacts) -> Iterator[GroupNeighbour]:
    """Yields the known parent of a group, then its known children, up to a limit."""
    parent = parent_of(stored, group, facts)
    if parent is not None:
        yield parent
    if not group.composite:
        return
    for part, kind in (("composite_pod_groups", COMPOSITES.kind), ("pod_groups", POD_GROUPS.kind)):
        groups = getattr(facts, part)
        for key in islice(groups.below(stored.key) if groups is not None else (), MOST_BELOW):
            if key != stored.key or kind != stored.kind:
                yield GroupNeighbour(f"{kind} {key[1]} below it", False, groups[key], Needed(part, key))


def groups_of_tree(key: ObjectKey, facts: ClusterFacts) -> Iterator[ObjectKey]:
    """Yields the known PodGroups in the tree of a PodGroup, up to a limit."""
    groups, composites = facts.pod_groups, facts.composite_pod_groups
    group = None if groups is None else groups.get(key)
    if groups is None or composites is None or group is None:
        return
    waiting, left = [above for above, _ in pod_groups.ancestors(key, group, composites)][-1:], MOST_BELOW
    while waiting:
        place = waiting.pop()
        for below in islice(groups.below(place), left):
            left -= 1
            yield below
        children = list(islice(composites.below(place), left))
        left -= len(children)
        waiting += children


def priority_of(group: pod_groups.TreeGroup, facts: ClusterFacts) -> int | None:
    """Returns the priority that the API server gives, or gave, a group; None if it is unknown."""
    return resolved_priority(group.priority, group.priority_class, facts)


def resolved_priority(priority: int | None, name: str | None, facts: ClusterFacts) -> int | None:
    """Returns the priority for this class name. `priority` is the number that a stored object already has and wins;
    without a class, the default class counts.
    """
    classes = facts.priority_classes
    if priority is not None or classes is None:
        return priority
    if name is not None:
        priority_class = classes.get(name)
        return None if priority_class is None else priority_class.value
    if not facts.is_whole("priority_classes"):
        return None
    # If there are several, the API server uses the lowest.
    return min((priority_class.value for priority_class in classes.values() if priority_class.is_default), default=0)


def policy_of(group: pod_groups.TreeGroup, facts: ClusterFacts) -> str | None:
    """Returns the preemption policy of a group: its own, else that of its class; None if it is unknown."""
    return group.preemption or class_policy(group.priority_class, facts)


def class_policy(name: str | None, facts: ClusterFacts) -> str | None:
    """Returns the preemption policy that the API server takes from this class; without a name, from the default
    class.
    """
    classes = facts.priority_classes
    if classes is None:
        return None
    if name is not None:
        priority_class = classes.get(name)
        return None if priority_class is None else priority_class.preemption_policy
    if not facts.is_whole("priority_classes"):
        return None
    defaults = (priority_class for priority_class in classes.values() if priority_class.is_default)
    default = min(defaults, key=attrgetter("value"), default=None)
    return PREEMPTS if default is None else default.preemption_policy


def is_wider(key: str, than: str, bindings: Mapping[str, TopologyBinding]) -> bool:
    """Returns whether the domains of `key` contain those of `than` in one topology: its levels are listed broadest
    first.
    """
    topologies = (list(binding.keys.values()) for binding in bindings.values())
    return any(key in keys and than in keys and keys.index(key) < keys.index(than) for keys in topologies)


def shown_policy(group: pod_groups.TreeGroup) -> Any:
    return "basic" if group.minimum is None else group.minimum


def policy_path(place: FieldPath, group: pod_groups.TreeGroup) -> FieldPath:
    return place / "schedulingPolicy" / "gang" / ("minGroupCount" if group.composite else "minCount")


def topology_path(place: FieldPath) -> FieldPath:
    return place / "schedulingConstraints" / "topology" / Item(0) / "key"


ON = {"gangScheduling": True}
NAMESPACE = "default"
ALL: Manifest = {"disruptionMode": {"all": {}}}
BASIC: Manifest = {"schedulingPolicy": {"basic": {}}}


def pod_group(name: str = "worker", *, minimum: int = 2, version: str = "v1beta1", **spec: Any) -> Manifest:
    """Returns a PodGroup; keywords go into its spec."""
    return _object("PodGroup", version, name, {"schedulingPolicy": {"gang": {"minCount": minimum}}, **spec})


def composite(name: str = "root", *, minimum: int = 1, template: str = "root", **spec: Any) -> Manifest:
    """Returns a CompositePodGroup of the Workload `demo`; keywords go into its spec."""
    policy = {"gang": {"minGroupCount": minimum}}
    return _object(
        "CompositePodGroup", "v1alpha3", name, {**template_reference(template), "schedulingPolicy": policy, **spec}
    )


def workload(*templates: Manifest, version: str = "v1beta1", **spec: Any) -> Manifest:
    """Returns a Workload `demo` with these templates of CompositePodGroups; keywords go into its spec."""
    trees = {"compositePodGroupTemplates": list(templates)} if templates else {}
    return _object("Workload", version, "demo", {**trees, **spec})


def leaf(name: str = "worker", *, minimum: int = 2, **fields: Any) -> Manifest:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": minimum}}, **fields}


def branch(name: str, *leaves: Manifest, minimum: int = 1, **fields: Any) -> Manifest:
    """Returns a template of a CompositePodGroup with these templates below it."""
    policy = {"gang": {"minGroupCount": minimum}}
    return {"name": name, "schedulingPolicy": policy, "podGroupTemplates": list(leaves), **fields}


def member(group: str = "worker", **spec: Any) -> Manifest:
    """Returns a pod of a PodGroup; keywords go into its spec."""
    return pod(schedulingGroup={"podGroupName": group}, **spec)


def pod(**spec: Any) -> Manifest:
    """Returns a pod that is not Grove's."""
    body = {"containers": [{"name": "main", "image": "example.com/main"}], **spec}
    return _object("Pod", "", "worker-0", body) | {"apiVersion": "v1"}


def template_reference(template: str, workload: str = "demo") -> Manifest:
    return {"workloadRef": {"workloadName": workload, "templateName": template}}


def parent_fields(parent: str, template: str = "worker") -> Manifest:
    return {"parentCompositePodGroupName": parent, **template_reference(template)}


def topology_constraint(key: str) -> Manifest:
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def _object(kind: str, version: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def root(template: str = "root", **fields: Any) -> pod_groups.TreeGroup:
    """Returns the facts about a CompositePodGroup made from a template of `demo`."""
    return pod_groups.TreeGroup(**{"composite": True, "minimum": 1, "workload": "demo", "template": template, **fields})


def waiting(scheduler: str, group: str = "worker") -> pod_groups.GroupPod:
    """Returns the facts about a pod of a PodGroup that waits for that scheduler."""
    return pod_groups.GroupPod((NAMESPACE, GroupMembership(group)), scheduler)


def example_cluster(**parts: Any) -> ClusterFacts:
    """Returns a cluster of 1.37, unless other `apis` are given, with these Workloads, groups and waiting pods by name,
    and no others; it has a topology, and priority classes unless others are given.
    """
    by_key = {
        part: {(NAMESPACE, name): entry for name, entry in parts.get(part, {}).items()}
        for part in ("workloads", "pod_groups", "composite_pod_groups", "group_pods")
    }
    return ClusterFacts(
        apis=parts.get("apis", _SERVED),
        workloads=by_key["workloads"],
        pod_groups=pod_groups.Groups(by_key["pod_groups"]),
        composite_pod_groups=pod_groups.Groups(by_key["composite_pod_groups"]),
        group_pods=pod_groups.GroupPods(by_key["group_pods"]),
        priority_classes=parts.get("priority_classes", _CLASSES),
        topology_bindings={"dc": TopologyBinding({"zone": ZONE, "rack": RACK})},
    )


_CLASSES = {"high": PriorityClass(1000, is_default=False), "low": PriorityClass(10, is_default=False)}
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
_SERVED = frozenset(
    {
        *(Api(GROUP, "v1beta1", kind) for kind in ("Workload", "PodGroup")),
        Api(GROUP, "v1alpha3", "CompositePodGroup"),
        Api(GROUP, "v1", "PriorityClass"),
    }
)
# What clusters serve that have no Workload API, PodGroups without trees, or trees.
NO_WORKLOADS = ClusterFacts(apis=frozenset({Api(GROUP, "v1", "PriorityClass")}))
FLAT = ClusterFacts(apis=frozenset(Api(GROUP, "v1alpha2", kind) for kind in ("Workload", "PodGroup")))
SERVES_TREES = ClusterFacts(apis=_SERVED - {Api(GROUP, "v1", "PriorityClass")})
# What 1.38 serves.
OF_1_38 = ClusterFacts(apis=_SERVED - {COMPOSITE} | {COMPOSITE_BETA})
# A Workload with one tree: a root over `worker`.
TREE = pod_groups.WorkloadTemplates(
    {
        "root": pod_groups.TreeGroup(composite=True, minimum=1),
        "worker": pod_groups.TreeGroup(composite=False, minimum=2, parent="root"),
    }
)

# Of a list of templates, in one Workload or composite (WorkloadMaxPodGroups, WorkloadMaxPodGroupTemplates).
_MOST_TEMPLATES = 8
_FIRST = "podGroups"
_TEMPLATE_LISTS = (_FIRST, "podGroupTemplates", "compositePodGroupTemplates")
_POLICIES = ("basic", "gang")
_BOTH: Manifest = {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}}
_SO = "so the API server refuses it"


@rule(
    "kube/group-shape",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**BASIC), config=ON, facts=example_cluster()),
    fails=Example(pod_group(**_BOTH), config=ON, facts=example_cluster()),
)
def group_shape(stored: StoredObject, context: RuleContext) -> Results:
    """The API server refuses a group without exactly one policy, with a minimum below 1, with more than one topology
    key, or with a key, a name, a priority or a preemption policy that cannot be. It refuses a Workload without
    templates, with more than eight in a list, with two of one name, with more than four levels, with an empty
    composite, or with several priorities. No webhook sees a file. From 1.38 on groups may have the priorities of the
    system's own classes.

    Source: kubernetes, pkg/apis/scheduling/validation/validation.go; k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2
    (1.36), v1beta1 and v1alpha3 (1.37.2, 1.38.0-beta.0).
    """
    groups: list[tuple[FieldPath, Mapping[str, Any]]] = [(SPEC, stored.spec)]
    if stored.kind == WORKLOADS.kind:
        yield from _workload_refusals(stored)
        groups = [(template.path, template.spec) for template in templates_in(stored.spec)]
    else:
        yield from _group_refusals(stored.spec, SPEC, composite=stored.kind == COMPOSITES.kind)
    if not is_of_1_37(stored) or is_of_1_38(workload_apis(context.settings, context.facts)) is False:
        for path, spec in groups:
            priority = integer(spec.get("priority"))
            if priority is not None and priority > HIGHEST:
                why = "before Kubernetes 1.38 higher priorities are for the system"
                yield _refused(path / "priority", priority, why, f"set at most {HIGHEST}")


def _workload_refusals(workload: StoredObject) -> Iterator[Finding]:
    spec, names = workload.spec, set[str]()
    templates = list(templates_in(spec))
    present = [name for name in _TEMPLATE_LISTS if sequence(spec.get(name))]
    if not present:
        at = SPEC / (_FIRST if workload.version == "v1alpha1" else "podGroupTemplates")
        yield _refused(at, None, "a Workload has at least one template", "add the templates of its groups")
    elif len(present) > 1:
        why = f"a Workload has either {present[0]} or {present[1]}"
        yield _refused(SPEC / present[1], len(sequence(spec[present[1]])), why, "put all groups below one list")
    yield from _too_many(spec, SPEC)
    for template in templates:
        yield from _group_refusals(template.spec, template.path, composite=template.group.composite)
        if template.group.composite:
            yield from _too_many(template.spec, template.path)
            if not any(sequence(template.spec.get(name)) for name in _TEMPLATE_LISTS[1:]):
                yield _refused(
                    template.path, template.name, "a composite has at least one template below it", "add one"
                )
        if _levels(template) == pod_groups.MAX_DEPTH + 1:
            why = f"templates are nested in at most {pod_groups.MAX_DEPTH} levels"
            yield _refused(template.path, template.name, why, "remove a level of composites")
        if not template.name:
            yield _refused(template.path / "name", None, "each template has a name", "name it")
        elif template.name in names:
            yield _refused(template.path / "name", template.name, "another template has this name", "rename one")
        elif not is_unrendered(template.name) and not is_label(template.name):
            yield _refused(template.path / "name", template.name, "the name of a template is a DNS label", "correct it")
        names.add(template.name)
    # The first generation has no priorities, and the second does not compare them.
    if workload.version not in {"v1alpha1", "v1alpha2"}:
        yield from _priorities(templates)


def _too_many(holder: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    for name in _TEMPLATE_LISTS:
        if (count := len(sequence(holder.get(name)))) > _MOST_TEMPLATES:
            yield _refused(path / name, count, f"a list has at most {_MOST_TEMPLATES} templates", "make fewer groups")


def _levels(template: Template) -> int:
    """Returns the level of a template, from 1 for those of the Workload itself."""
    return sum(part in _TEMPLATE_LISTS for part in template.path.parts)


def _priorities(templates: list[Template]) -> Iterator[Finding]:
    """Yields one finding for the first template with another priority or priority class than the first one."""
    for field, read in (("priorityClassName", text), ("priority", integer)):
        values = [read(template.spec.get(field)) for template in templates]
        place = next((index for index, value in enumerate(values) if value != values[0]), None)
        if place is not None:
            why = "all templates of a Workload have one priority"
            yield _refused(templates[place].path / field, values[place], why, "write the same in all of them, or none")


def _group_refusals(spec: Mapping[str, Any], path: FieldPath, *, composite: bool) -> Iterator[Finding]:
    field = "policy" if "schedulingPolicy" not in spec and "policy" in spec else "schedulingPolicy"
    policy = mapping(spec.get(field))
    names = [name for name in _POLICIES if policy.get(name) is not None]
    if len(names) != 1:
        why = "a group has exactly one policy, basic or gang"
        yield _refused(
            path / field, "basic and gang" if names else None, why, "keep one of them" if names else "add it"
        )
    elif names == ["gang"]:
        name = "minGroupCount" if composite else "minCount"
        minimum = integer(mapping(policy["gang"]).get(name))
        if minimum is None or minimum < 1:
            at = path / field / "gang" / name
            yield _refused(at, minimum, "a gang has a minimum of at least 1", "set it to what must start together")
    keys = sequence(mapping(spec.get("schedulingConstraints")).get("topology"))
    at = path / "schedulingConstraints" / "topology"
    if len(keys) > 1:
        yield _refused(at, len(keys), "a group has at most one topology key", "keep one of them")
    for index, raw in enumerate(keys):
        key = text(mapping(raw).get("key"))
        if key is None or (not is_unrendered(key) and not is_key(key)):
            yield _refused(at / Item(index) / "key", key, "it is no key of a label of nodes", "name such a key")
    yield from _values(spec, path)


def _values(spec: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    """Yields the names and the preemption policy of a group that cannot be."""
    names = [(path / "priorityClassName", text(spec.get("priorityClassName")), is_subdomain)]
    reference = spec.get("workloadRef")
    if reference is not None:
        at = path / "workloadRef"
        for field, fits in (("workloadName", is_subdomain), ("templateName", is_label)):
            if (name := text(mapping(reference).get(field))) is None:
                yield _refused(at / field, None, "a group names its Workload and the template", "name it")
            names.append((at / field, name, fits))
    elif text(spec.get("parentCompositePodGroupName")) is not None:
        why = "a group below a composite names its Workload"
        yield _refused(path / "workloadRef", None, why, "name the Workload and the template")
    for index, raw in enumerate(sequence(spec.get("resourceClaims"))):
        claim, at = mapping(raw), path / "resourceClaims" / Item(index)
        names += [
            (at / "name", text(claim.get("name")), is_label),
            (at / "resourceClaimName", text(claim.get("resourceClaimName")), is_subdomain),
            (at / "resourceClaimTemplateName", text(claim.get("resourceClaimTemplateName")), is_subdomain),
        ]
        if names[-3][1] is None:
            yield _refused(at / "name", None, "each claim has a name", "name it")
    for at, name, fits in names:
        if name is not None and not is_unrendered(name) and not fits(name):
            yield _refused(at, name, "no such object can have this name", "correct it")
    preemption = text(spec.get("preemptionPolicy"))
    if preemption not in {None, "Never", "PreemptLowerPriority"}:
        why = "there is no such preemption policy"
        yield _refused(path / "preemptionPolicy", preemption, why, "set Never or PreemptLowerPriority")


def _refused(at: FieldPath, value: object, why: str, remedy: str) -> Finding:
    return Finding(at=at, value=value, why=f"{why}, {_SO}", remedy=remedy)
