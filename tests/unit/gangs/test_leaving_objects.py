"""What the reason of a gang says whose object is being deleted."""

from __future__ import annotations

import pytest

from webhook.gangs.leaving_objects import leaving

CASES = {
    "Kubernetes keeps it while its pods run": (
        ["scheduling.k8s.io/podgroup-protection"],
        "PodGroup demo-0-a is being deleted, and its finalizer scheduling.k8s.io/podgroup-protection keeps it while "
        "its pods run; remove the finalizer, and Rollcall writes the object again; running pods are not affected: "
        "kubectl patch podgroups.scheduling.k8s.io demo-0-a -n team-a --type=merge "
        """-p '{"metadata":{"finalizers":null}}'""",
    ),
    "others keep it too": (
        ["scheduling.k8s.io/podgroup-protection", "example.com/kept"],
        "PodGroup demo-0-a is being deleted; find out why its finalizer stays: "
        "scheduling.k8s.io/podgroup-protection, example.com/kept",
    ),
    "none is known": ([], "PodGroup demo-0-a is being deleted; check which finalizer keeps it"),
}


@pytest.mark.parametrize(("finalizers", "message"), CASES.values(), ids=CASES)
def test_an_object_that_is_being_deleted_is_reported_with_what_keeps_it(finalizers: list[str], message: str) -> None:
    live = {"kind": "PodGroup", "metadata": {"name": "demo-0-a", "namespace": "team-a", "finalizers": finalizers}}
    assert str(leaving(live)) == message
    assert leaving(live).reason == "GangObjectLeaving"
