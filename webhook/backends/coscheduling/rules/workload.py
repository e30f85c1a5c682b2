"""What Coscheduling would mishandle silently: it only counts pods."""

from __future__ import annotations

from webhook.backends.coscheduling.capabilities import CAPABILITIES, TOPOLOGY
from webhook.backends.coscheduling.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.known_objects import PriorityClass
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.membership import claimed, unsupported
from webhook.validators.registry import Example, Results, Subject, rule


@rule(
    "coscheduling/spare-pods",
    capability=Capability.MULTIPLE_POD_GROUPS,
    fails_closed=True,
    passes=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4))),
    fails=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2))),
)
def spare_pods(workload: PodCliqueSet, _: RuleContext) -> Results:
    """A PodGroup counts pods, whichever they are: three workers would do for two workers and a leader that has no room.
    The sum is exact while every clique of the gang needs all its pods.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`Permit`), v0.34.7.
    """
    for member in workload.cliques:
        if member.min_available != member.replicas or member.spec.get("autoScalingConfig"):
            yield Finding(
                at=member.path / "spec" / "minAvailable",
                found=member.min_available,
                why="coscheduling counts a gang as a sum, so its spare pods could stand in for another clique's",
                remedy="set minAvailable to replicas, without autoscaling, or choose another scheduler",
            )


@rule(
    "coscheduling/topology",
    capability=TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example(pod_clique_set(topologyConstraint=required("rack"))),
)
def topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A PodGroup says how many pods and for how long, and nothing about where: the gang would be spread over the
    cluster.

    Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go (`PodGroupSpec`), v0.34.7.
    """
    for capability in TOPOLOGY:
        yield from unsupported(capability, CAPABILITIES, context)


@rule(
    "coscheduling/mnnvl",
    capability=Capability.MULTI_NODE_NVLINK,
    passes=Example(pod_clique_set(clique("worker"), annotations={"grove.io/mnnvl-group": "train"})),
    fails=Example(
        pod_clique_set(
            clique("worker", requests={"nvidia.com/gpu": "8"}), annotations={"grove.io/mnnvl-group": "train"}
        )
    ),
)
def multi_node_nvlink(workload: PodCliqueSet, context: RuleContext) -> Results:
    """The pods of a ComputeDomain are placed without regard to NVLink domains, so a group may be split over racks, and
    its processes hang or fall back to a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl; no plugin of kubernetes-sigs/scheduler-plugins v0.34.7 knows
    ComputeDomains.
    """
    return unsupported(Capability.MULTI_NODE_NVLINK, CAPABILITIES, context)


_CLASSES = ClusterFacts(priority_classes={"inference": PriorityClass(125, is_default=False)})


@rule(
    "coscheduling/priority-class",
    capability=Capability.PRIORITY_CLASS,
    passes=Example(pod_clique_set(priorityClassName="inference"), facts=_CLASSES),
    fails=Example(pod_clique_set(priorityClassName="inferrence"), facts=_CLASSES),
)
def priority_class(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Pods are queued by their own priority, which they are given when they are created; of a class that does not exist
    there is none to give, and the gang would wait behind all others.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/coscheduling.go (`Less`), v0.34.7; ai-dynamo/grove,
    operator/internal/controller/podclique (pods get no class of their set's).
    """
    path, name = SPEC / "template" / "priorityClassName", workload.priority_class
    known = context.facts.priority_classes
    if known is None:
        yield Unjudged(path, "the PriorityClasses")
    elif name is not None and name not in known:
        yield Finding(
            at=path,
            found=name,
            why="there is no such PriorityClass, and the pods would have no priority",
            remedy="name a PriorityClass that exists, or create it first",
            absent=Needed("priority_classes", name),
        )


@rule(
    "coscheduling/claimed-pods",
    subject=Subject.POD,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker", labels={"scheduling.x-k8s.io/pod-group": "training"}))
    ),
)
def claimed_pods(pod: PodTemplate, context: RuleContext) -> Results:
    """A pod that bears another gang's membership is never prepared for this one, so its own gang waits for it for ever.

    Source: kubernetes-sigs/scheduler-plugins, pkg/util/podgroup.go (`GetPodGroupLabel`): a pod has one group.
    """
    return claimed(pod, context)
