"""Rules about gangs that a limit holds back for ever, whatever nodes there are: `fit/quota`, `fit/queue`,
`fit/devices`.
"""

from __future__ import annotations

from typing import Any

from webhook.fit.verdict import Family
from webhook.model.capabilities import QUOTA_ANNOTATION
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import KaiQueue, Quota
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.fit.examples import GPU, devices
from webhook.validators.fit.findings import never_fits
from webhook.validators.registry import GANG_FITS, Context, Example, Results, Subject, rule

_IN_QUOTA = {QUOTA_ANNOTATION: "team-a"}
_IN_QUEUE = {"kai.scheduler/queue": "team-a"}
_QUOTA = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False, max={GPU: 16})})
_QUEUE = ClusterFacts(
    kai_queues={
        "team-a": KaiQueue("research", limit={"gpu": None, "cpu": None, "memory": None}),
        "research": KaiQueue(None, limit={"gpu": 16_000, "cpu": None, "memory": None}),
    }
)


@rule(
    "fit/quota",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", replicas=2, requests={GPU: "8"}), annotations=_IN_QUOTA), facts=_QUOTA
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=3, requests={GPU: "8"}), annotations=_IN_QUOTA), facts=_QUOTA
    ),
)
def above_quota(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose minimum requests more than a quota allows waits for ever, even if nothing else uses the quota: an
    ElasticQuota of Koordinator, or a ResourceQuota or LimitRange of the namespace, which refuses its pods.

    Source: koordinator v1.8.0, pkg/scheduler/plugins/elasticquota; kubernetes 1.37, pkg/quota/v1/evaluator/core/pods.go
    and plugin/pkg/admission/limitranger.
    """
    return never_fits(Family.QUOTA, workload, context)


@rule(
    "fit/queue",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", replicas=2, requests={GPU: "8"}), labels=_IN_QUEUE),
        facts=_QUEUE,
        scheduler="kai-scheduler",
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=3, requests={GPU: "8"}), labels=_IN_QUEUE),
        facts=_QUEUE,
        scheduler="kai-scheduler",
    ),
)
def above_queue(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose minimum requests more than its queue, or a queue above that, may ever have waits for ever, even if
    nothing else runs in the queue.

    Source: KAI-Scheduler v0.16.8, pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go; Volcano
    v1.15.1, pkg/scheduler/plugins/{proportion,capacity}.
    """
    return never_fits(Family.QUEUE, workload, context)


_CLAIMED = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]}


@rule(
    "fit/devices",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", pod=_CLAIMED)),
        facts=devices(2, each=8, wanted=8),
        scheduler="default-scheduler",
    ),
    fails=Example(
        pod_clique_set(clique("worker", pod=_CLAIMED)),
        facts=devices(2, each=8, wanted=12),
        scheduler="default-scheduler",
    ),
)
def too_few_devices(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose ResourceClaims need more devices than a node, a domain or all nodes have waits for ever, even if all
    devices are free. The same holds for a claim of more than 32 devices, and for more than 256 pods that share a claim.

    Source: k8s.io/dynamic-resource-allocation v0.37.0, structured/internal/stable/allocator_stable.go; k8s.io/api
    resource/v1 (1.37).
    """
    return never_fits(Family.DEVICES, workload, context)
