"""The fixture that plays Grove's operator, compared with recorded requests of the operator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_operator import Played, defaulted
from tests.e2e.recordings import RECORDINGS, identity

FOLDER = RECORDINGS / "grove-operator"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ROLLCALL_RECORDINGS does not name the recordings")


def sent(recording: str, operation: str, resource: str) -> list[Manifest]:
    """The objects of the recorded requests of one kind, in order."""
    files = sorted((FOLDER / recording).glob(f"*-{operation}-{resource}-*.json"))
    return [json.loads(path.read_text())["request"]["object"] for path in files]


def played(plane: ControlPlane, namespace: str, recording: str) -> Played:
    """What the fixture makes of the set that was recorded."""
    workload = sent(recording, "CREATE", "podcliquesets")[0]
    applied = workload["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    own = defaulted(json.loads(applied))
    own["metadata"]["namespace"] = namespace
    plane.apply(own, check=True)
    return Played(plane, plane.get("podcliqueset", own["metadata"]["name"], namespace)).create()


def sorted_by_name(objects: list[Manifest]) -> list[dict[str, Any]]:
    return sorted(map(identity, objects), key=lambda found: (found["name"], found.get("hostname", "")))


@pytest.mark.parametrize("recording", ["mn-disagg", "lifecycle"])
def test_the_stand_in_creates_the_recorded_pod_gangs(plane: ControlPlane, namespace: str, recording: str) -> None:
    made = played(plane, namespace, recording)
    known = {name: identity(made.podgang(name)) for name in made.podgangs}
    recorded = {raw["metadata"]["name"]: identity(raw) for raw in reversed(sent(recording, "CREATE", "podgangs"))}
    assert known.items() <= recorded.items()


def test_the_stand_in_creates_the_recorded_pods(plane: ControlPlane, namespace: str) -> None:
    made = played(plane, namespace, "mn-disagg").pods()
    recorded = json.loads(json.dumps(sent("mn-disagg", "CREATE", "pods")).replace(".default.svc", f".{namespace}.svc"))
    assert sorted_by_name(made) == sorted_by_name(recorded)


def test_the_stand_in_lists_pods_sorted_in_their_pod_gang(plane: ControlPlane, namespace: str) -> None:
    made = played(plane, namespace, "mn-disagg")
    names = {pod["metadata"]["name"] for pod in made.pods()}
    told = [
        [reference["name"] for reference in group["podReferences"]]
        for name in made.podgangs
        for group in made.podgang(name)["spec"]["podgroups"]
    ]
    assert {name for group in told for name in group} == names
    assert all(group == sorted(group) for group in told)


def test_the_stand_in_removes_its_own_gate_only(plane: ControlPlane, namespace: str) -> None:
    made = played(plane, namespace, "mn-disagg")
    clique = made.cliques[0]
    gated = made.pod(clique, 9)
    gated["spec"]["schedulingGates"].append({"name": "rollcall.dev/gang-sync"})
    plane.http.post(f"/api/v1/namespaces/{namespace}/pods", json=gated).raise_for_status()
    made.lift_gates()
    scaled = {name for name in made.podgangs if name != "mn-disagg-0"}
    for pod in made.pods():
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        labels = pod["metadata"]["labels"]
        if labels["grove.io/podgang"] in scaled:
            assert gates == ["grove.io/podgang-pending-creation"]
        else:
            assert gates == (["rollcall.dev/gang-sync"] if labels["grove.io/podclique-pod-index"] == "9" else [])
