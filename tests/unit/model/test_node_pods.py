"""Pods on nodes: what they use, whose they are, and the sums of each node."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.node_pods import RESERVATIONS, NodePod, NodePods, Reservation, read_node_pod


def pod(name: str = "p", node: str = "n1", *, requests: Any = None, phase: str = "Running", **more: Any) -> Any:
    return {
        "metadata": {"name": name, "namespace": "team-a", **more.pop("metadata", {})},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests or {}}}], **more},
        "status": {"phase": phase},
    }


def read(raw: Any) -> NodePod | None:
    found = read_node_pod(raw)
    return None if found is None else found[1]


def test_a_pod_on_a_node_uses_its_requests_and_one_slot() -> None:
    found = read_node_pod(pod(requests={"cpu": "1500m", "memory": "64Gi", "nvidia.com/gpu": 8}))
    amounts = (("pods", 1), ("cpu", 1500), ("memory", 68719476736), ("nvidia.com/gpu", 8))
    assert found == (("team-a", "p"), NodePod("n1", amounts))


def test_overhead_sidecars_and_init_containers_count_as_for_the_scheduler() -> None:
    init = [
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "first", "resources": {"requests": {"cpu": "5"}}},
    ]
    found = read(pod(requests={"cpu": "2"}, initContainers=init, overhead={"cpu": "250m"}))
    assert found is not None
    assert found.used == {"pods": 1, "cpu": 6250}


def test_a_pod_level_request_replaces_those_of_the_containers() -> None:
    found = read(pod(requests={"cpu": "2"}, resources={"requests": {"cpu": "3"}}))
    assert found is not None
    assert found.used == {"pods": 1, "cpu": 3000}


@pytest.mark.parametrize(
    "raw",
    [pod(phase="Succeeded"), pod(phase="Failed"), pod(node=""), {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}],
    ids=["succeeded", "failed", "no node", "not whole"],
)
def test_a_pod_that_holds_no_room_is_not_kept(raw: Any) -> None:
    assert read(raw) is None


def test_a_terminating_pod_still_holds_its_room() -> None:
    assert read(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})) is not None


@pytest.mark.parametrize(
    ("more", "gang"),
    [
        ({"metadata": {"labels": {"rollcall.dev/gang": "train"}}}, "train"),
        ({"metadata": {"labels": {"grove.io/podgang": "demo-0"}}}, "demo-0"),
        ({"metadata": {"labels": {"pod-group.scheduling.sigs.k8s.io": "kg"}}}, "kg"),
        ({"metadata": {"annotations": {"scheduling.k8s.io/group-name": "vg"}}}, "vg"),
        ({"metadata": {"annotations": {"pod-group-name": "kaig"}}}, "kaig"),
        ({"schedulingGroup": {"podGroupName": "pg"}}, "pg"),
        ({"workloadRef": {"name": "wl", "podGroup": "workers"}}, "wl"),
        ({"metadata": {"annotations": {"kai.scheduler/skip-podgrouper": "true"}}}, None),
        ({}, None),
    ],
)
def test_the_gang_of_a_pod_is_the_one_that_it_names(more: Any, gang: str | None) -> None:
    found = read(pod(**more))
    assert found is not None
    assert found.gang == gang


def test_the_sums_of_a_node_follow_its_pods() -> None:
    pods = NodePods()
    pods["a", "p1"] = NodePod("n1", (("pods", 1), ("cpu", 500)), "g")
    pods["a", "p2"] = NodePod("n1", (("pods", 1), ("cpu", 250)))
    assert pods.used_on("n1") == {"pods": 2, "cpu": 750}
    pods["a", "p1"] = NodePod("n2", (("pods", 1), ("cpu", 500)), "g")
    assert (pods.used_on("n1"), pods.used_on("n2")) == ({"pods": 1, "cpu": 250}, {"pods": 1, "cpu": 500})
    del pods["a", "p2"]
    assert pods.used_on("n1") == {}
    assert set(pods.pods_of_gang("a", "g")) == {("a", "p1")}
    assert set(pods.pods_on("n2")) == {("a", "p1")}


def test_a_reservation_keeps_what_is_not_yet_allocated_from_it() -> None:
    status = {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"cpu": "4", "memory": "8Gi"},
        "allocated": {"cpu": "1", "memory": "8Gi"},
    }
    assert RESERVATIONS.read({"metadata": {"name": "r"}, "status": status}) == (
        "r",
        Reservation("n1", (("cpu", 3000),)),
    )
    assert RESERVATIONS.read({"metadata": {"name": "r"}, "status": {**status, "phase": "Pending"}}) is None
