"""Rules about PodCliqueSets under default-scheduler: what the Workload API cannot express, what kube-scheduler would
hold for ever, the label with the disruption mode, and what cannot be changed in an existing gang, by generation.

These rules apply only if gangScheduling is on, except the rule about a membership that was written by hand. The rules
about the disruption mode judge opted-in workloads as well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from webhook.backends import families
from webhook.backends.kube.gangs import MAX_TEMPLATES
from webhook.backends.kube.groups import FLAT, NO_WORKLOADS, ON, SERVES_TREES
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.workload_api import (
    CARRIES_CLASS,
    COMPOSITE,
    GANGS,
    GROUP,
    HIGHEST,
    ONE_BY_ONE,
    PREEMPTION_GATE,
    UNREAD,
    Generation,
    RuleContext,
    capabilities,
    class_problem,
    generation,
    is_of_1_38,
    missing,
    shows_workload_api,
    unread,
    workload_apis,
)
from webhook.model.capabilities import CHOICES, DISRUPTION_LABEL, Capability, Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import PodGangFacts, PriorityClass
from webhook.model.pod_template import PodTemplate
from webhook.validators.examples import clique, job, pod_clique_set, required
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.pod_guard import NEEDS_WORKLOAD
from webhook.validators.registry import Example, PodCliqueSetChange, Results, Subject, rule
from webhook.validators.shared_checks import has_gangs, spare_pods, unsupported
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

_CLIQUES = SPEC / "template" / "cliques"
# Why a topology has no effect, and what to do.
TOPOLOGY_GATE_OFF = (
    "schedulerGates lacks TopologyAwareWorkloadScheduling, so the scheduler ignores the constraint",
    "enable and list the gate, or give up the topology: remove it",
)
_TWO = (clique("leader", replicas=1), clique("worker"))


def _spoken(context: RuleContext) -> Generation | None:
    if not context.settings.gangScheduling:
        return None
    return generation(context.settings, workload_apis(context.settings, context.facts))


def _is_flat(context: RuleContext) -> bool:
    return _spoken(context) not in {None, Generation.TREE}


@rule(
    "kube/no-gang",
    capability=Capability.GANG,
    default=Action.WARN,
    passes=Example(pod_clique_set(), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set()),
)
def no_gang(_: PodCliqueSet, context: RuleContext) -> Results:
    """Without gangScheduling in the profile Rollcall makes no gang, and kube-scheduler binds each pod as soon as it
    fits. A part of the pods may hold their nodes while the others wait for ever.

    Source: kubernetes, pkg/scheduler/schedule_one.go; kubernetes/enhancements, KEP-4671.
    """
    if not context.settings.gangScheduling:
        alone, choice = ONE_BY_ONE[Capability.GANG], context.choice
        yield Finding(at=choice.path, value=choice.scheduler, why=alone.why, remedy=alone.remedy, once=True)


@rule(
    "kube/workload-api",
    capability=Capability.GANG,
    fails_closed=True,
    passes=Example(pod_clique_set(), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(), config=ON, facts=NO_WORKLOADS),
)
def workload_api(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without the Workload API a pod's membership is dropped without a message. The pod is created, and scheduled
    alone.

    Source: kubernetes/enhancements, KEP-4671 (the field is dropped while its gate is off); k8s.io/api
    scheduling/v1alpha1 (1.35), v1alpha2 (1.36), v1beta1 and v1alpha3 (1.37).
    """
    settings, apis = context.settings, workload_apis(context.settings, context.facts)
    if not settings.gangScheduling:
        return
    spoken = _spoken(context)
    if spoken is None and not shows_workload_api(apis):
        yield Unjudged(context.choice.path, "the served APIs (or the profile's apiGeneration)", part="apis")
    elif (needs := unread(settings, apis)) is not None:
        yield Unjudged(context.choice.path, needs, remedy=UNREAD, part="apis")
    elif spoken is None or (settings.hierarchical == "required" and spoken is not Generation.TREE):
        lacking = missing(settings) if spoken is None else str(COMPOSITE)
        yield Finding(
            at=context.choice.path,
            value=context.choice.scheduler,
            why=f"gangScheduling is on, and this cluster does not serve {lacking}",
            remedy="enable the API and its feature gates, or choose another scheduler",
            absent=Needed("apis"),
        )


