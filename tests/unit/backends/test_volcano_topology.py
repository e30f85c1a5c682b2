"""Topology on Volcano: the fields of its PodGroup, by hand, and what it cannot express. One sentence per row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.hyper_nodes import LEADER, ON, TIER, TIERS, UNAVAILABLE, WORKER, nodes
from tests.unit.backends.pod_gangs import asks, member, of_group, podgang
from tests.unit.backends.volcano_gangs import subgroup, translated
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import GroveGeneration, PodGang
from webhook.model.known_objects import HyperNode
from webhook.offline.translation import expected_gangs
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

TOPOLOGY: dict[str, tuple[PodGang, int | None, int | None, int | None]] = {
    "of the whole gang, by the domain": (
        podgang(member(LEADER, 1), member(WORKER, 2), **asks("example.com/block")),
        2,
        None,
        None,
    ),
    "of the whole gang, by the key itself": (
        podgang(member(LEADER, 1), member(WORKER, 2), **asks("example.com/zone")),
        3,
        None,
        None,
    ),
    "of one clique only": (
        podgang(member(LEADER, 1), member(WORKER, 2, **asks("example.com/rack"))),
        None,
        None,
        1,
    ),
    "of cliques that differ, inside the gang's": (
        podgang(
            member(LEADER, 1, **asks("example.com/block")),
            member(WORKER, 2, **asks("example.com/rack")),
            **asks("example.com/zone"),
        ),
        3,
        2,
        1,
    ),
    "of a scaling group of one clique": (
        podgang(member(LEADER, 1), member(WORKER, 2), **of_group("example.com/block", WORKER)),
        None,
        None,
        2,
    ),
    "of a scaling group and, narrower, of its clique": (
        podgang(
            member(LEADER, 1),
            member(WORKER, 2, **asks("example.com/rack")),
            **of_group("example.com/block", WORKER),
        ),
        None,
        None,
        1,
    ),
    "by the binding that the gang names": (
        podgang(
            member(LEADER, 1),
            member(WORKER, 2),
            annotations={"grove.io/topology-name": "dc"},
            **asks("example.com/rack"),
        ),
        1,
        None,
        None,
    ),
    "a constraint that requires nothing": (podgang(member(LEADER, 1), member(WORKER, 2), **asks()), None, None, None),
}


@pytest.mark.parametrize(("gang", "whole", "leader", "worker"), TOPOLOGY.values(), ids=TOPOLOGY)
def test_a_required_topology_is_a_tier_by_number(
    gang: PodGang, whole: int | None, leader: int | None, worker: int | None
) -> None:
    spec = translated(gang, ON, TIERS)["spec"]
    assert spec.get("networkTopology") == (whole and {"mode": "hard", "highestTierAllowed": whole})
    assert spec["subGroupPolicy"] == [subgroup(LEADER, 1, leader), subgroup(WORKER, 2, worker)]


def test_a_scaled_gang_has_the_topology_of_its_scaling_group() -> None:
    manifest = pod_clique_set(
        clique("worker"),
        groups=[scaling_group("decode", "worker", replicas=2, minAvailable=1, topologyConstraint=required("rack"))],
        topologyConstraint=required("block"),
    )
    _, scaled = expected_gangs(PodCliqueSet(manifest), TIERS, GroveGeneration.LEGACY)
    spec = translated(scaled, ON, TIERS)["spec"]
    assert spec["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}


RACK = podgang(member(WORKER, 1), **asks("example.com/rack"))
WHOLE = "spec.topologyConstraint.packConstraint"


INEXPRESSIBLE: dict[str, tuple[PodGang, dict[str, Any], ClusterFacts, str, str]] = {
    "a profile without topology": (RACK, {}, TIERS, UNAVAILABLE, WHOLE),
    "a member's, in a profile without topology": (
        podgang(member(WORKER, 1, **asks("example.com/rack"))),
        {"topology": False},
        TIERS,
        UNAVAILABLE,
        "spec.podgroups[0].topologyConstraint.packConstraint",
    ),
    "a preference": (
        podgang(member(WORKER, 1), **asks(preferred="example.com/rack")),
        ON,
        TIERS,
        "volcano/preferred-topology",
        f"{WHOLE}.preferred",
    ),
    "a preference beside a requirement": (
        podgang(member(WORKER, 1), **asks("example.com/block", "example.com/rack")),
        ON,
        TIERS,
        "volcano/preferred-topology",
        f"{WHOLE}.preferred",
    ),
    "a group that names no member": (
        podgang(member(LEADER, 1), member(WORKER, 1), **of_group("example.com/rack", "nobody")),
        ON,
        TIERS,
        "volcano/scaling-group-topology",
        "spec.topologyConstraintGroupConfigs[0]",
    ),
    "a scaling group of several cliques": (
        podgang(member(LEADER, 1), member(WORKER, 1), **of_group("example.com/rack", LEADER, WORKER)),
        ON,
        TIERS,
        "volcano/scaling-group-topology",
        "spec.topologyConstraintGroupConfigs[0]",
    ),
    "no HyperNode": (RACK, ON, nodes(), TIER, f"{WHOLE}.required"),
    "a tier that no HyperNode names": (RACK, ON, nodes(a=(1, "switch")), TIER, f"{WHOLE}.required"),
    "a name on two tiers": (RACK, ON, nodes(a=(1, "rack"), b=(2, "rack")), TIER, f"{WHOLE}.required"),
    "two names for the key": (RACK, ON, nodes(a=(1, "rack"), b=(1, "shelf")), TIER, f"{WHOLE}.required"),
    "the tier 0": (RACK, ON, nodes(a=(0, "rack")), TIER, f"{WHOLE}.required"),
    "a binding that is not there": (
        podgang(member(WORKER, 1), annotations={"grove.io/topology-name": "gone"}, **asks("example.com/rack")),
        ON,
        TIERS,
        TIER,
        f"{WHOLE}.required",
    ),
}


@pytest.mark.parametrize(("gang", "config", "facts", "rule", "place"), INEXPRESSIBLE.values(), ids=INEXPRESSIBLE)
def test_a_gang_that_volcano_cannot_express_is_refused_completely(
    gang: PodGang, config: dict[str, Any], facts: ClusterFacts, rule: str, place: str
) -> None:
    with pytest.raises(Inexpressible) as refusal:
        translated(gang, config, facts)
    assert [(finding.rule, str(finding.at)) for finding in refusal.value.findings] == [(rule, place)]


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (ClusterFacts(topology_bindings={}), "the HyperNodes"),
        (ClusterFacts(hyper_nodes={"a": HyperNode(1, "rack")}), "the ClusterTopologyBinding"),
    ],
)
def test_with_unknown_facts_no_gang_is_written_without_its_topology(facts: ClusterFacts, needs: str) -> None:
    with pytest.raises(Inexpressible) as refusal:
        translated(RACK, ON, facts)
    assert refusal.value.findings == ()
    assert [(unjudged.rule, unjudged.needs) for unjudged in refusal.value.unjudged] == [(TIER, needs)]
