"""What a pod of a gang needs for kube-scheduler: the group that it belongs to, and the group's priority."""

from __future__ import annotations

from typing import Any

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.kube import keys
from webhook.backends.kube.generation import Generation
from webhook.backends.kube.settings import KubeSettings
from webhook.validators.selection import DEFAULT_SCHEDULER


def prepare_pod(member: GangMember, settings: KubeSettings) -> PodChanges:
    """The changes for one pod. An existing membership is kept: its author also creates the objects."""
    if not settings.gangScheduling:
        return PodChanges(scheduler_name=DEFAULT_SCHEDULER, inputs=())
    generation = Generation(member.dialect)
    merged = is_merged(settings, generation)
    field: dict[str, Any]
    if generation is Generation.V1ALPHA1:
        entry = keys.MERGED if merged else keys.template(member.podclique)
        field = {"workloadRef": {"name": keys.workload(member.podgang), "podGroup": entry}}
    else:
        group = keys.pod_group(member.podgang, member.podclique, generation, merged=merged, divided=member.divided)
        field = {"schedulingGroup": {"podGroupName": group}}
    priority = member.priority
    return PodChanges(
        scheduler_name=DEFAULT_SCHEDULER,
        inputs=(f"membership={sorted(next(iter(field.values())).items())}", f"priority={priority}"),
        default_fields=field,
        priority=priority,
    )


def is_merged(settings: KubeSettings, generation: Generation) -> bool:
    """Whether all members of a PodGang become one PodGroup, no matter how many: no name depends on a count."""
    return settings.flat == "merge" and generation is not Generation.TREE
