"""Whether a cluster may get other nodes: by the configuration, else by what is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from webhook.fit.packing import FIXED, FitSettings, Growth, NodeGrowth, NodeTemplate, growth_of, startup_taints
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Api
from webhook.model.kueue_objects import AdmissionCheck
from webhook.model.nodes import NodeGrower, Nodes, Taint, node_of

AUTO = FitSettings()
POOL = ClusterFacts(node_pools={"a": NodeGrower((Taint("setup", "", "NoExecute"),))})
NONE = ClusterFacts(cluster_autoscaler={}, node_pools={}, machine_sets={}, machine_deployments={}, machine_pools={})
MADE_BY_KARPENTER = ClusterFacts(
    nodes=Nodes({"n": node_of({"metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "default"}}})})
)
KARPENTER, MACHINES = Api("karpenter.sh", "v1", "NodePool"), Api("cluster.x-k8s.io", "v1beta2", "MachineSet")
SEEN: dict[str, tuple[ClusterFacts, FitSettings, NodeGrowth]] = {
    "files that say nothing": (NO_FACTS, AUTO, FIXED),
    "nothing is there": (NONE, AUTO, FIXED),
    "a NodePool": (POOL, AUTO, NodeGrowth(grows=True, why="Karpenter")),
    "nodes that Karpenter made, in a list of nodes alone": (
        MADE_BY_KARPENTER,
        AUTO,
        NodeGrowth(grows=True, why="Karpenter"),
    ),
    "nodes that Karpenter made, and no NodePool": (replace(MADE_BY_KARPENTER, node_pools={}), AUTO, FIXED),
    "nodes that Kueue asks an autoscaler for": (
        ClusterFacts(admission_checks={"a": AdmissionCheck("kueue.x-k8s.io/provisioning-request")}),
        AUTO,
        NodeGrowth(grows=True, why="ProvisioningRequest"),
    ),
    "another admission check": (ClusterFacts(admission_checks={"a": AdmissionCheck("x")}), AUTO, FIXED),
    "the Cluster Autoscaler": (
        ClusterFacts(cluster_autoscaler={("kube-system", "cluster-autoscaler-status"): NodeGrower()}),
        AUTO,
        NodeGrowth(grows=True, why="Cluster Autoscaler"),
    ),
    "machines": (
        ClusterFacts(machine_pools={("a", "b"): NodeGrower()}),
        AUTO,
        NodeGrowth(grows=True, why="MachinePools"),
    ),
    "a ConfigMap that could not be read in a cluster": (
        ClusterFacts(apis=frozenset()),
        AUTO,
        NodeGrowth(grows=True, why="Cluster Autoscaler", certain=False),
    ),
    "served NodePools that could not be read": (
        ClusterFacts(cluster_autoscaler={}, apis=frozenset({KARPENTER})),
        AUTO,
        NodeGrowth(grows=True, why="Karpenter", certain=False),
    ),
    "machines of the second version that could not be read": (
        ClusterFacts(cluster_autoscaler={}, apis=frozenset({MACHINES})),
        AUTO,
        NodeGrowth(grows=True, why="MachineSets", certain=False),
    ),
    "a cluster without autoscalers": (ClusterFacts(cluster_autoscaler={}, apis=frozenset()), AUTO, FIXED),
    "fixed by the configuration": (POOL, FitSettings(nodes=Growth.FIXED), FIXED),
    "growing by the configuration": (
        NONE,
        FitSettings(nodes=Growth.MAY_GROW),
        NodeGrowth(grows=True, why="the configuration"),
    ),
    "node groups tell all that may come": (POOL, FitSettings(templates=(NodeTemplate("a", {}, {}),)), FIXED),
}


@pytest.mark.parametrize(("facts", "settings", "expected"), SEEN.values(), ids=SEEN)
def test_growth_is_stated_or_seen(facts: ClusterFacts, settings: FitSettings, expected: NodeGrowth) -> None:
    """What `why` must name is written here."""
    growth = growth_of(facts, settings)
    assert (growth.grows, growth.certain) == (expected.grows, expected.certain)
    assert bool(growth.why) is bool(expected.why)
    assert expected.why in growth.why


def test_startup_taints_are_those_of_node_pools() -> None:
    assert startup_taints(POOL) == {Taint("setup", "", "NoExecute")}
    assert startup_taints(NO_FACTS) == frozenset()
