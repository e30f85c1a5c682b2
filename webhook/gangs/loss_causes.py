"""Why a pod of a gang was lost, as far as the pod itself shows (no I/O).

A controller that takes a pod off its node writes the pod's condition DisruptionTarget before it deletes the pod.
Source: Kubernetes 1.37, pkg/scheduler/framework/preemption/executor.go, pkg/controller/{podgc,tainteviction,
devicetainteviction}, pkg/registry/core/pod/storage/eviction.go, pkg/kubelet/{eviction,preemption,nodeshutdown}.
koord-scheduler 1.8 (coscheduling/core/preemption.go), Volcano (pkg/scheduler/cache/cache.go) and KAI (pkg/scheduler/
cache/evictor) write the reason of kube-scheduler, also if they reclaim a queue's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from webhook.model.reading import mapping, sequence, text


class LossCause(StrEnum):
    """Why a pod was lost; a metric's label."""

    PREEMPTION = "preemption"
    NODE_LOSS = "nodeLoss"
    EVICTION = "eviction"
    # Deleted by a user or a controller, without a reason in the pod.
    DELETION = "deletion"
    # It ended by itself.
    FAILURE = "failure"
    # Rollcall did not see how it was lost.
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """What happened to the pod, in a sentence."""
        return _WORDS[self]


_WORDS = {
    LossCause.PREEMPTION: "preempted",
    LossCause.NODE_LOSS: "lost with its node",
    LossCause.EVICTION: "evicted",
    LossCause.DELETION: "deleted",
    LossCause.FAILURE: "failed",
    LossCause.UNKNOWN: "lost while Rollcall did not watch",
}
# By the reason of the condition. Every other reason is one of another controller that takes pods off their nodes.
_BY_REASON = {
    "PreemptionByScheduler": LossCause.PREEMPTION,
    "DeletionByTaintManager": LossCause.NODE_LOSS,
    "DeletionByDeviceTaintManager": LossCause.NODE_LOSS,
    "DeletionByPodGC": LossCause.NODE_LOSS,
}
# The kubelet has one reason for all that it does; the status of the pod says what it was.
_OF_KUBELET = "TerminationByKubelet"
_BY_STATUS = {"Preempting": LossCause.PREEMPTION, "Terminated": LossCause.NODE_LOSS}


def cause_in(status: Mapping[str, Any]) -> LossCause | None:
    """Why a pod is taken off its node, by its status; None if no controller says so. Raises `Malformed`."""
    for raw in sequence(status.get("conditions")):
        condition = mapping(raw)
        # False means that the disruption was called off.
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = text(condition.get("reason")) or ""
            if reason == _OF_KUBELET:
                return _BY_STATUS.get(text(status.get("reason")) or "", LossCause.EVICTION)
            return _BY_REASON.get(reason, LossCause.EVICTION)
    return None
