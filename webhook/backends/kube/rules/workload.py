"""What the Workload API cannot express, or what kube-scheduler would hold for ever. These rules apply only if
gangScheduling is on, except the rule about a membership that was written by hand.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends import families
from webhook.backends.kube.capabilities import GANGS, ONE_BY_ONE, capabilities
from webhook.backends.kube.gangs import MAX_TEMPLATES
from webhook.backends.kube.generation import (
    CARRIES_CLASS,
    COMPOSITE,
    HIGHEST,
    UNREAD,
    Generation,
    class_problem,
    generation,
    known,
    missing,
    unread,
    workload_apis,
)
from webhook.backends.kube.rules.examples import FLAT, NO_WORKLOADS, ON, TREES
from webhook.backends.kube.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import PriorityClass
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.membership import spare_pods, unsupported
from webhook.validators.pod_guard import NEEDS_WORKLOAD
from webhook.validators.registry import Example, Results, Subject, rule

_CLIQUES = SPEC / "template" / "cliques"
# Why a topology has no effect, and what to do.
TOPOLOGY_GATE_OFF = (
    "schedulerGates lacks TopologyAwareWorkloadScheduling, so the scheduler ignores the constraint",
    "enable and list the gate, or give up the topology: remove it",
)
_TWO = (clique("leader", replicas=1), clique("worker"))


def _spoken(context: RuleContext) -> Generation | None:
    return (
        generation(context.settings, workload_apis(context.settings, context.facts))
        if context.settings.gangScheduling
        else None
    )


def _is_flat(context: RuleContext) -> bool:
    return _spoken(context) not in {None, Generation.TREE}


@rule(
    "kube/no-gang",
    capability=Capability.GANG,
    default=Action.WARN,
    passes=Example(pod_clique_set(), config=ON, facts=TREES),
    fails=Example(pod_clique_set()),
)
def no_gang(_: PodCliqueSet, context: RuleContext) -> Results:
    """Without gangScheduling in the profile Rollcall makes no gang, and kube-scheduler binds each pod as soon as it
    fits. A part of the pods may hold their nodes while the others wait for ever.

    Source: kubernetes, pkg/scheduler/schedule_one.go; kubernetes/enhancements, KEP-4671.
    """
    if not context.settings.gangScheduling:
        alone, choice = ONE_BY_ONE[Capability.GANG], context.choice
        yield Finding(at=choice.path, found=choice.scheduler, why=alone.why, remedy=alone.remedy, once=True)


@rule(
    "kube/workload-api",
    capability=Capability.GANG,
    fails_closed=True,
    passes=Example(pod_clique_set(), config=ON, facts=TREES),
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
    if spoken is None and not known(apis):
        yield Unjudged(context.choice.path, "the served APIs (or the profile's apiGeneration)", part="apis")
    elif (needs := unread(settings, apis)) is not None:
        yield Unjudged(context.choice.path, needs, remedy=UNREAD, part="apis")
    elif spoken is None or (settings.hierarchical == "required" and spoken is not Generation.TREE):
        wanted = missing(settings) if spoken is None else str(COMPOSITE)
        yield Finding(
            at=context.choice.path,
            found=context.choice.scheduler,
            why=f"gangScheduling is on, and this cluster does not serve {wanted}",
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
            found=several.value,
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
    passes=Example(pod_clique_set(*_TWO), config={**ON, "flat": "allow"}, facts=TREES),
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
            found=several.value,
            why="with flat: allow each clique is its own gang, so one may start without the others",
            remedy="set the profile's flat to merge, or use Kubernetes 1.37 or newer with CompositePodGroup",
        )


@rule(
    "kube/too-many-groups",
    fails_closed=True,
    passes=Example(pod_clique_set(*_TWO), config=ON, facts=TREES),
    fails=Example(pod_clique_set(*(clique(f"c{index}") for index in range(9))), config=ON, facts=TREES),
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
                found=count,
                why=f"a PodGang would have this many groups in one list, and the Workload API allows {MAX_TEMPLATES}",
                remedy="merge cliques, lower the scaling group's minAvailable, or choose another scheduler",
            )


@rule(
    "kube/topology",
    capability=(Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_SCALING_GROUP, Capability.TOPOLOGY_CLIQUE),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), config=ON, facts=TREES),
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
            yield Finding(at=use.path, found=use.value, why=why, remedy=remedy)


@rule(
    "kube/preferred-topology",
    capability=(Capability.TOPOLOGY_PREFERRED, Capability.TOPOLOGY_SCALING_GROUP),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), config=ON, facts=TREES),
    fails=Example(
        pod_clique_set(topologyConstraint={"topologyName": "dc", "pack": {"preferred": "rack"}}),
        config=ON,
        facts=TREES,
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
            yield Finding(at=place, found=topology.preferred, why=support.why, remedy=support.remedy)


multi_node_nvlink = families.multi_node_nvlink(
    "kube/mnnvl",
    capabilities,
    """kube-scheduler ignores NVLink domains when it places the pods of a ComputeDomain.

    Source: ai-dynamo/grove, operator/internal/mnnvl; no plugin of kube-scheduler 1.37 knows ComputeDomains.
    """,
    facts=TREES,
    config=ON,
)


@rule(
    "kube/preset-membership",
    looks_at=("schedulingGroup", "workloadRef"),
    subject=Subject.POD,
    membership=True,
    guard=NEEDS_WORKLOAD,
    passes=Example(
        pod_clique_set(clique("worker", pod={"schedulingGroup": {"podGroupName": "mine"}})), config=ON, facts=TREES
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
                found=pod.spec[field],
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
        facts=TREES,
    ),
    fails=Example(
        pod_clique_set(clique("worker", pod={"priorityClassName": "low"}), priorityClassName="high"),
        config=ON,
        facts=TREES,
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
    own = pod.spec.get("priorityClassName")
    if own and own != workload.priority_class:
        yield Finding(
            at=pod.spec_path / "priorityClassName",
            found=own,
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
        pod_clique_set(priorityClassName="high"), config=ON, facts=replace(TREES, priority_classes=_CLASSES)
    ),
    fails=Example(
        pod_clique_set(priorityClassName="system-node-critical"),
        config=ON,
        facts=replace(TREES, priority_classes=_CLASSES),
    ),
)
def priority_class(workload: PodCliqueSet, context: RuleContext) -> Results:
    """From 1.37 on the class is part of the gang's groups. The API server refuses these groups if the class does not
    exist, and before 1.38 if it is one of the system's own. The gang would then have its Workload but no group. Where
    no CompositePodGroup is served, 1.37 and 1.38 look alike, and the system's own classes are refused.

    Source: kubernetes, plugin/pkg/admission/priority; k8s.io/api scheduling/v1beta1 (priority at most 1000000000); both
    seen with v1.37.0. v1.38.0-beta.0 has no such maximum.
    """
    name, known = workload.priority_class, context.facts.priority_classes
    if name is None or _spoken(context) not in CARRIES_CLASS:
        return
    path = SPEC / "template" / "priorityClassName"
    if known is None:
        yield Unjudged(path, "the PriorityClasses", part="priority_classes")
    elif (why := class_problem(known.get(name), workload_apis(context.settings, context.facts))) is not None:
        yield Finding(
            at=path,
            found=name,
            why=why,
            remedy=f"name a PriorityClass that exists and whose value is at most {HIGHEST}",
            absent=None if name in known else Needed("priority_classes", name),
        )
