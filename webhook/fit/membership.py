"""Membership: which domains of a partition the nodes of a class are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from webhook.fit.packing import Partition
from webhook.fit.room import OWN_VALUE, NodeClass


class Membership(NamedTuple):
    """Which domains the nodes of a class are in. `each`: each node is a domain of its own. `every`: it is not known, so
    it may be any.
    """

    names: tuple[str, ...] = ()
    each: bool = False
    every: bool = False


NO_DOMAIN = Membership()
_EACH = Membership(each=True)
_EVERY = Membership(every=True)


def domains_by_node(partition: Partition) -> Mapping[str, Sequence[str]]:
    """Return the domains of each node by its name; empty for a partition by labels."""
    found: dict[str, list[str]] = {}
    for name, nodes in (partition.members or {}).items():
        for node in nodes:
            found.setdefault(node, []).append(name)
    return found


def membership_of(node: NodeClass, partition: Partition, of_nodes: Mapping[str, Sequence[str]]) -> Membership:
    """Return the domains of a class; `of_nodes` is `domains_by_node` of the partition. A future node may get the labels
    that it lacks, and may become a member of anything.
    """
    if partition.members is not None:
        if not node.nodes or node.future:
            return _EVERY
        # All nodes of a class are members of the same domains; one name is enough, and more do no harm.
        return Membership(tuple(dict.fromkeys(name for one in node.nodes for name in of_nodes.get(one, ()))))
    missing = [key for key in (*partition.keys, *partition.wanted) if key not in node.labels]
    if missing and node.future:
        return _EVERY
    if partition.lacks(node.labels):
        return _EACH if partition.own_domain else NO_DOMAIN
    if missing:
        return NO_DOMAIN
    values = [node.labels[key] for key in partition.keys]
    # Values that are joined by dots are the names of KAI's domains: a.b and c is the domain of a and b.c.
    return _EACH if OWN_VALUE in values else Membership((".".join(values),))
