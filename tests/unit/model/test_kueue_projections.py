"""What is kept of Kueue's objects: little, whatever their authors write into them."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.cluster.watch import Index
from webhook.model import kueue_objects
from webhook.model.bounds import KEPT_BYTES, weight
from webhook.model.kueue_objects import (
    AdmissionCheck,
    CheckState,
    ClusterQueue,
    Cohort,
    Evictions,
    FlavorQuota,
    KueueCondition,
    KueueWorkload,
    KueueWorkloads,
    LocalQueue,
    Owner,
    ResourceFlavor,
    WorkloadPods,
)
from webhook.model.projections import Projection, kept
from webhook.model.reading import Malformed, Manifest

NOW = "2026-11-01T10:00:00Z"


def thing(spec: Any = None, status: Any = None, **metadata: Any) -> Manifest:
    return {"metadata": {"name": "demo", "namespace": "team-a", **metadata}, "spec": spec, "status": status}


def condition(kind: str, status: str, reason: str, message: str = "") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def value(projection: Projection, raw: Manifest) -> Any:
    read = projection.read(raw)
    assert read is not None
    return read[1]


QUOTA = {"name": "nvidia.com/gpu", "nominalQuota": 16, "borrowingLimit": "8"}
CASES: dict[str, tuple[Projection, Manifest, Any]] = {
    "a LocalQueue that Kueue has not seen yet": (
        kueue_objects.LOCAL_QUEUES,
        thing({"clusterQueue": "research"}),
        LocalQueue("research", "None", None),
    ),
    "a LocalQueue that is stopped": (
        kueue_objects.LOCAL_QUEUES,
        thing(
            {"clusterQueue": "research", "stopPolicy": "Hold"},
            {"conditions": [condition("Active", "False", "Stopped", "LocalQueue is stopped")]},
        ),
        LocalQueue("research", "Hold", False, "Stopped", "LocalQueue is stopped"),
    ),
    "a ClusterQueue": (
        kueue_objects.CLUSTER_QUEUES,
        thing(
            {
                "cohortName": "all",
                "resourceGroups": [
                    {"flavors": [{"name": "h100", "resources": [QUOTA]}, {"name": "spot", "resources": []}]},
                    {"flavors": [{"name": "h100", "resources": [{"name": "cpu", "nominalQuota": "40"}]}]},
                ],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "gang", "onFlavors": ["spot"]}]},
                "namespaceSelector": {},
            },
            {"conditions": [condition("Active", "True", "Ready", "Can admit new workloads")]},
        ),
        ClusterQueue(
            "all",
            ("h100", "spot"),
            (FlavorQuota("h100", "nvidia.com/gpu", "16", "8"), FlavorQuota("h100", "cpu", "40")),
            ("gang",),
            "None",
            True,
            "Ready",
            "Can admit new workloads",
            True,
        ),
    ),
    "a ClusterQueue of some namespaces, written as v1beta1": (
        kueue_objects.CLUSTER_QUEUES,
        thing({"cohort": "all", "admissionChecks": ["gang"], "namespaceSelector": {"matchLabels": {"team": "ml"}}}),
        ClusterQueue("all", checks=("gang",), namespaces=None),
    ),
    "a ClusterQueue of no namespace": (
        kueue_objects.CLUSTER_QUEUES,
        thing({"stopPolicy": "HoldAndDrain"}),
        ClusterQueue(stop_policy="HoldAndDrain", namespaces=False),
    ),
    "a Cohort": (kueue_objects.COHORTS, thing({"parentName": "root"}), Cohort("root")),
    "a ResourceFlavor": (
        kueue_objects.RESOURCE_FLAVORS,
        thing({"nodeLabels": {"pool": "h100"}, "topologyName": "racks"}),
        ResourceFlavor("racks", (("pool", "h100"),)),
    ),
    "an empty ResourceFlavor": (kueue_objects.RESOURCE_FLAVORS, thing(), ResourceFlavor()),
    "a Topology": (
        kueue_objects.TOPOLOGIES,
        thing({"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
        ("example.com/rack", "kubernetes.io/hostname"),
    ),
    "an AdmissionCheck": (
        kueue_objects.ADMISSION_CHECKS,
        thing(
            {"controllerName": "rollcall.dev/gang"},
            {"conditions": [condition("Active", "False", "Stopped", "the controller is not running")]},
        ),
        AdmissionCheck("rollcall.dev/gang", False, "the controller is not running"),
    ),
    "a new Workload": (
        kueue_objects.WORKLOADS,
        thing({"queueName": "research", "podSets": [{"count": 4, "template": {"spec": {}}}]}, creationTimestamp=NOW),
        KueueWorkload("research", pods=(WorkloadPods("main", 4),), created=NOW),
    ),
    "a Workload that was admitted in part, and waits for a check": (
        kueue_objects.WORKLOADS,
        thing(
            {
                "queueName": "research",
                "active": False,
                "priority": 7,
                "podSets": [{"name": "main", "count": 8, "minCount": 2}, {"name": "other", "count": 1}],
            },
            {
                "conditions": [condition("QuotaReserved", "True", "QuotaReserved")],
                "admission": {
                    "clusterQueue": "all",
                    "podSetAssignments": [
                        {"name": "main", "count": 3, "topologyAssignment": {"levels": ["rack"]}},
                        {"name": "other"},
                    ],
                },
                "admissionChecks": [{"name": "gang", "state": "Retry", "message": "no topology"}],
                "requeueState": {"count": 2, "requeueAt": NOW},
                "schedulingStats": {"evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "", "count": 2}]},
            },
            labels={"kueue.x-k8s.io/job-uid": "u-1"},
            annotations={"kueue.x-k8s.io/component-workload-index": "3"},
            ownerReferences=[{"kind": "Job", "name": "demo", "uid": "u-1", "controller": True}],
        ),
        KueueWorkload(
            "research",
            "all",
            False,
            Owner("Job", "demo", "u-1"),
            "u-1",
            "3",
            (WorkloadPods("main", 8, 2, 3, True), WorkloadPods("other", 1, None, 1)),
            (KueueCondition("QuotaReserved", True, "QuotaReserved", "", NOW),),
            (CheckState("gang", "Retry", "no topology"),),
            2,
            NOW,
            7,
            (Evictions("PodsReadyTimeout", 2),),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_values_that_rules_need_are_kept(name: str) -> None:
    projection, raw, expected = CASES[name]
    assert value(projection, raw) == expected


LONG = "x" * 300_000
CONDITIONS = [
    "QuotaReserved",
    "Admitted",
    "PodsReady",
    "Evicted",
    "Preempted",
    "Requeued",
    "Finished",
    "DeactivationTarget",
    "WaitingForReplacementPods",
    "BlockedOnPreemptionGates",
    "Others",
]
HOSTILE: dict[str, tuple[Projection, Manifest]] = {
    "long names and messages": (
        kueue_objects.LOCAL_QUEUES,
        thing({"clusterQueue": LONG, "stopPolicy": LONG}, {"conditions": [condition("Active", "False", LONG, LONG)]}),
    ),
    "thousands of flavors": (
        kueue_objects.CLUSTER_QUEUES,
        thing(
            {
                "resourceGroups": [
                    {"flavors": [{"name": f"f{at}", "resources": [QUOTA]} for at in range(20_000)]},
                ]
            }
        ),
    ),
    "thousands of node labels": (
        kueue_objects.RESOURCE_FLAVORS,
        thing({"nodeLabels": {f"k{at}": LONG[:100] for at in range(9_000)}}),
    ),
    "thousands of levels": (
        kueue_objects.TOPOLOGIES,
        thing({"levels": [{"nodeLabel": f"k{n}"} for n in range(9_000)]}),
    ),
    "thousands of pod sets, conditions, checks and evictions": (
        kueue_objects.WORKLOADS,
        thing(
            {"podSets": [{"name": f"p{at}", "count": 1} for at in range(20_000)]},
            {
                "conditions": [condition(kind, "True", LONG[:60], LONG[:2000]) for kind in CONDITIONS * 900],
                "admissionChecks": [{"name": f"c{at}", "state": "Ready", "message": LONG[:500]} for at in range(9_000)],
                "schedulingStats": {"evictions": [{"reason": f"r{at}", "count": at} for at in range(9_000)]},
                "admission": {"podSetAssignments": [{"name": f"p{at}", "count": at} for at in range(9_000)]},
            },
        ),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_little_is_kept_of_a_large_object(name: str) -> None:
    projection, raw = HOSTILE[name]
    assert weight(projection.read(raw), 2 * KEPT_BYTES) <= KEPT_BYTES


MALFORMED: dict[str, tuple[Projection, Manifest]] = {
    "a list for a spec": (kueue_objects.LOCAL_QUEUES, thing([])),
    "a number for a queue": (kueue_objects.LOCAL_QUEUES, thing({"clusterQueue": 3})),
    "a map for conditions": (kueue_objects.LOCAL_QUEUES, thing({}, {"conditions": {}})),
    "null in a list": (kueue_objects.CLUSTER_QUEUES, thing({"resourceGroups": [{"flavors": [7]}]})),
    "a text for pod sets": (kueue_objects.WORKLOADS, thing({"podSets": "main"})),
    "a text for a count": (kueue_objects.WORKLOADS, thing({"podSets": [{"count": "4"}]})),
    "a text for active": (kueue_objects.WORKLOADS, thing({"active": "yes"})),
    "levels that are names": (kueue_objects.TOPOLOGIES, thing({"levels": ["rack"]})),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_object_is_not_known_and_stops_no_watch(name: str) -> None:
    projection, raw = MALFORMED[name]
    with pytest.raises(Malformed):
        projection.read(raw)
    index = Index(projection)
    index.put(raw)
    index.put({**thing(), "metadata": {"name": "well", "namespace": "team-a"}})
    assert [key if isinstance(key, str) else key[1] for key in index.entries] == ["well"]
    assert index.left_out == {("team-a", "demo")}


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_into_files_reads_the_same(name: str) -> None:
    projection, raw, expected = CASES[name]
    if "v1beta1" not in name:
        assert value(projection, kept(raw, projection.fields)) == expected


def test_neither_templates_nor_nodes_are_written_into_files() -> None:
    assigned = {"name": "main", "flavors": {"cpu": "h100"}, "topologyAssignment": {"levels": ["rack"], "slices": ["n"]}}
    raw = thing(
        {"podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [{"env": ["secret"]}]}}}]},
        {"admission": {"clusterQueue": "all", "podSetAssignments": [assigned]}},
    )
    written = kept(raw, kueue_objects.WORKLOADS.fields)
    assert written["spec"] == {"podSets": [{"name": "main", "count": 1}]}
    assert written["status"]["admission"]["podSetAssignments"] == [
        {"name": "main", "topologyAssignment": {"levels": ["rack"]}}
    ]


def test_workloads_are_found_by_their_owner_and_its_group_in_the_same_namespace() -> None:
    known = KueueWorkloads()
    known["team-a", "job-demo"] = KueueWorkload("research", owner=Owner("Job", "demo", "u-1"), job_uid="u-1")
    known["team-a", "pod-x"] = KueueWorkload("research", owner=Owner("Pod", "x", "u-2"))
    known["team-a", "group-0"] = KueueWorkload("research", job_uid="u-3", component_index="0")
    known["team-a", "group-1"] = KueueWorkload("research", job_uid="u-3", component_index="1")
    known["team-b", "forged"] = KueueWorkload("research", job_uid="u-1")
    assert set(known.workloads_of_owner("team-a", "u-1")) == {("team-a", "job-demo")}
    assert set(known.workloads_of_owner("team-a", "u-2")) == {("team-a", "pod-x")}
    assert set(known.workloads_of_owner("team-a", "u-3", "1")) == {("team-a", "group-1")}
    del known["team-a", "job-demo"]
    assert set(known.workloads_of_owner("team-a", "u-1")) == set()


def test_a_condition_counts_by_its_status() -> None:
    found = KueueWorkload(
        conditions=(
            KueueCondition("Admitted", False, "NoReservation", "", NOW),
            KueueCondition("Finished", True, "x", "", NOW),
        )
    )
    assert (found.admitted, found.finished, found.is_true("Evicted")) == (False, True, False)
    assert found.condition("Admitted") == KueueCondition("Admitted", False, "NoReservation", "", NOW)
