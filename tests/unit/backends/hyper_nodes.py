"""HyperNodes, for the tests of topology on Volcano."""

from __future__ import annotations

from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import HyperNode, TopologyBinding

TIERS = ClusterFacts(
    topology_bindings={
        "dc": TopologyBinding({"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"})
    },
    hyper_nodes={
        "zone-1": HyperNode(3, "example.com/zone"),
        "block-1": HyperNode(2, "block"),
        "block-2": HyperNode(2, "block"),
        "rack-1": HyperNode(1, "rack"),
        "unnamed": HyperNode(4, None),
    },
)
ON = {"topology": "hypernode"}
LEADER, WORKER = "demo-0-leader", "demo-0-worker"


def nodes(**tiers: tuple[int, str]) -> ClusterFacts:
    bindings = {
        "dc": TopologyBinding({"rack": "example.com/rack"}),
        "old": TopologyBinding({"shelf": "example.com/rack"}),
    }
    return ClusterFacts(
        topology_bindings=bindings, hyper_nodes={name: HyperNode(*tier) for name, tier in tiers.items()}
    )


TIER, UNAVAILABLE = "volcano/topology-tier", "volcano/topology-unavailable"


SCALING, SURPLUS, PREFERRED = "volcano/scaling-group-topology", "volcano/topology-surplus", "volcano/preferred-topology"