@rule(
    "kube/flat-gang",
    capability=Capability.MULTIPLE_POD_GROUPS,
    fails_closed=True,
    passes=Example(pod_clique_set(*_TWO), config=ON, facts=FLAT),
    fails=Example(pod_clique_set(*_TWO), config={**ON, "flat": "refuse"}, facts=FLAT),
)
def flat_gang(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without CompositePodGroups every PodGroup is its own gang: one clique starts, and another may never start. If the
    cliques are merged into one PodGroup, only the sum of pods is counted. The sum is exact only if no clique has spare
    pods.

    Source: kubernetes/enhancements, KEP-4671 and KEP-6012; Grove's GREP-531.
    """
    if not _is_flat(context) or context.settings.flat == "allow":
        return
    if context.settings.flat == "refuse":
        several = context.uses[Capability.MULTIPLE_POD_GROUPS][0]
        yield Finding(
            at=several.path,
            value=several.value,
            why="without CompositePodGroup, kube-scheduler would start each clique as its own gang",
            remedy="use Kubernetes 1.37 or newer with CompositePodGroup, set the profile's flat to merge, "
            "or choose another scheduler",
        )
        return
    yield from spare_pods(
        workload,
        why="in one merged PodGroup, spare pods of this clique could replace pods of another",
        remedy="set minAvailable to replicas and remove autoScalingConfig, or use Kubernetes 1.37 or newer with "
        "CompositePodGroup",
    )


@rule(
    "kube/flat-allowed",
    capability=Capability.MULTIPLE_POD_GROUPS,
    default=Action.WARN,
    passes=Example(pod_clique_set(*_TWO), config={**ON, "flat": "allow"}, facts=SERVES_TREES),
    fails=Example(pod_clique_set(*_TWO), config={**ON, "flat": "allow"}, facts=FLAT),
)
def flat_allowed(workload: PodCliqueSet, context: RuleContext) -> Results:
    """The profile allows each clique to be its own gang, so only a part of the set may start.

    Source: as for kube/flat-gang.
    """
    if _is_flat(context) and context.settings.flat == "allow":
        several = context.uses[Capability.MULTIPLE_POD_GROUPS][0]
        yield Finding(
            at=several.path,
            value=several.value,
            why="with flat: allow each clique is its own gang, so one may start without the others",
            remedy="set the profile's flat to merge, or use Kubernetes 1.37 or newer with CompositePodGroup",
        )


@rule(
    "kube/too-many-groups",
    fails_closed=True,
    passes=Example(pod_clique_set(*_TWO), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(*(clique(f"c{index}") for index in range(9))), config=ON, facts=SERVES_TREES),
)
def too_many_groups(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A list of templates has at most eight entries. The API server refuses the ninth after the gang's pods were
    created.

    Source: k8s.io/api scheduling (WorkloadMaxPodGroups), all generations.
    """
    spoken = _spoken(context)
    if spoken is None or (spoken is not Generation.TREE and context.settings.flat == "merge"):
        return
    direct = sum(1 for member in workload.cliques if member.group is None)
    composites, lists = 0, list[int]()
    for group in workload.scaling_groups:
        replicas = min(group.min_available, group.replicas)
        if spoken is Generation.TREE and group.topology is not None:
            composites += replicas
            lists.append(len(group.clique_names))
        else:
            direct += replicas * len(group.clique_names)
    for count in (direct, composites, *lists):
        if count > MAX_TEMPLATES:
            yield Finding(
                at=_CLIQUES,
                value=count,
                why=f"a PodGang would have this many groups in one list, and the Workload API allows {MAX_TEMPLATES}",
                remedy="merge cliques, lower the scaling group's minAvailable, or choose another scheduler",
            )


@rule(
    "kube/topology",
    capability=(Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_SCALING_GROUP, Capability.TOPOLOGY_CLIQUE),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(topologyConstraint=required("rack")), config=ON, facts=FLAT),
)
def topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Only trees of groups can have topology. If the scheduler's gate is off, the constraint is stored and ignored.

    Source: kubernetes/enhancements, KEP-5732; Grove's GREP-531 refuses topology in its flat form.
    """
    gates = context.settings.schedulerGates
    if _is_flat(context):
        why, remedy = (
            "without CompositePodGroups a gang of the Workload API has no topology",
            "use Kubernetes 1.37 or newer with CompositePodGroup or another scheduler, or give up the topology: "
            "remove the topologyConstraint",
        )
    elif _spoken(context) is not None and gates is not None and "TopologyAwareWorkloadScheduling" not in gates:
        why, remedy = TOPOLOGY_GATE_OFF
    else:
        return
    for capability in (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_SCALING_GROUP, Capability.TOPOLOGY_CLIQUE):
        for use in context.uses.get(capability, ()):
            yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


@rule(
    "kube/preferred-topology",
    capability=(Capability.TOPOLOGY_PREFERRED, Capability.TOPOLOGY_SCALING_GROUP),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), config=ON, facts=SERVES_TREES),
    fails=Example(
        pod_clique_set(topologyConstraint={"topologyName": "dc", "pack": {"preferred": "rack"}}),
        config=ON,
        facts=SERVES_TREES,
    ),
)
def preferred_topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """The Workload API has one required key per group and no preferred key.

    Source: kubernetes/enhancements, KEP-5732.
    """
    if not context.settings.gangScheduling:
        return
    yield from unsupported(Capability.TOPOLOGY_PREFERRED, GANGS, context)
    support = GANGS[Capability.TOPOLOGY_PREFERRED]
    for group in workload.scaling_groups:
        # A scaling group's preference counts as group topology, not as preferred topology. Where trees are served, no
        # other rule refuses it.
        topology = group.topology
        if topology is not None and topology.preferred is not None:
            place = topology.preferred_path
            yield Finding(at=place, value=topology.preferred, why=support.why, remedy=support.remedy)


multi_node_nvlink = families.multi_node_nvlink(
    "kube/mnnvl",
    capabilities,
    """kube-scheduler ignores NVLink domains when it places the pods of a ComputeDomain.

    Source: ai-dynamo/grove, operator/internal/mnnvl; no plugin of kube-scheduler 1.37 knows ComputeDomains.
    """,
    facts=SERVES_TREES,
    config=ON,
)


@rule(
    "kube/preset-membership",
    looks_at=("schedulingGroup", "workloadRef"),
    subject=Subject.POD,
    membership=True,
    guard=NEEDS_WORKLOAD,
    passes=Example(
        pod_clique_set(clique("worker", pod={"schedulingGroup": {"podGroupName": "mine"}})),
        config=ON,
        facts=SERVES_TREES,
    ),
    fails=Example(pod_clique_set(clique("worker", pod={"schedulingGroup": {"podGroupName": "mine"}}))),
)
def preset_membership(pod: PodTemplate, context: RuleContext) -> Results:
    """A membership in a template means that another author creates the group's objects. Without gangScheduling no
    author is expected to create them, and the pods would wait for a group that never exists.

    Source: Grove's GREP-531 (preset schedulingGroup without the flag is rejected).
    """
    if context.settings.gangScheduling or context.workload is None:
        return
    for field in ("schedulingGroup", "workloadRef"):
        if pod.spec.get(field):
            yield Finding(
                at=pod.spec_path / field,
                value=pod.spec[field],
                why="the profile's gangScheduling is off, so no known author creates this group",
                remedy="remove the field, or enable gangScheduling in the profile",
            )


@rule(
    "kube/priority-disagree",
    looks_at=("priorityClassName",),
    subject=Subject.POD,
    guard=NEEDS_WORKLOAD,
    passes=Example(
        pod_clique_set(clique("worker", pod={"priorityClassName": "high"}), priorityClassName="high"),
        config=ON,
        facts=SERVES_TREES,
    ),
    fails=Example(
        pod_clique_set(clique("worker", pod={"priorityClassName": "low"}), priorityClassName="high"),
        config=ON,
        facts=SERVES_TREES,
    ),
)
def priority_disagree(pod: PodTemplate, context: RuleContext) -> Results:
    """kube-scheduler 1.37 rejects a whole group if the priority of one pod differs from the group's priority.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority".
    """
    workload = context.workload
    if workload is None or not context.settings.gangScheduling:
        return
    priority_class_name = pod.spec.get("priorityClassName")
    if priority_class_name and priority_class_name != workload.priority_class:
        yield Finding(
            at=pod.spec_path / "priorityClassName",
            value=priority_class_name,
            why=f"the gang's class is {workload.priority_class or 'none'}, "
            "and kube-scheduler rejects a gang with two priorities",
            remedy="set the class only at spec.template.priorityClassName",
        )


_CLASSES = {
    "high": PriorityClass(1000, is_default=False),
    "system-node-critical": PriorityClass(2_000_001_000, is_default=False),
}


@rule(
    "kube/priority-class",
    capability=Capability.PRIORITY_CLASS,
    fails_closed=True,
    passes=Example(
        pod_clique_set(priorityClassName="high"), config=ON, facts=replace(SERVES_TREES, priority_classes=_CLASSES)
    ),
    fails=Example(
        pod_clique_set(priorityClassName="system-node-critical"),
        config=ON,
        facts=replace(SERVES_TREES, priority_classes=_CLASSES),
    ),
)
def priority_class(workload: PodCliqueSet, context: RuleContext) -> Results:
    """From 1.37 on the class is part of the gang's groups. The API server refuses these groups if the class does not
    exist, and before 1.38 if it is one of the system's own. The gang would then have its Workload but no group. Where
    no CompositePodGroup is served, 1.37 and 1.38 look alike, and the system's own classes are refused.

    Source: kubernetes, plugin/pkg/admission/priority; k8s.io/api scheduling/v1beta1 (priority at most 1000000000); both
    seen with v1.37.0. v1.38.0-beta.0 has no such maximum.
    """
    name, classes = workload.priority_class, context.facts.priority_classes
    if name is None or _spoken(context) not in CARRIES_CLASS:
        return
    path = SPEC / "template" / "priorityClassName"
    if classes is None:
        yield Unjudged(path, "the PriorityClasses", part="priority_classes")
    elif (why := class_problem(classes.get(name), workload_apis(context.settings, context.facts))) is not None:
        yield Finding(
            at=path,
            value=name,
            why=why,
            remedy=f"name a PriorityClass that exists and whose value is at most {HIGHEST}",
            absent=None if name in classes else Needed("priority_classes", name),
        )


_ALL, _UNKNOWN = {DISRUPTION_LABEL: "all"}, {DISRUPTION_LABEL: "gang"}
_OF_1_35 = ClusterFacts(apis=frozenset({Api(GROUP, "v1alpha1", "Workload")}))
_AT = LABELS / DISRUPTION_LABEL


@rule(
    "kube/disruption-mode",
    passes=Example(pod_clique_set(labels=_ALL), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(labels=_UNKNOWN), config=ON, facts=SERVES_TREES),
)
def disruption_mode(workload: PodCliqueSet, _: RuleContext) -> Results:
    """An unknown disruption mode would silently count as none, and the mode of a gang never changes after its creation.

    Source: k8s.io/api scheduling/v1beta1: disruptionMode is immutable, and has the members single and all.
    """
    yield from _unknown(workload.labels)


@rule(
    "kube/owner-disruption-mode",
    subject=Subject.OPTED_IN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=SERVES_TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_UNKNOWN), config=ON, facts=SERVES_TREES),
)
def owner_disruption_mode(workload: OptedInWorkload, _: RuleContext) -> Results:
    """An unknown disruption mode would silently count as none, and the mode of a gang never changes after its creation.

    Source: as for kube/disruption-mode.
    """
    yield from _unknown(workload.labels)


@rule(
    "kube/disruption-ignored",
    default=Action.WARN,
    passes=Example(pod_clique_set(labels=_ALL), config=ON, facts=SERVES_TREES),
    fails=Example(pod_clique_set(labels=_ALL), config=ON, facts=_OF_1_35),
)
def disruption_ignored(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without gangs, in Kubernetes 1.35, and in 1.36 without its feature gate, preemption takes single pods of a gang.
    With the gate, 1.36 respects the mode when a gang preempts, but not when a pod does that is in no gang.

    Source: k8s.io/api scheduling/v1alpha1 has no disruptionMode; kubernetes/enhancements, KEP-5710; kubernetes v1.36.3,
    pkg/scheduler/framework/plugins/defaultpreemption (`SelectVictimsOnNode`); seen with v1.36.3.
    """
    yield from _ignored(workload.labels, context)


