"""PreparePod for Koordinator: the label with the pod's PodGroup, and its quota and QoS class.

The annotation `gang.scheduling.koordinator.sh/name` is not used: if a pod with the annotation is seen before its
PodGroup, the pod stays in a gang of its own for good (pkg/scheduler/plugins/coscheduling/core/gang_cache.go).
"""

from __future__ import annotations

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.koordinator.keys import LABEL_POD_GROUP, NAME
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.model.capabilities import QOS_LABEL, QUOTA_LABEL
from webhook.model.naming import pod_group_name


def prepare_pod(member: GangMember, settings: KoordinatorSettings) -> PodChanges:
    """The changes for a pod of `member`'s PodClique."""
    group = pod_group_name(member.podgang, member.podclique)
    quota, qos_class = member.record.quota, settings.defaultQoSClass
    labels = {LABEL_POD_GROUP: group}
    if quota is not None:
        labels[QUOTA_LABEL] = quota
    return PodChanges(
        scheduler_name=NAME,
        inputs=(f"podGroup={group}", f"quota={quota or ''}", f"qosClass={qos_class or ''}"),
        labels=labels,
        default_labels={QOS_LABEL: qos_class} if qos_class is not None else {},
    )
