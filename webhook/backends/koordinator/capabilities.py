"""What koord-scheduler honours. The texts of unsupported capabilities are messages of the rules that refuse them."""

from __future__ import annotations

from webhook.backends.families import without_nvlink_domains
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported

CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: SUPPORTED,
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: without_nvlink_domains("koord-scheduler"),
    Capability.RESOURCE_CLAIMS: unsupported(
        why="koord-scheduler does not plan gangs with resource claims (DRA, ComputeDomain), and may count a GPU twice",
        remedy="request the devices as extended resources, or choose another scheduler",
    ),
    Capability.TOPOLOGY_WORKLOAD: depends("a layer of the ClusterNetworkTopology for each required key"),
    Capability.TOPOLOGY_CLIQUE: depends("the same required domain on every clique of the gang"),
    Capability.TOPOLOGY_PREFERRED: depends("a layer for the key; without one the preference is dropped"),
    Capability.TOPOLOGY_SCALING_GROUP: unsupported(
        why="koord-scheduler applies one topology to a whole gang, never to a part of it",
        remedy="move the constraint to spec.template.topologyConstraint, or choose another scheduler",
    ),
    Capability.TOPOLOGY_DIVERGENT: unsupported(
        why="koord-scheduler applies the topology of the clique that it tries first to the whole gang",
        remedy="require the same domain for every clique, preferably at spec.template.topologyConstraint",
    ),
    Capability.QUOTA: depends("one leaf ElasticQuota that exists, the same for all cliques"),
    Capability.QOS_CLASS: depends("a priority and CPU requests that koord-manager admits with the class"),
    Capability.PRIORITY_CLASS: depends("the priority class in the clique's own pod spec"),
}
