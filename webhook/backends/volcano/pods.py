"""PreparePod for Volcano: the pod's PodGroup by annotation, before the pod is stored.

A pod of Volcano's that is stored without its group's name gets a group of its own from the podgroup controller, so the
annotation must be there from the start (pkg/controllers/podgroup).
"""

from __future__ import annotations

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.volcano.keys import ANNOTATION_DEVICE_GROUP, ANNOTATION_GROUP, NAME


def prepare_pod(member: GangMember) -> PodChanges:
    """The changes for a pod of `member`'s gang. Its place in a subgroup is read from Grove's own label."""
    return PodChanges(
        scheduler_name=NAME,
        inputs=(f"podGroup={member.podgang}",),
        annotations={ANNOTATION_GROUP: member.podgang, ANNOTATION_DEVICE_GROUP: member.podgang},
    )
