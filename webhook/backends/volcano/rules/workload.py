"""What volcano would mishandle silently. Queues and topology have their own files."""

from __future__ import annotations

from webhook.backends.volcano.capabilities import capabilities
from webhook.backends.volcano.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import claimed, unsupported
from webhook.validators.registry import Example, Results, Subject, rule


@rule(
    "volcano/mnnvl",
    capability=Capability.MULTI_NODE_NVLINK,
    passes=Example(pod_clique_set(clique("worker"), annotations={"grove.io/mnnvl-group": "train"})),
    fails=Example(
        pod_clique_set(
            clique("worker", requests={"nvidia.com/gpu": "8"}), annotations={"grove.io/mnnvl-group": "train"}
        )
    ),
)
def multi_node_nvlink(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Grove puts such a clique's pods into a ComputeDomain by a resource claim, and Volcano's PodGroup says nothing of
    one: an NVLink group may be split over racks, and its processes hang or fall back to a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl (2026-08); the PodGroup CRD of scheduling.volcano.sh/v1beta1
    (v1.14.0 to 2026-08).
    """
    return unsupported(Capability.MULTI_NODE_NVLINK, capabilities(context.settings), context)


@rule(
    "volcano/resource-claims",
    capability=Capability.RESOURCE_CLAIMS,
    passes=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "8"}))),
    fails=Example(
        pod_clique_set(clique("worker", pod={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}))
    ),
)
def resource_claims(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Volcano looks at resource claims only where its configuration says so. That is off before v1.15 and cannot be
    probed; where it is off, a claim decides nothing about where its pod goes. Whoever knows that it is on may set this
    rule to warn.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/predicates (`predicate.DynamicResourceAllocationEnable`); release
    notes of v1.15.0. Not seen running.
    """
    return unsupported(Capability.RESOURCE_CLAIMS, capabilities(context.settings), context)


@rule(
    "volcano/claimed-pods",
    subject=Subject.POD,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker", annotations={"scheduling.k8s.io/group-name": "training"}))
    ),
)
def claimed_pods(pod: PodTemplate, context: RuleContext) -> Results:
    """A pod that bears another gang's membership is never prepared for this one, so its own gang waits for it for ever.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`getJobID`): a pod has one group.
    """
    return claimed(pod, context)
