"""PodGang to Volcano's PodGroup, the annotation of its pods, and HyperNodes: their tiers, how they are made from a
ClusterTopologyBinding, and the nodes below each.

One PodGroup has the gang's name, with a subgroup for each member. A subgroup without matchLabelKeys never gets a pod,
and one without minSubGroups requires nothing (both seen). So each member's minimum holds, and minMember is their sum.
Surplus pods of a member are elastic.

A HyperNode states by a number how close its nodes are, and may name that tier. The administrator chooses the names.
The tier of a key is the one whose name is the key itself, or the domain that a ClusterTopologyBinding gives the key.
The tier is looked up, never guessed. A PodGroup gets the number, not the name: Volcano drops a name that no HyperNode
has with only a log line (seen). Before v1.14.2 a name in a subgroup restricts nothing, and before v1.14.3 the
scheduler may overwrite the name with the number.

Volcano reads the topology annotations of an opted-in workload only when it makes the PodGroup itself, and Rollcall's
PodGroup takes its place. Those of the workload become the topology of the whole group, those of a part's pods the
topology of its subgroup. The values are read as Volcano reads them: any mode but `soft` is hard, and a tier that is
not a whole number is no tier (pkg/controllers/podgroup/pg_controller_handler.go, `parseNetworkTopologyFromPod`,
v1.15.1).

There is one HyperNode for each domain. The narrowest level has tier 1, and `tierName` is the level's domain. Members
are listed by exact names: nodes below the narrowest level, HyperNodes below the others. A name contains the values of
all levels above, so no HyperNode can get a second parent: with one, Volcano places no gang with a topology
(`setParent`; seen with v1.15.1). The nodes below a HyperNode of another author are resolved as Volcano does. What
cannot be resolved surely makes the answer unknown: an expression that Python may read in another way than Go, a
HyperNode with two parents or a cycle, or too much work.

Source: volcano-sh/volcano v1.15.1, pkg/scheduler/api/hyper_node_info.go, pkg/util/hypernode/member_selector.go.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.topologies import (
    NoTopology,
    UnknownTopology,
    inexpressible,
    refuse_twins,
    topology_metadata,
    unknown_fact,
)
from webhook.backends.volcano import keys
from webhook.backends.volcano.keys import (
    ANNOTATION_DEVICE_GROUP,
    ANNOTATION_GROUP,
    HYPER_NODE,
    NAME,
    PREFERRED,
    TOPOLOGY_OFF,
    VolcanoSettings,
)
from webhook.model.capabilities import VOLCANO_QUEUE, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.gang_objects import gang_metadata
from webhook.model.grove import ClusterTopologyBinding, PackConstraint, PodGang
from webhook.model.keys import LABEL_VALUE_LIMIT, NAME_LIMIT, Needed, Record, cut_name, is_subdomain
from webhook.model.known_objects import HyperNode, HyperNodes
from webhook.model.nodes import Node, Nodes
from webhook.model.reading import Manifest, integer, mapping, selects, sequence, text
from webhook.model.topology_tree import Domain, NodeLabels, TopologyLevel, members_of, tree_of
from webhook.workloads.opted_in_gang import (
    VOLCANO_MODE,
    VOLCANO_TIER,
    Annotations,
    OptedInGang,
    annotations_of_pods,
    annotations_of_workload,
)
from webhook.workloads.opted_in_workload import QUEUE_ANNOTATIONS

# All HyperNodes are needed: the API cannot be asked which HyperNode has a tier's name.
HYPER_NODES = Needed("hyper_nodes")


def tier_of(key: str, topology: str | None, facts: ClusterFacts) -> int:
    """Returns the tier for a node label key; a smaller tier is closer. `topology` is the ClusterTopologyBinding that
    names the key. If it is None, every binding counts. Raises `UnknownTopology` and `NoTopology`.
    """
    if facts.hyper_nodes is None:
        raise UnknownTopology("the HyperNodes", "hyper_nodes")
    if not facts.hyper_nodes:
        raise NoTopology("the cluster has no HyperNode, so volcano would ignore the constraint", HYPER_NODES)
    hyper_nodes = indexed(facts.hyper_nodes)
    names = [key]
    if not hyper_nodes.tiers_with_name(key):
        names = sorted(domain for domain in _domains(key, topology, facts) if hyper_nodes.tiers_with_name(domain))
    if not names:
        raise NoTopology(f"no HyperNode has the tierName of the domain, nor {key}, so no tier matches it", HYPER_NODES)
    if len(names) > 1:
        raise NoTopology(f"several tiers of HyperNodes have a name that a ClusterTopologyBinding gives {key}")
    numbers = hyper_nodes.tiers_with_name(names[0])
    if len(numbers) > 1:
        raise NoTopology(
            f"HyperNodes of different tiers share its tierName ({names[0][:63]}), so no single tier matches it"
        )
    (number,) = numbers
    if number == 0:
        raise NoTopology("its HyperNodes are of tier 0, in which volcano never places a gang")
    return number


def never_fits(tier: int, hyper_nodes: Mapping[str, HyperNode]) -> str | None:
    """Returns why Volcano never places a gang whose widest allowed tier is this one; None if it may."""
    if tier == 0:
        return "volcano never places a gang in a single HyperNode of tier 0"
    tiers = indexed(hyper_nodes).tiers
    if tiers and tier < tiers[0]:
        return f"the closest HyperNodes are of tier {tiers[0]}, so volcano never finds room for the gang"
    return None


def has_effect(tier: int, hyper_nodes: Mapping[str, HyperNode]) -> bool:
    """Returns whether Volcano places gangs by a widest allowed tier: it neither ignores it nor holds the gang for
    ever.
    """
    return bool(hyper_nodes) and never_fits(tier, hyper_nodes) is None and tier <= indexed(hyper_nodes).tiers[-1]


def indexed(hyper_nodes: Mapping[str, HyperNode]) -> HyperNodes:
    """Returns HyperNodes with their index: either those kept for the cluster, or made from a plain mapping."""
    return hyper_nodes if isinstance(hyper_nodes, HyperNodes) else HyperNodes(hyper_nodes)


def _domains(key: str, topology: str | None, facts: ClusterFacts) -> set[str]:
    bindings = facts.topology_bindings
    if bindings is None or (topology not in bindings and not facts.is_whole("topology_bindings")):
        raise UnknownTopology("the ClusterTopologyBinding", "topology_bindings")
    candidates = bindings.values() if topology is None else [bindings[topology]] if topology in bindings else []
    return {domain for binding in candidates for domain, label in binding.keys.items() if label == key}


RULE = "volcano/owner-topology"
# The field of a networkTopology for each annotation.
_FIELDS = {VOLCANO_MODE: "mode", VOLCANO_TIER: "highestTierAllowed"}
# The field of the CRD has 32 bits.
_TIER = re.compile(r"[+-]?[0-9]{1,9}\Z")


class RequestedTopology(NamedTuple):
    """What one place asks for: the networkTopology, and the annotation behind each field."""

    topology: Manifest
    origins: Mapping[str, Use]

    @property
    def tier(self) -> int | None:
        """The widest tier that a hard topology allows."""
        return self.topology.get("highestTierAllowed") if self.topology["mode"] == "hard" else None


def requested_at(place: Annotations) -> RequestedTopology | None:
    origins = {_FIELDS[str(use.path.parts[-1])]: use for use in place.asks(*_FIELDS)}
    if not origins:
        return None
    mode = origins.get("mode")
    topology: Manifest = {"mode": "soft" if mode is not None and mode.value.lower() == "soft" else "hard"}
    tier = origins.get("highestTierAllowed")
    if tier is not None and _TIER.match(tier.value):
        topology["highestTierAllowed"] = int(tier.value)
    return RequestedTopology(topology, origins)


def carried_topology(
    gang: OptedInGang, settings: VolcanoSettings, facts: ClusterFacts
) -> tuple[Manifest | None, dict[str, Manifest]]:
    """Returns the topology of the whole gang, and of its members. A tier that Volcano ignores, or in which it never
    places a gang, is left out: the gang starts without it. Raises `Inexpressible` if the tiers are not known.
    """
    if settings.topology == "off":
        return None, {}
    whole = requested_at(annotations_of_workload(gang.workload))
    # The leader and the workers of a LeaderWorkerSet are one member; the workers' template is last.
    members = {
        name: requested
        for name, parts in gang.parts.items()
        if parts and (requested := requested_at(annotations_of_pods(parts[-1])))
    }
    return _checked(whole, facts), {
        name: written for name, requested in members.items() if (written := _checked(requested, facts)) is not None
    }


def _checked(requested: RequestedTopology | None, facts: ClusterFacts) -> Manifest | None:
    if requested is None or (requested.topology["mode"] == "hard" and requested.tier is None):
        return None
    if requested.tier is not None:
        use = requested.origins["highestTierAllowed"]
        if facts.hyper_nodes is None:
            raise unknown_fact(RULE, use.path, "the HyperNodes", "hyper_nodes")
        if not has_effect(requested.tier, facts.hyper_nodes):
            return None
    return requested.topology


_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_DIGEST_CHARACTERS = 10
# How many differences a message states.
_MOST_STATED = 3


def hyper_nodes(binding: ClusterTopologyBinding, nodes: NodeLabels, taken: Collection[str] = ()) -> list[Manifest]:
    """Returns the HyperNodes for `binding`, in the order of writing: members before what contains them. The names in
    `taken` are left out, everywhere. Raises `Inexpressible`.
    """
    if problem := _problem(binding):
        remedy = "change the levels of the ClusterTopologyBinding"
        raise inexpressible("volcano/topology", SPEC / "levels", _levels(binding), problem, remedy=remedy)
    manifests: list[Manifest] = []
    # The HyperNodes of the level below, by the path of the domain that contains them. None for the narrowest level.
    below: dict[tuple[str, ...], list[Manifest]] | None = None
    for level in reversed(tree_of(binding, nodes).levels):
        above: dict[tuple[str, ...], list[Manifest]] = {}
        for domain in level.domains:
            name = _name(binding, level, domain)
            members = [_member("Node", node) for node in domain.nodes] if below is None else below.get(domain.path, [])
            if name not in taken and members:
                manifests.append(_hyper_node(name, binding, level, members))
                above.setdefault(domain.path[:-1], []).append(_member("HyperNode", name))
        below = above
    return manifests


def differences(binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]) -> str | None:
    """Returns how the tiers of existing HyperNodes, of any author, differ from the levels and labels; None if they do
    not.

    The nodes of a tier are compared, not the names of HyperNodes. If a HyperNode selects its members by a pattern or by
    labels, the nodes of its tier are not compared. A HyperNode with two parents comes first.
    """
    stored = {name: _StoredHyperNode.read(manifest) for name, manifest in live.items()}
    tree = tree_of(binding, nodes)
    problems = list(_torn(stored))
    broader: tuple[str, int] | None = None
    for level in tree.levels:
        domain = level.level.domain or ""
        names = {domain, level.level.key}
        matching = {name: hyper_node for name, hyper_node in stored.items() if hyper_node.tier_name in names}
        tiers = sorted({hyper_node.tier for hyper_node in matching.values()})
        if len(tiers) != 1:
            stated = f"the tiers {', '.join(map(str, tiers))} share" if tiers else "no HyperNode has"
            problems.append(f"{stated} the tierName {domain}")
            continue
        if broader is not None and tiers[0] >= broader[1]:
            problems.append(
                f"{domain} has tier {tiers[0]} and {broader[0]} has tier {broader[1]}, but the binding lists "
                f"{broader[0]} above {domain}"
            )
        broader = domain, tiers[0]
        problems += _other_nodes(level, matching, stored)
    if not problems:
        return None
    more = f"; and {len(problems) - _MOST_STATED} more differences" if len(problems) > _MOST_STATED else ""
    return f"HyperNodes differ from ClusterTopologyBinding {binding.name}: {'; '.join(problems[:_MOST_STATED])}{more}"


class _StoredHyperNode(NamedTuple):
    """A stored HyperNode: its tier, and its members by type. `exact` is false if not all are known by their names."""

    tier: int
    tier_name: str | None
    nodes: frozenset[str]
    children: tuple[str, ...]
    exact: bool

    @classmethod
    def read(cls, live: Manifest) -> _StoredHyperNode:
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


def _torn(stored: Mapping[str, _StoredHyperNode]) -> Iterator[str]:
    parents: dict[str, str] = {}
    for name, hyper_node in sorted(stored.items()):
        for child in hyper_node.children:
            if (other := parents.setdefault(child, name)) != name:
                both = f"HyperNode {child} is a member of {other} and of {name}"
                yield f"{both}, so volcano places no gang with a topology"
                return


def _other_nodes(
    level: TopologyLevel, matching: Mapping[str, _StoredHyperNode], stored: Mapping[str, _StoredHyperNode]
) -> Iterator[str]:
    """Yields the domains that no HyperNode of the tier has, and the HyperNodes that are no domain."""
    node_sets = {name: _nodes_below(name, stored) for name in matching}
    if None in node_sets.values():
        return
    domains = {frozenset(domain.nodes): domain for domain in level.domains}
    of_tier = set(node_sets.values())
    for nodes, domain in domains.items():
        if nodes not in of_tier:
            yield f"no HyperNode has exactly the nodes of {level.level.domain} {'/'.join(domain.path)}"
    for name, below in sorted(node_sets.items()):
        if below not in domains:
            yield f"HyperNode {name} has the nodes of no {level.level.domain}"


def _nodes_below(name: str, stored: Mapping[str, _StoredHyperNode]) -> frozenset[str] | None:
    """Returns the nodes below a HyperNode; None if not all of them are known by their names."""
    nodes, seen, left = set[str](), {name}, [name]
    while left:
        hyper_node = stored.get(left.pop())
        if hyper_node is None:
            continue
        if not hyper_node.exact:
            return None
        nodes |= hyper_node.nodes
        left += [child for child in hyper_node.children if child not in seen]
        seen.update(hyper_node.children)
    return frozenset(nodes)


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
    """Returns `BINDING-LEVEL.VALUE.VALUE`, with a hash at the end if a value is changed for it or the name is too
    long.
    """
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
    """Returns why these levels cannot become tiers, or None."""
    domains, keys = ([getattr(level, part) for level in binding.levels] for part in ("domain", "key"))
    if not binding.levels:
        return "HyperNodes need at least one level"
    if not all((*domains, *keys)):
        return "each level must have a domain and a node label key"
    if len(set(domains)) < len(domains) or len(set(keys)) < len(keys):
        return "each level must have a domain and a node label key of its own"
    return None


# Nodes that are held against expressions and selectors, in all.
_MOST_MATCHES = 1_000_000
# An expression whose meaning and whose time are the same in Go and in Python: no group is repeated, and little is.
_PLAIN = re.compile(
    r"\^?(?:[A-Za-z0-9_-]|\\[.d-]|\.|\[[A-Za-z0-9_.-]+\]|[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\}|[()|])*\$?\Z"
)
_REPEATED_GROUP = re.compile(r"\)[*+?{]|[*+?}][*+?{]|\(\?")
_MOST_REPEATS, _MOST_CHARACTERS = 3, 256


def nodes_of_tier(
    tier: int, hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Mapping[str, frozenset[str]] | None:
    """Returns the nodes of each HyperNode in which a gang may be that must be in one of this tier or a closer one; None
    if they are not known. Of nested ones only the broadest is returned. The answer is kept until a node or a HyperNode
    changes.
    """
    if not isinstance(nodes, Nodes) or not isinstance(hyper_nodes, HyperNodes):
        return _nodes_of_tier(tier, hyper_nodes, nodes)
    key = ("HyperNodes", hyper_nodes.state, tier)
    remembered: Mapping[str, frozenset[str]] | None = nodes.remembered(
        key, lambda: _nodes_of_tier(tier, hyper_nodes, nodes)
    )
    return remembered


def _nodes_of_tier(
    tier: int, hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Mapping[str, frozenset[str]] | None:
    parents = _parents(hyper_nodes)
    if parents is None:
        return None
    every = _resolved(hyper_nodes, nodes)
    if every is None:
        return None
    allowed = {name for name, hyper_node in hyper_nodes.items() if hyper_node.tier <= tier}
    return {name: every[name] for name in allowed if parents.get(name) not in allowed}


def _parents(hyper_nodes: Mapping[str, HyperNode]) -> dict[str, str] | None:
    """Returns the parent of each HyperNode that has one; None if Volcano would refuse the tree."""
    parents: dict[str, str] = {}
    for name, hyper_node in hyper_nodes.items():
        if hyper_node.members is None:
            return None
        for child in hyper_node.members.hyper_nodes:
            if parents.setdefault(child, name) != name:
                return None
    settled: set[str] = set()
    for name in hyper_nodes:
        path: set[str] = set()
        current: str | None = name
        while current is not None and current not in settled:
            if current in path:
                return None
            path.add(current)
            current = parents.get(current)
        settled |= path
    return parents


def _resolved(hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> dict[str, frozenset[str]] | None:
    """Returns the nodes of every HyperNode. The tree has no cycle."""
    members_of_all = [hyper_node.members for hyper_node in hyper_nodes.values() if hyper_node.members]
    matches = sum(len(members.patterns) + len(members.selectors) for members in members_of_all)
    if matches * len(nodes) > _MOST_MATCHES:
        return None
    resolved: dict[str, frozenset[str]] = {}
    for name in hyper_nodes:
        waiting = [name]
        while waiting:
            current = waiting[-1]
            members = hyper_nodes[current].members
            children = [] if members is None else [child for child in members.hyper_nodes if child in hyper_nodes]
            missing = [child for child in children if child not in resolved]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            direct = _direct_nodes(hyper_nodes[current], nodes)
            if direct is None:
                return None
            resolved[current] = direct.union(*(resolved[child] for child in children))
    return resolved


def _direct_nodes(hyper_node: HyperNode, nodes: Mapping[str, Node]) -> frozenset[str] | None:
    members = hyper_node.members
    if members is None:
        return None
    names = set(members.nodes.split())
    for pattern in members.patterns:
        if not is_plain(pattern):
            return None
        expression = re.compile(pattern)
        names.update(name for name in nodes if expression.search(name))
    for selector in members.selectors:
        terms = json.loads(selector)
        names.update(name for name, node in nodes.items() if selects(terms, node.labels))
    return frozenset(names)


def is_plain(pattern: str) -> bool:
    """Returns whether Go and Python read a regular expression in the same way, and in little time."""
    if len(pattern) > _MOST_CHARACTERS or not _PLAIN.match(pattern) or _REPEATED_GROUP.search(pattern):
        return False
    if sum(pattern.count(sign) for sign in "*+?{") > _MOST_REPEATS:
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def prepare_pod(member: GangMember) -> PodChanges:
    """Returns the changes for a pod of `member`'s gang. Volcano reads its subgroup from Grove's own label."""
    return PodChanges(
        scheduler_name=NAME,
        inputs=(f"podGroup={member.podgang}",),
        annotations={ANNOTATION_GROUP: member.podgang, ANNOTATION_DEVICE_GROUP: member.podgang},
    )


def gang_objects(podgang: PodGang, record: Record, settings: VolcanoSettings, facts: ClusterFacts) -> list[Manifest]:
    """Returns the PodGroup of `podgang`. Raises `Inexpressible` for a topology that Volcano cannot express.

    A member that Grove has released (minReplicas 0, so that a rolling update can go on) has subGroupSize 0 here.
    `adopt` keeps the last positive one, because for Volcano a gang with minMember 0 is complete.

    The queue `default` is left out. The API server fills it in, and Volcano's own webhook may then put the group into
    the queue of its namespace at creation. Writing `default` again would move the group back, unseen by any webhook.
    """
    refuse_twins(podgang, "volcano/tree")
    whole, parts = _topologies(podgang, settings, facts)
    queue = queue_of_record(record, opted_in=isinstance(podgang, OptedInGang)) or settings.defaultQueue
    if not is_subdomain(queue):
        why = "it is not a DNS subdomain, so Volcano's CRD refuses it"
        raise inexpressible("volcano/queue-name", ANNOTATIONS / VOLCANO_QUEUE, queue, why)
    spec: Manifest = {"minMember": sum(member.min_replicas for member in podgang.members)}
    if queue != keys.DEFAULT_QUEUE:
        spec["queue"] = queue
    if record.priority_class is not None:
        spec["priorityClassName"] = record.priority_class
    if whole is not None:
        spec["networkTopology"] = whole
    spec["subGroupPolicy"] = [
        _subgroup(podgang.member_label, member.name, member.min_replicas, parts.get(member.name))
        for member in podgang.members
    ]
    api, metadata = keys.POD_GROUP, gang_metadata(podgang, podgang.gang)
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def queue_of_record(record: Record, *, opted_in: bool) -> str | None:
    """Returns the queue that a workload names. For an opted-in one, Volcano's own annotation counts as well."""
    keys = QUEUE_ANNOTATIONS if opted_in else (VOLCANO_QUEUE,)
    return next((queue for key in keys if (queue := record.queue(key)) is not None), None)


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """Returns `desired` with the sizes from before Grove released its members to 0 (at least one pod each).

    Fields outside `desired` belong to others and stay because they are not sent: the queue of a group that asked for
    none, minResources, a networkTopology that others set, their labels and annotations, and above all status. The
    PodGroup has no status subresource, so sending the status, even unchanged, could put a running gang back to Pending.
    """
    spec = desired["spec"]
    recorded = {
        text(mapping(policy).get("name")): integer(mapping(policy).get("subGroupSize"))
        for policy in sequence(mapping(mapping(live).get("spec")).get("subGroupPolicy"))
    }
    policies = [
        policy if policy["subGroupSize"] > 0 else {**policy, "subGroupSize": max(recorded.get(policy["name"]) or 1, 1)}
        for policy in spec["subGroupPolicy"]
    ]
    minimum = max(sum(policy["subGroupSize"] for policy in policies), 1)
    return {**desired, "spec": {**spec, "minMember": minimum, "subGroupPolicy": policies}}


