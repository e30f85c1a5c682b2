"""Rules about priority, disruption and preemption of groups that other programs store, and what the groups of one tree
must agree on.

The groups of a tree and the templates of a Workload agree on priority, disruption, gangs below gangs, and topology
that gets narrower down the tree. Up to 1.37 the API server compares only the priorities of a Workload's own templates.
From 1.38 on it compares more of the templates, and kube-scheduler the same of the groups. A group's preemption policy
must be that of its pods, and a gang that needs every pod must not lose one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webhook.backends.kube import groups, workload_api
from webhook.backends.kube.workload_api import GROUPS, POD_GROUPS, WORKLOADS, RuleContext
from webhook.model.capabilities import DISRUPTION_LABEL, Disruption
from webhook.model.fields import LABELS, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.gang_objects import JUDGED_PODS, StoredObject
from webhook.model.grove import controller_in
from webhook.model.keys import Needed
from webhook.model.known_objects import PriorityClass
from webhook.model.pod_groups import MAX_DEPTH, TreeGroup, WorkloadTemplates, ancestors
from webhook.model.reading import integer, mapping, text
from webhook.validators.examples import job
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.workloads.job import Job
from webhook.workloads.opted_in_workload import OptedInWorkload

_BELOW = groups.pod_group(**groups.parent_fields("root"))


@rule(
    "kube/group-priority",
    kinds=GROUPS,
    passes=Example(
        groups.pod_group(**groups.parent_fields("root"), priorityClassName="high"),
        config=groups.ON,
        facts=groups.example_cluster(composite_pod_groups={"root": groups.root(priority_class="high")}),
    ),
    fails=Example(
        _BELOW,
        config=groups.ON,
        facts=groups.example_cluster(composite_pod_groups={"root": groups.root(priority_class="high")}),
    ),
)
def group_priority(stored: StoredObject, context: RuleContext) -> Results:
    """Pods must have the priority of the tree's root and of their own group. If the two differ, kube-scheduler blocks
    the gang, regardless of the priority of the pods.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority"; the API server compares the templates of a Workload only.
    """
    group = groups.group_of(stored)
    if not groups.is_of_1_37(stored):
        return
    declared = groups.template_of(stored, group, context.facts)
    others = [(other.called, other.group, other.needed) for other in groups.neighbours(stored, group, context.facts)]
    # If a template names no priority class, the author of its group chooses one.
    if declared is not None and (declared.group.priority_class or declared.group.priority is not None):
        others.append((f"its template {group.template}", declared.group, declared.needed))
    priority = groups.priority_of(group, context.facts)
    for called, other, needed in others:
        theirs = groups.priority_of(other, context.facts)
        at = SPEC / "priorityClassName"
        if priority is None or theirs is None:
            if group.priority_class != other.priority_class and not context.facts.is_whole("priority_classes"):
                yield Unjudged(at, "the PriorityClasses", part="priority_classes")
                return
        elif priority != theirs:
            yield Finding(
                at=at,
                value=group.priority_class,
                why=f"its priority is {priority}, {called} has {theirs}, "
                "and kube-scheduler blocks a tree with two priorities",
                remedy="name the same PriorityClass in all templates, groups and pods of the tree, or in none",
                absent=needed,
            )
            return


_TOGETHER = groups.example_cluster(
    apis=groups.OF_1_38.apis, composite_pod_groups={"root": groups.root(disruption=Disruption.ALL)}
)


@rule(
    "kube/disruption-single",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(groups.pod_group(**groups.parent_fields("root"), **groups.ALL), config=groups.ON, facts=_TOGETHER),
    fails=Example(_BELOW, config=groups.ON, facts=_TOGETHER),
)
def disruption_single(stored: StoredObject, context: RuleContext) -> Results:
    """A group below a group with disruption mode all cannot be disrupted pod by pod. Preemption evicts the highest
    group with mode all as a whole, so mode single below it has no effect. A group without a disruptionMode has mode
    single. From 1.38 on it is refused; before that this is a warning.

    Source: kubernetes/enhancements, KEP-5710 (below a composite with all, every group has all; v1.37.0 does not check
    it); kubernetes v1.38.0-beta.0, pkg/apis/scheduling/validation (validateCompositePodGroupTemplate), pkg/scheduler.
    """
    why = "is disrupted as a whole, so a group below it cannot be disrupted pod by pod"
    remedy = "set disruptionMode to all here, or to single on the group above"
    if stored.kind == WORKLOADS.kind:
        templates = {template.name: template for template in groups.templates_in(stored.spec)}
        for template in templates.values():
            above = templates.get(template.group.parent or "")
            if above is not None and _breaks(template.group, above.group):
                reason = f"the template {above.name} above it {why}"
                at = template.path / "disruptionMode"
                yield Finding(
                    at=at, value="single", why=reason, remedy=remedy, at_most=groups.strongest_action(stored, context)
                )
        return
    group = groups.group_of(stored)
    for other in groups.neighbours(stored, group, context.facts):
        if other.above and _breaks(group, other.group):
            reason = f"{other.called} {why}"
        elif not other.above and _breaks(other.group, group):
            reason, remedy = (
                f"{other.called} is disrupted pod by pod",
                "set disruptionMode to single here, or to all on the group below",
            )
        else:
            continue
        at, single = SPEC / "disruptionMode", str(group.disruption)
        action = groups.strongest_action(stored, context)
        yield Finding(at=at, value=single, why=reason, remedy=remedy, absent=other.needed, at_most=action)
        return


def _breaks(below: TreeGroup, above: TreeGroup) -> bool:
    return above.disruption is Disruption.ALL and below.disruption is Disruption.SINGLE


_GANGS_ROOT = groups.example_cluster(apis=groups.OF_1_38.apis, composite_pod_groups={"root": groups.root()})


@rule(
    "kube/tree-gang",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(_BELOW, config=groups.ON, facts=_GANGS_ROOT),
    fails=Example(
        groups.pod_group(**groups.parent_fields("root"), **groups.BASIC), config=groups.ON, facts=_GANGS_ROOT
    ),
)
def tree_gang(stored: StoredObject, context: RuleContext) -> Results:
    """Below a gang of groups every group is a gang. From 1.38 on the API server refuses other templates in a Workload,
    and kube-scheduler never places the pods of such a tree (PodGroupError, CompositePodGroupError). In 1.37 the basic
    group counts as complete without a pod, so this is a warning there, and where the release is not known.

    Source: kubernetes v1.38.0-beta.0, pkg/apis/scheduling/validation/validation.go (validateCompositePodGroupTemplate),
    pkg/scheduler/schedule_one_podgroup.go (validatePodGroupHierarchy).
    """
    refused = groups.is_refused(stored, context)
    who = "Kubernetes 1.38 refuses it" if refused else "Kubernetes 1.38 will refuse it"
    basic: list[tuple[FieldPath, str, Needed | None]]
    if stored.kind == WORKLOADS.kind:
        templates = {template.name: template for template in groups.templates_in(stored.spec)}
        basic = [
            (template.path, f"the template {above.name} above it", None)
            for template in templates.values()
            if (above := templates.get(template.group.parent or "")) is not None
            and above.group.minimum is not None
            and template.group.minimum is None
        ]
    else:
        group = groups.group_of(stored)
        parent = groups.parent_of(stored, group, context.facts)
        is_below = parent is not None and parent.group.minimum is not None and group.minimum is None
        basic = [(SPEC, parent.called, parent.needed)] if parent is not None and is_below else []
    for place, above_it, needed in basic:
        yield Finding(
            at=place / "schedulingPolicy",
            value="basic",
            why=f"{above_it} is a gang, and below a gang every group is one; {who}",
            remedy="set a gang policy here, or basic above",
            absent=needed,
            at_most=groups.strongest_action(stored, context),
        )


@rule(
    "kube/topology-order",
    kinds=(WORKLOADS, *GROUPS),
    default=Action.WARN,
    passes=Example(
        groups.pod_group(**groups.parent_fields("root"), **groups.topology_constraint(groups.RACK)),
        config=groups.ON,
        facts=groups.example_cluster(composite_pod_groups={"root": groups.root(topology=groups.ZONE)}),
    ),
    fails=Example(
        groups.pod_group(**groups.parent_fields("root"), **groups.topology_constraint(groups.ZONE)),
        config=groups.ON,
        facts=groups.example_cluster(composite_pod_groups={"root": groups.root(topology=groups.RACK)}),
    ),
)
def topology_order(stored: StoredObject, context: RuleContext) -> Results:
    """A tree's topology is decided from the root down, so a group in one rack is always in one zone. A wider constraint
    on a lower group has no effect, and most likely the two constraints were swapped. The pods start, so this is a
    warning.

    Source: kubernetes/enhancements, KEP-5732 and KEP-6012 (a parent's constraint holds for all below it); seen with
    v1.37.0.
    """
    bindings = context.facts.topology_bindings
    if stored.kind == WORKLOADS.kind:
        templates = {template.name: template for template in groups.templates_in(stored.spec)}
        workload = WorkloadTemplates({name: template.group for name, template in templates.items()})
        judged = [
            (template.path, template.group, _template_chain(template.group, workload))
            for template in templates.values()
        ]
    else:
        group = groups.group_of(stored)
        above = groups.known_ancestors(stored, group, context)
        judged = [(SPEC, group, [(Needed("composite_pod_groups", key), ancestor) for key, ancestor in above])]
    for place, group, chain in judged:
        nearest = next(((needed, ancestor.topology) for needed, ancestor in chain if ancestor.topology), None)
        if group.topology is None or nearest is None or group.topology == nearest[1]:
            continue
        if bindings is None or not (bindings or context.facts.is_whole("topology_bindings")):
            yield Unjudged(groups.topology_path(place), "the ClusterTopologyBindings", part="topology_bindings")
        elif groups.is_wider(group.topology, nearest[1] or "", bindings):
            yield Finding(
                at=groups.topology_path(place),
                value=group.topology,
                why=f"it has no effect, because the group above already requires the narrower {nearest[1]}",
                remedy="swap the two keys, or remove one of them",
                absent=nearest[0],
            )


_Holders = list[tuple[Needed | None, TreeGroup]]


def _template_chain(template: TreeGroup, workload: WorkloadTemplates) -> _Holders:
    holders: _Holders = []
    while template.parent is not None and len(holders) < MAX_DEPTH:
        above = workload.templates.get(template.parent)
        if above is None:
            break
        holders.append((None, above))
        template = above
    return holders


NEVER = "Never"
_POLICIES = (groups.PREEMPTS, NEVER)
_POLICY = SPEC / "preemptionPolicy"


@rule(
    "kube/disruption-value",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(groups.pod_group(**groups.ALL), config=groups.ON, facts=groups.example_cluster()),
    fails=Example(groups.pod_group(disruptionMode="PodGroup"), config=groups.ON, facts=groups.example_cluster()),
)
def disruption_value(stored: StoredObject, _: RuleContext) -> Results:
    """The mode is written in another form in each version: `Pod` or `PodGroup` in 1.36, and an object with one of the
    empty members `single` and `all` since 1.37. The API server refuses the other form. In a file nothing else says so.

    Source: k8s.io/api scheduling/v1alpha2 (DisruptionMode) and scheduling/v1beta1, v1alpha3 (a union of two members).
    """
    specs: Iterable[tuple[FieldPath, Mapping[str, Any]]] = [(SPEC, stored.spec)]
    if stored.kind == WORKLOADS.kind:
        specs = ((template.path, template.spec) for template in groups.templates_in(stored.spec))
    for place, spec in specs:
        value = spec.get(workload_api.FIELD)
        if value is not None and not workload_api.is_written_for(value, of_1_37=groups.is_of_1_37(stored)):
            form = "all: {} or single: {}" if groups.is_of_1_37(stored) else "PodGroup or Pod"
            yield Finding(
                at=place / workload_api.FIELD,
                value=value,
                why=f"{stored.version} has no such mode, so the API server refuses the {stored.kind}",
                remedy=f"write {form}",
            )


_LOW = {
    "low": PriorityClass(10, is_default=False),
    "meek": PriorityClass(10, is_default=False, preemption_policy=NEVER),
}
_MEEK = groups.example_cluster(
    apis=groups.OF_1_38.apis, composite_pod_groups={"root": groups.root(priority_class="meek")}, priority_classes=_LOW
)
_MEEK_GROUP = groups.example_cluster(
    apis=groups.OF_1_38.apis,
    pod_groups={"worker": TreeGroup(composite=False, minimum=2, priority_class="meek")},
    priority_classes=_LOW,
)


@rule(
    "kube/group-preemption-policy",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(
        groups.pod_group(**groups.parent_fields("root"), priorityClassName="meek"), config=groups.ON, facts=_MEEK
    ),
    fails=Example(
        groups.pod_group(**groups.parent_fields("root"), priorityClassName="low"), config=groups.ON, facts=_MEEK
    ),
)
def group_preemption_policy(stored: StoredObject, context: RuleContext) -> Results:
    """A group has the preemption policy of its PriorityClass. From 1.38 on, and in 1.37 while the gate
    PodGroupPreemptionPolicy is on, the API server copies it into PodGroups and CompositePodGroups and refuses a group
    that states another one, and kube-scheduler blocks a tree whose pods have another policy than its root. Two classes
    with the same value may differ in it. From 1.38 on the API server also refuses a Workload whose templates differ in
    it. Before, and where the release is not known, this is a warning.

    Source: kubernetes v1.37.2 and v1.38.0-beta.0, plugin/pkg/admission/priority (admitPodGroup),
    pkg/scheduler/schedule_one_podgroup.go ("should have the same preemption policy"); v1.38.0-beta.0,
    pkg/apis/scheduling/validation/validation.go (validateWorkloadPriority).
    """
    if not groups.is_of_1_37(stored):
        return
    action, facts = groups.strongest_action(stored, context), context.facts
    if stored.kind == WORKLOADS.kind:
        yield from _differing_template(stored, action)
        return
    group = groups.group_of(stored)
    stated, of_class = group.preemption, groups.class_policy(group.priority_class, facts)
    if stated is not None and stated not in _POLICIES:
        remedy = f"write {' or '.join(_POLICIES)}, or remove it"
        yield _policy(stated, "the API server knows no such policy", remedy, action)
        return
    if stated is not None and of_class is not None and stated != of_class:
        why = f"its PriorityClass has {of_class}, so the API server refuses it"
        yield _policy(stated, why, "remove the field", action)
        return
    policy = groups.policy_of(group, facts)
    # In a cluster where every PriorityClass preempts, all groups have one policy.
    classes = (facts.priority_classes or {}).values()
    if stated is None and all(priority_class.preemption_policy != NEVER for priority_class in classes):
        return
    for other in groups.neighbours(stored, group, facts):
        theirs = groups.policy_of(other.group, facts)
        if policy is not None and theirs is not None and policy != theirs:
            blocks = "blocks" if action is Action.DENY else "may block"
            why = (
                f"its preemption policy is {policy}, {other.called} has {theirs}, and kube-scheduler {blocks} the tree"
            )
            yield _policy(
                stated, why, "name one PriorityClass in all groups and pods of the tree", action, other.needed
            )
            return


def _differing_template(workload: StoredObject, action: Action) -> Iterator[Finding]:
    """Yields one finding for the first template that states another policy than the first one, or none where that
    does.
    """
    templates = list(groups.templates_in(workload.spec))
    for template in templates[1:]:
        if (stated := template.group.preemption) != (first := templates[0].group.preemption):
            yield Finding(
                at=template.path / "preemptionPolicy",
                value=stated,
                why=f"the template {templates[0].name} has {first or 'none'}, and Kubernetes 1.38 refuses a Workload "
                "with two preemption policies",
                remedy="write the same in all templates, or none",
                at_most=action,
            )
            return


def _policy(stated: str | None, why: str, remedy: str, action: Action, absent: Needed | None = None) -> Finding:
    return Finding(at=_POLICY, value=stated, why=why, remedy=remedy, absent=absent, at_most=action)


@rule(
    "kube/pod-preemption-policy",
    kinds=(JUDGED_PODS,),
    passes=Example(groups.member(priorityClassName="meek"), config=groups.ON, facts=_MEEK_GROUP),
    fails=Example(groups.member(priorityClassName="low"), config=groups.ON, facts=_MEEK_GROUP),
)
def pod_preemption_policy(stored: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler rejects a whole group if the preemption policy of one pod differs: from that of the tree's root
    from 1.38 on, and in 1.37 while the gate PodGroupPreemptionPolicy is on; else from that of the other pods. Before
    1.38, and where the release is not known, this is a warning.

    Source: kubernetes v1.37.2, pkg/scheduler/schedule_one_podgroup.go (validatePodGroup); v1.38.0-beta.0
    (validatePodGroupHierarchy).
    """
    facts = context.facts
    key, group = groups.pod_group_of(stored, facts)
    if group is None:
        return
    top, above = key, list(ancestors(key, group, facts.composite_pod_groups or {}))
    if above:
        top, group = above[-1]
    pod_policy = text(stored.spec.get("preemptionPolicy")) or groups.class_policy(
        text(stored.spec.get("priorityClassName")), facts
    )
    group_policy = groups.policy_of(group, facts)
    if pod_policy is not None and group_policy is not None and pod_policy != group_policy:
        yield Finding(
            at=_POLICY,
            value=pod_policy,
            why=f"{'the root ' if above else ''}group {top[1]} has {group_policy}, and kube-scheduler rejects a group "
            "whose pods have another preemption policy",
            remedy=f"name the group's PriorityClass {group.priority_class}" if group.priority_class else "remove it",
            absent=Needed("composite_pod_groups" if above else "pod_groups", top),
            at_most=groups.strongest_action(stored, context),
        )


_OF_JOB = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "1", "controller": True}]
}
_SINGLE = groups.pod_group(version="v1alpha2", disruptionMode="Pod")
_ALL_PODS = groups.pod_group(version="v1alpha2", disruptionMode="PodGroup")


