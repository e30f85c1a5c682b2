"""Which pods are members of a gang: one table, and recordings of Grove's operator."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.growth.step_counts import Cost, growing
from webhook.gangs.members import GangPod, Roster, read_gang_pod, roster
from webhook.model.grove import OwnerReference, PodGang, controller_in

RECORDINGS = os.environ.get("ROLLCALL_RECORDINGS")
SET = OwnerReference("grove.io/v1alpha1", "PodCliqueSet", "demo", "set")
OTHER_SET = SET._replace(name="other", uid="other")
GROUP = OwnerReference("grove.io/v1alpha1", "PodCliqueScalingGroup", "demo-0-g", "group")
CLIQUE = OwnerReference("grove.io/v1alpha1", "PodClique", "demo-0-a", "a")


def podgang(*named: tuple[str, str], owner: OwnerReference | None = SET) -> PodGang:
    """A PodGang of one member that names these pods, each with its namespace."""
    references = [{"namespace": namespace, "name": name} for namespace, name in named]
    owners = [] if owner is None else [{**reference(owner), "controller": True}]
    return PodGang(
        {
            "metadata": {"name": "demo-0", "namespace": "team-a", "uid": "gang", "ownerReferences": owners},
            "spec": {"podgroups": [{"name": "demo-0-a", "minReplicas": 1, "podReferences": references}]},
        }
    )


def reference(owner: OwnerReference) -> dict[str, Any]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def pod(name: str = "p", clique: str = "demo-0-a") -> GangPod:
    labels = {"grove.io/podgang": "demo-0", "grove.io/podclique": clique}
    return read_gang_pod({"metadata": {"name": name, "namespace": "team-a", "labels": labels}})[1]


NAMED = podgang(("team-a", "p"))
# The controllers above the pod `p`, from its own; the PodGang; and what the pod is.
CASES: dict[str, tuple[list[OwnerReference], PodGang, str]] = {
    "a pod of a PodClique of the set": ([CLIQUE, SET], NAMED, "members"),
    "a pod of a PodClique of a scaling group of the set": ([CLIQUE, GROUP, SET], NAMED, "members"),
    "a pod that is named twice": ([CLIQUE, SET], podgang(("team-a", "p"), ("team-a", "p")), "members"),
    "a pod that is not named yet": ([CLIQUE, SET], podgang(), "unnamed"),
    "a pod of that name in another namespace is named": ([CLIQUE, SET], podgang(("team-b", "p")), "unnamed"),
    "a pod without a controller": ([], NAMED, "unowned"),
    "a pod of a PodClique that is not there": ([CLIQUE], NAMED, "unowned"),
    "a pod of another member's PodClique": ([CLIQUE._replace(name="demo-0-b"), SET], NAMED, "unowned"),
    "a pod of another set": ([CLIQUE, OTHER_SET], NAMED, "unowned"),
    "a pod of an earlier set of that name": ([CLIQUE, SET._replace(uid="before")], NAMED, "unowned"),
    "a pod that says the set itself made it": ([SET], NAMED, "unowned"),
    "a pod of a Job": ([OwnerReference("batch/v1", "Job", "demo-0-a", "a"), SET], NAMED, "unowned"),
    "a PodGang without a controller": ([CLIQUE, SET], podgang(("team-a", "p"), owner=None), "unowned"),
}


@pytest.mark.parametrize(("above", "gang", "expected"), CASES.values(), ids=CASES)
def test_a_pod_that_names_a_gang_gets_the_expected_role(
    above: list[OwnerReference], gang: PodGang, expected: str
) -> None:
    found = roster(gang, [(pod(), above)])
    assert {part: [one.name for one in pods] for part, pods in found._asdict().items() if pods} == {expected: ["p"]}


def test_a_pod_whose_labels_and_controller_name_different_members_counts_for_neither() -> None:
    assert roster(NAMED, [(pod(clique="demo-0-b"), [CLIQUE, SET])]).members == []


@pytest.mark.parametrize("part", ["apiVersion", "kind", "name", "uid"])
def test_an_impossible_controller_reference_is_not_cached(part: str) -> None:
    owner = {**reference(CLIQUE), "controller": True}
    metadata = {"name": "p", "namespace": "team-a", "ownerReferences": [{**owner, part: "x" * 1_000_000}]}
    assert read_gang_pod({"metadata": metadata})[1].controller is None
    assert read_gang_pod({"metadata": {**metadata, "ownerReferences": [owner]}})[1].controller == CLIQUE


def test_the_names_of_a_gang_s_pods_are_read_once() -> None:
    def work(count: int) -> None:
        names = [f"p{index}" for index in range(count)]
        gang = podgang(*(("team-a", name) for name in names))
        parts = roster(gang, [(pod(name), [CLIQUE, SET]) for name in (*names, "forged")])
        assert (len(parts.members), [pod.name for pod in parts.unnamed], parts.unowned) == (count, ["forged"], [])

    assert growing(work, 40) == []


def test_a_gang_without_pods_has_an_empty_roster() -> None:
    assert roster(NAMED, []) == Roster([], [], [])


FOLDERS = sorted(Path(RECORDINGS).glob("*/*/")) if RECORDINGS else []


@pytest.mark.skipif(not FOLDERS, reason="ROLLCALL_RECORDINGS does not name the recordings")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_grove_lists_each_pod_before_it_removes_its_gate(folder: Path) -> None:
    gangs: dict[str, PodGang] = {}
    freed = 0
    for path in sorted(folder.glob("[0-9]*.json")):
        request = json.loads(path.read_text(encoding="utf-8"))["request"]
        raw, resource = request["object"], request["resource"]["resource"]
        if raw is None or request["operation"] == "DELETE":
            continue
        if resource == "podgangs":
            gangs[raw["metadata"]["name"]] = PodGang(raw, request["namespace"])
        elif resource == "pods" and request["operation"] == "UPDATE" and is_freed(request):
            freed += 1
            one = read_gang_pod(raw)[1]
            gang = gangs[one.podgang]
            maker = gang.raw["metadata"]["ownerReferences"][0]
            workload = OwnerReference(maker["apiVersion"], maker["kind"], maker["name"], maker["uid"])
            assert one.controller is not None
            # Which object controls its PodClique, the table above and the cluster tests say.
            assert roster(gang, [(one, [one.controller, workload])]).members == [one], path.name
    assert freed > 0


def is_freed(request: dict[str, Any]) -> bool:
    """Whether an update takes the last gate off a pod."""
    before, now = (request[field]["spec"].get("schedulingGates") for field in ("oldObject", "object"))
    return bool(before) and not now


def test_the_controller_of_a_gang_is_read_once_for_all_pods_that_name_it() -> None:
    pods = [(pod(f"p{index}"), [CLIQUE, SET]) for index in range(50)]
    runs = Cost(lambda: roster(NAMED, pods)).runs
    assert max(count for (code, _), count in runs.items() if code is controller_in.__code__) < 5
