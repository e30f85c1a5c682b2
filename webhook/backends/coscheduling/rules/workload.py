"""What Coscheduling would mishandle silently: it only counts pods."""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.coscheduling.capabilities import CAPABILITIES
from webhook.backends.coscheduling.keys import GROUP_MARK, POD_GROUP, POD_GROUPS
from webhook.backends.coscheduling.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.reading import Manifest, integer
from webhook.model.stored_object import StoredObject
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators import membership
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Example, Results, rule

_INT32 = 2**31 - 1


def _pod_group(minimum: int) -> Manifest:
    metadata = {"name": "demo", "namespace": "default"}
    spec = {"minMember": minimum}
    return {
        "apiVersion": f"{POD_GROUP.group}/{POD_GROUP.version}",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": spec,
    }


@rule(
    "coscheduling/spare-pods",
    capability=Capability.MULTIPLE_POD_GROUPS,
    fails_closed=True,
    passes=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4))),
    fails=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2))),
)
def spare_pods(workload: PodCliqueSet, _: RuleContext) -> Results:
    """A PodGroup counts pods of any clique. Three workers would be enough for a gang of two workers and a leader, even
    if the leader has no room. The sum is exact if every clique of the gang needs all its pods.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`Permit`), v0.34.7.
    """
    return membership.spare_pods(
        workload,
        why="coscheduling counts only the sum of pods, so spare pods of this clique could replace pods of another",
        remedy="set minAvailable to replicas and remove autoScalingConfig, or choose another scheduler",
    )


topology = families.no_topology(
    "coscheduling/topology",
    CAPABILITIES,
    """A PodGroup has a number of pods and a timeout, but no topology. The scheduler would spread the gang over the
    cluster.

    Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go (`PodGroupSpec`), v0.34.7.
    """,
    fails_closed=True,
)


multi_node_nvlink = families.multi_node_nvlink(
    "coscheduling/mnnvl",
    CAPABILITIES,
    """The scheduler ignores NVLink domains when it places the pods of a ComputeDomain. A group may be split over racks,
    and its processes hang or use a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl; no plugin of kubernetes-sigs/scheduler-plugins v0.34.7 knows
    ComputeDomains.
    """,
)


priority_class = families.priority_class(
    "coscheduling/priority-class",
    """Pods are queued by their own priority, which they get at creation. A class that does not exist gives them no
    priority, and the gang would wait behind all others.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/coscheduling.go (`Less`), v0.34.7; ai-dynamo/grove,
    operator/internal/controller/podclique (pods get no class of their set's).
    """,
    why="the pods would have no priority",
)


claimed_pods = families.claimed_pods(
    "coscheduling/claimed-pods",
    source="kubernetes-sigs/scheduler-plugins, pkg/util/podgroup.go (`GetPodGroupLabel`): a pod has one group.",
    labels={"scheduling.x-k8s.io/pod-group": "training"},
)


foreign_member = families.foreign_member(
    "coscheduling/foreign-member",
    "kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`Permit`: pods are counted by label), v0.34.7.",
    POD_GROUP,
    GROUP_MARK,
)


@rule(
    "coscheduling/group-minimum",
    kinds=(POD_GROUPS,),
    passes=Example(_pod_group(4)),
    fails=Example(_pod_group(0)),
)
def group_minimum(found: StoredObject, _: RuleContext) -> Results:
    """The API server refuses a PodGroup whose minMember is below 1, or has more than 32 bits, as its timeout. Without a
    minMember the PodGroup holds no pod, and the pods start one by one.

    Source: kubernetes-sigs/scheduler-plugins, the CRD of scheduling.x-k8s.io/v1alpha1 (minimum: 1) and
    pkg/coscheduling/core/core.go (`Permit`), v0.34.7.
    """
    minimum = integer(found.spec.get("minMember"))
    if (minimum or 0) <= 0:
        yield Finding(
            at=SPEC / "minMember",
            found=minimum,
            why="coscheduling then waits for no other pod, so the pods start one by one"
            if minimum is None
            else "the API server refuses a minimum below 1",
            remedy="set it to the number of pods that must start together",
            at_most=Action.WARN if minimum is None else Action.DENY,
        )
    for field in ("minMember", "scheduleTimeoutSeconds"):
        number = integer(found.spec.get(field))
        if number is not None and number > _INT32:
            yield Finding(SPEC / field, number, "the API server refuses a number above 32 bits", "lower it")


group_pods = families.group_pods(
    "coscheduling/group-pods",
    """Coscheduling holds the pods of a PodGroup until as many as its minMember are there. With fewer they wait for
    ever. The rule counts the pods in the same files: pods, and the templates of their controllers.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`PreFilter`), v0.34.7.
    """,
    system="scheduler-plugins",
    kind=POD_GROUPS,
    version="v1alpha1",
)
