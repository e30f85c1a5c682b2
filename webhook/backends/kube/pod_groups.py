"""Rules about Workloads, PodGroups and CompositePodGroups of other authors that the API server accepts although they
cannot work: a missing template, a copy that differs from its template, minimums and modes that cannot be met, and
trees whose parts do not belong together.

Up to 1.37 kube-scheduler reads only the copy, not the Workload. The API server checks one object at a time and does
not compare the groups of a tree. Each group is judged with its parent. A composite is also judged with the children
that were created before it.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from webhook.backends.kube.groups import (
    ALL,
    BASIC,
    MOST_BELOW,
    ON,
    PARENT_PATH,
    RACK,
    REFERENCE,
    TREE,
    Chain,
    branch,
    composite,
    example_cluster,
    group_of,
    is_of_1_37,
    is_refused,
    known_ancestors,
    leaf,
    neighbours,
    parent_fields,
    parent_of,
    pod_group,
    policy_path,
    root,
    shown_policy,
    strongest_action,
    template_of,
    template_reference,
    templates_in,
    topology_constraint,
    topology_path,
    workload,
    workload_key,
)
from webhook.backends.kube.workload_api import COMPOSITES, GROUP, GROUPS, POD_GROUPS, WORKLOADS, RuleContext
from webhook.model.capabilities import Disruption
from webhook.model.fields import METADATA, ROOT, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import StoredObject
from webhook.model.keys import Needed, ObjectKey
from webhook.model.pod_groups import MAX_DEPTH, Groups, TreeGroup
from webhook.validators.registry import Example, Results, rule
from webhook.validators.shared_checks import least_action

_TREE = example_cluster(workloads={"demo": TREE})
_BELOW = example_cluster(workloads={"demo": TREE}, composite_pod_groups={"root": root()})


@rule(
    "kube/workload-missing",
    kinds=GROUPS,
    default=Action.WARN,
    passes=Example(composite(), config=ON, facts=_TREE),
    fails=Example(composite(), config=ON, facts=example_cluster()),
)
def workload_missing(stored: StoredObject, context: RuleContext) -> Results:
    """A group is a copy of a template, and without its Workload the copy cannot be checked. 1.37 stores such a group;
    1.36 refuses it. This is a warning, because the Workload may be created later. It is a refusal if the namespace's
    label rollcall.dev/creation-order is `strict`.

    Source: kubernetes, plugin/pkg/admission (PodGroupWorkloadExists, in v1.36 only); kubernetes/enhancements, KEP-6012
    (Workload, then composites from the root down, then PodGroups, then pods).
    """
    group = group_of(stored)
    key = workload_key(stored, group)
    if key is None or not is_of_1_37(stored):
        return
    if context.facts.workloads is None:
        yield Unjudged(REFERENCE / "workloadName", "the Workloads", part="workloads")
    elif key not in context.facts.workloads:
        yield Finding(
            at=REFERENCE / "workloadName",
            value=group.workload,
            why="there is no such Workload yet",
            remedy="create the Workload first, then the groups from the root down",
            absent=Needed("workloads", key),
            at_least=least_action(context),
            hides_more=True,
        )


@rule(
    "kube/template-unknown",
    kinds=GROUPS,
    passes=Example(pod_group(**template_reference("worker")), config=ON, facts=_TREE),
    fails=Example(pod_group(**template_reference("wroker")), config=ON, facts=_TREE),
)
def template_unknown(stored: StoredObject, context: RuleContext) -> Results:
    """Templates cannot be added to or removed from a Workload, so a group that names an unknown template never gets
    one. 1.37 stores such a group; 1.36 refuses it.

    Source: k8s.io/api scheduling/v1beta1 (podGroupTemplates: items may not be added or removed); kubernetes,
    plugin/pkg/admission (PodGroupWorkloadExists, in v1.36 only).
    """
    group = group_of(stored)
    key = workload_key(stored, group)
    workload = None if key is None else (context.facts.workloads or {}).get(key)
    if key is None or workload is None or group.template is None or not is_of_1_37(stored):
        return
    if group.template not in workload.templates:
        yield Finding(
            at=REFERENCE / "templateName",
            value=group.template,
            why=f"the Workload {group.workload} has no such template, and its list of templates is immutable",
            remedy="name one of its templates, or recreate the Workload",
            absent=Needed("workloads", key),
        )


@rule(
    "kube/template-kind",
    kinds=GROUPS,
    passes=Example(composite(), config=ON, facts=_TREE),
    fails=Example(composite(template="worker"), config=ON, facts=_TREE),
)
def template_kind(stored: StoredObject, context: RuleContext) -> Results:
    """A PodGroup made from the template of a CompositePodGroup, or the other way round, is not a copy of it: its
    minimum counts something else.

    Source: k8s.io/api scheduling/v1beta1 and v1alpha3 (podGroupTemplates, compositePodGroupTemplates); KEP-6012.
    """
    group = group_of(stored)
    key = workload_key(stored, group)
    workload = None if key is None else (context.facts.workloads or {}).get(key)
    template = None if workload is None else workload.templates.get(group.template or "")
    if key is not None and template is not None and template.composite != group.composite:
        kind = COMPOSITES.kind if template.composite else POD_GROUPS.kind
        yield Finding(
            at=REFERENCE / "templateName",
            value=group.template,
            why=f"it is the template of a {kind}, and this is a {stored.kind}",
            remedy=f"name the template of a {stored.kind}",
            absent=Needed("workloads", key),
        )


@rule(
    "kube/template-policy",
    kinds=GROUPS,
    passes=Example(pod_group(minimum=2, **template_reference("worker")), config=ON, facts=_TREE),
    fails=Example(pod_group(minimum=3, **template_reference("worker")), config=ON, facts=_TREE),
)
def template_policy(stored: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler uses the group's copy of the policy and never reads the template. A gang then starts with another
    minimum than its template declares, or is not a gang.

    Source: kubernetes/enhancements, KEP-6012 (the author of a group copies the policy); no version compares them.
    """
    group = group_of(stored)
    declared = template_of(stored, group, context.facts)
    if declared is None or declared.group.minimum == group.minimum or _is_changed(stored, group):
        return
    yield Finding(
        at=policy_path(SPEC, group),
        value=shown_policy(group),
        why=f"its template {group.template} has {shown_policy(declared.group)}, "
        "but kube-scheduler reads only this group",
        remedy="copy the template's schedulingPolicy",
        absent=declared.needed,
    )


