"""The shape of a gang that exists: from its stored pods, and only while it is fresh."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.fit.gang_shapes import shape_of_gang
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest

RACK = "example.com/rack"


def podgang(**constraint: str) -> PodGang:
    """A PodGang of two members of two pods, of which `b` must be in one rack."""
    packed = {"topologyConstraint": {"packConstraint": {"required": RACK}}}
    groups: list[Manifest] = [
        {"name": name, "minReplicas": 2, "podReferences": [{"namespace": "default", "name": name}] * 2}
        for name in ("a", "b")
    ]
    groups[1] |= packed
    spec: Manifest = {"podgroups": groups}
    if constraint:
        spec["topologyConstraint"] = {"packConstraint": constraint}
    return PodGang({"metadata": {"name": "demo-0", "namespace": "default"}, "spec": spec})


def pod(cpu: str = "1", *, index: int = 0, status: Manifest | None = None, **spec: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": "demo", "grove.io/podclique-pod-index": str(index)}
    raw = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}, "status": status or {}}
    return Pod(raw, "default")


def test_a_fresh_gang_has_the_members_of_its_pod_gang_with_the_templates_of_its_pods() -> None:
    pods = {name: [pod(index=0), pod(index=1), pod(index=2)] for name in ("a", "b")}
    shape = shape_of_gang(podgang(required="example.com/zone"), pods, Record("any"))
    assert shape is not None
    assert shape.stored
    assert [(one.name, one.minimum, one.pods, one.required) for one in shape.members] == [
        ("a", 2, 3, None),
        ("b", 2, 3, RACK),
    ]
    assert (shape.required, shape.left_out) == ("example.com/zone", ())


@pytest.mark.parametrize(
    "other",
    [
        pod(nodeName="node-1"),
        pod(status={"phase": "Running"}),
        pod(status={"phase": "Succeeded"}),
        Pod({"metadata": {"deletionTimestamp": "2026-11-01T10:00:00Z"}, "spec": {}}, "default"),
    ],
    ids=["bound", "running", "ended", "being deleted"],
)
def test_a_gang_that_has_begun_is_not_judged_because_each_scheduler_counts_such_pods_in_its_own_way(other: Pod) -> None:
    assert shape_of_gang(podgang(), {"a": [pod(), other], "b": [pod()]}, Record("any")) is None


def test_a_member_whose_pods_differ_or_are_missing_is_left_out() -> None:
    shape = shape_of_gang(podgang(), {"a": [pod("1"), pod("2")]}, Record("any"))
    assert shape is not None
    assert shape.members == ()
    assert shape.left_out == ("the pods of a, which differ", "the pods of b, which are missing")


def test_pods_that_request_different_parts_of_gpus_differ() -> None:
    parts = [
        Pod({"metadata": {"annotations": {"gpu-fraction": part}}, "spec": {}}, "default") for part in ("0.9", "0.1")
    ]
    shape = shape_of_gang(podgang(), {"a": parts, "b": [pod(), pod()]}, Record("any"))
    assert shape is not None
    assert shape.left_out == ("the pods of a, which differ",)


@pytest.mark.parametrize(
    ("gate", "tolerations"),
    [
        (None, None),
        ("grove.io/podgang-pending-creation", None),
        ("rollcall.dev/gang-sync", None),
        ("kueue.x-k8s.io/admission", [{"operator": "Exists"}]),
        ("example.com/later", [{"operator": "Exists"}]),
    ],
)
def test_who_removes_a_gate_may_add_tolerations(gate: str | None, tolerations: Any) -> None:
    """Kueue adds those of the flavor when it admits the pods of a gang."""
    pods = [pod(schedulingGates=[{"name": gate}] if gate else None)] * 2
    shape = shape_of_gang(podgang(), {"a": pods, "b": pods}, Record("any"))
    assert shape is not None
    assert [one.template.spec.get("tolerations") for one in shape.members] == [tolerations] * 2
