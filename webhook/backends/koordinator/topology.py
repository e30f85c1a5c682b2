"""From node label keys to the layers of Koordinator's ClusterNetworkTopology. Shared by the rules and by `gangs`.

An administrator chooses the layer names freely; only NodeTopologyLayer is built in (apis/extension,
pkg/scheduler/frameworkext/networktopology). The layer of a key is looked up, never guessed from its spelling.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from webhook.backends.inexpressible import UnknownTopology
from webhook.backends.koordinator.gang_settings import Topology
from webhook.backends.koordinator.keys import HOSTNAME, MUST_GATHER, NETWORK_TOPOLOGY, NODE_LAYER, ROOT_LAYER
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.known_objects import TopologyLayer
from webhook.model.version import Version

# Network topology exists since v1.7.
FIRST_VERSION = Version(1, 7)
THE_TOPOLOGY = Needed("network_topologies", NETWORK_TOPOLOGY)


def is_unknown(facts: ClusterFacts) -> bool:
    """Whether the ClusterNetworkTopology may exist and is not known."""
    return NETWORK_TOPOLOGY not in (facts.network_topologies or {}) and not facts.is_whole("network_topologies")


def unavailable(settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts) -> str | None:
    """Why this Koordinator does not support topology at all, or None. Unknown facts are not a reason."""
    if not settings.awareNetworkTopology:
        return "the scheduler runs without awareNetworkTopology, so a gang with topology never completes"
    if version is not None and version < FIRST_VERSION:
        return f"koord-scheduler {version} has no network topology, which was added in {FIRST_VERSION}"
    if facts.network_topologies is None or is_unknown(facts):
        return None
    layers = facts.network_topologies.get(NETWORK_TOPOLOGY)
    if layers is None:
        return f'the cluster has no ClusterNetworkTopology "{NETWORK_TOPOLOGY}", so every pod of the gang would fail'
    return (
        None
        if forms_tree(layers)
        else f'the ClusterNetworkTopology "{NETWORK_TOPOLOGY}" is not a chain down to {NODE_LAYER}'
    )


def forms_tree(layers: tuple[TopologyLayer, ...]) -> bool:
    """Whether koord-scheduler builds its tree: the parents of NodeTopologyLayer must include each entry once."""
    by_name = {layer.name: layer for layer in layers}
    seen = 0
    current = by_name.get(NODE_LAYER)
    while current is not None and seen <= len(layers):
        seen += 1
        current = by_name.get(current.parent) if current.parent else None
    return 0 < seen == len(layers) == len(by_name)


def layer_of(key: str, settings: KoordinatorSettings, facts: ClusterFacts) -> str | None:
    """The layer for a node label key, or None if there is none. Raises `UnknownTopology`."""
    if key == HOSTNAME:
        return NODE_LAYER
    if facts.network_topologies is None or is_unknown(facts):
        raise UnknownTopology("the ClusterNetworkTopology", "network_topologies")
    layers = facts.network_topologies.get(NETWORK_TOPOLOGY, ())
    mapped = settings.topologyKeyMappings.get(key)
    if mapped is not None:
        return mapped if any(layer.name == mapped for layer in layers) else None
    return next((layer.name for layer in layers if key in layer.label_keys), None)


def declared_layers(facts: ClusterFacts) -> frozenset[str] | None:
    """The names that a spec may give as layers; None if the ClusterNetworkTopology is unknown or missing."""
    layers = (facts.network_topologies or {}).get(NETWORK_TOPOLOGY)
    return None if layers is None else frozenset({NODE_LAYER, ROOT_LAYER, *(layer.name for layer in layers)})


def required_layers(spec: Topology) -> list[str]:
    """The layers that a spec requires."""
    return [entry.layer for entry in spec if entry.strategy == MUST_GATHER]


def undeclared(spec: Topology, names: Container[str]) -> Iterator[str]:
    """The layers that a spec requires and that are not among `names`."""
    return (layer for layer in required_layers(spec) if layer not in names)
