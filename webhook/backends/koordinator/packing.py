"""What koord-scheduler places together: the minimum of every gang in a GangGroup, in one domain of the deepest layer
that must gather.

A layer is found in the ClusterNetworkTopology `default`. A node without the label of the layer directly above the nodes
is a domain of its own, and in no domain of a broader layer. A layer whose domains koord-scheduler mixes up is left out
(`layer_values`). A single pod starts anywhere. Pods above the minimum are packed into the same domain only if they
exist when koord-scheduler looks, so they prove nothing.

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/core/gang.go and
network_topology_workflow.go, pkg/scheduler/frameworkext/networktopology/tree.go.
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.inexpressible import UnknownTopology
from webhook.backends.koordinator.carried_topology import carried_topology
from webhook.backends.koordinator.gang_settings import Unreadable, read_topology
from webhook.backends.koordinator.keys import HOSTNAME, NETWORK_TOPOLOGY, NODE_LAYER
from webhook.backends.koordinator.layer_values import are_domains
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.koordinator.topology import layer_of, required_layers, unavailable
from webhook.errors import Inexpressible
from webhook.fit.packing import Packing, Partition
from webhook.fit.roles import Roles, group_of, in_no_domain, needs_in
from webhook.fit.shape import GangShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.known_objects import TopologyLayer
from webhook.model.version import Version

_UNKNOWN = "the layer of the ClusterNetworkTopology that the gang requires"


def packing_of(
    shape: GangShape, roles: Roles, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> Packing:
    """Return what koord-scheduler places together of a gang."""
    layer, at, left_out = _layer(shape, settings, version, facts)
    if layer is not None and sum(member.minimum for member in shape.needed) > 1:
        within = _partition(layer, at, facts)
        left_out = left_out or within is None
    else:
        within = None
    needs = needs_in(shape.needed, roles, in_no_domain)
    if not needs:
        return Packing((), left_out=shape.left_out)
    found = Packing((group_of(shape.name, needs, within),), left_out=shape.left_out)
    return replace(found, left_out=(*shape.left_out, _UNKNOWN)) if left_out else found


def _layer(
    shape: GangShape, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> tuple[str | None, FieldPath | None, bool]:
    """Return the layer that all pods of the gang must share, where that is required, and whether more is required that
    is not known, or that Koordinator cannot express.
    """
    if shape.opted_in is not None:
        return _carried(shape, settings, version, facts)
    keys = {member.required or shape.required for member in shape.members}
    if shape.subsets:
        keys.add(None)
    if keys <= {None}:
        return None, None, bool(shape.subsets)
    if len(keys) > 1 or unavailable(settings, version, facts) is not None:
        return None, None, True
    (key,) = keys
    try:
        layer = layer_of(key or "", settings, facts)
    except UnknownTopology:
        return None, None, True
    first = shape.members[0]
    return layer, first.required_at or shape.required_at, layer is None


def _carried(
    shape: GangShape, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> tuple[str | None, FieldPath | None, bool]:
    """Return the same for the annotation of an opted-in workload."""
    if shape.opted_in is None:
        return None, None, False
    try:
        written = carried_topology(shape.opted_in, settings, version, facts)
        layers = [] if written is None else required_layers(read_topology(written))
    except (Inexpressible, Unreadable):
        return None, None, True
    chain = _chain(facts)
    # The deepest layer counts. One outside the chain, such as the root, restricts nothing.
    deepest = next((layer for layer in chain if layer in layers), None)
    return deepest, None, False


def _chain(facts: ClusterFacts) -> list[str]:
    """Return the layers from that of single nodes up."""
    by_name = _layers(facts)
    found = [NODE_LAYER]
    current = by_name.get(NODE_LAYER)
    while current is not None and current.parent and current.parent not in found:
        found.append(current.parent)
        current = by_name.get(current.parent)
    return found


def _layers(facts: ClusterFacts) -> dict[str, TopologyLayer]:
    return {layer.name: layer for layer in (facts.network_topologies or {}).get(NETWORK_TOPOLOGY, ())}


def _partition(name: str, at: FieldPath | None, facts: ClusterFacts) -> Partition | None:
    """Return how nodes fall into domains of a layer; None if a domain is not the value of one label."""
    if name == NODE_LAYER:
        return Partition("node", (HOSTNAME,), at, own_domain=True)
    chain = _chain(facts)
    layers = _layers(facts)
    layer = layers.get(name)
    if layer is None or name not in chain or len(layer.label_keys) != 1:
        # Of several keys the first that a node has counts.
        return None
    place = chain.index(name)
    below = tuple(layers[one].label_keys for one in chain[1:place])
    if facts.nodes is not None and not are_domains(layer.label_keys[0], below, facts.nodes):
        return None
    broader = _partition(layer.parent, at, facts) if layer.parent in layers else None
    return Partition(name, layer.label_keys, at, own_domain=place == 1, broader=broader)
