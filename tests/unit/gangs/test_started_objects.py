"""Whether a gang object says that pods of its gang were on nodes: its scheduler writes that into the status."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.gang_objects import STARTED, not_placed, says_started
from webhook.model.reading import Malformed


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({}, False),
        ({"phase": "Pending"}, False),
        # koord-scheduler writes this once all pods exist.
        ({"phase": "Scheduling", "scheduled": 0}, False),
        ({"phase": "Inqueue"}, False),
        ({"phase": "Scheduled"}, True),
        ({"phase": "Running", "running": 3}, True),
        ({"phase": "Pending", "failed": 1}, True),
        ({"phase": "Finished"}, True),
        (STARTED, True),
    ],
)
def test_an_object_says_that_its_gang_was_started(status: dict[str, Any], started: bool) -> None:
    assert says_started({"metadata": {}, "status": status}) is started


def test_only_a_short_condition_is_kept_of_a_group_that_was_not_placed() -> None:
    ready = {"type": "DisruptionTarget", "status": "False", "reason": "None"}
    waits = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no  node\n" * 999,
    }
    kept = not_placed({"status": {"conditions": [ready, {**waits, "lastTransitionTime": "2026-11-06T12:00:00Z"}]}})
    assert kept is not None
    assert (kept["reason"], kept["message"][:8], len(kept["message"])) == ("Unschedulable", "no node ", 400)
    assert not_placed({"status": {"conditions": [ready, {**waits, "status": "True"}]}}) is None


@pytest.mark.parametrize("kind", [["PodGroupScheduled"], {"PodGroupScheduled": 1}, 7])
def test_a_condition_without_a_readable_type_is_malformed(kind: Any) -> None:
    """A tenant who may write the status can write it in a CRD's object."""
    with pytest.raises(Malformed):
        not_placed({"status": {"conditions": [{"type": kind, "status": "False"}]}})
