"""Rules about gangs that can never start: no placement on nodes lets them (`fit/node`, `fit/total`, `fit/topology`,
`fit/apart`), or a limit holds them back whatever nodes there are (`fit/quota`, `fit/queue`, `fit/devices`). They share
one judgement of each gang.
"""

from __future__ import annotations

from typing import Any

from webhook.fit.verdict import FitFamily, Witness
from webhook.model.capabilities import QUOTA_ANNOTATION
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import KaiQueue, Quota
from webhook.validators.examples import GPU, clique, devices, nodes, pod_clique_set, racks, required
from webhook.validators.registry import GANG_FITS, Context, Example, Results, Subject, rule
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

# The API server cuts a longer warning.
_MOST_BYTES = 256
_OR = ", or "


def never_fits(family: FitFamily, workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Yields one finding for each proof of that family. Gangs that share a proof have one finding."""
    reported: list[Witness] = []
    for fit in context.fits(workload):
        witness = fit.verdict.witness
        if witness is None or witness.family is not family or any(_repeats(witness, other) for other in reported):
            continue
        reported.append(witness)
        yield _shortened(witness)


def _repeats(witness: Witness, other: Witness) -> bool:
    """Returns whether a proof says nothing that another did not: the same of fewer members."""
    same = (witness.condition, witness.domain, witness.shortfalls) == (other.condition, other.domain, other.shortfalls)
    return same and set(witness.members) <= set(other.members)


def _shortened(witness: Witness) -> Finding:
    """Returns the finding of a proof, without the last remedies if it would be too long for a warning."""
    remedy = witness.remedy
    while True:
        finding = Finding(at=witness.at, value=witness.value, why=witness.why, remedy=remedy)
        shorter, left_out, _ = remedy.rpartition(_OR)
        if not left_out or len(f"fit/{witness.family}{finding}".encode()) <= _MOST_BYTES:
            return finding
        remedy = shorter


@rule(
    "fit/node",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    independent=True,
    passes=Example(pod_clique_set(clique("worker", requests={GPU: "8"})), facts=nodes(4, gpus=8)),
    fails=Example(pod_clique_set(clique("worker", requests={GPU: "16"})), facts=nodes(4, gpus=8)),
)
def no_node_for_a_pod(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A pod that fits on none of the nodes, even if it were alone there, waits for ever, and with it its gang. Nodes
    are taken as if no pod ran on them, and as if they were ready. The rule is silent if the cluster may get other
    nodes.

    Source: kubernetes 1.37, pkg/scheduler/framework/plugins/noderesources/fit.go and nodeaffinity; KAI-Scheduler
    v0.16.8, pkg/scheduler/api/pod_info; Volcano v1.15.1, pkg/scheduler/plugins/predicates.
    """
    return never_fits(FitFamily.NODE, workload, context)


@rule(
    "fit/total",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", replicas=4, requests={GPU: "8"})), facts=nodes(4, gpus=8)),
    fails=Example(pod_clique_set(clique("worker", replicas=5, requests={GPU: "8"})), facts=nodes(4, gpus=8)),
)
def no_room_for_the_gang(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang starts only when all pods of its minimum have a node at the same time. If the nodes have too little for
    them together, even without any other pod, the gang waits for ever. The rule is silent if the cluster may get other
    nodes.

    Source: koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/core/gang.go; kubernetes 1.37,
    pkg/scheduler/schedule_one_podgroup.go; Volcano v1.15.1, pkg/scheduler/api/job_info.go; KAI-Scheduler v0.16.8,
    pkg/scheduler/api/podgroup_info; scheduler-plugins v0.34.7, pkg/coscheduling/core/core.go.
    """
    return never_fits(FitFamily.TOTAL, workload, context)


@rule(
    "fit/topology",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", replicas=2, requests={GPU: "8"}), topologyConstraint=required("rack")),
        facts=racks(2, 2, gpus=8),
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=3, requests={GPU: "8"}), topologyConstraint=required("rack")),
        facts=racks(2, 2, gpus=8),
    ),
)
def no_domain_for_the_gang(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Pods that require one domain of a topology, such as a rack, wait for ever if no domain has room for all of them,
    even without any other pod. Only pods up to the minimum count. The rule is silent if the cluster may get other
    nodes, and where it is not known whether the scheduler applies the topology.

    Source: kubernetes 1.37, pkg/scheduler/framework/plugins/topologyaware; koordinator v1.8.0,
    pkg/scheduler/frameworkext/networktopology/tree.go; Volcano v1.15.1, pkg/scheduler/plugins/network-topology-aware;
    KAI-Scheduler v0.16.8, pkg/scheduler/plugins/topology.
    """
    return never_fits(FitFamily.TOPOLOGY, workload, context)


_APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "demo"}}}
            ]
        }
    }
}


@rule(
    "fit/apart",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", replicas=2, pod=_APART, labels={"app": "demo"})), facts=nodes(2, gpus=8)
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=3, pod=_APART, labels={"app": "demo"})), facts=nodes(2, gpus=8)
    ),
)
def too_few_places_apart(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Pods of one gang that must not share a node or another domain (required anti-affinity) wait for ever if there are
    fewer domains than pods. The same holds for a topology spread whose minDomains is above the number of domains. The
    rule is silent if the cluster may get other nodes.

    Source: kubernetes 1.37, pkg/scheduler/framework/plugins/interpodaffinity/filtering.go and podtopologyspread.
    """
    return never_fits(FitFamily.APART, workload, context)


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
def gang_above_quota(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose minimum requests more than a quota allows waits for ever, even if nothing else uses the quota: an
    ElasticQuota of Koordinator, or a ResourceQuota or LimitRange of the namespace, which refuses its pods.

    Source: koordinator v1.8.0, pkg/scheduler/plugins/elasticquota; kubernetes 1.37, pkg/quota/v1/evaluator/core/pods.go
    and plugin/pkg/admission/limitranger.
    """
    return never_fits(FitFamily.QUOTA, workload, context)


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
def gang_above_queue(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose minimum requests more than its queue, or a queue above that, may ever have waits for ever, even if
    nothing else runs in the queue.

    Source: KAI-Scheduler v0.16.8, pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go; Volcano
    v1.15.1, pkg/scheduler/plugins/{proportion,capacity}.
    """
    return never_fits(FitFamily.QUEUE, workload, context)


_CLAIMED = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]}


@rule(
    "fit/devices",
    looks_at=(GANG_FITS,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(
        pod_clique_set(clique("worker", pod=_CLAIMED)),
        facts=devices(2, each=8, amount=8),
        scheduler="default-scheduler",
    ),
    fails=Example(
        pod_clique_set(clique("worker", pod=_CLAIMED)),
        facts=devices(2, each=8, amount=12),
        scheduler="default-scheduler",
    ),
)
def too_few_devices(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """A gang whose ResourceClaims need more devices than a node, a domain or all nodes have waits for ever, even if all
    devices are free. The same holds for a claim of more than 32 devices, and for more than 256 pods that share a claim.

    Source: k8s.io/dynamic-resource-allocation v0.37.0, structured/internal/stable/allocator_stable.go; k8s.io/api
    resource/v1 (1.37).
    """
    return never_fits(FitFamily.DEVICES, workload, context)
