"""What kai-scheduler honours."""

from __future__ import annotations

from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends

_LEVEL = depends("a KAI Topology that has the domain among its levels")
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: SUPPORTED,
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: SUPPORTED,
    Capability.RESOURCE_CLAIMS: depends("shared GPU ResourceClaims that have the gang's queue as a label"),
    Capability.TOPOLOGY_WORKLOAD: _LEVEL,
    Capability.TOPOLOGY_SCALING_GROUP: _LEVEL,
    Capability.TOPOLOGY_CLIQUE: _LEVEL,
    Capability.TOPOLOGY_DIVERGENT: SUPPORTED,
    Capability.TOPOLOGY_PREFERRED: depends("a KAI Topology that has the level, not broader than the required one"),
    Capability.QUEUE: depends("one leaf Queue that exists, the same for all cliques"),
    Capability.PRIORITY_CLASS: depends("a PriorityClass that exists"),
}
