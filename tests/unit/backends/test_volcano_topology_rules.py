"""The topologies that Volcano's rules refuse: exactly those that cannot be translated. One sentence per row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.backends.hyper_nodes import ON, PREFERRED, SCALING, SURPLUS, TIER, TIERS, UNAVAILABLE, WORKER, nodes
from tests.unit.backends.pod_gangs import asks, member, podgang
from tests.unit.backends.volcano_gangs import subgroup, translated
from tests.unit.worlds import rules, settings_of, validate
from webhook.admission.decision import doubtful_facts
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import GroveGeneration
from webhook.model.keys import Needed
from webhook.model.known_objects import HyperNode
from webhook.offline.translation import expected_gangs
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet


def test_every_supported_volcano_version_reads_a_tier_number() -> None:
    gang = podgang(member(WORKER, 1, **asks("example.com/rack")))
    assert translated(gang, ON, TIERS, schedulerVersion="1.14.1")["spec"]["subGroupPolicy"] == [subgroup(WORKER, 1, 1)]
    assert found(whole("rack"), ON, TIERS, schedulerVersion="1.14.1") == []


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
    own = [rule for rule in rules(verdict) if rule.startswith("volcano/")]
    assert verdict.allowed or own or rules(verdict) == ["grove/topology-domain"]
    return own


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), RULES.values(), ids=RULES)
def test_the_topology_rule_gives_the_expected_findings(
    manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]
) -> None:
    assert found(manifest, config, facts) == expected


def expressible(manifest: Any, config: Any, facts: ClusterFacts) -> bool:
    try:
        for gang in expected_gangs(PodCliqueSet(manifest), facts, GroveGeneration.LEGACY):
            translated(gang, config, facts)
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


def test_a_topology_refusal_names_the_object_to_look_for() -> None:
    (finding,) = validate(whole("rack"), settings=settings_of("volcano", ON), facts=nodes(a=(1, "switch"))).findings
    assert finding.why == Text("of the domain, nor example.com/rack")
    manifest = pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("rack"))
    (surplus,) = validate(manifest, settings=settings_of("volcano", ON), facts=TIERS).findings
    assert (str(surplus.at), surplus.value) == ("spec.template.cliques[0].spec.minAvailable", 2)


@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (ClusterFacts(), "the ClusterTopologyBinding"),
        (ClusterFacts(topology_bindings=TIERS.topology_bindings), "the HyperNodes"),
    ],
)
def test_an_unknown_tier_is_not_judged(facts: ClusterFacts, needs: str) -> None:
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
def test_only_missing_hyper_nodes_are_read_live_before_a_refusal(
    manifest: Any, facts: ClusterFacts, needed: tuple[Needed, ...]
) -> None:
    verdict = validate(manifest, settings=settings_of("volcano", ON), facts=facts)
    assert (verdict.allowed, doubtful_facts(verdict)) == (False, needed)


def test_hyper_nodes_that_a_live_read_finds_prevent_the_refusal() -> None:
    read = {Needed("hyper_nodes"): {"rack-1": HyperNode(1, "rack")}}
    assert found(whole("rack"), ON, nodes().learned(read)) == []