@rule(
    "kube/group-single",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example(
        {**_ALL_PODS, "metadata": {**_ALL_PODS["metadata"], **_OF_JOB}},
        config=groups.ON,
        facts=groups.example_cluster(),
    ),
    fails=Example(
        {**_SINGLE, "metadata": {**_SINGLE["metadata"], **_OF_JOB}}, config=groups.ON, facts=groups.example_cluster()
    ),
)
def group_single(stored: StoredObject, _: RuleContext) -> Results:
    """The Job controller of 1.36 makes a group for each Indexed Job whose minimum is the parallelism, so the gang needs
    every pod. It sets no mode, and preemption then takes single pods of the running Job.

    Source: kubernetes/enhancements, KEP-5547; kubernetes v1.36.3, pkg/controller/job (gate WorkloadWithJob).
    """
    maker, group = controller_in(mapping(stored.raw.get("metadata"))), groups.group_of(stored)
    made_by_job = maker is not None and (maker.group, maker.kind) == ("batch", "Job")
    if (
        made_by_job
        and not groups.is_of_1_37(stored)
        and group.minimum is not None
        and group.disruption is Disruption.SINGLE
    ):
        yield Finding(
            at=SPEC / workload_api.FIELD,
            value=stored.spec.get(workload_api.FIELD),
            why="the Job needs every pod, but preemption may take single pods of it",
            remedy=f"opt the Job in and label it {DISRUPTION_LABEL}=all, or use Kubernetes 1.37 or newer and "
            "spec.scheduling",
        )


_GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@rule(
    "kube/owner-native-mode",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(
        job(scheduler=DEFAULT_SCHEDULER, scheduling={**_GANG, **groups.ALL}),
        config=groups.ON,
        facts=groups.example_cluster(),
    ),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, scheduling=_GANG), config=groups.ON, facts=groups.example_cluster()),
)
def native_mode(workload: OptedInWorkload, _: RuleContext) -> Results:
    """The Job controller of 1.37 makes the gang of a Job with `spec.scheduling`, and its mode is `single` unless it is
    stated there. The label with Rollcall's mode has no effect then. If the gang needs every pod, preemption of one pod
    leaves the others below the minimum.

    Source: k8s.io/api batch/v1 (JobSchedulingConfiguration.disruptionMode), v0.37.0; KEP-5547.
    """
    if not isinstance(workload, Job) or workload.native_path is None:
        return
    scheduling = mapping(workload.spec.get("scheduling"))
    gang = mapping(scheduling.get("schedulingPolicy")).get("gang")
    minimum, pods = integer(mapping(gang).get("minCount")), sum(part.pods for part in workload.parts)
    if gang is None or workload_api.stated_mode(scheduling) is Disruption.ALL:
        return
    labelled = workload.labels.get(DISRUPTION_LABEL)
    if labelled == Disruption.ALL:
        why = "the Job's own controller makes its gang and does not read the label, so preemption may take single pods"
        at, value = LABELS / DISRUPTION_LABEL, labelled
    elif labelled is None and pods > 1 and (minimum is None or minimum >= pods):
        why = "the gang needs every pod, but preemption may take single pods of it"
        at, value = SPEC / "scheduling" / workload_api.FIELD, scheduling.get(workload_api.FIELD)
    else:
        return
    yield Finding(at=at, value=value, why=why, remedy="set spec.scheduling.disruptionMode to all: {}")
