"""Rules about gangs that no placement on nodes lets start: `fit/node`, `fit/total`, `fit/topology`, `fit/apart`."""

from __future__ import annotations

from typing import Any

from webhook.fit.verdict import Family
from webhook.model.findings import Action
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.fit.examples import GPU, nodes, racks
from webhook.validators.fit.findings import never_fits
from webhook.validators.registry import GANG_FITS, Context, Example, Results, Subject, rule


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
    return never_fits(Family.NODE, workload, context)


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
    return never_fits(Family.TOTAL, workload, context)


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
    return never_fits(Family.TOPOLOGY, workload, context)


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
    return never_fits(Family.APART, workload, context)