@rule(
    "kube/template-drift",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example(
        pod_group(minimum=2, **template_reference("worker")),
        pod_group(minimum=3, **template_reference("worker")),
        _TREE,
        ON,
    ),
    fails=Example(
        pod_group(minimum=3, **template_reference("worker")),
        pod_group(minimum=2, **template_reference("worker")),
        _TREE,
        ON,
    ),
)
def template_drift(stored: StoredObject, context: RuleContext) -> Results:
    """A gang's minimum is changed in two steps: in its template and in its group. Until both are done, kube-scheduler
    does not use the minimum that the template declares. Groups that are made later get the template's minimum.

    Source: k8s.io/api scheduling/v1beta1 (gang.minCount is mutable in both); KEP-6012.
    """
    group = group_of(stored)
    declared = template_of(stored, group, context.facts)
    if declared is not None and declared.group.minimum != group.minimum and _is_changed(stored, group):
        yield Finding(
            at=policy_path(SPEC, group),
            value=shown_policy(group),
            why=f"its template {group.template} has {shown_policy(declared.group)}",
            remedy=f"change it in the Workload {group.workload} as well",
            absent=declared.needed,
        )


def _is_changed(stored: StoredObject, group: TreeGroup) -> bool:
    """Returns whether this update changes the group's minimum. Its template is changed in a separate step."""
    return stored.old is not None and group_of(stored.old).minimum != group.minimum


