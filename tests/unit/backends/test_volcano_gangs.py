"""PodGang to Volcano's PodGroup, compared with objects written by hand."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.backends.pod_gangs import OWNER, member, podgang
from tests.unit.backends.volcano_gangs import RECORD, subgroup, translated
from tests.unit.worlds import settings_of
from webhook.backends.base import GangMember
from webhook.errors import Inexpressible
from webhook.model.facts import NO_FACTS
from webhook.model.grove import GroveGeneration, PodGang, PodGangNames
from webhook.model.keys import Record
from webhook.model.workload_record import record_of
from webhook.offline.translation import expected_gangs, gang_objects, pod_gangs_of, prepared_pod
from webhook.validators.examples import clique, pod_clique_set, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet


def test_a_gang_of_one_clique_is_one_pod_group_with_one_subgroup() -> None:
    assert translated(podgang(member("demo-0-worker", 2, 4))) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "demo-0",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/managed-by": "rollcall",
                "grove.io/podgang": "demo-0",
                "rollcall.dev/gang": "demo-0",
            },
            "annotations": {"rollcall.dev/members": "demo-0-worker"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "minMember": 2,
            "subGroupPolicy": [
                {
                    "name": "demo-0-worker",
                    "labelSelector": {"matchLabels": {"grove.io/podclique": "demo-0-worker"}},
                    "matchLabelKeys": ["grove.io/podclique"],
                    "subGroupSize": 2,
                    "minSubGroups": 1,
                }
            ],
        },
    }


def test_scaling_group_replicas_up_to_the_minimum_join_the_base_gang_and_others_are_gangs() -> None:
    manifest = pod_clique_set(
        clique("router", replicas=1),
        clique("pleader", replicas=1),
        clique("pworker", replicas=3, minimum=2),
        groups=[scaling_group("prefill", "pleader", "pworker", replicas=3, minAvailable=2)],
        annotations={"scheduling.grove.io/volcano-queue": "team-a"},
        priorityClassName="high",
    )
    workload, profile = PodCliqueSet(manifest), settings_of("volcano").profiles["volcano"]
    record = record_of(workload, "volcano")
    found = [
        desired
        for gang in expected_gangs(workload, NO_FACTS, GroveGeneration.LEGACY)
        for desired in gang_objects(gang, record, profile, NO_FACTS)
    ]
    shared = {"queue": "team-a", "priorityClassName": "high"}
    assert [(group["metadata"]["name"], group["spec"]) for group in found] == [
        (
            "demo-0",
            {
                "minMember": 7,
                **shared,
                "subGroupPolicy": [
                    subgroup("demo-0-router", 1),
                    subgroup("demo-0-prefill-0-pleader", 1),
                    subgroup("demo-0-prefill-0-pworker", 2),
                    subgroup("demo-0-prefill-1-pleader", 1),
                    subgroup("demo-0-prefill-1-pworker", 2),
                ],
            },
        ),
        (
            "demo-0-prefill-0",
            {
                "minMember": 3,
                **shared,
                "subGroupPolicy": [
                    subgroup("demo-0-prefill-2-pleader", 1),
                    subgroup("demo-0-prefill-2-pworker", 2),
                ],
            },
        ),
    ]


def test_a_pod_names_its_gang_s_group_by_both_annotations() -> None:
    backend = settings_of("volcano").profiles["volcano"].backend
    changes = backend.prepare_pod(GangMember("team-a", "demo-0", "demo-0-worker", RECORD))
    assert (changes.scheduler_name, changes.labels, changes.default_labels) == ("volcano", {}, {})
    assert changes.annotations == {
        "scheduling.k8s.io/group-name": "demo-0",
        "scheduling.volcano.sh/group-name": "demo-0",
    }


def test_a_gang_s_pod_and_its_group_use_the_same_name() -> None:
    workload, profile = PodCliqueSet(pod_clique_set()), settings_of("volcano").profiles["volcano"]
    (expected,) = pod_gangs_of(workload, NO_FACTS, PodGangNames(GroveGeneration.LEGACY))
    (group,) = gang_objects(expected.podgang, RECORD, profile, NO_FACTS)
    pod = prepared_pod(expected, workload, profile, NO_FACTS)
    assert pod["spec"]["schedulerName"] == "volcano"
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == group["metadata"]["name"] == "demo-0"


QUEUES: dict[str, tuple[Any, dict[str, Any], str | None]] = {
    "the set's": (
        pod_clique_set(annotations={"scheduling.grove.io/volcano-queue": " team-a "}),
        {"defaultQueue": "shared"},
        "team-a",
    ),
    "the cliques'": (
        pod_clique_set(clique("worker", annotations={"scheduling.grove.io/volcano-queue": "team-b"})),
        {},
        "team-b",
    ),
    "the profile's, if the set names none": (pod_clique_set(), {"defaultQueue": "shared"}, "shared"),
    "left out, where the profile names none either": (pod_clique_set(), {}, None),
    "left out, where the set names the one that is meant then": (
        pod_clique_set(annotations={"scheduling.grove.io/volcano-queue": "default"}),
        {"defaultQueue": "shared"},
        None,
    ),
    "not what a label of the annotation's key says, which no rule has judged": (
        pod_clique_set(labels={"scheduling.grove.io/volcano-queue": "team-a"}),
        {"defaultQueue": "shared"},
        "shared",
    ),
    "spaces are no name": (
        pod_clique_set(annotations={"scheduling.grove.io/volcano-queue": "  "}),
        {"defaultQueue": "shared"},
        "shared",
    ),
}


@pytest.mark.parametrize(("manifest", "config", "queue"), QUEUES.values(), ids=QUEUES)
def test_a_gang_gets_the_expected_queue(manifest: Any, config: dict[str, Any], queue: str | None) -> None:
    record = record_of(PodCliqueSet(manifest), "volcano")
    assert translated(podgang(member("demo-0-worker", 1)), config, record=record)["spec"].get("queue") == queue


def test_objects_of_a_pod_gang_without_an_owner_and_a_uid_have_no_owner_reference() -> None:
    gang = podgang(member("demo-0-worker", 1))
    del gang.raw["metadata"]["uid"], gang.raw["metadata"]["ownerReferences"]
    assert "ownerReferences" not in translated(PodGang(gang.raw))["metadata"]


def released(*sizes: int, live: Any) -> dict[str, Any]:
    """The spec for a PodGang of a leader and a worker with these minimums, and another priority than before."""
    backend = settings_of("volcano").profiles["volcano"].backend
    members = [member(name, size) for name, size in zip(("demo-0-leader", "demo-0-worker"), sizes, strict=True)]
    (desired,) = backend.gang_objects(podgang(*members), Record("volcano", priority_class="other"), NO_FACTS)
    before, live_before = deepcopy(desired), deepcopy(live)
    spec: dict[str, Any] = backend.adopt(desired, live)["spec"]
    assert (desired, live) == (before, live_before)
    return spec


RECORDED = {
    "spec": {
        "minMember": 5,
        "queue": "default",
        "priorityClassName": "high",
        "subGroupPolicy": [subgroup("demo-0-leader", 2), subgroup("demo-0-worker", 3)],
    }
}
RELEASED: dict[str, tuple[tuple[int, int], Any, tuple[int, int], int]] = {
    "all, and their minimums are recorded": ((0, 0), RECORDED, (2, 3), 5),
    "one, beside one that grows": ((0, 4), RECORDED, (2, 4), 6),
    "none, so what is recorded counts for nothing": ((1, 1), RECORDED, (1, 1), 2),
    "all, and there is no group yet": ((0, 0), None, (1, 1), 2),
    "one, and there is no group yet": ((0, 3), None, (1, 3), 4),
    "all, and the group has no spec": ((0, 0), {}, (1, 1), 2),
    "all, and a zero is recorded": (
        (0, 0),
        {"spec": {"minMember": 0, "subGroupPolicy": [{"name": "demo-0-worker", "subGroupSize": 0}]}},
        (1, 1),
        2,
    ),
    "all, and only one is recorded": ((0, 0), {"spec": {"subGroupPolicy": [subgroup("demo-0-worker", 4)]}}, (1, 4), 5),
}


@pytest.mark.parametrize(("sizes", "live", "kept", "total"), RELEASED.values(), ids=RELEASED)
def test_minimums_released_to_zero_keep_their_last_positive_value(
    sizes: tuple[int, int], live: Any, kept: tuple[int, int], total: int
) -> None:
    assert released(*sizes, live=live) == {
        "minMember": total,
        "priorityClassName": "other",
        "subGroupPolicy": [subgroup("demo-0-leader", kept[0]), subgroup("demo-0-worker", kept[1])],
    }


def test_a_queue_that_the_crd_would_refuse_is_not_written() -> None:
    odd = Record("volcano", queues=(("scheduling.grove.io/volcano-queue", "Team A"),))
    with pytest.raises(Inexpressible) as told:
        translated(podgang(member("demo-0-worker", 1)), record=odd)
    assert [found.rule for found in told.value.findings] == ["volcano/queue-name"]


def test_two_members_with_one_name_are_refused() -> None:
    with pytest.raises(Inexpressible) as told:
        translated(podgang(member("demo-0-worker", 1), member("demo-0-worker", 2)))
    assert [str(found.at) for found in told.value.findings] == ["spec.podgroups[1].name"]


def test_a_gang_without_members_needs_one_pod_because_volcano_takes_zero_for_complete() -> None:
    assert translated(podgang())["spec"] == {"minMember": 1, "subGroupPolicy": []}


def test_fields_of_the_scheduler_and_others_are_not_sent_and_so_kept() -> None:
    backend = settings_of("volcano").profiles["volcano"].backend
    (desired,) = backend.gang_objects(podgang(member("demo-0-worker", 2)), RECORD, NO_FACTS)
    live = deepcopy(desired)
    live["metadata"]["annotations"] = {"volcano.sh/job-allocated-hypernode": "rack-1"}
    live["metadata"]["resourceVersion"] = "7"
    live["spec"] |= {
        "minMember": 9,
        # Volcano's webhook may put a group that asks for none into its namespace's queue.
        "queue": "team-a",
        "minResources": {"cpu": "8"},
        "networkTopology": {"mode": "soft"},
    }
    live["status"] = {"phase": "Running"}
    assert backend.adopt(desired, live) == desired
    assert set(desired) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(desired["spec"]) == {"minMember", "subGroupPolicy"}
