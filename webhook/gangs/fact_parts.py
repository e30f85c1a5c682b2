"""Which parts of the facts the gangs of a cluster and the answers about their room depend on."""

from __future__ import annotations

from webhook.model.devices import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from webhook.model.kueue.projections import ADMISSION_CHECKS, LOCAL_QUEUES
from webhook.model.kueue.projections import WORKLOADS as KUEUE_WORKLOADS
from webhook.model.namespace_limits import LIMIT_RANGES, RESOURCE_QUOTAS
from webhook.model.node_growth import GROWTH
from webhook.model.nodes import NODES
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.workloads.facts import TRAIN_JOB_FACTS

# The parts of the facts that the translation of a gang reads, besides the gang and its workload.
OF_GANGS = frozenset(
    {"topology_bindings", "network_topologies", "hyper_nodes", "kai_topologies", "priority_classes", "apis"}
)
# The parts that change often and that no answer about room depends on.
NOT_OF_FITS = frozenset(
    {
        POD_CLIQUE_SETS.part,
        POD_GANG_MAPS.part,
        TRAIN_JOB_FACTS.part,
        KUEUE_WORKLOADS.part,
        ADMISSION_CHECKS.part,
    }
)
# The parts with objects that only gangs of the same namespace depend on.
OF_ONE_NAMESPACE = frozenset(
    projection.part
    for projection in (
        LIMIT_RANGES,
        LOCAL_QUEUES,
        POD_GANG_MAPS,
        RESOURCE_CLAIM_TEMPLATES,
        RESOURCE_CLAIMS,
        RESOURCE_QUOTAS,
    )
)
# The parts about nodes. In a large cluster one of them changes all the time, so gangs are not judged again at once.
OF_NODES = frozenset({NODES.part, RESOURCE_SLICES.part, *(projection.part for projection in GROWTH)})
