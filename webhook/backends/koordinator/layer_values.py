"""Whether the domains of a layer are the nodes that share a value of its label.

koord-scheduler keys its tree by layer and value, without the values above. A value that nodes of two zones share is one
domain, below the zone of whichever node it saw first, and all nodes of the value are then in that zone.

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/frameworkext/networktopology/tree.go (`addNode`,
`getTreeNodesMeta`). The tree is built anew every 10 seconds, from nodes in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webhook.model.nodes import Node, Nodes

# The label keys of each layer between one and the single nodes, the lowest first.
Below = Sequence[tuple[str, ...]]


def are_domains(key: str, below: Below, nodes: Mapping[str, Node]) -> bool:
    """Return whether each value of a layer's label is a domain with just the nodes that have it. The answer is kept
    until a node changes.
    """
    known = nodes if isinstance(nodes, Nodes) else Nodes(nodes)
    if not below:
        return not _is_named_like_a_node(key, known)
    return known.remembered(("ClusterNetworkTopology", key, *below), lambda: _are_domains(key, below, known))


def _are_domains(key: str, below: Below, nodes: Nodes) -> bool:
    # Groups of nodes are kept over changes, and far fewer values than nodes differ.
    groups = nodes.groups((key, *(one for keys in below for one in keys)))
    found = {group.values for group in groups if group.values[0]}
    seen: list[dict[str, str]] = [{} for _ in below]
    for own, *values in found:
        place = 0
        for keys, parents in zip(below, seen, strict=True):
            value = next(filter(None, values[place : place + len(keys)]), None)
            place += len(keys)
            if value is not None and parents.setdefault(value, own or "") != own:
                return False
    # Without a label of the lowest layer a node is a domain of its own name there.
    lowest = seen[0]
    return all(
        lowest.get(name, own) == own
        for group, names in groups.items()
        if (own := group.values[0]) and not any(group.values[1 : 1 + len(below[0])])
        for name in names
    )


def _is_named_like_a_node(key: str, nodes: Nodes) -> bool:
    """Return whether a value of the lowest layer is also the name of a node without the label, which joins it."""
    return any(value in nodes and not nodes[value].labels.get(key) for value in nodes.values_of(key) if value)
