"""Koordinator's rules about topology: one table, one sentence per row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import koordinator, rules, validate
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import TopologyBinding, TopologyLayer
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

BLOCKS = (
    TopologyLayer("SpineLayer", None, ("example.com/spine",)),
    TopologyLayer("BlockLayer", "SpineLayer", ("example.com/block", "example.com/block-old")),
    TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
)
KEYS = {
    "spine": "example.com/spine",
    "block": "example.com/block",
    "old-block": "example.com/block-old",
    "rack": "example.com/rack",
    "host": "kubernetes.io/hostname",
}
WORLD = ClusterFacts(topology_bindings={"dc": TopologyBinding(KEYS)}, network_topologies={"default": BLOCKS})


def whole(domain: str) -> dict[str, Any]:
    return pod_clique_set(clique("leader"), clique("worker"), topologyConstraint=required(domain))


def each(*domains: str | None, **template: Any) -> dict[str, Any]:
    cliques = [
        clique(f"c{index}", topologyConstraint=domain and required(domain)) for index, domain in enumerate(domains)
    ]
    return pod_clique_set(*cliques, **template)


LAYER, DIVERGENT, WIDENED, SURPLUS = (
    "koordinator/topology-layer",
    "koordinator/divergent-topology",
    "koordinator/clique-topology-widened",
    "koordinator/topology-surplus",
)
TOPOLOGY: dict[str, tuple[Any, Any, Any, list[str]]] = {
    "a domain whose key a layer lists": (whole("block"), {}, WORLD, []),
    "a domain whose key a layer lists second": (whole("old-block"), {}, WORLD, []),
    "a domain whose key no layer lists": (whole("rack"), {}, WORLD, [LAYER]),
    "a key that the profile maps to a layer": (
        whole("rack"),
        {"topologyKeyMappings": {"example.com/rack": "BlockLayer"}},
        WORLD,
        [],
    ),
    "a key that the profile maps to a layer that is not there": (
        whole("block"),
        {"topologyKeyMappings": {"example.com/block": "blockLayer"}},
        WORLD,
        [LAYER],
    ),
    "the hostname is the node layer without any mapping": (whole("host"), {}, WORLD, []),
    "one clique of two requires a domain": (each("block", None), {}, WORLD, [DIVERGENT]),
    "two cliques require different domains": (each("block", "spine"), {}, WORLD, [DIVERGENT]),
    "all cliques require the same domain": (each("block", "block"), {}, WORLD, [WIDENED]),
    "the only clique requires a domain": (each("block"), {}, WORLD, []),
    "a clique repeats what the set requires": (
        each("block", None, topologyConstraint=required("block")),
        {},
        WORLD,
        [WIDENED],
    ),
    "a clique narrows what the set requires": (
        each("host", None, topologyConstraint=required("block")),
        {},
        WORLD,
        [DIVERGENT],
    ),
    "a scaling group's clique differs from a standalone one": (
        each("block", None, podCliqueScalingGroups=[scaling_group("decode", "c0")]),
        {},
        WORLD,
        [DIVERGENT],
    ),
    "the scheduler does not look at topology": (
        whole("block"),
        {"awareNetworkTopology": False},
        WORLD,
        ["koordinator/topology-unavailable"],
    ),
    "no ClusterNetworkTopology": (
        whole("host"),
        {},
        ClusterFacts(topology_bindings={"dc": TopologyBinding(KEYS)}, network_topologies={}),
        ["koordinator/topology-unavailable"],
    ),
    "no layers, not even for the hostname": (
        whole("host"),
        {},
        ClusterFacts(topology_bindings={"dc": TopologyBinding(KEYS)}, network_topologies={"default": ()}),
        ["koordinator/topology-unavailable"],
    ),
    "a layer is an orphan": (
        whole("block"),
        {},
        ClusterFacts(
            topology_bindings={"dc": TopologyBinding(KEYS)},
            network_topologies={"default": (*BLOCKS, TopologyLayer("RackLayer", None, ("example.com/rack",)))},
        ),
        ["koordinator/topology-unavailable"],
    ),
    "the parents of the layers run in a circle": (
        whole("block"),
        {},
        ClusterFacts(
            topology_bindings={"dc": TopologyBinding(KEYS)},
            network_topologies={
                "default": (
                    TopologyLayer("BlockLayer", "NodeTopologyLayer", ("example.com/block",)),
                    TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
                )
            },
        ),
        ["koordinator/topology-unavailable"],
    ),
    "a preference without a layer": (
        pod_clique_set(topologyConstraint=preferred("rack")),
        {},
        WORLD,
        ["koordinator/preferred-topology"],
    ),
    "a preference on a scheduler without topology": (
        pod_clique_set(topologyConstraint=preferred("block")),
        {"awareNetworkTopology": False},
        WORLD,
        ["koordinator/preferred-topology"],
    ),
    "a scaling group's preference is refused like its requirement": (
        pod_clique_set(groups=[scaling_group("decode", "worker", topologyConstraint=preferred("block"))]),
        {},
        WORLD,
        ["koordinator/scaling-group-topology"],
    ),
    "the older spelling packDomain": (
        pod_clique_set(topologyConstraint={"topologyName": "dc", "packDomain": "rack"}),
        {},
        WORLD,
        [LAYER],
    ),
    "a minimum below the replicas under a required domain": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")),
        {},
        WORLD,
        [SURPLUS],
    ),
    "a minimum below the replicas of a clique that requires a domain itself": (
        pod_clique_set(clique("worker", replicas=4, minimum=2, topologyConstraint=required("block"))),
        {},
        WORLD,
        [SURPLUS],
    ),
    "a minimum below the replicas in two cliques": (
        pod_clique_set(
            clique("leader", minimum=1),
            clique("router"),
            clique("worker", replicas=4, minimum=2),
            topologyConstraint=required("block"),
        ),
        {},
        WORLD,
        [SURPLUS, SURPLUS],
    ),
    "a minimum below the replicas without any topology": (
        pod_clique_set(clique("worker", replicas=4, minimum=2)),
        {},
        WORLD,
        [],
    ),
    "a minimum below the replicas under a preferred domain": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=preferred("block")),
        {},
        WORLD,
        [],
    ),
    "a minimum that is all replicas": (
        pod_clique_set(clique("worker", replicas=4, minimum=4), topologyConstraint=required("block")),
        {},
        WORLD,
        [],
    ),
    "a scaling group's replicas above its minimum are gangs of their own": (
        pod_clique_set(
            groups=[scaling_group("decode", "worker", replicas=3, minAvailable=1)], topologyConstraint=required("block")
        ),
        {},
        WORLD,
        [],
    ),
    "a binding that does not exist is Grove's to refuse": (
        pod_clique_set(topologyConstraint={"topologyName": "other", "pack": {"required": "rack"}}),
        {},
        WORLD,
        ["grove/topology-domain"],
    ),
}


@pytest.mark.parametrize(("manifest", "config", "facts", "expected"), TOPOLOGY.values(), ids=TOPOLOGY)
def test_the_topology_rule_gives_the_expected_findings(
    manifest: Any, config: Any, facts: ClusterFacts, expected: list[str]
) -> None:
    assert rules(validate(manifest, settings=koordinator(config), facts=facts)) == expected


def test_topology_is_refused_for_koordinator_versions_without_it() -> None:
    verdict = validate(whole("block"), settings=koordinator(schedulerVersion="1.6.1"), facts=WORLD)
    assert rules(verdict) == ["koordinator/topology-unavailable"]
    assert "koord-scheduler 1.6.1 has no network topology" in str(verdict.findings[0])


def test_the_message_names_a_mapping_to_a_missing_layer() -> None:
    settings = koordinator({"topologyKeyMappings": {"example.com/rack": "rackLayer"}})
    (finding,) = validate(whole("rack"), settings=settings, facts=WORLD).findings
    assert finding.why == Text("topologyKeyMappings", "example.com/rack", "layer rackLayer")
    (unmapped,) = validate(whole("rack"), facts=WORLD).findings
    assert unmapped.why == Text("no layer", "label key example.com/rack")


def test_surplus_pods_get_advice_at_the_minimum_that_causes_them() -> None:
    manifest = pod_clique_set(
        clique("leader"), clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")
    )
    verdict = validate(manifest, facts=WORLD)
    assert verdict.allowed
    assert [(str(finding.at), finding.value) for finding in verdict.findings] == [
        ("spec.template.cliques[1].spec.minAvailable", 2)
    ]


@pytest.mark.parametrize("domain", ["block", "host"])
@pytest.mark.parametrize(
    ("facts", "needs"),
    [
        (ClusterFacts(), "the ClusterTopologyBinding"),
        (ClusterFacts(topology_bindings=WORLD.topology_bindings), "the ClusterNetworkTopology"),
    ],
)
def test_an_unknown_layer_is_not_judged(facts: ClusterFacts, needs: str, domain: str) -> None:
    verdict = validate(whole(domain), facts=facts)
    assert verdict.allowed
    assert verdict.findings == ()
    assert (LAYER, needs) in [(unjudged.rule, unjudged.needs) for unjudged in verdict.unjudged]
