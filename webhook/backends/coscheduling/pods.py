"""PreparePod for Coscheduling: the label that makes a pod a member of its PodGroup, and the gang's priority.

A PodGroup has no priority. Pods are queued by their own priority before anything else (`Less`), and Grove does not set
it.
"""

from __future__ import annotations

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.coscheduling.keys import LABEL_POD_GROUP, NAME, pod_group


def prepare_pod(member: GangMember) -> PodChanges:
    """The changes for a pod of `member`'s PodGang."""
    group = pod_group(member.podgang)
    return PodChanges(
        scheduler_name=NAME,
        inputs=(f"podGroup={group}", f"priority={member.priority}"),
        labels={LABEL_POD_GROUP: group},
        priority=member.priority,
    )
