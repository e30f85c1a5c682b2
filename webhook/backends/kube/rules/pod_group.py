"""What the API server accepts in a single Workload, PodGroup or CompositePodGroup although it cannot work: a missing
template, a copy that differs from its template, minimums and modes that cannot be met. Agreement within a tree is in
`tree` and `agreement`.

All rules are about objects stored by other authors. Up to 1.37 kube-scheduler reads only the copy, not the Workload.
"""

from __future__ import annotations

from collections import Counter

from webhook.backends.kube.facts import templates_in
from webhook.backends.kube.generation import GROUP
from webhook.backends.kube.groups import (
    REFERENCE,
    group_of,
    is_of_1_37,
    is_refused,
    most,
    policy_path,
    said_policy,
    template_of,
    topology_path,
    workload_key,
)
from webhook.backends.kube.keys import COMPOSITES, GROUPS, POD_GROUPS, WORKLOADS
from webhook.backends.kube.rules.examples import (
    ALL,
    BASIC,
    ON,
    RACK,
    TREE,
    branch,
    composite,
    known,
    leaf,
    made_from,
    near,
    pod_group,
    root,
    workload,
)
from webhook.backends.kube.settings import RuleContext
from webhook.model.disruption import Disruption
from webhook.model.fields import ROOT, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.group_tree import Group
from webhook.model.keys import Needed
from webhook.model.stored_object import StoredObject
from webhook.validators.creation_order import least_action
from webhook.validators.registry import Example, Results, rule

_TREE = known(workloads={"demo": TREE})
_BELOW = known(workloads={"demo": TREE}, composite_pod_groups={"root": root()})


@rule(
    "kube/workload-missing",
    kinds=GROUPS,
    default=Action.WARN,
    passes=Example(composite(), config=ON, facts=_TREE),
    fails=Example(composite(), config=ON, facts=known()),
)
def workload_missing(found: StoredObject, context: RuleContext) -> Results:
    """A group is a copy of a template, and without its Workload the copy cannot be checked. 1.37 stores such a group;
    1.36 refuses it. This is a warning, because the Workload may be created later. It is a refusal if the namespace's
    label rollcall.dev/creation-order is `strict`.

    Source: kubernetes, plugin/pkg/admission (PodGroupWorkloadExists, in v1.36 only); kubernetes/enhancements, KEP-6012
    (Workload, then composites from the root down, then PodGroups, then pods).
    """
    group = group_of(found)
    key = workload_key(found, group)
    if key is None or not is_of_1_37(found):
        return
    if context.facts.workloads is None:
        yield Unjudged(REFERENCE / "workloadName", "the Workloads", part="workloads")
    elif key not in context.facts.workloads:
        yield Finding(
            at=REFERENCE / "workloadName",
            found=group.workload,
            why="there is no such Workload yet",
            remedy="create the Workload first, then the groups from the root down",
            absent=Needed("workloads", key),
            at_least=least_action(context),
            hides_more=True,
        )


