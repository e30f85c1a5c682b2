"""ClusterTopologyBindings and nodes for the tests of topology objects."""

from __future__ import annotations

from typing import Any

from webhook.model.grove import ClusterTopologyBinding

ZONE, RACK, HOST = "example.com/zone", "example.com/rack", "kubernetes.io/hostname"

# What the topology objects that are made from `binding` belong to.
OWNER = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "name": "dc",
    "uid": "77",
    "controller": True,
    "blockOwnerDeletion": True,
}


def binding(*keys: str, name: str = "dc", references: dict[str, str] | None = None) -> ClusterTopologyBinding:
    """One whose levels have the last part of each key as domain."""
    spec: dict[str, Any] = {"levels": [{"domain": key.rpartition("/")[2], "key": key} for key in keys]}
    spec["schedulerTopologyBindings"] = [
        {"schedulerName": scheduler, "topologyReference": kept} for scheduler, kept in (references or {}).items()
    ]
    return ClusterTopologyBinding({"metadata": {"name": name, "uid": "77"}, "spec": spec})


def racked(*places: str) -> dict[str, dict[str, str]]:
    """Nodes n1, n2 and so on with the labels of `zone/rack`; an empty part is no label."""
    found = {}
    for number, place in enumerate(places, start=1):
        zone, _, rack = place.partition("/")
        labels = {HOST: f"n{number}"}
        if zone:
            labels[ZONE] = zone
        if rack:
            labels[RACK] = rack
        found[f"n{number}"] = labels
    return found