def _subgroup(label: str, name: str, minimum: int, topology: Manifest | None) -> Manifest:
    policy: Manifest = {
        "name": name,
        "labelSelector": {"matchLabels": {label: cut_name(name, LABEL_VALUE_LIMIT)}},
        "matchLabelKeys": [label],
        "subGroupSize": minimum,
        "minSubGroups": 1,
    }
    if topology is not None:
        policy["networkTopology"] = topology
    return policy


def _topologies(
    podgang: PodGang, settings: VolcanoSettings, facts: ClusterFacts
) -> tuple[Manifest | None, dict[str, Manifest]]:
    if isinstance(podgang, OptedInGang):
        return carried_topology(podgang, settings, facts)
    whole, parts = _tiers(podgang, settings, facts)
    hard = {name: _network_topology(tier) for name, tier in parts.items()}
    return None if whole is None else _network_topology(whole), hard


def _network_topology(tier: int) -> Manifest:
    return {"mode": "hard", "highestTierAllowed": tier}


class _Constraint(NamedTuple):
    """A constraint of the PodGang, and the members that it covers; None stands for the whole gang."""

    path: FieldPath
    constraint: PackConstraint
    members: Sequence[str] | None


def _constraints(podgang: PodGang) -> Iterator[_Constraint]:
    yield _Constraint(podgang.constraint.path, podgang.constraint, None)
    for config in podgang.group_configs:
        yield _Constraint(config.path, config.constraint, config.members)
    for member in podgang.members:
        yield _Constraint(member.constraint.path, member.constraint, [member.name])


