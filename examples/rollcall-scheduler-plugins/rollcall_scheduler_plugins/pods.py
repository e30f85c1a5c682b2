"""PreparePod for coscheduling: the label that makes a pod a member of its PodGroup."""

from __future__ import annotations

from rollcall_scheduler_plugins.keys import LABEL_POD_GROUP, NAME, pod_group_name
from webhook.backends.base import GangMember, PodChanges


def prepare_pod(member: GangMember) -> PodChanges:
    """The changes for a pod of `member`'s PodGang. `inputs` lists all that they depend on: it makes the stamp."""
    group = pod_group_name(member.podgang)
    return PodChanges(scheduler_name=NAME, inputs=(f"podGroup={group}",), labels={LABEL_POD_GROUP: group})
