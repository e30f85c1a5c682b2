"""How a test waits until a scheduler has put a whole gang on nodes, and how it finds that none of its pods starts."""

from __future__ import annotations

import time

from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually

# A gang that can start does so within a second or two; one that must not is watched for longer than that.
QUIET_SECONDS = 3.0

# After so long a scheduler that has not tried a gang again has forgotten it; kube-scheduler may take a minute.
FORGOTTEN_SECONDS = 25.0

# What koord-scheduler says of a pod that it has taken back because of another pod of the gang.
_REJECTED = "gets rejected due to"


def stays_unbound(played: Played) -> None:
    """No pod is bound, now and for as long as it would take."""
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert played.bound() == []
        time.sleep(0.25)


def is_bound(played: Played, pods: int) -> None:
    """The whole gang is on nodes. koord-scheduler 1.8 now and then loses sight of a gang that it has rejected: its pods
    stay in the queue with JobRejectPlugin as their only reason, and no node event takes them out for five minutes.

    If it tries the gang again while a rejection is still on its way to a pod, it counts that pod as waiting, binds the
    others and loses sight of it (pkg/scheduler/plugins/coscheduling/core/core.go: Permit, Unreserve; seen in the log).
    """
    deadline = time.monotonic() + FORGOTTEN_SECONDS

    def whole() -> bool:
        nonlocal deadline
        bound = played.bound()
        if len(bound) == pods:
            return True
        reasons = _reasons(played)
        if time.monotonic() > deadline and (not bound or all(_REJECTED in reason for reason in reasons.values())):
            deadline = time.monotonic() + FORGOTTEN_SECONDS
            played.replace_unbound()
        raise AssertionError(f"{len(bound)} of {pods} pods are bound; the others: {reasons}")

    eventually(whole, "the whole gang is bound", timeout=90)


def _reasons(played: Played) -> dict[str, str]:
    """Why each pod that is on no node is not, in the scheduler's words."""
    return {
        pod["metadata"]["name"]: " ".join(
            condition.get("message", "")
            for condition in pod.get("status", {}).get("conditions", [])
            if condition["type"] == "PodScheduled"
        )
        for pod in played.pods()
        if not pod["spec"].get("nodeName")
    }
