"""Pods on nodes that stop to count for their gangs: noticed as it happens, because a pod that is gone tells nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webhook.gangs.loss_causes import LossCause
from webhook.gangs.pod import GangPod
from webhook.model.workloads.podgang import OwnerReference


class PodEnd(NamedTuple):
    """A pod that was on a node and counted, as it was, the controllers above it, and why it does not count any more."""

    pod: GangPod
    above: Sequence[OwnerReference]
    cause: LossCause


def cause_of_end(before: GangPod, after: GangPod | None, *, watched: bool) -> LossCause | None:
    """Why a pod that counted on a node does not count any more; None if it still does, or never did. `after` is None
    for a pod that is gone. `watched`: its deletion was reported, and did not happen between two lists.
    """
    if before.node is None or not before.counts:
        return None
    if after is not None and after.uid == before.uid:
        if after.counts:
            return None
        return after.taken_by or before.taken_by or (LossCause.DELETION if after.leaving else LossCause.FAILURE)
    return before.taken_by or (LossCause.DELETION if watched else LossCause.UNKNOWN)
