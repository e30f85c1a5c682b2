"""Labels, annotations and fields by which another gang scheduler, or a user, has claimed a pod.

A gang scheduler that finds two memberships on a pod uses one and waits for ever for the other. A Kueue marker or gate
is not a claim: Kueue queues pods, it does not gang them. Sources: the association code of each system (Koordinator
apis/extension/coscheduling.go, Volcano's and KAI's group-name annotations, scheduler-plugins' pod-group label,
Kubernetes' schedulingGroup and workloadRef).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from webhook.model.fields import FieldPath
from webhook.model.workloads.podtemplate import PodTemplate


class Mark(NamedTuple):
    """Where a scheduler reads the gang of a pod: a label, an annotation, or a spec field. Any value that is not empty
    counts, or only the given value.
    """

    part: Literal["labels", "annotations", "spec"]
    key: str
    value: str | None = None

    @property
    def cel(self) -> str:
        """Whether a pod has the key, as an expression over `object`."""
        if self.part == "spec":
            return f"has(object.spec.{self.key})"
        return f"{json.dumps(self.key)} in object.metadata.?{self.part}.orValue({{}})"

    def is_on(self, pod: PodTemplate) -> bool:
        """Whether a pod has this mark."""
        held: Any = getattr(pod, self.part).get(self.key)
        return bool(held) if self.value is None else held == self.value


class Claim(NamedTuple):
    """A claim on a pod: who claimed it, the key and value of the claim, and its path."""

    system: str
    key: str
    value: object
    path: FieldPath


_LABELS = {
    "scheduling.x-k8s.io/pod-group": "scheduler-plugins",
    "kai.scheduler/subgroup-name": "KAI",
    "pod-group.scheduling.sigs.k8s.io": "Koordinator",
    "pod-group.scheduling.sigs.k8s.io/name": "Koordinator",
}
_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": "Volcano",
    "scheduling.volcano.sh/group-name": "Volcano",
    "pod-group-name": "KAI",
    "kai.scheduler/skip-podgrouper": "KAI",
    "gang.scheduling.koordinator.sh/name": "Koordinator",
}
_FIELDS = {"schedulingGroup": "the Workload API", "workloadRef": "the Workload API"}
# Its other values have no meaning.
_ONLY_TRUE = "kai.scheduler/skip-podgrouper"

# The marks that `claims_on` looks for, and the system of each.
CLAIMS: tuple[tuple[Mark, str], ...] = (
    *((Mark("labels", key), system) for key, system in _LABELS.items()),
    *(
        (Mark("annotations", key, "true" if key == _ONLY_TRUE else None), system)
        for key, system in _ANNOTATIONS.items()
    ),
    *((Mark("spec", key), system) for key, system in _FIELDS.items()),
)


def claims_on(pod: PodTemplate) -> Iterator[Claim]:
    """Every mark of a gang membership on a pod or its template, including Rollcall's own."""
    labels, annotations = pod.labels, pod.annotations
    if labels:
        for key, system in _LABELS.items():
            if labels.get(key):
                yield Claim(system, key, labels[key], pod.labels_path / key)
    if annotations:
        for key, system in _ANNOTATIONS.items():
            if (value := annotations.get(key)) and (key != _ONLY_TRUE or value == "true"):
                yield Claim(system, key, annotations[key], pod.annotations_path / key)
    for field, system in _FIELDS.items():
        if pod.spec.get(field):
            yield Claim(system, field, pod.spec[field], pod.spec_path / field)
