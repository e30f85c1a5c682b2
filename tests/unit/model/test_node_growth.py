"""What may add nodes to a cluster, as facts."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.keys import Api
from webhook.model.nodes import CLUSTER_AUTOSCALER, GROWTH, NODE_POOLS, NodeGrower, Taint

MACHINES = next(one for one in GROWTH if one.part == "machine_sets")
SCALED = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5"}


def named(name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "annotations": fields.pop("annotations", {})}, **fields}


def test_the_status_of_the_cluster_autoscaler_is_one_config_map() -> None:
    read = CLUSTER_AUTOSCALER.read
    assert read(named("cluster-autoscaler-status", "kube-system")) is not None
    assert read(named("cluster-autoscaler-status", "team")) is None, "a tenant's"
    assert read(named("kube-root-ca.crt", "kube-system")) is None
    assert read(named("own", "scaling", annotations={"cluster-autoscaler.kubernetes.io/last-updated": "x"})) is not None
    assert CLUSTER_AUTOSCALER.selector == {
        "fieldSelector": "metadata.namespace=kube-system,metadata.name=cluster-autoscaler-status"
    }
    assert CLUSTER_AUTOSCALER.only_name == "cluster-autoscaler-status"


def test_machines_count_if_an_autoscaler_may_scale_them() -> None:
    assert MACHINES.read(named("a", annotations=SCALED)) == (("default", "a"), NodeGrower())
    assert MACHINES.read(named("a")) is None


@pytest.mark.parametrize("limits", [None, {}, {"cpu": "100"}, {"nvidia.com/gpu": "0"}])
def test_a_node_pool_adds_nodes_up_to_its_limits(limits: Any) -> None:
    taint = {"key": "example.com/setup", "effect": "NoExecute"}
    spec = {"limits": limits, "template": {"spec": {"startupTaints": [taint], "taints": [{"key": "team"}]}}}
    grower = NodeGrower((Taint("example.com/setup", "", "NoExecute"),))
    assert NODE_POOLS.read(named("a", spec=spec)) == ("a", grower)


def test_a_node_pool_with_a_limit_of_zero_adds_none() -> None:
    assert NODE_POOLS.read(named("a", spec={"limits": {"cpu": "0"}})) is None


def test_no_server_waits_for_them() -> None:
    assert not any(one.awaited for one in GROWTH)
    assert {one.resource.api for one in GROWTH} >= {
        Api("cluster.x-k8s.io", version, kind)
        for version in ("v1beta1", "v1beta2")
        for kind in ("MachineDeployment", "MachineSet", "MachinePool")
    }