@rule(
    "kube/owner-disruption-ignored",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=SERVES_TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=_OF_1_35),
)
def owner_disruption_ignored(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Without gangs, in Kubernetes 1.35, and in 1.36 without its feature gate, preemption takes single pods of a gang.
    With the gate, 1.36 respects the mode when a gang preempts, but not when a pod does that is in no gang.

    Source: as for kube/disruption-ignored.
    """
    yield from _ignored(workload.labels, context)


def _unknown(labels: Mapping[str, Any]) -> Results:
    choice = labels.get(DISRUPTION_LABEL)
    if choice is not None and choice not in CHOICES:
        yield Finding(
            at=_AT,
            value=choice,
            why="there is no such disruption mode, so preemption might take single pods of a gang that needs them all",
            remedy=f"set the label to one of {', '.join(CHOICES)}, or remove it",
            instead=CHOICES,
        )


def _ignored(labels: Mapping[str, Any], context: RuleContext) -> Results:
    if labels.get(DISRUPTION_LABEL) != Disruption.ALL:
        return
    settings = context.settings
    spoken = generation(settings, workload_apis(context.settings, context.facts))
    if not settings.gangScheduling:
        why, remedy = "gangScheduling is off, so there is no gang", "set the profile's gangScheduling to true"
    elif spoken is Generation.V1ALPHA1:
        why, remedy = "Kubernetes 1.35 has no disruption mode", "use Kubernetes 1.36 or newer"
    elif (
        spoken is Generation.V1ALPHA2
        and settings.schedulerGates is not None
        and PREEMPTION_GATE not in settings.schedulerGates
    ):
        why = f"schedulerGates lacks {PREEMPTION_GATE}, so the scheduler ignores the mode"
        remedy = "enable the gate and add it to schedulerGates"
    elif spoken is Generation.V1ALPHA2:
        why = "in Kubernetes 1.36 a pod of no gang ignores the mode"
        remedy = "use Kubernetes 1.37 or newer, or give only gangs a higher priority"
    else:
        return
    yield Finding(
        at=_AT,
        value=Disruption.ALL.value,
        why=f"{why}, and preemption may take single pods",
        remedy=f"{remedy}, or remove the label",
    )


_LIVING = replace(FLAT, pod_gangs={("default", "demo-0"): PodGangFacts("demo")})
_FROZEN_MINIMUMS = frozenset({Generation.V1ALPHA1, Generation.V1ALPHA2})


@rule(
    "kube/frozen-shape",
    subject=Subject.CHANGE,
    fails_closed=True,
    passes=Example(pod_clique_set(), old=pod_clique_set(), config=ON, facts=_LIVING),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=4)),
        old=pod_clique_set(clique("worker", replicas=2, minimum=2)),
        config=ON,
        facts=_LIVING,
    ),
)
def frozen_shape(change: PodCliqueSetChange, context: RuleContext) -> Results:
    """The API server does not allow a change of the groups of a gang. Up to 1.36 their minimums are immutable as well,
    and from 1.37 on their topology and class. To apply such a change, the objects of an existing gang would have to be
    deleted under its pods. A merged gang is one group, and only the sum of its minimums is immutable. From 1.38 on the
    number of groups that a gang waits for is mutable, so groups can be added and removed, but not moved to another
    gang: a scaling group that stays keeps its cliques and its replicas in the base gang.

    Source: k8s.io/api scheduling (immutability by generation), seen with v1.35.4, v1.36.3 and v1.37.0; v1.38.0-beta.0
    (minGroupCount); Grove's GREP-531 rejects these updates.
    """
    spoken = _spoken(context)
    if spoken is None or has_gangs(change.new, context.facts) is False:
        return
    # A tree of 1.38 grows in place, as long as one of its groups stays.
    grows = (
        spoken is Generation.TREE
        and is_of_1_38(workload_apis(context.settings, context.facts)) is True
        and _has_common_group(change)
    )
    for what, before, now in _shape(change, spoken, merged=is_merged(context.settings, spoken), grows=grows):
        if before != now:
            yield Finding(
                at=_CLIQUES,
                value=now,
                why=f"the Workload API does not allow a change of {what} in an existing gang",
                remedy="delete and recreate the PodCliqueSet",
                forbidden=True,
            )


Compared = list[tuple[str, object, object]]


def _has_common_group(change: PodCliqueSetChange) -> bool:
    """Returns whether a clique of the set before has the same PodGroups afterwards."""
    old, new = ({(member.name, member.group and member.group.name) for member in each.cliques} for each in change)
    return bool(old & new)


def _shape(change: PodCliqueSetChange, spoken: Generation, *, merged: bool, grows: bool) -> Compared:
    """Returns what is compared of the gangs. The groups themselves may differ if they are `merged`, or if the gang
    `grows`.
    """
    old, new = change
    stay = {member.name for member in old.cliques} & {member.name for member in new.cliques}
    groups = {group.name for group in old.scaling_groups} & {group.name for group in new.scaling_groups}

    def least(workload: PodCliqueSet) -> dict[str, int]:
        return {member.name: member.min_available for member in workload.cliques if member.name in stay}

    shape: Compared = []
    if not merged and not grows:
        shape.append(("the cliques", _names(old), _names(new)))
    if not merged:
        # A gang that grows may get and lose scaling groups. In one that stays, a PodGroup may have to move between the
        # base gang and a scaled one, and what a PodGroup is below is immutable.
        before, now = _base(old), _base(new)
        compared = groups if grows else before.keys() | now.keys()
        shape.append(("the scaling groups in the base gang", _only(compared, before), _only(compared, now)))
    if spoken is Generation.TREE:
        # In earlier generations a gang with topology has no objects, so nothing is frozen.
        shape.append(("the required topology", _topologies(old, stay, groups), _topologies(new, stay, groups)))
    if spoken in CARRIES_CLASS:
        shape.append(("the priority class", old.priority_class, new.priority_class))
    if spoken in _FROZEN_MINIMUMS:
        shape += _sums(old, new) if merged else [("the minimums", least(old), least(new))]
    return shape


def _names(workload: PodCliqueSet) -> list[str]:
    return sorted(member.name for member in workload.cliques)


def _topologies(workload: PodCliqueSet, cliques: Container[str], groups: Container[str]) -> dict[str, str]:
    levels = {"the set": workload.topology}
    levels |= {f"group {group.name}": group.topology for group in workload.scaling_groups if group.name in groups}
    levels |= {f"clique {member.name}": member.topology for member in workload.cliques if member.name in cliques}
    return {
        level: topology.required for level, topology in levels.items() if topology is not None and topology.required
    }


_Base = dict[str, tuple[int, tuple[str, ...]]]


def _only(groups: Container[str], base: _Base) -> _Base:
    return {group: value for group, value in base.items() if group in groups}


def _base(workload: PodCliqueSet) -> _Base:
    """Returns, by scaling group, the number of replicas in the base gang, and the cliques of each. Every other replica
    is its own gang that can be added and removed.
    """
    return {
        group.name: (min(group.min_available, group.replicas), tuple(sorted(group.clique_names)))
        for group in workload.scaling_groups
    }


def _sums(old: PodCliqueSet, new: PodCliqueSet) -> Compared:
    before, now = _sums_of(old), _sums_of(new)
    return [(f"the sum of the minimums{name}", before[name], now[name]) for name in before if name in now]


def _sums_of(workload: PodCliqueSet) -> dict[str, int]:
    """Returns the sum of the minimums in the base gang, and in one scaled gang of each scaling group that has scaled
    gangs.
    """
    total, scaled = 0, dict[str, int]()
    for member in workload.cliques:
        group = member.group
        total += member.min_available * (1 if group is None else min(group.min_available, group.replicas))
        if group is not None and group.replicas > group.min_available:
            place = f" in scaling group {group.name}"
            scaled[place] = scaled.get(place, 0) + member.min_available
    return {"": total, **scaled}
