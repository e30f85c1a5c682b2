"""The nodes below each HyperNode, resolved as Volcano does: by exact name, by regular expression, by label selector,
and through the HyperNodes below it.

What cannot be resolved surely makes the answer unknown: an expression that Python may read in another way than Go, a
HyperNode with two parents or a cycle (Volcano then places no gang with topology), or too much work.

Source: volcano-sh/volcano v1.15.1, pkg/scheduler/api/hyper_node_info.go, pkg/util/hypernode/member_selector.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from webhook.model.known_objects import HyperNode, HyperNodes
from webhook.model.nodes import Node, Nodes
from webhook.model.selectors import selects

# Nodes that are held against expressions and selectors, in all.
_MOST_MATCHES = 1_000_000
# An expression whose meaning and whose time are the same in Go and in Python: no group is repeated, and little is.
_PLAIN = re.compile(
    r"\^?(?:[A-Za-z0-9_-]|\\[.d-]|\.|\[[A-Za-z0-9_.-]+\]|[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\}|[()|])*\$?\Z"
)
_REPEATED_GROUP = re.compile(r"\)[*+?{]|[*+?}][*+?{]|\(\?")
_MOST_REPEATS, _MOST_CHARACTERS = 3, 256


def nodes_of_tier(
    tier: int, known: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Mapping[str, frozenset[str]] | None:
    """Return the nodes of each HyperNode in which a gang may be that must be in one of this tier or a closer one; None
    if they are not known. Of nested ones only the broadest is returned. The answer is kept until a node or a HyperNode
    changes.
    """
    if not isinstance(nodes, Nodes) or not isinstance(known, HyperNodes):
        return _nodes_of_tier(tier, known, nodes)
    key = ("HyperNodes", known.state, tier)
    found: Mapping[str, frozenset[str]] | None = nodes.remembered(key, lambda: _nodes_of_tier(tier, known, nodes))
    return found


def _nodes_of_tier(
    tier: int, known: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Mapping[str, frozenset[str]] | None:
    parents = _parents(known)
    if parents is None:
        return None
    every = _resolved(known, nodes)
    if every is None:
        return None
    allowed = {name for name, hyper_node in known.items() if hyper_node.tier <= tier}
    return {name: every[name] for name in allowed if parents.get(name) not in allowed}


def _parents(known: Mapping[str, HyperNode]) -> dict[str, str] | None:
    """Return the parent of each HyperNode that has one; None if Volcano would refuse the tree."""
    parents: dict[str, str] = {}
    for name, hyper_node in known.items():
        if hyper_node.members is None:
            return None
        for child in hyper_node.members.hyper_nodes:
            if parents.setdefault(child, name) != name:
                return None
    settled: set[str] = set()
    for name in known:
        path: set[str] = set()
        current: str | None = name
        while current is not None and current not in settled:
            if current in path:
                return None
            path.add(current)
            current = parents.get(current)
        settled |= path
    return parents


def _resolved(known: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> dict[str, frozenset[str]] | None:
    """Return the nodes of every HyperNode. The tree has no cycle."""
    matches = sum(len(one.members.patterns) + len(one.members.selectors) for one in known.values() if one.members)
    if matches * len(nodes) > _MOST_MATCHES:
        return None
    found: dict[str, frozenset[str]] = {}
    for name in known:
        waiting = [name]
        while waiting:
            current = waiting[-1]
            members = known[current].members
            children = [] if members is None else [child for child in members.hyper_nodes if child in known]
            missing = [child for child in children if child not in found]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            own = _own(known[current], nodes)
            if own is None:
                return None
            found[current] = own.union(*(found[child] for child in children))
    return found


def _own(hyper_node: HyperNode, nodes: Mapping[str, Node]) -> frozenset[str] | None:
    """Return the nodes that are members of a HyperNode themselves."""
    members = hyper_node.members
    if members is None:
        return None
    found = set(members.nodes.split())
    for pattern in members.patterns:
        if not is_plain(pattern):
            return None
        expression = re.compile(pattern)
        found.update(name for name in nodes if expression.search(name))
    for selector in members.selectors:
        wanted = json.loads(selector)
        found.update(name for name, node in nodes.items() if selects(wanted, node.labels))
    return frozenset(found)


def is_plain(pattern: str) -> bool:
    """Return whether Go and Python read a regular expression in the same way, and in little time."""
    if len(pattern) > _MOST_CHARACTERS or not _PLAIN.match(pattern) or _REPEATED_GROUP.search(pattern):
        return False
    if sum(pattern.count(sign) for sign in "*+?{") > _MOST_REPEATS:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
