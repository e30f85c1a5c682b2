"""What kube-scheduler honours, with and without the Workload API."""

from __future__ import annotations

from webhook.backends.kube.settings import KubeSettings
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported

ONE_BY_ONE: CapabilityTable = {
    Capability.GANG: unsupported(
        why="gangScheduling is off in the profile, so no gang is made and the pods start one by one",
        remedy="turn it on (Kubernetes 1.35 or newer), or choose a gang scheduler",
    ),
    Capability.RESOURCE_CLAIMS: SUPPORTED,
}

_ON_TREES = depends("CompositePodGroup, in Kubernetes 1.37 or newer with its feature gates on")
GANGS: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: _ON_TREES,
    Capability.CLIQUE_MINIMUM: depends("CompositePodGroup, or a gang of one clique"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.TOPOLOGY_WORKLOAD: _ON_TREES,
    Capability.TOPOLOGY_SCALING_GROUP: _ON_TREES,
    Capability.TOPOLOGY_CLIQUE: _ON_TREES,
    Capability.TOPOLOGY_DIVERGENT: _ON_TREES,
    Capability.TOPOLOGY_PREFERRED: unsupported(
        why="the Workload API supports only required topology, not preferred topology",
        remedy="remove the preference, or require the domain",
    ),
    Capability.MULTI_NODE_NVLINK: unsupported(
        why="kube-scheduler does not keep a multi-node NVLink group inside one NVLink domain",
        remedy='set "grove.io/mnnvl-group": "none" on the clique, or choose another scheduler',
    ),
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.PRIORITY_CLASS: SUPPORTED,
}


def capabilities(settings: KubeSettings) -> CapabilityTable:
    """The capability table under these settings."""
    return GANGS if settings.gangScheduling else ONE_BY_ONE
