"""What the reason of a gang says whose object is being deleted."""

from __future__ import annotations

import pytest

from tests.texts import Text
from webhook.gangs.object_plan import PROTECTION, leaving

CASES = {
    "Kubernetes keeps it for its pods": (
        [PROTECTION],
        Text(
            "PodGroup demo-0-a",
            PROTECTION,
            "patch podgroups.scheduling.k8s.io demo-0-a -n team-a --type=merge "
            """-p '{"metadata":{"finalizers":null}}'""",
        ),
    ),
    "others keep it too": (
        [PROTECTION, "example.com/kept"],
        Text("PodGroup demo-0-a is being deleted; ", f"{PROTECTION}, example.com/kept"),
    ),
    "none is known": ([], Text("PodGroup demo-0-a is being deleted; ", "which finalizer")),
}


@pytest.mark.parametrize(("finalizers", "message"), CASES.values(), ids=CASES)
def test_an_object_that_is_being_deleted_is_reported_with_what_keeps_it(finalizers: list[str], message: Text) -> None:
    live = {"kind": "PodGroup", "metadata": {"name": "demo-0-a", "namespace": "team-a", "finalizers": finalizers}}
    assert str(leaving(live)) == message
    assert leaving(live).reason == "GangObjectLeaving"
