"""What may add nodes to a cluster: the Cluster Autoscaler, machines of Cluster API, and NodePools of Karpenter.

Only that there is one is used, and Karpenter's startup taints. The shapes of nodes that may come are in the cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from webhook.model.keys import Api, ObjectKey
from webhook.model.node import Taint, taint_of
from webhook.model.projections import Projection, Resource, key_of, name_of
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, sequence

_CLUSTER_API = "cluster.x-k8s.io"
# Without it, the autoscaler leaves a group of machines alone.
_MOST_MACHINES = f"{_CLUSTER_API}/cluster-api-autoscaler-node-group-max-size"
# The Cluster Autoscaler can be told to write it elsewhere. Then it is only seen in files, by its annotation.
_STATUS = ("kube-system", "cluster-autoscaler-status")
_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
_MOST_STARTUP_TAINTS = 64
_OF_EVERY_NODE = ("cpu", "memory")
# The label of nodes that Karpenter made.
NODE_POOL_LABEL = "karpenter.sh/nodepool"


class NodeGrower(NamedTuple):
    """Something that may add nodes. `startup_taints` are on its nodes until they are set up, and pass."""

    startup_taints: tuple[Taint, ...] = ()


def _status(raw: Manifest) -> tuple[ObjectKey, NodeGrower] | None:
    key, annotations = key_of(raw), mapping(mapping(raw.get("metadata")).get("annotations"))
    return (key, NodeGrower()) if key == _STATUS or _UPDATED in annotations else None


def _machines(raw: Manifest) -> tuple[ObjectKey, NodeGrower] | None:
    """Machines that are scaled. Even at their highest number some may have no node yet."""
    scaled = _MOST_MACHINES in mapping(mapping(raw.get("metadata")).get("annotations"))
    return (key_of(raw), NodeGrower()) if scaled else None


def _node_pool(raw: Manifest) -> tuple[str, NodeGrower] | None:
    """A NodePool. A limit of 0 on what every node has switches it off; one on GPUs allows nodes without any."""
    spec = mapping(raw.get("spec"))
    limits = mapping(spec.get("limits"))
    if any(parse_quantity(limits.get(resource)) == 0 for resource in _OF_EVERY_NODE):
        return None
    template = mapping(mapping(spec.get("template")).get("spec"))
    taints = sequence(template.get("startupTaints"))[:_MOST_STARTUP_TAINTS]
    return name_of(raw), NodeGrower(tuple(taint_of(one) for one in taints))


def _of_cluster_api(
    part: str, kind: str, read: Callable[[Manifest], tuple[Any, Any] | None] = _machines
) -> tuple[Projection, ...]:
    return tuple(
        Projection(
            part,
            Resource(Api(_CLUSTER_API, version, kind), f"{kind.lower()}s"),
            read,
            awaited=False,
            fields=("metadata.annotations",),
        )
        for version in ("v1beta1", "v1beta2")
    )


CLUSTER_AUTOSCALER = Projection(
    "cluster_autoscaler",
    Resource(Api("", "v1", "ConfigMap"), "configmaps"),
    _status,
    field_selector="metadata.namespace={},metadata.name={}".format(*_STATUS),
    awaited=False,
    fields=("metadata.annotations",),
)
NODE_POOLS = Projection(
    "node_pools",
    Resource(Api("karpenter.sh", "v1", "NodePool"), "nodepools", namespaced=False),
    _node_pool,
    awaited=False,
    fields=("spec.limits", "spec.template.spec.startupTaints"),
)
GROWTH = (
    CLUSTER_AUTOSCALER,
    *_of_cluster_api("machine_deployments", "MachineDeployment"),
    *_of_cluster_api("machine_sets", "MachineSet"),
    *_of_cluster_api("machine_pools", "MachinePool"),
    NODE_POOLS,
)
