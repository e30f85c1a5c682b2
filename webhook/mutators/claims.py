"""Pods that another system has claimed: one that carries another gang's membership is left exactly as it is.

A gang scheduler that finds two memberships on a pod takes one and waits for ever for the other. A Kueue marker or
gate is no claim: Kueue queues, it does not gang. Nor is `schedulerName: default-scheduler`, which the API server
writes itself. Sources: the association code of each system (Koordinator apis/extension/coscheduling.go, Volcano's and
KAI's group-name annotations, scheduler-plugins' pod-group label, Kubernetes' schedulingGroup and workloadRef).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from webhook.backends.base import PodChanges
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath
from webhook.model.pod import Pod
from webhook.validators.selection import DEFAULT_SCHEDULER


class Claim(NamedTuple):
    """Who has claimed the pod, and by what."""

    owner: str
    path: FieldPath


_LABELS: Mapping[str, str] = {
    "scheduling.x-k8s.io/pod-group": "scheduler-plugins",
    "kai.scheduler/subgroup-name": "KAI",
    "pod-group.scheduling.sigs.k8s.io": "Koordinator",
    "pod-group.scheduling.sigs.k8s.io/name": "Koordinator",
}
_ANNOTATIONS: Mapping[str, str] = {
    "scheduling.k8s.io/group-name": "Volcano",
    "scheduling.volcano.sh/group-name": "Volcano",
    "pod-group-name": "KAI",
    "kai.scheduler/skip-podgrouper": "KAI",
    "gang.scheduling.koordinator.sh/name": "Koordinator",
}
_FIELDS: Mapping[str, str] = {"schedulingGroup": "the Workload API", "workloadRef": "the Workload API"}


def claim_on(pod: Pod, changes: PodChanges) -> Claim | None:
    """The first claim on `pod` that is not the one which `changes` would make, or None."""
    labels, annotations, spec = pod.template.labels, pod.template.annotations, pod.template.spec
    for key, owner in _LABELS.items():
        if key in labels and changes.labels.get(key) != labels[key]:
            return Claim(owner, LABELS / key)
    for key, owner in _ANNOTATIONS.items():
        if key in annotations and changes.annotations.get(key) != annotations[key]:
            return Claim(owner, ANNOTATIONS / key)
    for field, owner in _FIELDS.items():
        if spec.get(field):
            return Claim(owner, SPEC / field)
    named = pod.scheduler_name
    if named is not None and named not in {DEFAULT_SCHEDULER, changes.scheduler_name}:
        return Claim(named, SPEC / "schedulerName")
    return None
