"""Volcano's HyperNodes and Koordinator's ClusterNetworkTopology, nodes, and the binding that feeds them, in a cluster
by dictionary.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.configurations import configuration_of
from tests.series import value
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.topologies import BINDINGS, MANAGED_BY, RACK, ZONE, binding
from tests.unit.topology_bindings import racked
from webhook.backends.koordinator.gangs import NETWORK_TOPOLOGIES
from webhook.backends.volcano.keys import HYPER_NODES
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.nodes import NODES
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS

OBJECTS, ALL_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes", "/api/v1/nodes"
SERVED = tuple(
    found.resource for found in (POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, HYPER_NODES, NETWORK_TOPOLOGIES, NODES)
)


def fed(scheduler: str = "volcano", written: str = "write", name: str = "dc") -> Settings:
    config = {"topologyBinding": name, "topologyObjects": written}
    return settings_from(configuration_of({"name": scheduler, "config": config}), "test")


def world(*places: str, there: tuple[dict[str, Any], ...] = (), bindings: tuple[str, ...] = ("dc",)) -> WritableWorld:
    cluster = WritableWorld(*SERVED)
    for name in bindings:
        cluster.put(BINDINGS, levelled(ZONE, RACK, name=name))
    for name, labels in racked(*places).items():
        cluster.put(ALL_NODES, node(name, labels))
    for found in there:
        cluster.put(OBJECTS, deepcopy(found))
    return cluster


def levelled(*keys: str, name: str = "dc", reference: str | None = None) -> dict[str, Any]:
    found = binding(*keys, name=name)
    for level in found["spec"]["levels"]:
        level["domain"] = level["key"].rpartition("/")[2]
    if reference is not None:
        kept = {"schedulerName": "volcano", "topologyReference": reference}
        found["spec"]["schedulerTopologyBindings"] = [kept]
    return found


def node(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}}


def hyper_node(name: str, tier: int, tier_name: str, *members: str, ours: str | None = None) -> dict[str, Any]:
    """One that is there, with nodes as members in tier 1. `ours`: the uid of the binding that controls it."""
    kind = "Node" if tier == 1 else "HyperNode"
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if ours is not None:
        metadata["labels"] = {MANAGED_BY: "rollcall"}
        metadata["ownerReferences"] = [
            {"kind": "ClusterTopologyBinding", "name": ours.removeprefix("uid-"), "uid": ours, "controller": True}
        ]
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {"metadata": metadata, "spec": {"tier": tier, "tierName": tier_name, "members": listed}}


def members(cluster: WritableWorld) -> dict[str, list[str]]:
    """The names of the members of each HyperNode."""
    return {
        found["metadata"]["name"]: [one["selector"]["exactMatch"]["name"] for one in found["spec"]["members"]]
        for found in sorted(cluster.objects.get(OBJECTS, []), key=lambda one: one["metadata"]["name"])
    }


def names_written(cluster: WritableWorld) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path in cluster.writes]


def problems(found: Any, reason: str, scheduler: str = "volcano") -> float | None:
    return value(found.metrics.registry, "rollcall_topology_problems", scheduler=scheduler, reason=reason)


def notes(cluster: WritableWorld) -> dict[str, str]:
    return {event["reason"]: event["note"] for event in cluster.events}


PLACES = ("z1/r1", "z1/r1", "z1/r2", "z2/r3")
