"""`rollcall gangs` and `rollcall explain KIND/NAME` name pods that name a group of a gang and do not belong to it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.gang_cluster import cluster, config, quiet
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import controlled_by, grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import GROUPS
from webhook.gangs import gang_view

__all__ = ["cluster", "config", "quiet"]

LISTED = "/api/v1/namespaces/team-a/pods"
LABEL = "pod-group.scheduling.sigs.k8s.io"
OURS = {
    "app.kubernetes.io/managed-by": "rollcall",
    "grove.io/podclique": "demo-0-a",
    "grove.io/podgang": "demo-0",
    "rollcall.dev/gang": "demo-0",
}


@pytest.fixture(autouse=True)
def group(cluster: WritableWorld) -> None:
    """The gang's PodGroup, as the reconciler writes it."""
    owners = controlled_by("PodCliqueSet", "demo", "set-team-a")
    metadata = {"name": "demo-0-a", "namespace": "team-a", "uid": "g", "labels": OURS, "ownerReferences": owners}
    cluster.put(GROUPS, {"metadata": metadata, "spec": {"minMember": 2}})


def put_strangers(cluster: WritableWorld, *names: str, namespace: str = "team-a") -> None:
    for name in names:
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {LABEL: "demo-0-a"}}
        cluster.put(PODS, {"metadata": metadata, "spec": {"nodeName": "n2"}})


def start_in_part(cluster: WritableWorld) -> None:
    put_pods(cluster, grove_pod("p", nodeName="n1"), grove_pod("q"))


def reasons(found: dict[str, Any]) -> dict[str, str]:
    return {one["reason"]: one["why"] for one in found["reasons"]}


def test_gangs_name_the_strangers_of_a_gang_in_part(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    start_in_part(cluster)
    put_strangers(cluster, "stranger")
    put_strangers(cluster, "elsewhere", namespace="team-b")
    (_, row) = rollcall("gangs", "--config", config).out.splitlines()
    assert ("GangInPart" in row, "GangPodsUnowned: 1 pod (stranger) " in row) == (True, True)
    (found,) = json.loads(rollcall("gangs", "--config", config, "-o", "json").out)["gangs"]
    assert "(stranger)" in reasons(found)["GangPodsUnowned"]
    unowned = [one for one in found["escaped"] if one["escape"] == "unowned"]
    assert unowned == [{"pod": "stranger", "escape": "unowned", "fields": ["/metadata/ownerReferences"]}]
    assert "furtherUnowned" not in found


def test_a_gang_is_explained_with_its_strangers(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    start_in_part(cluster)
    put_strangers(cluster, "stranger")
    ran = rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config)
    assert "\n    stranger: on node n2, unowned\n" in ran.out
    assert "    GangPodsUnowned\n        why  1 pod (stranger) " in ran.out


def test_a_held_gang_is_shown_with_its_strangers(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    put_pods(cluster, grove_pod("p"), grove_pod("q"))
    put_strangers(cluster, "one", "two")
    assert "GangPodsUnowned: 2 pods (one, two) " in rollcall("gangs", "--config", config).out
    assert "why  2 pods (one, two) " in rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config).out


def test_many_strangers_are_counted_and_some_are_named(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    start_in_part(cluster)
    put_strangers(cluster, *(f"s{number:03}" for number in range(350)))
    (found,) = json.loads(rollcall("gangs", "--config", config, "-o", "json").out)["gangs"]
    assert reasons(found)["GangPodsUnowned"].startswith("350 pods (s000, s001, s002 and 347 more) ")
    assert (len([one for one in found["escaped"] if one["escape"] == "unowned"]), found["furtherUnowned"]) == (10, 340)
    assert cluster.asked.count(LISTED) == 4
    ran = rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config)
    assert "\n    340 more " in ran.out


def test_nothing_is_listed_for_a_gang_that_has_started(rollcall: Run, cluster: WritableWorld, config: str) -> None:
    put_pods(cluster, grove_pod("p", nodeName="n1"), grove_pod("q", nodeName="n1"))
    put_strangers(cluster, "stranger")
    rollcall("gangs", "--config", config)
    rollcall("explain", "podgang/demo-0", "-n", "team-a", "--config", config)
    assert LISTED not in cluster.asked


@pytest.mark.parametrize("arguments", [("gangs",), ("explain", "podgang/demo-0", "-n", "team-a")])
def test_pods_that_cannot_be_listed_are_said(
    rollcall: Run, cluster: WritableWorld, config: str, arguments: tuple[str, ...]
) -> None:
    start_in_part(cluster)
    cluster.refused[LISTED] = httpx.Response(403, json=failure(403, "you may not"))
    ran = rollcall(*arguments, "--config", config)
    assert "GangInPart" in ran.out
    assert "team-a were not listed: HTTP 403: you may not" in ran.err


def test_a_list_that_takes_too_long_is_said(
    rollcall: Run, cluster: WritableWorld, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_in_part(cluster)
    put_strangers(cluster, "stranger")
    monkeypatch.setattr(gang_view, "STRANGERS_SECONDS", 0.0)
    ran = rollcall("gangs", "--config", config)
    assert "not all pods were listed within 0 s" in ran.err


def test_a_watch_finds_a_stranger_that_comes(
    rollcall: Run, cluster: WritableWorld, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_in_part(cluster)
    monkeypatch.setattr(gang_view, "STRANGERS_PERIOD_SECONDS", 0.0)
    read, times = gang_view.GangView.read_strangers, 0

    async def reading(self: gang_view.GangView, *arguments: Any) -> bool:
        nonlocal times
        times += 1
        if times == 2:
            put_strangers(cluster, "stranger")
        if times == 3:
            raise KeyboardInterrupt
        return await read(self, *arguments)

    monkeypatch.setattr(gang_view.GangView, "read_strangers", reading)
    ran = rollcall("gangs", "--config", config, "-n", "team-a", "--watch")
    assert ["(stranger)" in line for line in ran.out.splitlines()] == [False, False, True]
