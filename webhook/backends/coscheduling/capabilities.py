"""What Coscheduling honours. The texts of unsupported capabilities are messages of the rules that refuse them."""

from __future__ import annotations

from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported

TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)
NO_TOPOLOGY = unsupported(
    why="coscheduling takes no topology and would place the pods anywhere",
    remedy="remove the topologyConstraint, or choose another scheduler",
)
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: depends("cliques without pods to spare, because a gang is counted as a sum"),
    Capability.CLIQUE_MINIMUM: depends("a gang of one clique, because a gang is counted as a sum"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: unsupported(
        why="coscheduling cannot keep a multi-node NVLink group inside one NVLink domain",
        remedy='set "grove.io/mnnvl-group": "none" on the clique, remove "grove.io/auto-mnnvl", '
        "or choose another scheduler",
    ),
    # The in-tree plugin of the kube-scheduler that it is built on; its chart grants the rights.
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.PRIORITY_CLASS: depends("a PriorityClass that exists"),
    **dict.fromkeys(TOPOLOGY, NO_TOPOLOGY),
}