def _tiers(podgang: PodGang, settings: VolcanoSettings, facts: ClusterFacts) -> tuple[int | None, dict[str, int]]:
    """Returns the tier of the whole gang, and the tiers of single members. A member's narrowest constraint wins."""
    whole: int | None = None
    parts: dict[str, int] = {}
    names = {member.name for member in podgang.members}
    topology = podgang.topology_name
    for path, constraint, members in _constraints(podgang):
        if (preferred := constraint.preferred) is not None:
            raise inexpressible("volcano/preferred-topology", constraint.path / "preferred", preferred, PREFERRED.why)
        if (required := constraint.required) is None:
            continue
        if settings.topology == "off":
            raise inexpressible("volcano/topology-unavailable", path, required, TOPOLOGY_OFF.why)
        if members is not None and (len(members) != 1 or members[0] not in names):
            why = "volcano supports topology for a whole gang or for one clique, not for a group of cliques"
            raise inexpressible("volcano/scaling-group-topology", path, required, why)
        try:
            tier = tier_of(required, topology, facts)
        except NoTopology as reason:
            place = constraint.path / "required"
            raise inexpressible("volcano/topology-tier", place, required, reason.why) from None
        except UnknownTopology as missing:
            raise unknown_fact("volcano/topology-tier", constraint.path, missing.needs, missing.part) from None
        if members is None:
            whole = tier
        else:
            parts[members[0]] = min(tier, parts.get(members[0], tier))
    return whole, parts
