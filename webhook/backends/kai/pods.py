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

    For a pod of an opted-in workload podgrouper makes the group. It reads the queue from this label if the pod's owners
    name none (pkg/podgrouper/podgrouper/plugins/defaultgrouper).
    """
    if member.opted_in:
        return _opted_in(member, settings)
    group, leaf = keys.pod_group(member.namespace, member.podgang), keys.leaf(member.podclique)
    queue = member.record.queue(settings.queueLabelKey) or settings.defaultQueue
    labels = {keys.LABEL_SUBGROUP: leaf}
    if queue is not None and is_queue_name(queue):
        labels[settings.queueLabelKey] = queue
    return PodChanges(
        scheduler_name=keys.NAME,
        inputs=(f"podGroup={group}", f"subGroup={leaf}", f"queue={settings.queueLabelKey}={queue or ''}"),
        labels=labels,
        annotations={keys.ANNOTATION_GROUP: group, keys.ANNOTATION_SKIP: "true"},
    )


def _opted_in(member: GangMember, settings: KaiSettings) -> PodChanges:
    queue = member.record.queue(settings.queueLabelKey) or settings.defaultQueue
    labels = {settings.queueLabelKey: queue} if queue is not None and is_queue_name(queue) else {}
    if member.record.queue(settings.queueLabelKey) is not None:
        return PodChanges(scheduler_name=keys.NAME, inputs=(), labels=labels, stamped=False)
    # The pod's own value wins over the configuration.
    return PodChanges(scheduler_name=keys.NAME, inputs=(), default_labels=labels, stamped=False)