@rule(
    "kube/min-group-count",
    kinds=(WORKLOADS, COMPOSITES),
    default=Action.WARN,
    passes=Example(workload(branch("root", leaf("a"), leaf("b"), minimum=2)), config=ON, facts=example_cluster()),
    fails=Example(workload(branch("root", leaf("a"), leaf("b"), minimum=3)), config=ON, facts=example_cluster()),
)
def min_group_count(stored: StoredObject, context: RuleContext) -> Results:
    """A CompositePodGroup starts when its minimum of groups is complete. If the Workload declares fewer templates below
    it, its pods wait for ever, unless an author makes several groups from one template. So this is a warning.

    Source: kubernetes, pkg/scheduler (gang scheduling, v1.37.0): "waiting for composite pod group tree to meet quorum".
    """
    if stored.kind == WORKLOADS.kind:
        templates = list(templates_in(stored.spec))
        below = Counter(template.group.parent for template in templates)
        for template in templates:
            if template.group.composite and (template.group.minimum or 0) > below[template.name]:
                yield _too_many(template.path, template.group, below[template.name])
        return
    group = group_of(stored)
    declared = template_of(stored, group, context.facts)
    if declared is not None:
        count = declared.workload.below(group.template or "")
        if (group.minimum or 0) > count:
            yield _too_many(SPEC, group, count, declared.needed)


def _too_many(place: FieldPath, group: TreeGroup, count: int, needed: Needed | None = None) -> Finding:
    declared = f"{count} template{' is' if count == 1 else 's are'} declared below it"
    return Finding(
        at=policy_path(place, group),
        value=group.minimum,
        why=f"{declared}, and no pod starts before {group.minimum} groups are complete",
        remedy=f"set it to at most {count}, or make several groups of one template",
        absent=needed,
    )


@rule(
    "kube/disruption-all",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**ALL), config=ON, facts=example_cluster()),
    fails=Example(pod_group(**ALL, **BASIC), config=ON, facts=example_cluster()),
)
def disruption_all(stored: StoredObject, context: RuleContext) -> Results:
    """Pods that are disrupted together must start together. With the basic policy they start one by one, and the whole
    group may then be preempted to make room for a few pods. The API server refuses it from 1.38 on. For a composite
    this is only a warning before.

    Source: kubernetes/enhancements, KEP-5710 (all is not for basic groups); the API server of v1.37.0 does not check
    it, that of v1.38.0-beta.0 does (pkg/apis/scheduling/validation/validation.go).
    """
    if stored.kind == WORKLOADS.kind:
        groups = [(template.path, template.group) for template in templates_in(stored.spec)]
    else:
        groups = [(SPEC, group_of(stored))]
    refused = ", and Kubernetes 1.38 refuses it" if is_refused(stored, context) else ""
    for place, group in groups:
        if group.disruption is Disruption.ALL and group.minimum is None:
            parts = "groups" if group.composite else "pods"
            yield Finding(
                at=place / "disruptionMode",
                value="all",
                why=f"the group's policy is basic, so its {parts} start one by one but would be preempted all at once"
                f"{refused}",
                remedy="set a gang policy, or set disruptionMode to single",
                at_most=strongest_action(stored, context) if group.composite else Action.DENY,
            )


@rule(
    "kube/topology-key",
    kinds=(WORKLOADS, *GROUPS),
    default=Action.WARN,
    passes=Example(pod_group(**topology_constraint(RACK)), config=ON, facts=example_cluster()),
    fails=Example(pod_group(**topology_constraint("example.com/rakc")), config=ON, facts=example_cluster()),
)
def topology_key(stored: StoredObject, context: RuleContext) -> Results:
    """A topology constraint is a node label key. If no node has this label, the group never starts. The rule knows the
    keys from the cluster's ClusterTopologyBindings and reports nothing if there are none. Nodes may have more keys, so
    this is a warning.

    Source: kubernetes/enhancements, KEP-5732 (one required key a group, no fallback).
    """
    bindings = context.facts.topology_bindings
    if not bindings or not context.facts.is_whole("topology_bindings"):
        return
    keys = {_HOST, *(key for binding in bindings.values() for key in binding.keys.values())}
    if stored.kind == WORKLOADS.kind:
        groups = [(template.path, template.group) for template in templates_in(stored.spec)]
    else:
        groups = [(SPEC, group_of(stored))]
    for place, group in groups:
        if group.topology is not None and group.topology not in keys:
            yield Finding(
                at=topology_path(place),
                value=group.topology,
                why="no ClusterTopologyBinding has this key, and if no node has it, the group never starts",
                remedy="use the key of a binding's level, or add such a level to a binding",
            )


