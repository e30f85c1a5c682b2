"""From a ClusterTopologyBinding and the labels of nodes to Volcano's HyperNodes, and how existing HyperNodes differ.

There is one HyperNode for each domain. The narrowest level has tier 1, and `tierName` is the level's domain, by which
`tier_of` finds the tier. Members are listed by exact names: nodes below the narrowest level, HyperNodes below the
others. A name contains the values of all levels above, so no HyperNode can get a second parent: with one, Volcano
places no gang with a topology (pkg/scheduler/api/hyper_node_info.go, `setParent`; seen with v1.15.1).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.backends.inexpressible import inexpressible
from webhook.backends.topology_metadata import topology_metadata
from webhook.backends.volcano.keys import HYPER_NODE
from webhook.model.fields import SPEC
from webhook.model.naming import NAME_LIMIT
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_tree import Domain, NodeLabels, TopologyLevel, members_of, tree_of

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_DIGEST_CHARACTERS = 10
# How many differences a message states.
_TOLD = 3


def hyper_nodes(binding: ClusterTopologyBinding, nodes: NodeLabels, taken: Collection[str] = ()) -> list[Manifest]:
    """The HyperNodes for `binding`, in the order of writing: members before what contains them. The names in `taken`
    are left out, everywhere. Raises `Inexpressible`.
    """
    if problem := _problem(binding):
        remedy = "change the levels of the ClusterTopologyBinding"
        raise inexpressible("volcano/topology", SPEC / "levels", _levels(binding), problem, remedy=remedy)
    found: list[Manifest] = []
    # The HyperNodes of the level below, by the path of the domain that contains them. None for the narrowest level.
    below: dict[tuple[str, ...], list[Manifest]] | None = None
    for level in reversed(tree_of(binding, nodes).levels):
        made: dict[tuple[str, ...], list[Manifest]] = {}
        for domain in level.domains:
            name = _name(binding, level, domain)
            members = [_member("Node", node) for node in domain.nodes] if below is None else below.get(domain.path, [])
            if name not in taken and members:
                found.append(_hyper_node(name, binding, level, members))
                made.setdefault(domain.path[:-1], []).append(_member("HyperNode", name))
        below = made
    return found


def differences(binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]) -> str | None:
    """How the tiers of existing HyperNodes, of any author, differ from the levels and labels; None if they do not.

    The nodes of a tier are compared, not the names of HyperNodes. If a HyperNode selects its members by a pattern or by
    labels, the nodes of its tier are not compared. A HyperNode with two parents comes first.
    """
    known = {name: _Stored.of(found) for name, found in live.items()}
    tree = tree_of(binding, nodes)
    found = list(_torn(known))
    broader: tuple[str, int] | None = None
    for level in tree.levels:
        domain = level.level.domain or ""
        named = {name: one for name, one in known.items() if one.tier_name in {domain, level.level.key}}
        tiers = sorted({one.tier for one in named.values()})
        if len(tiers) != 1:
            stated = f"the tiers {', '.join(map(str, tiers))} share" if tiers else "no HyperNode has"
            found.append(f"{stated} the tierName {domain}")
            continue
        if broader is not None and tiers[0] >= broader[1]:
            found.append(
                f"{domain} has tier {tiers[0]} and {broader[0]} has tier {broader[1]}, but the binding lists "
                f"{broader[0]} above {domain}"
            )
        broader = domain, tiers[0]
        found += _other_nodes(level, named, known)
    if not found:
        return None
    more = f"; and {len(found) - _TOLD} more differences" if len(found) > _TOLD else ""
    return f"HyperNodes differ from ClusterTopologyBinding {binding.name}: {'; '.join(found[:_TOLD])}{more}"


class _Stored(NamedTuple):
    """A stored HyperNode: its tier, and its members by type. `exact` is false if not all are known by their names."""

    tier: int
    tier_name: str | None
    nodes: frozenset[str]
    children: tuple[str, ...]
    exact: bool

    @classmethod
    def of(cls, live: Manifest) -> _Stored:
        spec = mapping(live.get("spec"))
        nodes, exact = set[str](), "members" in spec
        for entry in sequence(spec.get("members")):
            member = mapping(entry)
            name = text(mapping(mapping(member.get("selector")).get("exactMatch")).get("name"))
            if text(member.get("type")) == "Node":
                exact = exact and name is not None
                nodes.add(name or "")
        tier = integer(spec.get("tier"))
        children = tuple(members_of(live, "HyperNode"))
        return cls(-1 if tier is None else tier, text(spec.get("tierName")), frozenset(nodes), children, exact)


def _torn(known: Mapping[str, _Stored]) -> Iterator[str]:
    """The first HyperNode with two parents, of whatever tier."""
    parents: dict[str, str] = {}
    for name, one in sorted(known.items()):
        for child in one.children:
            if (other := parents.setdefault(child, name)) != name:
                both = f"HyperNode {child} is a member of {other} and of {name}"
                yield f"{both}, so volcano places no gang with a topology"
                return


def _other_nodes(level: TopologyLevel, named: Mapping[str, _Stored], known: Mapping[str, _Stored]) -> Iterator[str]:
    """The domains that no HyperNode of the tier has, and the HyperNodes that are no domain."""
    stored = {name: _nodes_below(name, known) for name in named}
    if None in stored.values():
        return
    wanted = {frozenset(domain.nodes): domain for domain in level.domains}
    of_tier = set(stored.values())
    for nodes, domain in wanted.items():
        if nodes not in of_tier:
            yield f"no HyperNode has exactly the nodes of {level.level.domain} {'/'.join(domain.path)}"
    for name, below in sorted(stored.items()):
        if below not in wanted:
            yield f"HyperNode {name} has the nodes of no {level.level.domain}"


def _nodes_below(name: str, known: Mapping[str, _Stored]) -> frozenset[str] | None:
    """The nodes below a HyperNode; None if not all of them are known by their names."""
    found, seen, left = set[str](), {name}, [name]
    while left:
        one = known.get(left.pop())
        if one is None:
            continue
        if not one.exact:
            return None
        found |= one.nodes
        left += [child for child in one.children if child not in seen]
        seen.update(one.children)
    return frozenset(found)


def _hyper_node(
    name: str, binding: ClusterTopologyBinding, level: TopologyLevel, members: Iterable[Manifest]
) -> Manifest:
    return {
        "apiVersion": f"{HYPER_NODE.group}/{HYPER_NODE.version}",
        "kind": HYPER_NODE.kind,
        "metadata": topology_metadata(name, binding),
        "spec": {"tier": level.tier, "tierName": level.level.domain, "members": list(members)},
    }


def _member(kind: str, name: str) -> Manifest:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def _name(binding: ClusterTopologyBinding, level: TopologyLevel, domain: Domain) -> str:
    """`BINDING-LEVEL.VALUE.VALUE`, with a hash at the end if a value is changed for it or the name is too long."""
    values = [_NOT_IN_NAMES.sub("-", value.lower()).strip("-") for value in domain.path]
    full = ".".join((f"{binding.name}-{level.level.domain}", *(value for value in values if value)))
    if tuple(values) == domain.path and len(full) <= NAME_LIMIT:
        return full
    content = "\0".join((binding.name, level.level.domain or "", *domain.path)).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{full[: NAME_LIMIT - _DIGEST_CHARACTERS - 1].rstrip('-.')}.{digest}"


def _levels(binding: ClusterTopologyBinding) -> list[Any]:
    return [level.domain or level.key or "" for level in binding.levels]


def _problem(binding: ClusterTopologyBinding) -> str | None:
    """Why these levels cannot become tiers, or None."""
    domains, keys = ([getattr(level, part) for level in binding.levels] for part in ("domain", "key"))
    if not binding.levels:
        return "HyperNodes need at least one level"
    if not all((*domains, *keys)):
        return "each level must have a domain and a node label key"
    if len(set(domains)) < len(domains) or len(set(keys)) < len(keys):
        return "each level must have a domain and a node label key of its own"
    return None
