"""What coscheduling honours. The texts of the unsupported ones are the messages of the rules that refuse them."""

from __future__ import annotations

from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported

TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)

CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.SCALE_GANG: SUPPORTED,
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: depends("cliques without spare pods: only the sum of the minimums is counted"),
    Capability.CLIQUE_MINIMUM: depends("a gang of one clique: only the sum of the minimums is counted"),
    Capability.MULTI_NODE_NVLINK: unsupported(
        why="coscheduling cannot keep a multi-node NVLink group inside one NVLink domain",
        remedy='set "grove.io/mnnvl-group": "none" on the clique, or choose another scheduler',
    ),
    **dict.fromkeys(
        TOPOLOGY,
        unsupported(
            why="coscheduling does not support topology and would place the pods on any node",
            remedy="remove the topologyConstraint, or choose another scheduler",
        ),
    ),
}
