"""Whether a cluster may get other or more nodes, by the configuration or by what is seen of autoscalers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from webhook.fit.settings import FitSettings, Growth
from webhook.model.facts import ClusterFacts
from webhook.model.kueue.keys import PROVISIONING
from webhook.model.node import Taint
from webhook.model.node_growth import GROWTH, NODE_POOL_LABEL, NODE_POOLS, NodeGrower

# By part of the facts, what messages call it.
_CALLED = {
    "cluster_autoscaler": "the Cluster Autoscaler",
    "machine_deployments": "Cluster API, which scales MachineDeployments",
    "machine_sets": "Cluster API, which scales MachineSets",
    "machine_pools": "Cluster API, which scales MachinePools",
    "node_pools": "Karpenter",
}


class NodeGrowth(NamedTuple):
    """Whether nodes may come whose shape is unknown. `why` says by what, if so. `known` is whether that is certain:
    what could not be read may add nodes, too.
    """

    grows: bool
    why: str = ""
    known: bool = True


FIXED = NodeGrowth(grows=False)


def growth_of(facts: ClusterFacts, settings: FitSettings) -> NodeGrowth:
    """Return whether nodes may come whose shape is unknown. Node groups in the configuration tell all that may come."""
    if settings.templates or settings.nodes is Growth.FIXED:
        return FIXED
    if settings.nodes is Growth.MAY_GROW:
        return NodeGrowth(grows=True, why="the configuration")
    for part, found in _growers(facts):
        if found:
            return NodeGrowth(grows=True, why=_CALLED[part])
    if facts.node_pools is None and facts.nodes is not None and facts.nodes.has_key(NODE_POOL_LABEL):
        # A list of nodes alone shows that Karpenter made some of them.
        return NodeGrowth(grows=True, why=_CALLED[NODE_POOLS.part])
    if any(check.controller == PROVISIONING for check in (facts.admission_checks or {}).values()):
        return NodeGrowth(grows=True, why="Kueue, which asks for nodes by a ProvisioningRequest")
    unread = next((part for part, found in _growers(facts) if found is None and _is_served(facts, part)), None)
    if unread is None:
        return FIXED
    return NodeGrowth(grows=True, why=f"{_CALLED[unread]}, which could not be read", known=False)


def startup_taints(facts: ClusterFacts) -> frozenset[Taint]:
    """Return the taints that new nodes lose when they are set up."""
    return frozenset(taint for grower in (facts.node_pools or {}).values() for taint in grower.startup_taints)


def _growers(facts: ClusterFacts) -> Iterator[tuple[str, Mapping[object, NodeGrower] | None]]:
    for part in _CALLED:
        yield part, getattr(facts, part)


def _is_served(facts: ClusterFacts, part: str) -> bool:
    """Whether the cluster surely serves a kind of that part. Without a list of kinds nothing is known to be missing."""
    apis = (one.resource.api for one in GROWTH if one.part == part)
    return facts.apis is not None and any(api in facts.apis or not api.group for api in apis)
