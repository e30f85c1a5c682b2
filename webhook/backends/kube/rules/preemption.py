"""How groups that other programs store preempt and are preempted: the written form of their mode, their preemption
policy, which must be that of their pods, and gangs that need every pod but may lose one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kube import disruption
from webhook.backends.kube.facts import templates_in
from webhook.backends.kube.groups import PREEMPTS, group_of, is_of_1_37, most, neighbours, policy_named, policy_of
from webhook.backends.kube.keys import GROUPS, POD_GROUPS, WORKLOADS
from webhook.backends.kube.rules.examples import ALL, OF_1_38, ON, child_of, known, member, pod_group, root
from webhook.backends.kube.settings import RuleContext
from webhook.model.disruption import DISRUPTION_LABEL, Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.group_tree import Group, ancestors
from webhook.model.keys import Needed
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import integer, mapping, text
from webhook.model.stored_object import PODS, StoredObject
from webhook.model.workloads.job import Job
from webhook.model.workloads.podgang import controller_in
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

NEVER = "Never"
_POLICIES = (PREEMPTS, NEVER)
_POLICY = SPEC / "preemptionPolicy"


@rule(
    "kube/disruption-value",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**ALL), config=ON, facts=known()),
    fails=Example(pod_group(disruptionMode="PodGroup"), config=ON, facts=known()),
)
def disruption_value(found: StoredObject, _: RuleContext) -> Results:
    """The mode is written in another form in each version: `Pod` or `PodGroup` in 1.36, and an object with one of the
    empty members `single` and `all` since 1.37. The API server refuses the other form. In a file nothing else says so.

    Source: k8s.io/api scheduling/v1alpha2 (DisruptionMode) and scheduling/v1beta1, v1alpha3 (a union of two members).
    """
    if found.kind == WORKLOADS.kind:
        specs: Iterator[tuple[FieldPath, Mapping[str, Any]]] = (
            (one.path, one.spec) for one in templates_in(found.spec)
        )
    else:
        specs = iter([(SPEC, found.spec)])
    for place, spec in specs:
        value = spec.get(disruption.FIELD)
        if value is not None and not disruption.is_written_for(value, of_1_37=is_of_1_37(found)):
            wanted = "all: {} or single: {}" if is_of_1_37(found) else "PodGroup or Pod"
            yield Finding(
                at=place / disruption.FIELD,
                found=value,
                why=f"{found.version} has no such mode, so the API server refuses the {found.kind}",
                remedy=f"write {wanted}",
            )


_LOW = {
    "low": PriorityClass(10, is_default=False),
    "meek": PriorityClass(10, is_default=False, preemption_policy=NEVER),
}
_MEEK = known(apis=OF_1_38.apis, composite_pod_groups={"root": root(priority_class="meek")}, priority_classes=_LOW)
_MEEK_GROUP = known(
    apis=OF_1_38.apis,
    pod_groups={"worker": Group(composite=False, minimum=2, priority_class="meek")},
    priority_classes=_LOW,
)


@rule(
    "kube/group-preemption-policy",
    kinds=(WORKLOADS, *GROUPS),
    passes=Example(pod_group(**child_of("root"), priorityClassName="meek"), config=ON, facts=_MEEK),
    fails=Example(pod_group(**child_of("root"), priorityClassName="low"), config=ON, facts=_MEEK),
)
def group_preemption_policy(found: StoredObject, context: RuleContext) -> Results:
    """A group has the preemption policy of its PriorityClass. From 1.38 on, and in 1.37 while the gate
    PodGroupPreemptionPolicy is on, the API server copies it into PodGroups and CompositePodGroups and refuses a group
    that states another one, and kube-scheduler blocks a tree whose pods have another policy than its root. Two classes
    with the same value may differ in it. From 1.38 on the API server also refuses a Workload whose templates differ in
    it. Before, and where the release is not known, this is a warning.

    Source: kubernetes v1.37.2 and v1.38.0-beta.0, plugin/pkg/admission/priority (admitPodGroup),
    pkg/scheduler/schedule_one_podgroup.go ("should have the same preemption policy"); v1.38.0-beta.0,
    pkg/apis/scheduling/validation/validation.go (validateWorkloadPriority).
    """
    if not is_of_1_37(found):
        return
    action, facts = most(found, context), context.facts
    if found.kind == WORKLOADS.kind:
        yield from _of_templates(found, action)
        return
    group = group_of(found)
    stated, of_class = group.preemption, policy_named(group.priority_class, facts)
    if stated is not None and stated not in _POLICIES:
        remedy = f"write {' or '.join(_POLICIES)}, or remove it"
        yield _policy(stated, "the API server knows no such policy", remedy, action)
        return
    if stated is not None and of_class is not None and stated != of_class:
        why = f"its PriorityClass has {of_class}, so the API server refuses it"
        yield _policy(stated, why, "remove the field", action)
        return
    own = policy_of(group, facts)
    if stated is None and not _some_never(facts):
        return
    for other in neighbours(found, group, facts):
        theirs = policy_of(other.group, facts)
        if own is not None and theirs is not None and own != theirs:
            blocks = "blocks" if action is Action.DENY else "may block"
            why = f"its preemption policy is {own}, {other.called} has {theirs}, and kube-scheduler {blocks} the tree"
            yield _policy(
                stated, why, "name one PriorityClass in all groups and pods of the tree", action, other.needed
            )
            return


def _of_templates(workload: StoredObject, action: Action) -> Iterator[Finding]:
    """One finding for the first template that states another policy than the first one, or none where that does."""
    templates = list(templates_in(workload.spec))
    for one in templates[1:]:
        if (stated := one.group.preemption) != (first := templates[0].group.preemption):
            yield Finding(
                at=one.path / "preemptionPolicy",
                found=stated,
                why=f"the template {templates[0].name} has {first or 'none'}, and Kubernetes 1.38 refuses a Workload "
                "with two preemption policies",
                remedy="write the same in all templates, or none",
                at_most=action,
            )
            return


def _some_never(facts: ClusterFacts) -> bool:
    """Whether a PriorityClass does not preempt. In a cluster without such a class all groups have one policy."""
    return any(one.preemption_policy == NEVER for one in (facts.priority_classes or {}).values())


def _policy(stated: str | None, why: str, remedy: str, action: Action, absent: Needed | None = None) -> Finding:
    return Finding(at=_POLICY, found=stated, why=why, remedy=remedy, absent=absent, at_most=action)


@rule(
    "kube/pod-preemption-policy",
    kinds=(PODS,),
    passes=Example(member(priorityClassName="meek"), config=ON, facts=_MEEK_GROUP),
    fails=Example(member(priorityClassName="low"), config=ON, facts=_MEEK_GROUP),
)
def pod_preemption_policy(found: StoredObject, context: RuleContext) -> Results:
    """kube-scheduler rejects a whole group if the preemption policy of one pod differs: from that of the tree's root
    from 1.38 on, and in 1.37 while the gate PodGroupPreemptionPolicy is on; else from that of the other pods. Before
    1.38, and where the release is not known, this is a warning.

    Source: kubernetes v1.37.2, pkg/scheduler/schedule_one_podgroup.go (validatePodGroup); v1.38.0-beta.0
    (validatePodGroupHierarchy).
    """
    facts = context.facts
    key = (found.key[0], text(mapping(found.spec.get("schedulingGroup")).get("podGroupName")) or "")
    group = None if facts.pod_groups is None else facts.pod_groups.get(key)
    if group is None:
        return
    top, above = key, list(ancestors(key, group, facts.composite_pod_groups or {}))
    if above:
        top, group = above[-1]
    own = text(found.spec.get("preemptionPolicy")) or policy_named(text(found.spec.get("priorityClassName")), facts)
    wanted = policy_of(group, facts)
    if own is not None and wanted is not None and own != wanted:
        yield Finding(
            at=_POLICY,
            found=own,
            why=f"{'the root ' if above else ''}group {top[1]} has {wanted}, and kube-scheduler rejects a group whose "
            "pods have another preemption policy",
            remedy=f"name the group's PriorityClass {group.priority_class}" if group.priority_class else "remove it",
            absent=Needed("composite_pod_groups" if above else "pod_groups", top),
            at_most=most(found, context),
        )


_OF_JOB = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "demo", "uid": "1", "controller": True}]
}
_SINGLE = pod_group(version="v1alpha2", disruptionMode="Pod")
_TOGETHER = pod_group(version="v1alpha2", disruptionMode="PodGroup")


@rule(
    "kube/group-single",
    kinds=(POD_GROUPS,),
    default=Action.WARN,
    passes=Example({**_TOGETHER, "metadata": {**_TOGETHER["metadata"], **_OF_JOB}}, config=ON, facts=known()),
    fails=Example({**_SINGLE, "metadata": {**_SINGLE["metadata"], **_OF_JOB}}, config=ON, facts=known()),
)
def group_single(found: StoredObject, _: RuleContext) -> Results:
    """The Job controller of 1.36 makes a group for each Indexed Job whose minimum is the parallelism, so the gang needs
    every pod. It sets no mode, and preemption then takes single pods of the running Job.

    Source: kubernetes/enhancements, KEP-5547; kubernetes v1.36.3, pkg/controller/job (gate WorkloadWithJob).
    """
    maker, group = controller_in(mapping(found.raw.get("metadata"))), group_of(found)
    made_by_job = maker is not None and (maker.group, maker.kind) == ("batch", "Job")
    if made_by_job and not is_of_1_37(found) and group.minimum is not None and group.disruption is Disruption.SINGLE:
        yield Finding(
            at=SPEC / disruption.FIELD,
            found=found.spec.get(disruption.FIELD),
            why="the Job needs every pod, but preemption may take single pods of it",
            remedy=f"opt the Job in and label it {DISRUPTION_LABEL}=all, or use Kubernetes 1.37 or newer and "
            "spec.scheduling",
        )


_GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@rule(
    "kube/owner-native-mode",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, scheduling={**_GANG, **ALL}), config=ON, facts=known()),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, scheduling=_GANG), config=ON, facts=known()),
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
    asked, pods = integer(mapping(gang).get("minCount")), sum(part.pods for part in workload.parts)
    if gang is None or disruption.read(scheduling) is Disruption.ALL:
        return
    labelled = workload.labels.get(DISRUPTION_LABEL)
    if labelled == Disruption.ALL:
        why = "the Job's own controller makes its gang and does not read the label, so preemption may take single pods"
        at, value = LABELS / DISRUPTION_LABEL, labelled
    elif labelled is None and pods > 1 and (asked is None or asked >= pods):
        why = "the gang needs every pod, but preemption may take single pods of it"
        at, value = SPEC / "scheduling" / disruption.FIELD, scheduling.get(disruption.FIELD)
    else:
        return
    yield Finding(at=at, found=value, why=why, remedy="set spec.scheduling.disruptionMode to all: {}")
