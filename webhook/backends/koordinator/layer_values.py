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
    if not isinstance(nodes, Nodes):
        return _are_domains(key, below, nodes)
    return nodes.remembered(("ClusterNetworkTopology", key, *below), lambda: _are_domains(key, below, nodes))


def _are_domains(key: str, below: Below, nodes: Mapping[str, Node]) -> bool:
    if not below:
        return not _is_named_like_a_node(key, nodes)
    seen: list[dict[str, str]] = [{} for _ in below]
    for name, node in nodes.items():
        if own := node.labels.get(key):
            # Without a label of the lowest layer a node is a domain of its own name there.
            fallback = name
            for keys, parents in zip(below, seen, strict=True):
                value = next((found for one in keys if (found := node.labels.get(one))), fallback)
                if value and parents.setdefault(value, own) != own:
                    return False
                fallback = ""
    return True


def _is_named_like_a_node(key: str, nodes: Mapping[str, Node]) -> bool:
    """Return whether a value of the lowest layer is also the name of a node without the label, which joins it."""
    values = {node.labels.get(key) for node in nodes.values()}
    return any(value in nodes and not nodes[value].labels.get(key) for value in values if value)
