"""What Coscheduling honours. The texts of unsupported capabilities are messages of the rules that refuse them."""

from __future__ import annotations

from webhook.backends.families import TOPOLOGY, without_nvlink_domains, without_topology
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends

NO_TOPOLOGY = without_topology("coscheduling")
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: depends("cliques without spare pods, because only the sum of pods is counted"),
    Capability.CLIQUE_MINIMUM: depends("a gang of one clique, because only the sum of pods is counted"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: without_nvlink_domains("coscheduling"),
    # The in-tree plugin of the kube-scheduler that it is built on; its chart grants the rights.
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.PRIORITY_CLASS: depends("a PriorityClass that exists"),
    **dict.fromkeys(TOPOLOGY, NO_TOPOLOGY),
}
