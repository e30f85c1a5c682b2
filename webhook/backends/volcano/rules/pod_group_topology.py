"""The topology of PodGroups of other authors: what Volcano accepts and then ignores, or can never satisfy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.volcano.rules.examples import pod_group, policy
from webhook.backends.volcano.rules.pod_group import pod_group_rule
from webhook.backends.volcano.settings import RuleContext
from webhook.backends.volcano.subgroups import policies
from webhook.backends.volcano.topology import HYPER_NODES, indexed, never_fits
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.known_objects import HyperNode, HyperNodes
from webhook.model.reading import integer, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results

_TIERS = ClusterFacts(hyper_nodes={"rack-1": HyperNode(1, "rack"), "zone-1": HyperNode(2, "zone")})
_MODES = ("hard", "soft")
_IN_A_RACK = {"mode": "hard", "highestTierAllowed": 1}


@pod_group_rule(
    "volcano/group-tier",
    passes=Example(pod_group(networkTopology=_IN_A_RACK), facts=_TIERS),
    fails=Example(pod_group(networkTopology={"mode": "hard", "highestTierAllowed": 3}), facts=_TIERS),
)
def group_tier(found: StoredObject, context: RuleContext) -> Results:
    """Volcano ignores a hard topology without a tier, with a tier name that no HyperNode has, with a tier above all
    HyperNodes, or in a cluster without HyperNodes. The gang then starts on any nodes. A gang with a tier below all
    HyperNodes, or with tier 0, never starts.

    Source: volcano-sh/volcano, pkg/scheduler/framework/session.go; seen with vc-scheduler v1.15.1.
    """
    for topology, path in _hard(found):
        tier, name = integer(topology.get("highestTierAllowed")), text(topology.get("highestTierName"))
        known = context.facts.hyper_nodes
        if tier is None and name is None:
            yield Finding(
                at=path / "highestTierAllowed",
                found=None,
                why="volcano ignores a hard topology without a tier, and the gang starts on any nodes",
                remedy="name the widest tier that the gang may span, or give up the topology: remove it",
            )
        elif tier == 0:
            yield _never(path / "highestTierAllowed", tier)
        elif known is None:
            yield Unjudged(path, "the HyperNodes", part="hyper_nodes")
        elif not known:
            yield Finding(
                at=path,
                found=dict(topology),
                why="the cluster has no HyperNode, so volcano ignores the topology",
                remedy="create HyperNodes, or give up the topology: remove it",
                absent=HYPER_NODES,
            )
        elif tier is not None:
            yield from _judge_tier(tier, path / "highestTierAllowed", indexed(known))
        else:
            yield from _judge_name(name or "", path / "highestTierName", indexed(known))


def _judge_tier(tier: int, path: FieldPath, known: HyperNodes) -> Results:
    tiers, why = known.tiers, never_fits(tier, known)
    if why is None and tier > tiers[-1]:
        why = f"the widest HyperNodes are of tier {tiers[-1]}, so volcano ignores the topology"
    if why is None:
        return
    remedy = f"name a tier from {max(tiers[0], 1)} to {tiers[-1]}"
    yield Finding(at=path, found=tier, why=why, remedy=remedy, absent=HYPER_NODES)


def _judge_name(name: str, path: FieldPath, known: HyperNodes) -> Results:
    tiers = known.tiers_named(name)
    if not tiers:
        why = "no HyperNode has this tierName, so volcano ignores the topology, with only a log line"
        remedy = "use the tierName of a HyperNode, or the number of a tier"
        yield Finding(at=path, found=name, why=why, remedy=remedy, absent=HYPER_NODES)
    elif len(tiers) > 1:
        why = "HyperNodes of different tiers have this tierName, and volcano uses the last that it sees"
        yield Finding(at=path, found=name, why=why, remedy="name the tier by its number")
    elif tiers == {0}:
        yield _never(path, name)


def _never(path: FieldPath, found: object) -> Finding:
    return Finding(at=path, found=found, why=never_fits(0, {}) or "", remedy="name a tier of 1 or more")


@pod_group_rule(
    "volcano/group-two-tiers",
    passes=Example(pod_group(networkTopology=_IN_A_RACK), old=pod_group(networkTopology={"highestTierName": "rack"})),
    fails=Example(
        pod_group(networkTopology={**_IN_A_RACK, "highestTierName": "zone"}), old=pod_group(networkTopology=_IN_A_RACK)
    ),
)
def group_two_tiers(found: StoredObject, _: RuleContext) -> Results:
    """If a tier is given by number and by name, Volcano reads only the number. Its own webhook refuses both together,
    in any mode, but only when the PodGroup is created, and no webhook sees a file.

    Source: volcano-sh/volcano, pkg/scheduler/framework/session.go, pkg/webhooks/admission/podgroups (CREATE only).
    """
    before = Counter((path.anchor, name) for path, name in _with_two(found.old)) if found.old is not None else Counter()
    for path, name in _with_two(found):
        before[path.anchor, name] -= 1
        if before[path.anchor, name] < 0:
            yield Finding(
                at=path,
                found=name,
                why="highestTierAllowed is also set, and volcano reads only that field",
                remedy="keep one of the two",
            )


def _with_two(found: StoredObject) -> Iterator[tuple[FieldPath, str]]:
    """The tier names, with their paths, that also have a tier number beside them."""
    for topology, path in _topologies(found):
        name = text(topology.get("highestTierName"))
        if name is not None and integer(topology.get("highestTierAllowed")) is not None:
            yield path / "highestTierName", name


@pod_group_rule(
    "volcano/group-topology-mode",
    passes=Example(pod_group(networkTopology={"mode": "soft"})),
    fails=Example(pod_group(networkTopology={"mode": "strict"})),
)
def group_topology_mode(found: StoredObject, _: RuleContext) -> Results:
    """The mode of a topology is hard or soft. The API server refuses any other.

    Source: the CRD of scheduling.volcano.sh/v1beta1 (enum of `mode`, its default is hard).
    """
    for topology, path in _topologies(found):
        mode = text(topology.get("mode"))
        if mode is not None and mode not in _MODES:
            why = "there is no such mode, and the API server refuses it"
            yield Finding(at=path / "mode", found=mode, why=why, remedy=f"set one of {', '.join(_MODES)}")


@pod_group_rule(
    "volcano/group-topology-off",
    default=Action.WARN,
    passes=Example(pod_group(networkTopology=_IN_A_RACK), facts=_TIERS, config={"topology": "hypernode"}),
    fails=Example(pod_group(policy("worker", networkTopology=_IN_A_RACK)), facts=_TIERS),
)
def group_topology_off(found: StoredObject, context: RuleContext) -> Results:
    """Volcano accepts a topology and ignores it without a message if its plugin network-topology-aware is off. The
    plugin is off by default. A profile with topology `hypernode` states that it is on.

    Source: volcano-sh/volcano, installer/helm/chart/volcano (the scheduler's configuration); seen with vc-scheduler
    v1.15.1.
    """
    if context.settings.topology == "off":
        for _, path in _hard(found):
            yield Finding(
                at=path,
                found="hard",
                why="the profile's topology is off, and volcano ignores topology without its plugin for it",
                remedy="set the profile's topology to hypernode if the plugin is on",
            )


def _hard(found: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """The hard topologies of a PodGroup and of its subgroups. A soft topology never blocks a gang."""
    return ((one, path) for one, path in _topologies(found) if text(one.get("mode")) in {None, "hard"})


def _topologies(found: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """The topologies of a PodGroup and of its subgroups."""
    holders = [(found.spec, SPEC), *((one.raw, one.path) for one in policies(found))]
    for holder, path in holders:
        if holder.get("networkTopology") is not None:
            yield mapping(holder["networkTopology"]), path / "networkTopology"
