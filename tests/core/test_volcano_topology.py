"""Topology on Volcano: what its PodGroup says of it, by hand, and what its rules refuse. Each row a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.pod_gangs import asks, member, of_group, podgang
from tests.core.volcano_gangs import subgroup, translated
from tests.core.worlds import rules, settings_of, validate
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts, HyperNode, Needed, TopologyBinding
from webhook.model.podcliqueset import PodCliqueSet
from webhook.model.podgang import PodGang
from webhook.required_facts import in_doubt
from webhook.translation import expected_gangs
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

TIERS = ClusterFacts(
    topology_bindings={
        "dc": TopologyBinding({"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"})
    },
    hyper_nodes={
        "zone-1": HyperNode(3, "example.com/zone"),
        "block-1": HyperNode(2, "block"),
        "block-2": HyperNode(2, "block"),
        "rack-1": HyperNode(1, "rack"),
        "unnamed": HyperNode(4, None),
    },
)
ON = {"topology": "hypernode"}
LEADER, WORKER = "demo-0-leader", "demo-0-worker"
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


def test_a_scaled_gang_has_its_scaling_group_s_topology_as_its_own() -> None:
    manifest = pod_clique_set(
        clique("worker"),
        groups=[scaling_group("decode", "worker", replicas=2, minAvailable=1, topologyConstraint=required("rack"))],
        topologyConstraint=required("block"),
    )
    _, scaled = expected_gangs(PodCliqueSet(manifest), TIERS)
    spec = translated(scaled.podgang, ON, TIERS)["spec"]
    assert spec["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}


def nodes(**tiers: tuple[int, str]) -> ClusterFacts:
    bindings = {
        "dc": TopologyBinding({"rack": "example.com/rack"}),
        "old": TopologyBinding({"shelf": "example.com/rack"}),
    }
    return ClusterFacts(
        topology_bindings=bindings, hyper_nodes={name: HyperNode(*tier) for name, tier in tiers.items()}
    )


RACK = podgang(member(WORKER, 1), **asks("example.com/rack"))
WHOLE = "spec.topologyConstraint.packConstraint"
TIER, UNAVAILABLE = "volcano/topology-tier", "volcano/topology-unavailable"
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
def test_what_volcano_cannot_express_is_refused_as_a_whole(
    gang: PodGang, config: dict[str, Any], facts: ClusterFacts, rule: str, place: str
) -> None:
    with pytest.raises(Inexpressible) as refusal:
        translated(gang, config, facts)
    assert [(finding.rule, str(finding.at)) for finding in refusal.value.findings] == [(rule, place)]


def test_a_tier_by_number_is_heeded_by_every_volcano_that_is_worked_with() -> None:
    gang = podgang(member(WORKER, 1, **asks("example.com/rack")))
    assert translated(gang, ON, TIERS, schedulerVersion="1.14.1")["spec"]["subGroupPolicy"] == [subgroup(WORKER, 1, 1)]
    assert found(whole("rack"), ON, TIERS, schedulerVersion="1.14.1") == []


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (ClusterFacts(topology_bindings={}), "the HyperNodes"),
        (ClusterFacts(hyper_nodes={"a": HyperNode(1, "rack")}), "the ClusterTopologyBinding"),
    ],
)
def test_what_is_unknown_is_no_reason_to_write_a_gang_without_its_topology(facts: ClusterFacts, needs: str) -> None:
    with pytest.raises(Inexpressible) as refusal:
        translated(RACK, ON, facts)
    assert refusal.value.findings == ()
    assert [(unjudged.rule, unjudged.needs) for unjudged in refusal.value.unjudged] == [(TIER, needs)]


SCALING, SURPLUS, PREFERRED = "volcano/scaling-group-topology", "volcano/topology-surplus", "volcano/preferred-topology"


def whole(domain: str, **fields: Any) -> dict[str, Any]:
    return pod_clique_set(clique("leader"), clique("worker"), topologyConstraint=required(domain), **fields)


def grouped(*names: str, **fields: Any) -> dict[str, Any]:
    group = scaling_group("decode", *names, **fields)
    return pod_clique_set(clique("leader"), clique("worker"), groups=[group])


def scaled(name: str) -> dict[str, Any]:
    found = clique(name)
    found["spec"]["autoScalingConfig"] = {"maxReplicas": 8}
    return found


RULES: dict[str, tuple[Any, Any, ClusterFacts, list[str]]] = {
    "a domain that is a tier's name": (whole("rack"), ON, TIERS, []),
    "a domain whose key is a tier's name": (whole("zone"), ON, TIERS, []),
    "a domain without a tier": (whole("rack"), ON, nodes(a=(1, "switch")), [TIER]),
    "no HyperNode at all": (whole("rack"), ON, nodes(), [TIER]),
    "a name on two tiers": (whole("rack"), ON, nodes(a=(1, "rack"), b=(2, "rack")), [TIER]),
    "another binding's name for the key does not count": (
        whole("rack"),
        ON,
        nodes(a=(1, "rack"), b=(2, "shelf")),
        [],
    ),
    "a profile without topology": (whole("rack"), {}, TIERS, [UNAVAILABLE]),
    "a profile whose off YAML read as false": (whole("rack"), {"topology": False}, TIERS, [UNAVAILABLE]),
    "no topology in a profile without it": (pod_clique_set(), {}, TIERS, []),
    "cliques that differ": (
        pod_clique_set(
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("rack")),
            clique("router"),
        ),
        ON,
        TIERS,
        [],
    ),
    "a clique in a tier that is not there": (
        pod_clique_set(clique("worker", topologyConstraint=required("rack")), topologyConstraint=required("zone")),
        ON,
        nodes(a=(1, "switch")),
        [TIER],
    ),
    "a scaling group of one clique": (grouped("worker", topologyConstraint=required("rack")), ON, TIERS, []),
    "a scaling group of several cliques": (
        grouped("leader", "worker", topologyConstraint=required("rack")),
        ON,
        TIERS,
        [SCALING],
    ),
    "a scaling group of several cliques, in a profile without topology": (
        grouped("leader", "worker", topologyConstraint=required("rack")),
        {},
        TIERS,
        [UNAVAILABLE],
    ),
    "a preference of the set": (pod_clique_set(topologyConstraint=preferred("rack")), ON, TIERS, [PREFERRED]),
    "a preference of the set, in a profile without topology": (
        pod_clique_set(topologyConstraint=preferred("rack")),
        {},
        TIERS,
        [PREFERRED],
    ),
    "a preference of a scaling group": (
        grouped("worker", topologyConstraint=preferred("rack")),
        ON,
        TIERS,
        [PREFERRED],
    ),
    "a preference of a clique": (
        pod_clique_set(clique("worker", topologyConstraint=preferred("rack"))),
        ON,
        TIERS,
        [PREFERRED],
    ),
    "the older spelling packDomain": (
        pod_clique_set(topologyConstraint={"topologyName": "dc", "packDomain": "rack"}),
        ON,
        nodes(a=(1, "switch")),
        [TIER],
    ),
    "replicas above the minimum under the set's domain": (
        pod_clique_set(clique("leader"), clique("worker", replicas=4, minimum=2), topologyConstraint=required("rack")),
        ON,
        TIERS,
        [SURPLUS],
    ),
    "an autoscaler over the minimum, under the set's domain": (
        pod_clique_set(scaled("worker"), topologyConstraint=required("rack")),
        ON,
        TIERS,
        [SURPLUS],
    ),
    "an autoscaler without any topology": (pod_clique_set(scaled("worker")), ON, TIERS, []),
    "replicas above the minimum under the clique's own domain": (
        pod_clique_set(clique("worker", replicas=4, minimum=2, topologyConstraint=required("rack"))),
        ON,
        TIERS,
        [SURPLUS],
    ),
    "replicas above the minimum under its scaling group's domain": (
        pod_clique_set(
            clique("worker", replicas=4, minimum=2),
            groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))],
        ),
        ON,
        TIERS,
        [SURPLUS],
    ),
    "replicas above the minimum beside a clique that requires a domain": (
        pod_clique_set(clique("leader", topologyConstraint=required("rack")), clique("worker", replicas=4, minimum=2)),
        ON,
        TIERS,
        [],
    ),
    "replicas above the minimum without any topology": (
        pod_clique_set(clique("worker", replicas=4, minimum=2)),
        ON,
        TIERS,
        [],
    ),
    "a scaling group's replicas above its minimum are gangs of their own": (
        grouped("worker", replicas=3, minAvailable=1, topologyConstraint=required("rack")),
        ON,
        TIERS,
        [],
    ),
    "a binding that does not exist is Grove's to refuse": (
        pod_clique_set(topologyConstraint={"topologyName": "other", "pack": {"required": "rack"}}),
        ON,
        TIERS,
        [],
    ),
}


def found(manifest: Any, config: Any, facts: ClusterFacts, **profile: Any) -> list[str]:
    verdict = validate(manifest, settings=settings_of("volcano", config, **profile), facts=facts)
    assert verdict.allowed is not any(rule.startswith("volcano/") for rule in rules(verdict))
    return rules(verdict)


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), RULES.values(), ids=RULES)
def test_topology(manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]) -> None:
    assert found(manifest, config, facts) == expected


def expressible(manifest: Any, config: Any, facts: ClusterFacts) -> bool:
    try:
        for gang in expected_gangs(PodCliqueSet(manifest), facts):
            translated(gang.podgang, config, facts)
    except Inexpressible:
        return False
    return True


# Of the others, a surplus could be translated, and a second binding has only a gang that names its own to do with it.
FOR_GOOD = {name: row for name, row in RULES.items() if row[2] is TIERS and row[3] != [SURPLUS]}


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), FOR_GOOD.values(), ids=FOR_GOOD)
def test_the_rules_refuse_exactly_what_cannot_be_translated(
    manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]
) -> None:
    assert expressible(manifest, config, facts) is not bool(expected)


def test_a_refusal_says_what_to_look_for() -> None:
    (finding,) = validate(whole("rack"), settings=settings_of("volcano", ON), facts=nodes(a=(1, "switch"))).findings
    assert finding.why == (
        "no HyperNode has the tierName of the domain, nor example.com/rack, so no tier stands for it"
    )
    manifest = pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("rack"))
    (surplus,) = validate(manifest, settings=settings_of("volcano", ON), facts=TIERS).findings
    assert (str(surplus.at), surplus.found) == ("spec.template.cliques[0].spec.minAvailable", 2)


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (ClusterFacts(), "the ClusterTopologyBinding"),
        (ClusterFacts(topology_bindings=TIERS.topology_bindings), "the HyperNodes"),
    ],
)
def test_a_tier_that_cannot_be_looked_up_is_not_judged(facts: ClusterFacts, needs: str) -> None:
    verdict = validate(whole("rack"), settings=settings_of("volcano", ON), facts=facts)
    assert verdict.allowed
    assert (TIER, needs) in [(unjudged.rule, unjudged.needs) for unjudged in verdict.unjudged]


DOUBT: dict[str, tuple[Any, ClusterFacts, tuple[Needed, ...]]] = {
    "no HyperNode": (whole("rack"), nodes(), (Needed("hyper_nodes"),)),
    "none of that tier": (whole("rack"), nodes(a=(1, "switch")), (Needed("hyper_nodes"),)),
    "a tier 0": (whole("rack"), nodes(a=(0, "rack")), ()),
    "two tiers of one name": (whole("rack"), nodes(a=(1, "rack"), b=(2, "rack")), ()),
}


@pytest.mark.parametrize(("manifest", "facts", "needed"), DOUBT.values(), ids=DOUBT)
def test_only_hyper_nodes_that_are_not_there_are_looked_for_before_a_set_is_refused(
    manifest: Any, facts: ClusterFacts, needed: tuple[Needed, ...]
) -> None:
    verdict = validate(manifest, settings=settings_of("volcano", ON), facts=facts)
    assert (verdict.allowed, in_doubt(verdict)) == (False, needed)


def test_hyper_nodes_that_are_found_then_allow_what_their_absence_refused() -> None:
    read = {Needed("hyper_nodes"): {"rack-1": HyperNode(1, "rack")}}
    assert found(whole("rack"), ON, nodes().learned(read)) == []
