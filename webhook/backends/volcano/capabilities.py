"""What volcano honours. The texts of unsupported capabilities are messages of the rules that refuse them."""

from __future__ import annotations

from webhook.backends.families import without_nvlink_domains
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported

TOPOLOGY_OFF = unsupported(
    why="the profile's topology is off, so volcano would not keep the pods of the gang together",
    remedy="set the profile's topology to hypernode, or give up the topology: remove the topologyConstraint",
)
PREFERRED = unsupported(
    why="only a required domain is written for volcano, so a preferred one would be dropped",
    remedy="remove the preference, or require the domain",
)
_TOPOLOGY: CapabilityTable = {
    Capability.TOPOLOGY_WORKLOAD: depends("a HyperNode tier for the domain, and a minimum of all replicas"),
    Capability.TOPOLOGY_CLIQUE: depends("a HyperNode tier for the domain, and a minimum of all replicas"),
    Capability.TOPOLOGY_SCALING_GROUP: depends("a scaling group of a single clique"),
    Capability.TOPOLOGY_DIVERGENT: SUPPORTED,
}
_GENERAL: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: depends("no required topology over the clique"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: without_nvlink_domains("volcano"),
    Capability.RESOURCE_CLAIMS: unsupported(
        why="volcano may ignore resource claims (DRA, ComputeDomain): this depends on settings that Rollcall cannot "
        "read",
        remedy="request the devices as extended resources, or choose another scheduler",
    ),
    Capability.TOPOLOGY_PREFERRED: PREFERRED,
    Capability.QUEUE: depends("one leaf Queue that exists and is Open, the same for all cliques"),
    Capability.PRIORITY_CLASS: SUPPORTED,
}
_WITH_TOPOLOGY: CapabilityTable = {**_GENERAL, **_TOPOLOGY}
_WITHOUT_TOPOLOGY: CapabilityTable = {**_GENERAL, **dict.fromkeys(_TOPOLOGY, TOPOLOGY_OFF)}


def capabilities(settings: VolcanoSettings) -> CapabilityTable:
    """The capability table under these settings."""
    return _WITHOUT_TOPOLOGY if settings.topology == "off" else _WITH_TOPOLOGY
