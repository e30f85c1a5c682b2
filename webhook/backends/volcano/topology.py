"""From node label keys to the tiers of Volcano's HyperNodes. Shared by the rules and by `gangs`.

A HyperNode states by a number how close its nodes are, and may name that tier. The administrator chooses the names. The
tier of a key is the one whose name is the key itself, or the domain that a ClusterTopologyBinding gives the key. The
tier is looked up, never guessed. A PodGroup gets the number, not the name: Volcano drops a name that no HyperNode has
with only a log line (seen). Before v1.14.2 a name in a subgroup restricts nothing, and before v1.14.3 the scheduler may
overwrite the name with the number.
"""

from __future__ import annotations

from collections.abc import Mapping

from webhook.backends.inexpressible import NoTopology, UnknownTopology
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.known_objects import HyperNode, HyperNodes

# All HyperNodes are needed: the API cannot be asked which HyperNode has a tier's name.
HYPER_NODES = Needed("hyper_nodes")


def tier_of(key: str, topology: str | None, facts: ClusterFacts) -> int:
    """The tier for a node label key; a smaller tier is closer. `topology` is the ClusterTopologyBinding that names the
    key. If it is None, every binding counts. Raises `UnknownTopology` and `NoTopology`.
    """
    if facts.hyper_nodes is None:
        raise UnknownTopology("the HyperNodes", "hyper_nodes")
    if not facts.hyper_nodes:
        raise NoTopology("the cluster has no HyperNode, so volcano would ignore the constraint", HYPER_NODES)
    known = indexed(facts.hyper_nodes)
    names = [key]
    if not known.tiers_named(key):
        names = sorted(domain for domain in _domains(key, topology, facts) if known.tiers_named(domain))
    if not names:
        raise NoTopology(f"no HyperNode has the tierName of the domain, nor {key}, so no tier matches it", HYPER_NODES)
    if len(names) > 1:
        raise NoTopology(f"several tiers of HyperNodes have a name that a ClusterTopologyBinding gives {key}")
    numbers = known.tiers_named(names[0])
    if len(numbers) > 1:
        raise NoTopology(
            f"HyperNodes of different tiers share its tierName ({names[0][:63]}), so no single tier matches it"
        )
    (number,) = numbers
    if number == 0:
        raise NoTopology("its HyperNodes are of tier 0, in which volcano never places a gang")
    return number


def never_fits(tier: int, known: Mapping[str, HyperNode]) -> str | None:
    """Why Volcano never places a gang whose widest allowed tier is this one; None if it may."""
    if tier == 0:
        return "volcano never places a gang in a single HyperNode of tier 0"
    tiers = indexed(known).tiers
    if tiers and tier < tiers[0]:
        return f"the closest HyperNodes are of tier {tiers[0]}, so volcano never finds room for the gang"
    return None


def has_effect(tier: int, known: Mapping[str, HyperNode]) -> bool:
    """Whether Volcano places gangs by a widest allowed tier: it neither ignores it nor holds the gang for ever."""
    return bool(known) and never_fits(tier, known) is None and tier <= indexed(known).tiers[-1]


def indexed(known: Mapping[str, HyperNode]) -> HyperNodes:
    """HyperNodes with their index: either those kept for the cluster, or made from a plain mapping."""
    return known if isinstance(known, HyperNodes) else HyperNodes(known)


def _domains(key: str, topology: str | None, facts: ClusterFacts) -> set[str]:
    bindings = facts.topology_bindings
    if bindings is None or (topology not in bindings and not facts.is_whole("topology_bindings")):
        raise UnknownTopology("the ClusterTopologyBinding", "topology_bindings")
    asked = bindings.values() if topology is None else [bindings[topology]] if topology in bindings else []
    return {domain for binding in asked for domain, found in binding.keys.items() if found == key}