@rule(
    "kube/template-unknown",
    kinds=GROUPS,
    passes=Example(pod_group(**made_from("worker")), config=ON, facts=_TREE),
    fails=Example(pod_group(**made_from("wroker")), config=ON, facts=_TREE),
)
def template_unknown(found: StoredObject, context: RuleContext) -> Results:
    """Templates cannot be added to or removed from a Workload, so a group that names an unknown template never gets
    one. 1.37 stores such a group; 1.36 refuses it.

    Source: k8s.io/api scheduling/v1beta1 (podGroupTemplates: items may not be added or removed); kubernetes,
    plugin/pkg/admission (PodGroupWorkloadExists, in v1.36 only).
    """
    group = group_of(found)
    key = workload_key(found, group)
    stored = None if key is None else (context.facts.workloads or {}).get(key)
    if key is None or stored is None or group.template is None or not is_of_1_37(found):
        return
    if group.template not in stored.templates:
        yield Finding(
            at=REFERENCE / "templateName",
            found=group.template,
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
def template_kind(found: StoredObject, context: RuleContext) -> Results:
    """A PodGroup made from the template of a CompositePodGroup, or the other way round, is not a copy of it: its
    minimum counts something else.

    Source: k8s.io/api scheduling/v1beta1 and v1alpha3 (podGroupTemplates, compositePodGroupTemplates); KEP-6012.
    """
    group = group_of(found)
    key = workload_key(found, group)
    stored = None if key is None else (context.facts.workloads or {}).get(key)
    template = None if stored is None else stored.templates.get(group.template or "")
    if key is not None and template is not None and template.composite != group.composite:
        wanted = COMPOSITES.kind if template.composite else POD_GROUPS.kind
        yield Finding(
            at=REFERENCE / "templateName",
            found=group.template,
            why=f"it is the template of a {wanted}, and this is a {found.kind}",
            remedy=f"name the template of a {found.kind}",
            absent=Needed("workloads", key),
        )


@rule(
    "kube/template-policy",
    kinds=GROUPS,
    passes=Example(pod_group(minimum=2, **made_from("worker")), config=ON, facts=_TREE),
    fails=Example(pod_group(minimum=3, **made_from("worker")), config=ON, facts=_TREE),
)
def template_policy(found: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler uses the group's copy of the policy and never reads the template. A gang then starts with another
    minimum than its template declares, or is not a gang.

    Source: kubernetes/enhancements, KEP-6012 (the author of a group copies the policy); no version compares them.
    """
    group = group_of(found)
    known_template = template_of(found, group, context.facts)
    if known_template is None or known_template[1].minimum == group.minimum or _is_changed(found, group):
        return
    yield Finding(
        at=policy_path(SPEC, group),
        found=said_policy(group),
        why=f"its template {group.template} has {said_policy(known_template[1])}, "
        "but kube-scheduler reads only this group",
        remedy="copy the template's schedulingPolicy",
        absent=Needed("workloads", (found.key[0], group.workload or "")),
    )


@rule(
    "kube/template-drift",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example(pod_group(minimum=2, **made_from("worker")), pod_group(minimum=3, **made_from("worker")), _TREE, ON),
    fails=Example(pod_group(minimum=3, **made_from("worker")), pod_group(minimum=2, **made_from("worker")), _TREE, ON),
)
def template_drift(found: StoredObject, context: RuleContext) -> Results:
    """A gang's minimum is changed in two steps: in its template and in its group. Until both are done, kube-scheduler
    does not use the minimum that the template declares. Groups that are made later get the template's minimum.

    Source: k8s.io/api scheduling/v1beta1 (gang.minCount is mutable in both); KEP-6012.
    """
    group = group_of(found)
    known_template = template_of(found, group, context.facts)
    if known_template is not None and known_template[1].minimum != group.minimum and _is_changed(found, group):
        yield Finding(
            at=policy_path(SPEC, group),
            found=said_policy(group),
            why=f"its template {group.template} has {said_policy(known_template[1])}",
            remedy=f"change it in the Workload {group.workload} as well",
            absent=Needed("workloads", (found.key[0], group.workload or "")),
        )


def _is_changed(found: StoredObject, group: Group) -> bool:
    """Whether this update changes the group's minimum. Its template is changed in a separate step."""
    return found.old is not None and group_of(found.old).minimum != group.minimum


@rule(
    "kube/min-group-count",
    kinds=(WORKLOADS, COMPOSITES),
    default=Action.WARN,
    passes=Example(workload(branch("root", leaf("a"), leaf("b"), minimum=2)), config=ON, facts=known()),
    fails=Example(workload(branch("root", leaf("a"), leaf("b"), minimum=3)), config=ON, facts=known()),
)
def min_group_count(found: StoredObject, context: RuleContext) -> Results:
    """A CompositePodGroup starts when its minimum of groups is complete. If the Workload declares fewer templates below
    it, its pods wait for ever, unless an author makes several groups from one template. So this is a warning.

    Source: kubernetes, pkg/scheduler (gang scheduling, v1.37.0): "waiting for composite pod group tree to meet quorum".
    """
    if found.kind == WORKLOADS.kind:
        templates = list(templates_in(found.spec))
        below = Counter(template.group.parent for template in templates)
        for template in templates:
            if template.group.composite and (template.group.minimum or 0) > below[template.name]:
                yield _too_many(template.path, template.group, below[template.name])
        return
    group = group_of(found)
    known_template = template_of(found, group, context.facts)
    if known_template is not None:
        count = known_template[0].below(group.template or "")
        if (group.minimum or 0) > count:
            yield _too_many(SPEC, group, count, Needed("workloads", (found.key[0], group.workload or "")))


def _too_many(place: FieldPath, group: Group, count: int, needed: Needed | None = None) -> Finding:
    declared = f"{count} template{' is' if count == 1 else 's are'} declared below it"
    return Finding(
        at=policy_path(place, group),
        found=group.minimum,
        why=f"{declared}, and no pod starts before {group.minimum} groups are complete",
        remedy=f"set it to at most {count}, or make several groups of one template",
        absent=needed,
    )


@rule(
    "kube/disruption-all",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**ALL), config=ON, facts=known()),
    fails=Example(pod_group(**ALL, **BASIC), config=ON, facts=known()),
)
def disruption_all(found: StoredObject, context: RuleContext) -> Results:
    """Pods that are disrupted together must start together. With the basic policy they start one by one, and the whole
    group may then be preempted to make room for a few pods. The API server refuses it from 1.38 on. For a composite
    this is only a warning before.

    Source: kubernetes/enhancements, KEP-5710 (all is not for basic groups); the API server of v1.37.0 does not check
    it, that of v1.38.0-beta.0 does (pkg/apis/scheduling/validation/validation.go).
    """
    if found.kind == WORKLOADS.kind:
        groups = [(one.path, one.group) for one in templates_in(found.spec)]
    else:
        groups = [(SPEC, group_of(found))]
    refused = ", and Kubernetes 1.38 refuses it" if is_refused(found, context) else ""
    for place, group in groups:
        if group.disruption is Disruption.ALL and group.minimum is None:
            parts = "groups" if group.composite else "pods"
            yield Finding(
                at=place / "disruptionMode",
                found="all",
                why=f"the group's policy is basic, so its {parts} start one by one but would be preempted all at once"
                f"{refused}",
                remedy="set a gang policy, or set disruptionMode to single",
                at_most=most(found, context) if group.composite else Action.DENY,
            )


