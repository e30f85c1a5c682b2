"""Why a pod was lost, by what the controllers that take pods away write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gangs.judged_gangs import pod
from webhook.gangs.members import LossCause, cause_in, cause_of_end, gpus_of


def disrupted(why: str, said: str = "True", **of_status: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": said, "reason": why}], **of_status}


BY_KUBELET = "TerminationByKubelet"
STATUSES: dict[str, tuple[dict[str, Any], LossCause | None]] = {
    "kube-scheduler, koord-scheduler, Volcano and KAI": (disrupted("PreemptionByScheduler"), LossCause.PREEMPTION),
    "the node has a taint": (disrupted("DeletionByTaintManager"), LossCause.NODE_LOSS),
    "a device has a taint": (disrupted("DeletionByDeviceTaintManager"), LossCause.NODE_LOSS),
    "the node is gone": (disrupted("DeletionByPodGC", phase="Failed"), LossCause.NODE_LOSS),
    "a drain": (disrupted("EvictionByEvictionAPI"), LossCause.EVICTION),
    "the node runs short of memory": (disrupted(BY_KUBELET, phase="Failed", reason="Evicted"), LossCause.EVICTION),
    "a critical pod needs the room": (disrupted(BY_KUBELET, phase="Failed", reason="Preempting"), LossCause.PREEMPTION),
    "the node shuts down": (disrupted(BY_KUBELET, phase="Failed", reason="Terminated"), LossCause.NODE_LOSS),
    "another controller": (disrupted("RebalancedByExample"), LossCause.EVICTION),
    "the disruption was called off": (disrupted("PreemptionByScheduler", "False"), None),
    "it ended by itself": ({"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}, None),
    "no status": ({}, None),
}


@pytest.mark.parametrize(("status", "expected"), STATUSES.values(), ids=STATUSES.keys())
def test_the_status_of_a_pod_says_why_it_is_taken_away(status: dict[str, Any], expected: LossCause | None) -> None:
    assert cause_in(status) is expected


RUNNING = pod("worker", 0, node="node-1")
ENDS = {
    "deleted, and still there": (RUNNING._replace(leaving=True), True, LossCause.DELETION),
    "preempted": (RUNNING._replace(leaving=True, taken_by=LossCause.PREEMPTION), True, LossCause.PREEMPTION),
    "failed": (RUNNING._replace(failed=True), True, LossCause.FAILURE),
    "evicted by its kubelet": (RUNNING._replace(failed=True, taken_by=LossCause.EVICTION), True, LossCause.EVICTION),
    "deleted at once": (None, True, LossCause.DELETION),
    "gone between two lists": (None, False, LossCause.UNKNOWN),
    "another pod of its name between two lists": (RUNNING._replace(uid="another"), False, LossCause.UNKNOWN),
    "it runs": (RUNNING._replace(gate=0), True, None),
}


@pytest.mark.parametrize(("after", "watched", "expected"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_a_pod_on_a_node_has_a_cause(after: Any, watched: bool, expected: LossCause | None) -> None:
    assert cause_of_end(RUNNING, after, watched=watched) is expected


def test_what_a_pod_said_before_it_was_gone_counts() -> None:
    before = RUNNING._replace(taken_by=LossCause.NODE_LOSS)
    assert cause_of_end(before, None, watched=False) is LossCause.NODE_LOSS


def test_a_pod_that_was_on_no_node_or_had_ended_is_not_lost() -> None:
    assert cause_of_end(RUNNING._replace(node=None), None, watched=True) is None
    assert cause_of_end(RUNNING._replace(failed=True), None, watched=True) is None


def containers(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": f"c{index}", "resources": one} for index, one in enumerate(requests)]}


GPUS: dict[str, tuple[dict[str, Any], int]] = {
    "two containers": (containers({"requests": {"nvidia.com/gpu": "4"}}, {"requests": {"nvidia.com/gpu": 4}}), 8),
    "a limit alone, as of a file": (containers({"limits": {"amd.com/gpu": "2"}}), 2),
    "parts of GPUs": (containers({"limits": {"nvidia.com/mig-1g.5gb": "2", "koordinator.sh/gpu": "100"}}), 0),
    "no GPU": (containers({"requests": {"cpu": "4"}}), 0),
    "a number that no node has": (containers({"requests": {"nvidia.com/gpu": "9" * 18}}), 1024),
    "a request that is not a quantity": (containers({"requests": {"nvidia.com/gpu": "many"}}), 0),
    "containers that are not a list": ({"containers": {}}, 0),
}


@pytest.mark.parametrize(("spec", "expected"), GPUS.values(), ids=GPUS.keys())
def test_the_whole_gpus_of_a_pod_are_counted(spec: dict[str, Any], expected: int) -> None:
    assert gpus_of(spec) == expected
