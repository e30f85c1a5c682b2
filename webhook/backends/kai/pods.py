"""PreparePod for KAI: the annotation with the group, the label with the leaf, and the annotation that stops podgrouper.

All of them must be there when the pod is stored. Podgrouper watches every pod of the scheduler, and overwrites the
group of a pod without the skip annotation (pkg/podgrouper/pod_controller.go).
"""

from __future__ import annotations

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.kai import keys
from webhook.backends.kai.settings import KaiSettings, is_queue_name


def prepare_pod(member: GangMember, settings: KaiSettings) -> PodChanges:
    """The changes for a pod. The queue label is for KAI's check of shared GPU claims; a group names its own queue.

    For most pods of opted-in workloads podgrouper makes the group. It reads the queue from this label if the pod's
    owners name none (pkg/podgrouper/podgrouper/plugins/defaultgrouper).
    """
    named = member.record.queue(settings.queueLabelKey)
    queue = named or settings.defaultQueue
    labels = {settings.queueLabelKey: queue} if queue is not None and is_queue_name(queue) else {}
    # The own value of a pod that is not Grove's wins over the configuration.
    own, default = ({}, labels) if member.opted_in and named is None else (labels, {})
    if not member.made:
        return PodChanges(scheduler_name=keys.NAME, inputs=(), labels=own, default_labels=default, stamped=False)
    group, leaf = keys.pod_group(member.namespace, member.podgang), keys.leaf(member.podclique)
    return PodChanges(
        scheduler_name=keys.NAME,
        inputs=(f"podGroup={group}", f"subGroup={leaf}", f"queue={settings.queueLabelKey}={queue or ''}"),
        labels={keys.LABEL_SUBGROUP: leaf, **own},
        default_labels=default,
        annotations={keys.ANNOTATION_GROUP: group, keys.ANNOTATION_SKIP: "true"},
    )