@rule(
    "kube/topology-key",
    kinds=(WORKLOADS, *GROUPS),
    default=Action.WARN,
    passes=Example(pod_group(**near(RACK)), config=ON, facts=known()),
    fails=Example(pod_group(**near("example.com/rakc")), config=ON, facts=known()),
)
def topology_key(found: StoredObject, context: RuleContext) -> Results:
    """A topology constraint is a node label key. If no node has this label, the group never starts. The rule knows the
    keys from the cluster's ClusterTopologyBindings and reports nothing if there are none. Nodes may have more keys, so
    this is a warning.

    Source: kubernetes/enhancements, KEP-5732 (one required key a group, no fallback).
    """
    bindings = context.facts.topology_bindings
    if not bindings or not context.facts.is_whole("topology_bindings"):
        return
    keys = {_HOST, *(key for binding in bindings.values() for key in binding.keys.values())}
    if found.kind == WORKLOADS.kind:
        groups = [(one.path, one.group) for one in templates_in(found.spec)]
    else:
        groups = [(SPEC, group_of(found))]
    for place, group in groups:
        if group.topology is not None and group.topology not in keys:
            yield Finding(
                at=topology_path(place),
                found=group.topology,
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
def group_version(found: StoredObject, context: RuleContext) -> Results:
    """Each generation of the Workload API exists in one minor release of Kubernetes, under versions of its own. An API
    server of another release refuses the object. The profile's apiGeneration says which release the cluster has.

    Source: k8s.io/api scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37 and 1.38); no release has
    a PodGroup in v1 (pkg/registry/scheduling/rest/storage_scheduling.go).
    """
    generation, apis = context.settings.apiGeneration, context.facts.apis
    versions = _VERSIONS_OF[generation]
    # What a cluster serves is known better than what its profile states.
    if found.version in versions or any((one.group, one.kind) == (GROUP, found.kind) for one in apis or ()):
        return
    where = "no released Kubernetes" if generation == "auto" else f"no cluster of apiGeneration {generation}"
    yield Finding(
        at=ROOT / "apiVersion",
        found=f"{GROUP}/{found.version}",
        why=f"{where} serves it in this version",
        remedy=f"write {GROUP}/{versions[0]}, or state the cluster's apiGeneration in the profile",
    )
