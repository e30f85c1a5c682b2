"""What lpx-scheduler honours, as far as Grove knows it."""

from __future__ import annotations

from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, unsupported

TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    **dict.fromkeys(
        TOPOLOGY,
        unsupported(
            why="lpx-scheduler takes no topology and would place the pods anywhere",
            remedy="remove the topologyConstraint, or choose another scheduler",
        ),
    ),
}
