"""From node label keys to the tiers of Volcano's HyperNodes. Shared by the rules and by `gangs`.

A HyperNode says how close its nodes are by a number, and may name that tier. The names are the administrator's, so the
tier of a key is the one that bears the key itself as its name, or the domain that a ClusterTopologyBinding gives the
key. It is looked up, never guessed, and a PodGroup is told the number: a name that no HyperNode bears is dropped by
Volcano with a log line (seen), before v1.14.2 a name in a subgroup restricts nothing, and before v1.14.3 the scheduler
may write the number over it.
"""

from __future__ import annotations

from collections.abc import Mapping

from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.known_objects import HyperNode, HyperNodes

# All of them: which one bears a tier's name cannot be asked.
HYPER_NODES = Needed("hyper_nodes")


class UnknownTiers(Exception):
    """A fact on the way to the tier is not known: `needs` says which."""

    def __init__(self, needs: str) -> None:
        super().__init__(needs)
        self.needs = needs


class NoTier(Exception):
    """No tier stands for the key, or none that Volcano would keep to: `why` says the reason.

    `absent` is set where HyperNodes that are not there are the reason.
    """

    def __init__(self, why: str, absent: Needed | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.absent = absent


def tier_of(key: str, topology: str | None, facts: ClusterFacts) -> int:
    """The tier for a node label key; the smaller, the closer. `topology` is the ClusterTopologyBinding that names it,
    None where that is not said: then each of them counts. Raises `UnknownTiers` and `NoTier`.
    """
    if facts.hyper_nodes is None:
        raise UnknownTiers("the HyperNodes")
    if not facts.hyper_nodes:
        raise NoTier("the cluster has no HyperNode, so volcano would ignore the constraint", HYPER_NODES)
    known = indexed(facts.hyper_nodes)
    names = [key]
    if not known.tiers_named(key):
        names = sorted(domain for domain in _domains(key, topology, facts) if known.tiers_named(domain))
    if not names:
        raise NoTier(f"no HyperNode has the tierName of the domain, nor {key}, so no tier stands for it", HYPER_NODES)
    if len(names) > 1:
        raise NoTier(f"several tiers of HyperNodes bear a name that a ClusterTopologyBinding gives {key}")
    numbers = known.tiers_named(names[0])
    if len(numbers) > 1:
        raise NoTier(
            f"HyperNodes of different tiers share its tierName ({names[0][:63]}), so no one tier stands for it"
        )
    (number,) = numbers
    if number == 0:
        raise NoTier("its HyperNodes are of tier 0, in which volcano never places a gang")
    return number


def indexed(known: Mapping[str, HyperNode]) -> HyperNodes:
    """HyperNodes with their index: as they are kept of a cluster, or made of a plain mapping."""
    return known if isinstance(known, HyperNodes) else HyperNodes(known)


def _domains(key: str, topology: str | None, facts: ClusterFacts) -> set[str]:
    bindings = facts.topology_bindings
    if bindings is None:
        raise UnknownTiers("the ClusterTopologyBinding")
    asked = bindings.values() if topology is None else [bindings[topology]] if topology in bindings else []
    return {domain for binding in asked for domain, found in binding.keys.items() if found == key}
