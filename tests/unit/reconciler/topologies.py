"""ClusterTopologyBindings and KAI's Topologies in a cluster by dictionary."""

from __future__ import annotations

from typing import Any

from tests.series import value
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.worlds import settings_of
from webhook.backends.kai.keys import POD_GROUP, PROJECTIONS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, Resource

BINDINGS, OBJECTS = "/apis/grove.io/v1alpha1/clustertopologybindings", "/apis/kai.scheduler/v1alpha1/topologies"
SERVED = (
    *(found.resource for found in (POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, *PROJECTIONS)),
    Resource(POD_GROUP, "podgroups"),
)
KAI = settings_of("kai-scheduler", standalone=False)
ZONE, RACK, ROW = "example.com/zone", "example.com/rack", "example.com/row"
MANAGED_BY = "app.kubernetes.io/managed-by"


def binding(*keys: str, name: str = "dc", reference: str | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"levels": [{"domain": f"d{index}", "key": key} for index, key in enumerate(keys)]}
    spec["schedulerTopologyBindings"] = (
        [{"schedulerName": "kai-scheduler", "topologyReference": reference}] if reference else []
    )
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}


def topology(*keys: str, owner: str | None = "uid-dc", manager: str | None = "rollcall") -> dict[str, Any]:
    """One that is there: controlled by the ClusterTopologyBinding dc of that uid, managed by that one."""
    controller = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "name": "dc",
        "uid": owner,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"name": "dc", "uid": "there"}
    if owner is not None:
        metadata["ownerReferences"] = [controller]
    if manager is not None:
        metadata["labels"] = {MANAGED_BY: manager}
    return {"metadata": metadata, "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


def world(*found: dict[str, Any], there: dict[str, Any] | None = None) -> WritableWorld:
    cluster = WritableWorld(*SERVED)
    for one in found:
        cluster.put(BINDINGS, one)
    if there is not None:
        cluster.put(OBJECTS, there)
    return cluster


def levels(cluster: WritableWorld, name: str = "dc") -> list[str] | None:
    found = cluster.get(OBJECTS, None, name)
    return None if found is None else [level["nodeLabel"] for level in found["spec"]["levels"]]


def methods(cluster: WritableWorld) -> list[str]:
    return [method for method, _ in cluster.writes]


def problems(found: Any, reason: str) -> float | None:
    return value(found.metrics.registry, "rollcall_topology_problems", scheduler="kai-scheduler", reason=reason)
