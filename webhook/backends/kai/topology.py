"""KAI's Topology objects: their levels, and how one is made from Grove's ClusterTopologyBinding.

A constraint names a Topology, and a level by its node label key. KAI reports a missing Topology. It does not report a
missing level; the gang stays pending (seen with v0.16.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webhook.backends.inexpressible import NoTopology, UnknownTopology, inexpressible
from webhook.backends.kai import keys
from webhook.backends.topology_metadata import topology_metadata
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.keys import Needed
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import DriftReason, TopologyDrift


def topology_name(binding: str, facts: ClusterFacts) -> str:
    """The Topology for a ClusterTopologyBinding: the one that the binding refers to, else the one with the binding's
    name.
    """
    known = (facts.topology_bindings or {}).get(binding)
    return binding if known is None else known.references.get(keys.NAME, binding)


def levels_of(binding: str, facts: ClusterFacts) -> tuple[str, ...]:
    """The node label keys of the Topology for `binding`, broadest first: its existing levels, or those it will be made
    with.

    Raises `UnknownTopology` and `NoTopology`.
    """
    name = topology_name(binding, facts)
    if facts.kai_topologies is not None and (levels := facts.kai_topologies.get(name)) is not None:
        return levels
    known = (facts.topology_bindings or {}).get(binding)
    if known is not None and keys.NAME not in known.references:
        levels = tuple(known.keys.values())
        if (problem := _problem(levels)) is None:
            return levels
        if facts.kai_topologies is not None:
            raise _missing(name, problem)
    if facts.kai_topologies is None:
        raise UnknownTopology("the KAI Topologies", "kai_topologies")
    if not facts.is_whole("topology_bindings"):
        raise UnknownTopology("the ClusterTopologyBinding", "topology_bindings")
    raise _missing(name)


def _missing(name: str, problem: str | None = None) -> NoTopology:
    """The cluster does not have this Topology, and it will not be made from a binding, because of `problem`."""
    missing = f"the cluster has no KAI Topology {name[:LABEL_VALUE_LIMIT]}"
    return NoTopology(missing if problem is None else f"{missing}, and {problem}", Needed("kai_topologies", name))


def topology_objects(binding: ClusterTopologyBinding) -> list[Manifest]:
    """The Topology for `binding`; none if someone else manages it. Raises `Inexpressible`."""
    if keys.NAME in binding.references:
        return []
    levels = [level.key or "" for level in binding.levels]
    if problem := _problem(levels):
        remedy = "change the levels of the ClusterTopologyBinding"
        raise inexpressible("kai/topology", SPEC / "levels", levels, problem, remedy=remedy)
    api, metadata = keys.TOPOLOGY, topology_metadata(binding.name, binding)
    spec = {"levels": [{"nodeLabel": key} for key in levels]}
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the aliases that other authors gave its levels. KAI lets any user edit aliases. The list of levels
    is written as a whole, so an alias that is not sent would be lost.
    """
    found = _levels(live)
    levels = desired["spec"]["levels"]
    if [text(level.get("nodeLabel")) for level in found] != [level["nodeLabel"] for level in levels]:
        return desired
    aliases = [text(level.get("alias")) for level in found]
    named = [
        level if alias is None else {**level, "alias": alias} for level, alias in zip(levels, aliases, strict=True)
    ]
    return {**desired, "spec": {**desired["spec"], "levels": named}}


def must_be_remade(desired: Manifest, live: Manifest) -> bool:
    """Whether the node label keys or their order differ: in KAI's CRD they are immutable."""
    return _keys(live) != _keys(desired)


def topology_drift(binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
    """How the Topology for `binding` differs from it: in its levels, in their order, or because it is missing."""
    name = binding.references.get(keys.NAME, binding.name)
    found = None if live is None else _keys(live)
    return _drift(binding.name, name, [level.key or "" for level in binding.levels], found)


def known_drifts(facts: ClusterFacts) -> Iterator[TopologyDrift]:
    """Every drift that `facts` show. A Topology that is not yet made from its binding is not a drift."""
    if facts.kai_topologies is None:
        return
    for binding, known in sorted((facts.topology_bindings or {}).items()):
        name = topology_name(binding, facts)
        found = facts.kai_topologies.get(name)
        if found is None and keys.NAME not in known.references:
            continue
        levels = None if found is None else list(found)
        if (drift := _drift(binding, name, list(known.keys.values()), levels)) is not None:
            yield drift


def _levels(live: Manifest | None) -> list[Mapping[str, Any]]:
    levels = sequence(mapping(mapping(live).get("spec")).get("levels"))
    return [mapping(level) for level in levels]


def _keys(live: Manifest) -> list[str]:
    return [text(level.get("nodeLabel")) or "" for level in _levels(live)]


def _drift(binding: str, name: str, wanted: list[str], found: list[str] | None) -> TopologyDrift | None:
    if found is None:
        return TopologyDrift(name, DriftReason.NOT_FOUND, f"Topology {name} is missing")
    if found == wanted:
        return None
    levels, keys_wanted = ", ".join(found), ", ".join(wanted)
    message = f"Topology {name} has the levels {levels}, and ClusterTopologyBinding {binding} has {keys_wanted}"
    return TopologyDrift(name, DriftReason.DRIFT, message)


def _problem(levels: Sequence[str]) -> str | None:
    """Why KAI's CRD would refuse these levels, or None."""
    if not 1 <= len(levels) <= keys.MAX_LEVELS:
        return f"a KAI Topology must have 1 to {keys.MAX_LEVELS} levels"
    if not all(levels):
        return "each level of a KAI Topology must be a node label key"
    if len(set(levels)) < len(levels):
        return "a KAI Topology must not have a node label key twice"
    if keys.HOSTNAME in levels[:-1]:
        return f"{keys.HOSTNAME} can only be the narrowest level of a KAI Topology"
    return None
