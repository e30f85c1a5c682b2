"""PodGang to Koordinator's PodGroups, compared with objects written by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.backends.pod_gangs import OWNER, member, podgang
from tests.unit.worlds import koordinator
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.known_objects import TopologyLayer
from webhook.offline.translation import gang_objects

RECORD = Record("koord-scheduler")
LAYERS = ClusterFacts(
    network_topologies={
        "default": (
            TopologyLayer("BlockLayer", None, ("example.com/block",)),
            TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
        )
    }
)


def constraint(required: str | None = None, preferred: str | None = None) -> dict[str, Any]:
    pack = {key: value for key, value in (("required", required), ("preferred", preferred)) if value}
    return {"packConstraint": pack}


def translated(
    gang: PodGang, config: dict[str, Any] | None = None, facts: ClusterFacts = LAYERS, **profile: Any
) -> Any:
    return gang_objects(gang, RECORD, koordinator(config, **profile).profiles["koord-scheduler"], facts)


def test_each_member_becomes_a_pod_group_that_lists_all_members() -> None:
    gang = podgang(member("demo-0-leader", 1, 1), member("demo-0-worker", 2, 4))
    groups = '["team-a/demo-0-leader","team-a/demo-0-worker"]'
    assert translated(gang) == [
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {
                "name": "demo-0-leader",
                "namespace": "team-a",
                "labels": {
                    "app.kubernetes.io/managed-by": "rollcall",
                    "grove.io/podgang": "demo-0",
                    "rollcall.dev/gang": "demo-0",
                    "grove.io/podclique": "demo-0-leader",
                },
                "annotations": {
                    "gang.scheduling.koordinator.sh/groups": groups,
                    "gang.scheduling.koordinator.sh/mode": "Strict",
                    "gang.scheduling.koordinator.sh/match-policy": "waiting-and-running",
                    "gang.scheduling.koordinator.sh/total-number": "1",
                },
                "ownerReferences": [OWNER],
            },
            "spec": {"minMember": 1, "scheduleTimeoutSeconds": 600},
        },
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {
                "name": "demo-0-worker",
                "namespace": "team-a",
                "labels": {
                    "app.kubernetes.io/managed-by": "rollcall",
                    "grove.io/podgang": "demo-0",
                    "rollcall.dev/gang": "demo-0",
                    "grove.io/podclique": "demo-0-worker",
                },
                "annotations": {
                    "gang.scheduling.koordinator.sh/groups": groups,
                    "gang.scheduling.koordinator.sh/mode": "Strict",
                    "gang.scheduling.koordinator.sh/match-policy": "waiting-and-running",
                    "gang.scheduling.koordinator.sh/total-number": "4",
                },
                "ownerReferences": [OWNER],
            },
            "spec": {"minMember": 2, "scheduleTimeoutSeconds": 600},
        },
    ]


def test_the_profile_s_settings_reach_every_pod_group() -> None:
    config = {"gangMode": "NonStrict", "matchPolicy": "once-satisfied", "scheduleTimeoutSeconds": 30}
    (group,) = translated(podgang(member("demo-0-worker", 1, 1)), config)
    assert group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/mode"] == "NonStrict"
    assert group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/match-policy"] == "once-satisfied"
    assert group["spec"]["scheduleTimeoutSeconds"] == 30


def test_a_total_below_the_minimum_is_left_out_until_the_pods_exist() -> None:
    (group,) = translated(podgang(member("demo-0-worker", 3, 2)))
    assert "gang.scheduling.koordinator.sh/total-number" not in group["metadata"]["annotations"]


def test_objects_of_a_pod_gang_without_an_owner_and_a_uid_have_no_owner_reference() -> None:
    gang = podgang(member("demo-0-worker", 1, 1))
    del gang.raw["metadata"]["uid"], gang.raw["metadata"]["ownerReferences"]
    (group,) = translated(PodGang(gang.raw))
    assert "ownerReferences" not in group["metadata"]


@pytest.mark.parametrize(
    ("live", "minimum", "total"),
    [
        (None, 1, None),
        ({"spec": {"minMember": 3}, "metadata": {"annotations": {}}}, 3, None),
        (
            {
                "spec": {"minMember": 3},
                "metadata": {"annotations": {"gang.scheduling.koordinator.sh/total-number": "4"}},
            },
            3,
            "4",
        ),
        ({"spec": {"minMember": 0}}, 1, None),
    ],
    ids=["nothing recorded", "a minimum recorded", "minimum and total recorded", "a recorded zero"],
)
def test_a_minimum_released_to_zero_keeps_its_recorded_value(live: Any, minimum: int, total: str | None) -> None:
    backend = koordinator().profiles["koord-scheduler"].backend
    (desired,) = backend.gang_objects(podgang(member("demo-0-worker", 0, 2)), RECORD, LAYERS)
    before = deepcopy(desired)
    adopted = backend.adopt(desired, live)
    assert adopted["spec"]["minMember"] == minimum
    assert adopted["metadata"]["annotations"].get("gang.scheduling.koordinator.sh/total-number") == total
    assert desired == before


def test_a_topology_of_the_whole_gang_is_on_every_pod_group() -> None:
    gang = podgang(
        member("demo-0-leader", 1, 1),
        member("demo-0-worker", 2, 2),
        topologyConstraint=constraint(required="example.com/block", preferred="kubernetes.io/hostname"),
    )
    expected = (
        '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"},'
        '{"layer":"NodeTopologyLayer","strategy":"PreferGather"}]}'
    )
    found = [
        group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/network-topology-spec"]
        for group in translated(gang)
    ]
    assert found == [expected, expected]


def test_a_mapped_key_is_translated_and_a_preference_without_layer_dropped() -> None:
    gang = podgang(
        member("demo-0-worker", 1, 1),
        topologyConstraint=constraint(required="example.com/rack", preferred="example.com/row"),
    )
    (group,) = translated(gang, {"topologyKeyMappings": {"example.com/rack": "BlockLayer"}})
    annotation = group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/network-topology-spec"]
    assert annotation == '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}'


def test_a_preference_is_dropped_if_the_cluster_has_no_topology() -> None:
    gang = podgang(member("demo-0-worker", 1, 1), topologyConstraint=constraint(preferred="example.com/block"))
    (group,) = translated(gang, {"awareNetworkTopology": False})
    assert "gang.scheduling.koordinator.sh/network-topology-spec" not in group["metadata"]["annotations"]


INEXPRESSIBLE: dict[str, tuple[PodGang, dict[str, Any], str, str]] = {
    "a scaling group's topology": (
        podgang(
            member("demo-0-worker", 1, 1),
            topologyConstraintGroupConfigs=[
                {
                    "name": "demo-0-decode-0",
                    "podGroupNames": ["demo-0-worker"],
                    "topologyConstraint": constraint(required="example.com/block"),
                }
            ],
        ),
        {},
        "koordinator/scaling-group-topology",
        "spec.topologyConstraintGroupConfigs[0]",
    ),
    "members that differ": (
        podgang(
            member("demo-0-leader", 1, 1),
            member("demo-0-worker", 1, 1, topologyConstraint=constraint(required="example.com/block")),
        ),
        {},
        "koordinator/divergent-topology",
        "spec.podgroups[1].topologyConstraint.packConstraint",
    ),
    "a key without a layer": (
        podgang(member("demo-0-worker", 1, 1), topologyConstraint=constraint(required="example.com/rack")),
        {},
        "koordinator/topology-layer",
        "spec.topologyConstraint.packConstraint.required",
    ),
    "a scheduler without topology": (
        podgang(member("demo-0-worker", 1, 1), topologyConstraint=constraint(required="example.com/block")),
        {"awareNetworkTopology": False},
        "koordinator/topology-unavailable",
        "spec.topologyConstraint.packConstraint",
    ),
}


@pytest.mark.parametrize(("gang", "config", "rule", "place"), INEXPRESSIBLE.values(), ids=INEXPRESSIBLE)
def test_a_gang_that_koordinator_cannot_express_is_refused_completely(
    gang: PodGang, config: dict[str, Any], rule: str, place: str
) -> None:
    with pytest.raises(Inexpressible) as refusal:
        translated(gang, config)
    assert [(finding.rule, str(finding.at)) for finding in refusal.value.findings] == [(rule, place)]


def test_with_an_unknown_topology_no_gang_is_written_without_its_constraint() -> None:
    gang = podgang(member("demo-0-worker", 1, 1), topologyConstraint=constraint(required="example.com/block"))
    with pytest.raises(Inexpressible) as refusal:
        translated(gang, facts=ClusterFacts())
    assert refusal.value.findings == ()
    assert [unjudged.needs for unjudged in refusal.value.unjudged] == ["the ClusterNetworkTopology"]


def test_the_hostname_needs_no_facts() -> None:
    gang = podgang(member("demo-0-worker", 1, 1), topologyConstraint=constraint(required="kubernetes.io/hostname"))
    (group,) = translated(gang, facts=ClusterFacts())
    annotation = group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/network-topology-spec"]
    assert annotation == '{"gatherStrategy":[{"layer":"NodeTopologyLayer","strategy":"MustGather"}]}'