# Every node has it.
_HOST = "kubernetes.io/hostname"

# By the stated generation: the versions that a cluster of that Kubernetes serves.
_VERSIONS_OF = {
    "v1alpha1": ("v1alpha1",),
    "v1alpha2": ("v1alpha2",),
    "v1beta1": ("v1beta1", "v1alpha3"),
    "auto": ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
}


@rule(
    "kube/group-version",
    kinds=(WORKLOADS, *GROUPS),
    default=Action.WARN,
    passes=Example(pod_group(), config={**ON, "apiGeneration": "v1beta1"}),
    fails=Example(pod_group(), config={**ON, "apiGeneration": "v1alpha2"}),
)
def group_version(stored: StoredObject, context: RuleContext) -> Results:
    """Each generation of the Workload API exists in one minor release of Kubernetes, under versions of its own. An API
    server of another release refuses the object. The profile's apiGeneration says which release the cluster has.

    Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37 and 1.38); no release has
    a PodGroup in v1 (pkg/registry/scheduling/rest/storage_scheduling.go).
    """
    generation, apis = context.settings.apiGeneration, context.facts.apis
    versions = _VERSIONS_OF[generation]
    # What a cluster serves is known better than what its profile states.
    if stored.version in versions or any((api.group, api.kind) == (GROUP, stored.kind) for api in apis or ()):
        return
    where = "no released Kubernetes" if generation == "auto" else f"no cluster of apiGeneration {generation}"
    yield Finding(
        at=ROOT / "apiVersion",
        value=f"{GROUP}/{stored.version}",
        why=f"{where} serves it in this version",
        remedy=f"write {GROUP}/{versions[0]}, or state the cluster's apiGeneration in the profile",
    )


_CHILD = pod_group(**parent_fields("root"))
_ROOT = example_cluster(workloads={"demo": TREE}, composite_pod_groups={"root": root()})


@rule(
    "kube/parent-missing",
    kinds=GROUPS,
    default=Action.WARN,
    passes=Example(_CHILD, config=ON, facts=_ROOT),
    fails=Example(_CHILD, config=ON, facts=example_cluster(workloads={"demo": TREE})),
)
def parent_missing(stored: StoredObject, context: RuleContext) -> Results:
    """The pods of a group wait until every group above it exists ("failed to build hierarchy snapshot"), and only the
    scheduler's log shows it. This is a warning, because the parent may be created later. It is a refusal if the
    namespace's label rollcall.dev/creation-order is `strict`.

    Source: kubernetes, pkg/scheduler (seen with v1.37.0; the API server accepts it); KEP-6012 (creation from the root
    down).
    """
    group = group_of(stored)
    composites = context.facts.composite_pod_groups
    above = known_ancestors(stored, group, context)
    last = above[-1][1] if above else group
    if last.parent is None or _is_cycle(stored, group, above):
        return
    key = (stored.key[0], last.parent)
    if composites is None:
        yield Unjudged(PARENT_PATH, "the CompositePodGroups", part="composite_pod_groups")
    elif key not in composites:
        which = f"CompositePodGroup {last.parent}" if above else "such CompositePodGroup"
        yield Finding(
            at=PARENT_PATH,
            value=group.parent,
            why=f"there is no {which} yet, and no pod below it is scheduled until it exists",
            remedy="create the groups from the root down",
            absent=Needed("composite_pod_groups", key),
            at_least=least_action(context),
            hides_more=True,
        )


