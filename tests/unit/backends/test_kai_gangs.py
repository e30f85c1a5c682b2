"""PodGang to KAI's PodGroups, compared with objects written by hand; the keys of a pod; what an existing
group keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.backends.pod_gangs import OWNER, asks, member, of_group, podgang
from tests.unit.worlds import gang_pod, request, settings_of
from webhook import admission
from webhook.backends.base import GangMember
from webhook.backends.kai.keys import POD_GROUP
from webhook.errors import Inexpressible
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import GroveGeneration, PodGang, PodGangNames
from webhook.model.keys import Record
from webhook.model.known_objects import TopologyBinding
from webhook.model.workload_record import record_of
from webhook.offline.translation import expected_gangs, gang_objects, pod_gangs_of, prepared_pod
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

RECORD = Record("kai-scheduler", queues=(("kai.scheduler/queue", "team-a"),))
DC = {"grove.io/topology-name": "dc"}
KEYS = {"zone": "example.com/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"}
KNOWN = ClusterFacts(topology_bindings={"dc": TopologyBinding(KEYS)})
KAI = settings_of("kai-scheduler").profiles["kai-scheduler"].backend


def translated(
    gang: PodGang, record: Record = RECORD, facts: ClusterFacts = NO_FACTS, config: dict[str, Any] | None = None
) -> Any:
    (group,) = gang_objects(gang, record, settings_of("kai-scheduler", config).profiles["kai-scheduler"], facts)
    return group


def labelled(gang: PodGang, **labels: str) -> PodGang:
    raw = {**gang.raw, "metadata": {**gang.raw["metadata"], "labels": labels}}
    return PodGang(raw)


def refused(gang: PodGang, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(Inexpressible) as told:
        translated(gang, **arguments)
    (finding,) = told.value.findings
    return finding.rule, str(finding.at)


def test_a_gang_of_one_clique_is_one_pod_group_with_one_leaf_and_a_cluster_wide_unique_name() -> None:
    # printf team-a/demo-0 | sha256sum
    assert translated(podgang(member("demo-0-worker", 2, 4))) == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "demo-0-71f2c73e",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/managed-by": "rollcall",
                "grove.io/podgang": "demo-0",
                "rollcall.dev/gang": "demo-0",
            },
            "annotations": {"rollcall.dev/members": "demo-0-worker"},
            "ownerReferences": [OWNER],
        },
        "spec": {"queue": "team-a", "subGroups": [{"name": "demo-0-worker", "minMember": 2}]},
    }


def test_nested_topology_is_a_tree_of_subgroups_with_levels_by_label_key() -> None:
    group = {"podGroupNames": ["demo-0-sg-0-prefill", "demo-0-sg-0-decode"], **asks("example.com/rack")}
    found = translated(
        podgang(
            member("demo-0-router", 1),
            member("demo-0-sg-0-prefill", 2),
            member("demo-0-sg-0-decode", 4, **asks("kubernetes.io/hostname", preferred="kubernetes.io/hostname")),
            annotations=DC,
            topologyConstraintGroupConfigs=[{"name": "demo-0-sg-0", **group}],
            **asks("example.com/zone", preferred="example.com/rack"),
        ),
        replace(RECORD, priority_class="inference"),
        KNOWN,
    )
    assert found["spec"] == {
        "queue": "team-a",
        "priorityClassName": "inference",
        "topologyConstraint": {
            "topology": "dc",
            "requiredTopologyLevel": "example.com/zone",
            "preferredTopologyLevel": "example.com/rack",
        },
        "subGroups": [
            {
                "name": "demo-0-sg-0",
                "minSubGroup": 2,
                "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "example.com/rack"},
            },
            {"name": "demo-0-router", "minMember": 1},
            {"name": "demo-0-sg-0-prefill", "parent": "demo-0-sg-0", "minMember": 2},
            {
                "name": "demo-0-sg-0-decode",
                "parent": "demo-0-sg-0",
                "minMember": 4,
                "topologyConstraint": {
                    "topology": "dc",
                    "requiredTopologyLevel": "kubernetes.io/hostname",
                    "preferredTopologyLevel": "kubernetes.io/hostname",
                },
            },
        ],
    }


def test_a_scaled_replica_is_a_separate_gang_and_topology_gives_base_replicas_a_subgroup_each() -> None:
    manifest = pod_clique_set(
        clique("router", replicas=1),
        clique("pleader", replicas=1),
        clique("pworker", replicas=3, minimum=2),
        groups=[
            scaling_group(
                "prefill", "pleader", "pworker", replicas=2, minAvailable=1, topologyConstraint=required("rack")
            )
        ],
        labels={"kai.scheduler/queue": "team-b"},
        priorityClassName="high",
    )
    workload, profile = PodCliqueSet(manifest), settings_of("kai-scheduler").profiles["kai-scheduler"]
    found = [
        desired
        for gang in expected_gangs(workload, KNOWN, GroveGeneration.LEGACY)
        for desired in gang_objects(gang, record_of(workload, "kai-scheduler"), profile, KNOWN)
    ]
    rack = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "example.com/rack"}}
    shared = {"queue": "team-b", "priorityClassName": "high"}
    assert [group["spec"] for group in found] == [
        {
            **shared,
            "subGroups": [
                {"name": "demo-0-prefill-0", "minSubGroup": 2, **rack},
                {"name": "demo-0-router", "minMember": 1},
                {"name": "demo-0-prefill-0-pleader", "parent": "demo-0-prefill-0", "minMember": 1},
                {"name": "demo-0-prefill-0-pworker", "parent": "demo-0-prefill-0", "minMember": 2},
            ],
        },
        {
            **shared,
            **rack,
            "subGroups": [
                {"name": "demo-0-prefill-1-pleader", "minMember": 1},
                {"name": "demo-0-prefill-1-pworker", "minMember": 2},
            ],
        },
    ]


def test_a_set_s_pods_name_the_leaf_that_their_pod_group_has() -> None:
    workload = PodCliqueSet(pod_clique_set(clique("worker"), labels={"kai.scheduler/queue": "team-a"}))
    profile = settings_of("kai-scheduler").profiles["kai-scheduler"]
    (expected,) = pod_gangs_of(workload, NO_FACTS, PodGangNames(GroveGeneration.LEGACY))
    pod = prepared_pod(expected, workload, profile, NO_FACTS)
    (group,) = gang_objects(expected.podgang, record_of(workload, "kai-scheduler"), profile, NO_FACTS)
    assert pod["metadata"]["annotations"]["pod-group-name"] == group["metadata"]["name"]
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == group["spec"]["subGroups"][0]["name"]


def test_gangs_with_one_name_in_two_namespaces_have_different_pod_group_names() -> None:
    names = set()
    for namespace in ("team-a", "team-b"):
        gang = podgang(member("demo-0-worker", 2))
        gang.raw["metadata"]["namespace"] = namespace
        names.add(translated(PodGang(gang.raw))["metadata"]["name"])
    assert len(names) == 2


def test_the_longest_names_are_cut_and_stay_different() -> None:
    names = {
        KAI.prepare_pod(GangMember("team-a", f"{'a' * 250}{last}", "c", RECORD)).annotations["pod-group-name"]
        for last in ("-bb", "-bc")
    }
    assert {len(name) for name in names} == {253}
    assert len(names) == 2


def test_a_clique_whose_name_is_not_a_dns_label_gets_a_hashed_leaf_name() -> None:
    (group,) = translated(podgang(member("my.demo-0-worker", 2)))["spec"]["subGroups"]
    # printf my.demo-0-worker | sha256sum
    assert group == {"name": "leaf-5ddc10359b9ed2804ecc", "minMember": 2}


def test_a_member_group_with_the_name_of_a_clique_gets_a_hashed_name() -> None:
    group = {"podGroupNames": ["demo-0-sg-0-w"], **asks("example.com/rack")}
    found = translated(
        podgang(
            member("demo-0-sg-0", 1),
            member("demo-0-sg-0-w", 1),
            annotations=DC,
            topologyConstraintGroupConfigs=[{"name": "demo-0-sg-0", **group}],
        )
    )
    names = [group["name"] for group in found["spec"]["subGroups"]]
    assert names == ["group-244414ff63247530f3b5", "demo-0-sg-0", "demo-0-sg-0-w"]


def test_a_pod_gets_its_group_leaf_and_queue_and_the_skip_mark_for_podgrouper() -> None:
    owner = ClusterFacts(pod_clique_sets={("default", "demo"): RECORD})
    asked = request(gang_pod())
    admission.mutate(asked, owner, settings_of("kai-scheduler", standalone=False))
    pod = asked.object or {}
    assert pod["spec"]["schedulerName"] == "kai-scheduler"
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "demo-0-worker"
    assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"
    annotations = pod["metadata"]["annotations"]
    assert annotations["kai.scheduler/skip-podgrouper"] == "true"
    # printf default/demo-0 | sha256sum
    assert annotations["pod-group-name"] == "demo-0-8aaf2c3d"


def test_the_profile_s_queue_is_the_default_and_its_key_is_for_sets_that_name_one() -> None:
    config = {"defaultQueue": "spare", "queueLabelKey": "runai/queue"}
    gang = podgang(member("demo-0-worker", 2))
    assert translated(gang, RECORD, config=config)["spec"]["queue"] == "spare"
    own = replace(RECORD, queues=(("kai.scheduler/queue", "no"), ("runai/queue", "yes")))
    assert translated(gang, own, config=config)["spec"]["queue"] == "yes"
    backend = settings_of("kai-scheduler", config).profiles["kai-scheduler"].backend
    changes = backend.prepare_pod(GangMember("team-a", "demo-0", "demo-0-worker", own))
    assert changes.labels == {"kai.scheduler/subgroup-name": "demo-0-worker", "runai/queue": "yes"}


def test_a_queue_name_that_does_not_fit_a_label_is_not_written_to_pods() -> None:
    odd = replace(RECORD, queues=(("kai.scheduler/queue", "Not A Queue"),))
    assert "kai.scheduler/queue" not in KAI.prepare_pod(GangMember("a", "demo-0", "w", odd)).labels


def test_the_node_pool_and_the_preemptibility_of_a_set_reach_its_pod_group() -> None:
    gang = labelled(
        podgang(member("demo-0-worker", 2)),
        **{"kai.scheduler/node-pool": "h100", "kai.scheduler/preemptibility": "non-preemptible", "team": "a"},
    )
    found = translated(gang)
    assert found["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "rollcall",
        "grove.io/podgang": "demo-0",
        "rollcall.dev/gang": "demo-0",
        "kai.scheduler/node-pool": "h100",
    }
    assert found["spec"]["preemptibility"] == "non-preemptible"


STALENESS, DELAY = "kai.scheduler/staleness-grace-period", "kai.scheduler/preemption-delay"
OLDER = ClusterFacts(spec_fields={POD_GROUP: frozenset({"minSubGroup", "preemptibility"})})


@pytest.mark.parametrize(
    ("annotations", "facts", "expected"),
    [
        ({STALENESS: "10m", DELAY: "90s"}, NO_FACTS, {"stalenessGracePeriod": "10m", "preemptionDelay": "90s"}),
        ({STALENESS: "-1s"}, NO_FACTS, {"stalenessGracePeriod": "-1s"}),
        # KAI's scheduler would fail to read every PodGroup of the cluster.
        ({STALENESS: "10 minutes", DELAY: "never"}, NO_FACTS, {}),
        ({STALENESS: "10m"}, OLDER, {}),
    ],
)
def test_the_times_of_a_set_reach_its_pod_group_if_kai_can_read_them(
    annotations: dict[str, str], facts: ClusterFacts, expected: dict[str, str]
) -> None:
    found = translated(podgang(member("demo-0-worker", 2), annotations=annotations), facts=facts)
    assert {key: found["spec"][key] for key in ("stalenessGracePeriod", "preemptionDelay") if key in found["spec"]} == (
        expected
    )


def test_the_key_of_the_node_pool_is_configurable() -> None:
    gang = labelled(podgang(member("demo-0-worker", 2)), **{"example.com/pool": "h100"})
    found = translated(gang, config={"nodePoolLabelKey": "example.com/pool"})
    assert found["metadata"]["labels"]["example.com/pool"] == "h100"


def test_a_gang_without_members_has_no_pod_group() -> None:
    profile = settings_of("kai-scheduler").profiles["kai-scheduler"]
    assert gang_objects(podgang(), RECORD, profile, NO_FACTS) == []


REFUSED = {
    "no queue": (
        podgang(member("w", 1)),
        Record("kai-scheduler"),
        ("kai/no-queue", "metadata.labels[kai.scheduler/queue]"),
    ),
    "a preemptibility that KAI does not know": (
        labelled(podgang(member("w", 1)), **{"kai.scheduler/preemptibility": "never"}),
        RECORD,
        ("kai/preemptibility", "metadata.labels[kai.scheduler/preemptibility]"),
    ),
    "topology of no name": (
        podgang(member("w", 1), **asks("example.com/rack")),
        RECORD,
        ("kai/topology", "metadata.annotations[grove.io/topology-name]"),
    ),
    "a level that the topology lacks": (
        podgang(member("w", 1), annotations=DC, **asks("example.com/slot")),
        RECORD,
        ("kai/topology", "spec.topologyConstraint.packConstraint"),
    ),
    "preferred above required": (
        podgang(member("w", 1, **asks("example.com/rack", preferred="example.com/zone")), annotations=DC),
        RECORD,
        ("kai/topology", "spec.podgroups[0].topologyConstraint.packConstraint"),
    ),
    "two members of one name": (
        podgang(member("w", 1), member("w", 2)),
        RECORD,
        ("kai/tree", "spec.podgroups[1].name"),
    ),
    "two groups of one name": (
        podgang(
            member("v", 1),
            member("w", 1),
            annotations=DC,
            topologyConstraintGroupConfigs=[
                {"name": "g-0", "podGroupNames": [name], **asks("example.com/rack")} for name in ("v", "w")
            ],
        ),
        RECORD,
        ("kai/tree", "spec.topologyConstraintGroupConfigs[1].name"),
    ),
    "a group of a member that is not there": (
        podgang(member("w", 1), annotations=DC, **of_group("example.com/rack", "w", "x")),
        RECORD,
        ("kai/tree", "spec.topologyConstraintGroupConfigs[0].podGroupNames"),
    ),
}


@pytest.mark.parametrize(("gang", "record", "told"), REFUSED.values(), ids=REFUSED)
def test_a_gang_that_cannot_be_expressed_completely_is_not_written(
    gang: PodGang, record: Record, told: tuple[str, str]
) -> None:
    assert refused(gang, record=record, facts=replace(KNOWN, kai_topologies={})) == told


def test_an_unknown_topology_causes_no_refusal() -> None:
    found = translated(podgang(member("w", 1), annotations=DC, **asks("example.com/slot")))
    assert found["spec"]["topologyConstraint"] == {"topology": "dc", "requiredTopologyLevel": "example.com/slot"}


def test_a_topology_that_does_not_exist_is_not_written_into_a_group() -> None:
    gang = podgang(member("w", 1), annotations=DC, **asks("example.com/rack"))
    facts = ClusterFacts(topology_bindings={"dc": TopologyBinding(KEYS, {"kai-scheduler": "racks"})}, kai_topologies={})
    assert refused(gang, facts=facts) == ("kai/topology", "spec.topologyConstraint.packConstraint")
    kept = replace(facts, kai_topologies={"racks": ("example.com/rack",)})
    assert translated(gang, facts=kept)["spec"]["topologyConstraint"]["topology"] == "racks"


def test_a_negative_minimum_becomes_zero_because_KAI_s_schema_allows_no_less() -> None:
    (group,) = KAI.gang_objects(podgang(member("w", -3)), RECORD, NO_FACTS)
    assert group["spec"]["subGroups"] == [{"name": "w", "minMember": 0}]


def test_a_constraint_group_without_members_is_ignored() -> None:
    alone = translated(podgang(member("w", 1)))
    assert translated(podgang(member("w", 1), annotations=DC, **of_group("example.com/rack"))) == alone


def adopted(desired: Any, live: Any) -> Any:
    return KAI.adopt(desired, live)


def test_an_existing_pod_group_keeps_its_queue_and_its_node_pool() -> None:
    desired = translated(podgang(member("demo-0-worker", 2)))
    live = {
        **desired,
        "metadata": {**desired["metadata"], "labels": {"kai.scheduler/node-pool": "a100", "other": "x"}},
        "spec": {**desired["spec"], "queue": "moved", "markUnschedulable": False},
    }
    found = adopted(desired, live)
    assert found["spec"]["queue"] == "moved"
    assert "markUnschedulable" not in found["spec"]
    assert found["metadata"]["labels"]["kai.scheduler/node-pool"] == "a100"
    assert "other" not in found["metadata"]["labels"]


def test_an_existing_pod_group_in_the_default_node_pool_stays_there() -> None:
    desired = translated(labelled(podgang(member("demo-0-worker", 2)), **{"kai.scheduler/node-pool": "h100"}))
    live = translated(podgang(member("demo-0-worker", 2)))
    assert adopted(desired, live) == live
    assert adopted(desired, None) == desired


def test_a_pod_group_that_was_lost_under_running_pods_asks_for_no_more_than_run() -> None:
    desired = translated(podgang(member("demo-0-worker", 3), member("demo-0-leader", 1), member("demo-0-router", 1)))
    restored = KAI.restore(desired, {"demo-0-worker": 2, "demo-0-router": 4})
    minimums = [("demo-0-worker", 2), ("demo-0-leader", 0), ("demo-0-router", 1)]
    assert [(group["name"], group["minMember"]) for group in restored["spec"]["subGroups"]] == minimums
    assert restored["metadata"]["annotations"]["rollcall.dev/restored"] == "true"
    # It stays so when all of its pods run again: a raised minimum would make the gang stale.
    assert adopted(desired, restored) == restored
    assert KAI.frozen([adopted(desired, restored)], [restored]) is None


def test_released_leaves_keep_their_last_minimum_of_at_least_one() -> None:
    before = translated(podgang(member("a", 3), member("b", 2)))
    (released,) = KAI.gang_objects(podgang(member("a", 0), member("b", 2), member("c", 0)), RECORD, NO_FACTS)
    minimums = {group["name"]: group["minMember"] for group in adopted(released, before)["spec"]["subGroups"]}
    assert minimums == {"a": 3, "b": 2, "c": 1}
