"""Builders of the PodGroups and pods that Koordinator's rules show as examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.backends.koordinator.gang_settings import pod_group_facts
from webhook.backends.koordinator.keys import (
    ANNOTATION_GROUPS,
    ANNOTATION_MINIMUM,
    ANNOTATION_MODE,
    ANNOTATION_NAME,
    ANNOTATION_TOPOLOGY,
    GANG_PREFIX,
    NAME,
    POD_GROUP,
)
from webhook.model.facts import ClusterFacts
from webhook.model.gang_groups import KoordinatorPodGroups
from webhook.model.known_objects import TopologyLayer
from webhook.model.reading import Manifest
from webhook.model.stored_object import StoredObject


def pod_group(
    name: str = "leader", /, *listed: str, settings: Mapping[str, str] | None = None, **spec: Any
) -> Manifest:
    """A PodGroup that lists these gangs of its namespace. `settings` are annotations, keyed by the name after the
    prefix.
    """
    annotations = {ANNOTATION_MODE: "Strict", **_prefixed(settings)}
    if listed:
        annotations[ANNOTATION_GROUPS] = json.dumps([f"default/{other}" for other in listed])
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    api = f"{POD_GROUP.group}/{POD_GROUP.version}"
    return {"apiVersion": api, "kind": POD_GROUP.kind, "metadata": metadata, "spec": {"minMember": 2, **spec}}


def pod(*, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Manifest:
    """A pod of koord-scheduler."""
    metadata = {
        "name": "worker-0",
        "namespace": "default",
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    spec = {"schedulerName": NAME, "containers": [{"name": "main", "image": "example.com/main"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def annotated_pod(**settings: str) -> Manifest:
    """A pod that names its gang by the older annotation. Keywords are further settings, with `_` for `-`."""
    named = {ANNOTATION_NAME: "worker", ANNOTATION_MINIMUM: "2"}
    written = {key.replace("_", "-"): value for key, value in settings.items()}
    return pod(annotations={**named, **_prefixed(written)})


def gather(*rules: Mapping[str, Any]) -> dict[str, str]:
    """The setting of a network topology."""
    return {ANNOTATION_TOPOLOGY.removeprefix(GANG_PREFIX): json.dumps({"gatherStrategy": list(rules)})}


# A ClusterNetworkTopology with a layer above the nodes.
SPINE_LAYERS = {
    "default": (
        TopologyLayer("SpineLayer", None, ("example.com/spine",)),
        TopologyLayer("NodeTopologyLayer", "SpineLayer", ()),
    )
}


def gather_from(layer: str, strategy: str = "MustGather") -> dict[str, str]:
    """The annotation of a network topology of one layer."""
    return _prefixed(gather({"layer": layer, "strategy": strategy}))


def known(*pod_groups: Manifest, **facts: Any) -> ClusterFacts:
    """A cluster with these PodGroups."""
    views = [StoredObject(found, POD_GROUP.kind, POD_GROUP.version) for found in pod_groups]
    stored = KoordinatorPodGroups({view.key: pod_group_facts(view) for view in views})
    return ClusterFacts(koordinator_pod_groups=stored, **facts)


def _prefixed(settings: Mapping[str, str] | None) -> dict[str, str]:
    return {GANG_PREFIX + key: value for key, value in (settings or {}).items()}
