"""PreparePod for Volcano: the annotation with the pod's PodGroup, before the pod is stored.

For a stored pod of Volcano without a group name, the podgroup controller makes a separate group. So the annotation must
be there from the start (pkg/controllers/podgroup).
"""

from __future__ import annotations

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.volcano.keys import ANNOTATION_DEVICE_GROUP, ANNOTATION_GROUP, NAME


def prepare_pod(member: GangMember) -> PodChanges:
    """The changes for a pod of `member`'s gang. Volcano reads its subgroup from Grove's own label."""
    return PodChanges(
        scheduler_name=NAME,
        inputs=(f"podGroup={member.podgang}",),
        annotations={ANNOTATION_GROUP: member.podgang, ANNOTATION_DEVICE_GROUP: member.podgang},
    )