@rule(
    "kube/tree-cycle",
    kinds=GROUPS,
    passes=Example(composite("inner", **parent_fields("root", "inner")), config=ON, facts=_ROOT),
    fails=Example(
        composite("root", **parent_fields("inner", "root")),
        config=ON,
        facts=example_cluster(composite_pod_groups={"inner": root("inner", parent="root")}),
    ),
)
def tree_cycle(stored: StoredObject, context: RuleContext) -> Results:
    """Groups in a cycle have no root. kube-scheduler gives up after some steps and never schedules their pods, without
    a message.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen; the API server accepts it); KEP-6012.
    """
    group = group_of(stored)
    above = known_ancestors(stored, group, context)
    if not _is_cycle(stored, group, above):
        return
    of_its_own = _is_root_of(stored, group, above)
    why = "this group is its own ancestor" if of_its_own else "the groups above it form a cycle"
    yield Finding(
        at=PARENT_PATH,
        value=group.parent,
        why=f"{why}, and kube-scheduler never schedules the pods of a cycle",
        remedy="name a parent that is not below it" if of_its_own else "recreate one of these groups without a parent",
        absent=Needed("composite_pod_groups", above[-1][0]) if above else None,
    )


def _is_root_of(stored: StoredObject, group: TreeGroup, above: Chain) -> bool:
    """Returns whether a composite is its own ancestor. A new composite is not in the cache; it is found because an
    ancestor names it.
    """
    return group.composite and stored.name in {group.parent, *(ancestor.parent for _, ancestor in above)}


def _is_cycle(stored: StoredObject, group: TreeGroup, above: Chain) -> bool:
    keys = [key for key, _ in above]
    return _is_root_of(stored, group, above) or len(set(keys)) < len(keys)


_SAME = {"metadata": {"name": "root", "namespace": "default"}}


@rule(
    "kube/tree-name",
    kinds=GROUPS,
    passes=Example(_CHILD, config=ON, facts=_ROOT),
    fails=Example({**_CHILD, **_SAME}, config=ON, facts=_ROOT),
)
def tree_name(stored: StoredObject, context: RuleContext) -> Results:
    """Up to 1.37 kube-scheduler confuses a PodGroup and a CompositePodGroup of one name. It never finds room for a
    PodGroup that has the same name as the composite above it, and does not report why. They are two kinds, so the API
    server accepts both. For two groups that are not above each other this is a warning. kube-scheduler 1.38 keeps them
    apart, but it may be older than the API server, so in 1.38 this is a warning.

    Source: kubernetes, pkg/scheduler (v1.37.0, seen: with another name the same pods start at once); pull request
    141864 (v1.38.0-beta.0: the keys of groups have their type).
    """
    group, facts = group_of(stored), context.facts
    needed: Needed | None = None
    others = facts.pod_groups if group.composite else facts.composite_pod_groups
    if not group.composite and group.parent is not None and group.parent == stored.key[1]:
        why = "the CompositePodGroup above it has the same name, so kube-scheduler 1.37 never finds room for its pods"
        # What is served shows the release of the API server, not that of the scheduler.
        action = Action.WARN if is_refused(stored, context) else Action.DENY
    elif stored.key in (others or {}):
        other, part = (POD_GROUPS, "pod_groups") if group.composite else (COMPOSITES, "composite_pod_groups")
        why = f"a {other.kind} of this namespace has the same name, and kube-scheduler 1.37 confuses the two"
        action, needed = Action.WARN, Needed(part, stored.key)
    else:
        return
    yield Finding(
        at=METADATA / "name",
        value=stored.key[1],
        why=why,
        remedy="give one of the two another name",
        absent=needed,
        at_most=action,
    )


_DEEP = {"root": root(), "a": root(parent="root"), "b": root(parent="a"), "c": root(parent="b")}


