"""What the topology objects of all schedulers share: their metadata, and the settings of those that one
ClusterTopologyBinding feeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from webhook.backends.setting_values import TopologyObjects
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import GROUP, LABEL_MANAGED_BY
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding


class FedTopology(Protocol):
    """The settings of a scheduler whose topology objects are made from one ClusterTopologyBinding."""

    @property
    def topologyBinding(self) -> str | None:  # noqa: N802 - a key of the configuration
        """The name of the binding."""

    @property
    def topologyObjects(self) -> TopologyObjects:  # noqa: N802 - a key of the configuration
        """Whether the objects are written."""


def unfed_topology(scheduler: str, settings: FedTopology, kind: str) -> Iterator[str]:
    """The reason why no topology object is written although the settings ask for it."""
    if settings.topologyObjects == "write" and settings.topologyBinding is None:
        yield f"{scheduler}: no {kind} is written: topologyBinding names no ClusterTopologyBinding"


def topology_metadata(name: str, binding: ClusterTopologyBinding) -> Manifest:
    """The metadata of the object `name`; a binding from a file has no uid and owns nothing."""
    metadata: Manifest = {"name": name, "labels": {LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL}}
    if binding.uid is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": "ClusterTopologyBinding",
                "name": binding.name,
                "uid": binding.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return metadata
