"""The PodGangs of a PodCliqueSet, and the keys of each of them and of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import koordinator
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import GroveGeneration, PodGangNames
from webhook.model.keys import Record
from webhook.model.known_objects import TopologyBinding
from webhook.offline.translation import expected_gangs, gang_objects, pod_gangs_of, pods_of_set, prepared_pod
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

BINDING = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"rack": "example.com/rack", "host": "kubernetes.io/hostname"})}
)


def gangs(manifest: Any, facts: ClusterFacts = NO_FACTS) -> dict[str, list[tuple[str, int, int]]]:
    """PodGang name -> its members: name, minReplicas, number of pods."""
    return {
        gang.name: [(member.name, member.min_replicas, member.pods) for member in gang.members]
        for gang in expected_gangs(PodCliqueSet(manifest), facts, GroveGeneration.LEGACY)
    }


def test_a_standalone_clique_becomes_one_gang_per_replica() -> None:
    manifest = pod_clique_set(clique("worker", replicas=4, minimum=2))
    manifest["spec"]["replicas"] = 2
    assert gangs(manifest) == {"demo-0": [("demo-0-worker", 2, 4)], "demo-1": [("demo-1-worker", 2, 4)]}


def test_a_gang_copies_its_set_s_metadata_without_grove_s_keys() -> None:
    workload = PodCliqueSet(
        pod_clique_set(
            labels={"kai.scheduler/node-pool": "h100", "app.kubernetes.io/part-of": "other", "grove.io/x": "1"},
            annotations={"scheduling.grove.io/volcano-queue": "team-a", "grove.io/mnnvl-group": "train"},
        )
    )
    (gang,) = expected_gangs(workload, ClusterFacts(), GroveGeneration.LEGACY)
    assert gang.labels == {
        "kai.scheduler/node-pool": "h100",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "demo",
    }
    assert gang.annotations == {"scheduling.grove.io/volcano-queue": "team-a"}


def test_a_set_without_replicas_has_no_gang() -> None:
    manifest = pod_clique_set()
    manifest["spec"]["replicas"] = 0
    assert gangs(manifest) == {}


def test_scaling_group_replicas_above_the_minimum_are_separate_gangs() -> None:
    """The example of Grove's naming guide: a router, and prefill with three replicas of which two are the minimum."""
    manifest = pod_clique_set(
        clique("router", replicas=1),
        clique("pleader", replicas=1),
        clique("pworker", replicas=3),
        groups=[scaling_group("prefill", "pleader", "pworker", replicas=3, minAvailable=2)],
    )
    assert gangs(manifest) == {
        "demo-0": [
            ("demo-0-router", 1, 1),
            ("demo-0-prefill-0-pleader", 1, 1),
            ("demo-0-prefill-0-pworker", 3, 3),
            ("demo-0-prefill-1-pleader", 1, 1),
            ("demo-0-prefill-1-pworker", 3, 3),
        ],
        "demo-0-prefill-0": [("demo-0-prefill-2-pleader", 1, 1), ("demo-0-prefill-2-pworker", 3, 3)],
    }


NO_MEMBERS = {"no cliques": (), "a clique that is not there": ("absent",)}


@pytest.mark.parametrize("names", NO_MEMBERS.values(), ids=NO_MEMBERS)
def test_a_scaling_group_without_cliques_never_has_a_gang(names: tuple[str, ...]) -> None:
    for replicas, minimum in ((3, 1), (1_000_000_000, 1), (1_000_000_000, 1_000_000_000)):
        manifest = pod_clique_set(
            clique("worker"), groups=[scaling_group("empty", *names, replicas=replicas, minAvailable=minimum)]
        )
        assert gangs(manifest) == {"demo-0": [("demo-0-worker", 2, 2)]}


def test_topology_is_translated_into_node_label_keys() -> None:
    manifest = pod_clique_set(
        clique("worker", topologyConstraint=preferred("host")), topologyConstraint=required("rack")
    )
    (gang,) = expected_gangs(PodCliqueSet(manifest), BINDING, GroveGeneration.LEGACY)
    spec = gang.raw["spec"]
    assert spec["topologyConstraint"] == {"packConstraint": {"required": "example.com/rack"}}
    assert spec["podgroups"][0]["topologyConstraint"] == {"packConstraint": {"preferred": "kubernetes.io/hostname"}}


