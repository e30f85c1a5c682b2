"""What the capability table refuses, and what it cannot say: that a gang is counted as a sum."""

from __future__ import annotations

from rollcall_scheduler_plugins.capabilities import CAPABILITIES, TOPOLOGY
from rollcall_scheduler_plugins.settings import SchedulerPluginsSettings
from webhook.model.capabilities import Capability
from webhook.model.findings import Finding
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.registry import Context, Example, Results, rule
from webhook.workloads.pod_clique_set import PodCliqueSet

RuleContext = Context[SchedulerPluginsSettings]

# Named by `gangs`, too, which writes nothing for what the rules refuse.
SPARE_PODS = "scheduler-plugins/spare-pods"
TOPOLOGY_RULE = "scheduler-plugins/topology"

_GPU = clique("worker", requests={"nvidia.com/gpu": "8"})


def _unsupported(context: RuleContext, *capabilities: Capability) -> Results:
    """One finding for each place that asks for what the table refuses, with the table's words."""
    for capability in capabilities:
        support = CAPABILITIES[capability]
        for use in context.uses.get(capability, ()):
            yield Finding(at=use.path, value=use.value, why=support.why, remedy=support.remedy)


@rule(
    TOPOLOGY_RULE,
    capability=TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example(pod_clique_set(topologyConstraint=required("rack"))),
)
def topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Coscheduling counts pods and looks at no topology: a gang with a constraint would be spread over the cluster.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling and the PodGroup CRD (v1alpha1: minMember, minResources,
    scheduleTimeoutSeconds).
    """
    return _unsupported(context, *TOPOLOGY)


@rule(
    "scheduler-plugins/mnnvl",
    capability=Capability.MULTI_NODE_NVLINK,
    passes=Example(pod_clique_set(_GPU, annotations={"grove.io/mnnvl-group": "none"})),
    fails=Example(pod_clique_set(_GPU, annotations={"grove.io/mnnvl-group": "train"})),
)
def multi_node_nvlink(workload: PodCliqueSet, context: RuleContext) -> Results:
    """The pods of a ComputeDomain are placed without regard to NVLink domains, so that a group may be split over racks.

    Source: ai-dynamo/grove, operator/internal/mnnvl; kubernetes-sigs/scheduler-plugins knows no ComputeDomain.
    """
    return _unsupported(context, Capability.MULTI_NODE_NVLINK)


@rule(
    SPARE_PODS,
    fails_closed=True,
    passes=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4))),
    fails=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2))),
)
def spare_pods(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A PodGroup counts pods, whichever they are: four workers would do for two workers and a leader that has not come.
    The sum is exact while every member of the gang needs all its pods, or is the only one.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core (pods are counted by their label alone).
    """
    if _members(workload) == 1:
        return
    for member in workload.cliques:
        if member.min_available != member.replicas or member.spec.get("autoScalingConfig"):
            yield Finding(
                at=member.path / "spec" / "minAvailable",
                value=member.min_available,
                why="only the sum of pods is counted, so spare pods of this clique could replace pods of another",
                remedy="set minAvailable to replicas and remove autoScalingConfig, or choose another scheduler",
            )


def _members(workload: PodCliqueSet) -> int:
    """How many PodCliques the base gang has: each replica of a scaling group up to its minAvailable brings its own."""
    alone = sum(1 for member in workload.cliques if member.group is None)
    return alone + sum(
        min(group.min_available, group.replicas) * len(group.clique_names) for group in workload.scaling_groups
    )