@rule(
    "kube/tree-depth",
    kinds=GROUPS,
    passes=Example(pod_group(**parent_fields("b")), config=ON, facts=example_cluster(composite_pod_groups=_DEEP)),
    fails=Example(pod_group(**parent_fields("c")), config=ON, facts=example_cluster(composite_pod_groups=_DEEP)),
)
def tree_depth(stored: StoredObject, context: RuleContext) -> Results:
    """A Workload declares at most four levels, including the PodGroups, so a deeper tree is not a copy of a Workload.
    kube-scheduler 1.37.0 schedules no pod of a tree with six levels, without a message. The API server counts the
    levels of templates, but not those of groups.

    Source: k8s.io/api scheduling/v1beta1 (WorkloadMaxTreeDepth); kubernetes, pkg/scheduler (v1.37.0, seen: five levels
    start, six do not).
    """
    group = group_of(stored)
    above = known_ancestors(stored, group, context)
    if _is_cycle(stored, group, above):
        return
    below, deepest = _levels_below(stored.key, context.facts.composite_pod_groups) if group.composite else (0, None)
    # A named parent is a level, even if it does not exist yet.
    has_parent = (above[-1][1] if above else group).parent is not None and len(above) < MAX_DEPTH
    levels = has_parent + len(above) + 1 + below
    if levels > MAX_DEPTH:
        key = deepest or (above[-1][0] if above else None)
        yield Finding(
            at=METADATA / "name" if group.parent is None else PARENT_PATH,
            value=group.parent or stored.name,
            why=f"the tree would have {levels} levels, including PodGroups, "
            f"and a Workload declares at most {MAX_DEPTH}",
            remedy="remove a level of CompositePodGroups",
            absent=None if key is None else Needed("composite_pod_groups", key),
        )


def _levels_below(key: ObjectKey, composites: Groups | None) -> tuple[int, ObjectKey | None]:
    """Returns the number of levels below a composite, including the PodGroups, and the lowest composite among them. The
    walk stops at a limit.
    """
    levels, deepest, left = 1, None, MOST_BELOW
    pending: list[tuple[ObjectKey, int]] = [(key, 1)]
    while pending and composites is not None:
        place, depth = pending.pop()
        if depth > levels:
            levels, deepest = depth, place
        if depth > MAX_DEPTH:
            break
        children = list(islice(composites.below(place), left))
        left -= len(children)
        pending += [(child, depth + 1) for child in children]
    return levels, deepest


@rule(
    "kube/tree-workload",
    kinds=GROUPS,
    passes=Example(_CHILD, config=ON, facts=_ROOT),
    fails=Example(_CHILD, config=ON, facts=example_cluster(composite_pod_groups={"root": root(workload="other")})),
)
def tree_workload(stored: StoredObject, context: RuleContext) -> Results:
    """A tree is made from one Workload. A tree with groups of two Workloads is not a copy of either.

    Source: kubernetes/enhancements, KEP-6012 (calls it misuse; v1.37.0 accepts it).
    """
    group = group_of(stored)
    for other in neighbours(stored, group, context.facts):
        if group.workload is not None and other.group.workload not in {None, group.workload}:
            yield Finding(
                at=REFERENCE / "workloadName",
                value=group.workload,
                why=f"{other.called} is from the Workload {other.group.workload}, and a tree is made from one Workload",
                remedy="name the same Workload in all groups of a tree",
                absent=other.needed,
            )
            return


@rule(
    "kube/template-parent",
    kinds=GROUPS,
    passes=Example(_CHILD, config=ON, facts=_ROOT),
    fails=Example(pod_group(**{**parent_fields("root"), "parentCompositePodGroupName": None}), config=ON, facts=_ROOT),
)
def template_parent(stored: StoredObject, context: RuleContext) -> Results:
    """The tree of groups must match the tree of templates. A group with another parent counts for another minimum than
    was declared, or for none.

    Source: kubernetes/enhancements, KEP-6012 (calls it misuse; v1.37.0 accepts it).
    """
    group = group_of(stored)
    declared, parent = template_of(stored, group, context.facts), parent_of(stored, group, context.facts)
    if declared is None or (group.parent is not None and parent is None):
        return
    above = declared.group.parent
    if parent is None:
        actual = None
    elif parent.group.workload != group.workload:
        return
    else:
        actual = parent.group.template
    if above != actual:
        yield Finding(
            at=PARENT_PATH,
            value=group.parent,
            why=f"its template {group.template} is {_position(above)}, but this group would be {_position(actual)}",
            remedy="name a parent that was made from the template above its own" if above else "remove the parent",
            absent=declared.needed if parent is None else parent.needed,
        )


def _position(template: str | None) -> str:
    return "at the root" if template is None else f"below {template}"