def test_a_scaled_gang_has_its_group_s_topology_without_unbound_levels() -> None:
    manifest = pod_clique_set(
        clique("worker"),
        groups=[scaling_group("decode", "worker", replicas=2, topologyConstraint=required("row"))],
        topologyConstraint=required("rack"),
    )
    base, scaled = expected_gangs(PodCliqueSet(manifest), BINDING, GroveGeneration.LEGACY)
    assert base.constraint.required == "example.com/rack"
    assert scaled.constraint.required is None


def test_since_podgangmaps_a_scaled_gang_has_the_set_s_topology_and_one_entry_for_its_group() -> None:
    manifest = pod_clique_set(
        clique("worker"),
        groups=[scaling_group("decode", "worker", replicas=2, topologyConstraint=required("host"))],
        topologyConstraint=required("rack"),
    )
    _, scaled = expected_gangs(PodCliqueSet(manifest), BINDING, GroveGeneration.POD_GANG_MAP)
    assert scaled.name == "demo-0-1111111111111111111-decode-1"
    assert scaled.raw["spec"]["topologyConstraint"] == {"packConstraint": {"required": "example.com/rack"}}
    assert scaled.raw["spec"]["topologyConstraintGroupConfigs"] == [
        {
            "name": "demo-0-decode-1",
            "podGroupNames": ["demo-0-decode-1-worker"],
            "topologyConstraint": {"packConstraint": {"required": "kubernetes.io/hostname"}},
        }
    ]


def test_a_base_gang_has_one_topology_entry_per_scaling_group_replica() -> None:
    manifest = pod_clique_set(
        clique("leader"),
        clique("worker"),
        groups=[
            scaling_group("decode", "leader", "worker", replicas=3, minAvailable=2, topologyConstraint=required("rack"))
        ],
    )
    base, scaled = expected_gangs(PodCliqueSet(manifest), BINDING, GroveGeneration.LEGACY)
    rack = {"packConstraint": {"required": "example.com/rack"}}
    assert base.raw["spec"]["topologyConstraintGroupConfigs"] == [
        {
            "name": "demo-0-decode-0",
            "podGroupNames": ["demo-0-decode-0-leader", "demo-0-decode-0-worker"],
            "topologyConstraint": rack,
        },
        {
            "name": "demo-0-decode-1",
            "podGroupNames": ["demo-0-decode-1-leader", "demo-0-decode-1-worker"],
            "topologyConstraint": rack,
        },
    ]
    assert scaled.raw["spec"]["topologyConstraint"] == rack
    assert "topologyConstraintGroupConfigs" not in scaled.raw["spec"]


def test_topology_without_a_binding_is_not_translated() -> None:
    manifest = pod_clique_set(topologyConstraint=required("rack"))
    with pytest.raises(FactsUnavailable, match="ClusterTopologyBinding dc"):
        list(expected_gangs(PodCliqueSet(manifest), NO_FACTS, GroveGeneration.LEGACY))


def test_a_prepared_pod_names_its_rendered_pod_group() -> None:
    settings = koordinator()
    profile = settings.profiles["koord-scheduler"]
    manifest = pod_clique_set(
        clique("leader", labels={"team": "x"}, annotations={"note": "y"}),
        annotations={"scheduling.grove.io/koordinator-quota": "team-a"},
    )
    workload = PodCliqueSet(manifest)
    (expected,) = pod_gangs_of(workload, NO_FACTS, PodGangNames(GroveGeneration.LEGACY))
    (group,) = gang_objects(expected.podgang, Record("koord-scheduler"), profile, NO_FACTS)
    pod = prepared_pod(expected, workload, profile, NO_FACTS)
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == group["metadata"]["name"] == "demo-0-leader"
    assert pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] == "team-a"
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"
    assert pod["spec"]["schedulerName"] == "koord-scheduler"
    assert pod["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]
    assert "schedulingGates" not in manifest["spec"]["template"]["cliques"][0]["spec"]["podSpec"]


def test_the_plain_scheduler_needs_no_gang_objects() -> None:
    (gang,) = expected_gangs(PodCliqueSet(pod_clique_set()), NO_FACTS, GroveGeneration.LEGACY)
    assert gang_objects(gang, Record(None), koordinator().profiles["default-scheduler"], NO_FACTS) == []


def test_the_pods_of_a_clique_in_two_groups_are_counted_in_both() -> None:
    """Grove refuses such a set; counting them must not hide how many there would be."""
    groups = [scaling_group("a", "worker", replicas=1), scaling_group("b", "worker", replicas=1_000_000_000)]
    manifest = pod_clique_set(clique("worker", replicas=2), groups=groups)
    assert pods_of_set(PodCliqueSet(manifest)) == 2 * 1_000_000_001
