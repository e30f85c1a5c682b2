"""From a ClusterTopologyBinding to Koordinator's ClusterNetworkTopology, and how an existing one differs.

koord-scheduler reads only the ClusterNetworkTopology `default`, so one binding can be its source. The chain of layers
ends in the built-in NodeTopologyLayer. A layer has the name of its level's domain, or the name that the profile's
topologyKeyMappings gives its key, because constraints use that name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webhook.backends.inexpressible import inexpressible
from webhook.backends.koordinator.facts import NETWORK_TOPOLOGIES
from webhook.backends.koordinator.keys import HOSTNAME, NAME, NETWORK_TOPOLOGY, NODE_LAYER, ROOT_LAYER
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.topology_metadata import topology_metadata
from webhook.model.fields import SPEC
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import DriftReason, TopologyDrift


class _Layer(NamedTuple):
    name: str
    parent: str | None
    keys: tuple[str, ...]


def network_topology(binding: ClusterTopologyBinding, settings: KoordinatorSettings) -> list[Manifest]:
    """The ClusterNetworkTopology for `binding`; none if someone else manages it. Raises `Inexpressible`."""
    if NAME in binding.references:
        return []
    layers = _layers(binding, settings)
    if problem := _problem(binding, layers):
        remedy = "change the levels of the ClusterTopologyBinding"
        found = [level.key or "" for level in binding.levels]
        raise inexpressible("koordinator/topology", SPEC / "levels", found, problem, remedy=remedy)
    spec: list[Manifest] = []
    for name, parent, keys in layers:
        entry: Manifest = {"topologyLayer": name}
        if parent is not None:
            entry["parentTopologyLayer"] = parent
        if keys:
            entry["labelKey"] = list(keys)
        spec.append(entry)
    api = NETWORK_TOPOLOGIES.resource.api
    return [
        {
            "apiVersion": f"{api.group}/{api.version}",
            "kind": api.kind,
            "metadata": topology_metadata(NETWORK_TOPOLOGY, binding),
            "spec": {"networkTopologySpec": spec},
        }
    ]


def topology_drift(
    binding: ClusterTopologyBinding, live: Manifest | None, settings: KoordinatorSettings
) -> TopologyDrift | None:
    """How the ClusterNetworkTopology for `binding` differs: in its layers, in their order, or because it is missing.

    The names of layers may differ, because constraints are translated with the names that exist.
    """
    name = binding.references.get(NAME, NETWORK_TOPOLOGY)
    if live is None:
        return TopologyDrift(name, DriftReason.NOT_FOUND, f"ClusterNetworkTopology {name} is missing")
    stored = text(mapping(live.get("metadata")).get("name"))
    if stored not in {None, NETWORK_TOPOLOGY}:
        read = f"koord-scheduler reads only the ClusterNetworkTopology {NETWORK_TOPOLOGY}, so {stored} has no effect"
        return TopologyDrift(name, DriftReason.DRIFT, read)
    why = _difference(_layers(binding, settings), _chain(live), settings, binding.name)
    return None if why is None else TopologyDrift(name, DriftReason.DRIFT, f"ClusterNetworkTopology {name} {why}")


def _difference(
    wanted: list[_Layer], found: list[_Layer] | None, settings: KoordinatorSettings, binding: str
) -> str | None:
    """How the layers that were found differ from those of a binding, as the end of a sentence."""
    if found is None:
        return f"is not a chain of layers down to {NODE_LAYER}"
    same = len(found) == len(wanted) and all(
        set(one.keys) <= set(other.keys) for one, other in zip(wanted, found, strict=True)
    )
    if not same:
        return f"has layers for {_shown(found)}, and ClusterTopologyBinding {binding} has {_shown(wanted)}"
    for one, other in zip(wanted, found, strict=True):
        mapped = settings.topologyKeyMappings.get(one.keys[0]) if one.keys else None
        if mapped not in {None, other.name}:
            return f"has the layer {other.name} for {one.keys[0]}, and topologyKeyMappings says {mapped}"
    return None


def _layers(binding: ClusterTopologyBinding, settings: KoordinatorSettings) -> list[_Layer]:
    """The layers of the levels, broadest first; the last is that of nodes."""
    found: list[_Layer] = []
    for level in binding.levels:
        key = level.key or ""
        if key != HOSTNAME:
            name = settings.topologyKeyMappings.get(key, level.domain or "")
            found.append(_Layer(name, found[-1].name if found else None, (key,)))
    return [*found, _Layer(NODE_LAYER, found[-1].name if found else None, ())]


def _chain(live: Manifest) -> list[_Layer] | None:
    """The layers of an object, broadest first; None if they are not one chain that ends in the layer of nodes."""
    entries = [mapping(entry) for entry in sequence(mapping(live.get("spec")).get("networkTopologySpec"))]
    by_name: dict[str, _Layer] = {}
    for entry in entries:
        name = text(entry.get("topologyLayer")) or ""
        keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        by_name[name] = _Layer(name, text(entry.get("parentTopologyLayer")), keys)
    found = list(_upwards(by_name))
    return found[::-1] if len(found) == len(entries) == len(by_name) and found else None


def _upwards(by_name: dict[str, _Layer]) -> Iterator[_Layer]:
    layer = by_name.get(NODE_LAYER)
    for _ in by_name:
        if layer is None:
            return
        yield layer
        layer = by_name.get(layer.parent) if layer.parent else None


def _shown(layers: list[_Layer]) -> str:
    return ", ".join("|".join(layer.keys) for layer in layers[:-1]) or "nodes only"


def _problem(binding: ClusterTopologyBinding, layers: list[_Layer]) -> str | None:
    """Why koord-scheduler would not build its tree from these layers, or None."""
    names = [layer.name for layer in layers]
    keys = [level.key for level in binding.levels]
    if not keys or not all((*keys, *names)):
        return "each level of a ClusterNetworkTopology must have a domain and a node label key"
    if ROOT_LAYER in names:
        return f"{ROOT_LAYER} is the built-in layer of the whole cluster"
    if len(set(names)) < len(names) or len(set(keys)) < len(keys):
        return "each layer of a ClusterNetworkTopology must have a name and a node label key of its own"
    if HOSTNAME in keys[:-1]:
        return f"{HOSTNAME} can only be the narrowest level: it is the built-in {NODE_LAYER}"
    return None
