"""Labels, annotations and fields by which another gang scheduler, or a user, has claimed a pod.

A gang scheduler that finds two memberships on a pod uses one and waits for ever for the other. A Kueue marker or gate
is not a claim: Kueue queues pods, it does not gang them. Sources: the association code of each system (Koordinator
apis/extension/coscheduling.go, Volcano's and KAI's group-name annotations, scheduler-plugins' pod-group label,
Kubernetes' schedulingGroup and workloadRef).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from webhook.model.fields import FieldPath
from webhook.model.known_kinds import DEFAULT_SCHEDULER
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import int32


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
        held: Any = getattr(pod, self.part).get(self.key)
        return bool(held) if self.value is None else held == self.value


class Claim(NamedTuple):
    """A claim on a pod: who claimed it, the key and value of the claim, and its path."""

    system: str
    key: str
    value: object
    path: FieldPath


# By which pods make a gang of koord-scheduler without a PodGroup. The label comes first, for the name and the minimum.
KOORDINATOR_GANG = "gang.scheduling.koordinator.sh/name"
_GANG_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
GANG_MINIMUM = "gang.scheduling.koordinator.sh/min-available"
_GANG_MINIMUM_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
# With this label koord-scheduler reads no setting of the pod.
_POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
_LABELS = {
    "scheduling.x-k8s.io/pod-group": "scheduler-plugins",
    "kai.scheduler/subgroup-name": "KAI",
    _POD_GROUP_LABEL: "Koordinator",
    _GANG_LABEL: "Koordinator",
}
_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": "Volcano",
    "scheduling.volcano.sh/group-name": "Volcano",
    "pod-group-name": "KAI",
    "kai.scheduler/skip-podgrouper": "KAI",
    KOORDINATOR_GANG: "Koordinator",
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
# Of these a pod that is in a gang has at least one.
CLAIM_KEYS = frozenset(mark.key for mark, _ in CLAIMS)
# Marks of a pod that do not name its group.
_NO_NAMES = frozenset({"kai.scheduler/subgroup-name", "kai.scheduler/skip-podgrouper"})
# By key: the system whose group a pod names by it. In 1.35 a pod names a Workload, and no PodGroup.
NAMES_OF: Mapping[str, str] = {
    mark.key: system for mark, system in CLAIMS if mark.key not in _NO_NAMES and mark.key != "workloadRef"
}
# By key: where it is read.
PART_OF_MARK: Mapping[str, str] = {mark.key: mark.part for mark, _ in CLAIMS}


class System(NamedTuple):
    """A system of gangs: the scheduler that reads its marks, the API group of its PodGroups, and the mark by which a
    pod names one. `groups` is the part of the facts with its PodGroups.
    """

    scheduler: str
    api_group: str
    mark: str
    groups: str | None = None


SYSTEMS: Mapping[str, System] = {
    "KAI": System("kai-scheduler", "scheduling.run.ai", "the annotation pod-group-name", "kai_pod_groups"),
    "Volcano": System(
        "volcano", "scheduling.volcano.sh", "the annotation scheduling.k8s.io/group-name", "volcano_pod_groups"
    ),
    "Koordinator": System(
        "koord-scheduler",
        "scheduling.sigs.k8s.io",
        "the label pod-group.scheduling.sigs.k8s.io",
        "koordinator_pod_groups",
    ),
    "scheduler-plugins": System(
        "scheduler-plugins-scheduler", "scheduling.x-k8s.io", "the label scheduling.x-k8s.io/pod-group"
    ),
    "the Workload API": System(
        DEFAULT_SCHEDULER, "scheduling.k8s.io", "the field schedulingGroup.podGroupName", "pod_groups"
    ),
}
SYSTEM_OF_SCHEDULER: Mapping[str, str] = {system.scheduler: name for name, system in SYSTEMS.items()}
SYSTEM_OF_GROUP: Mapping[str, str] = {system.api_group: name for name, system in SYSTEMS.items()}


def reader_of(system: str) -> str:
    """Returns the scheduler that reads the claims of a system, to be named in a remedy."""
    return SYSTEMS[system].scheduler if system in SYSTEMS else f"the scheduler of {system}"


class GroupName(NamedTuple):
    """A group that a pod or a pod template names: its system, its name, and the mark."""

    system: str
    name: str
    claim: Claim


def group_in_mark(key: str, value: object) -> str | None:
    """Returns the group that a mark names; None if the key is no such mark, or its value no name."""
    if key == "schedulingGroup" and isinstance(value, Mapping):
        value = value.get("podGroupName")
    return value if key in NAMES_OF and isinstance(value, str) and value else None


def groups_in_pod(pod: PodTemplate) -> Iterator[GroupName]:
    for claim in claims_on(pod):
        name = group_in_mark(claim.key, claim.value)
        if name is not None:
            yield GroupName(claim.system, name, claim)


class PodsGang(NamedTuple):
    """A gang that koord-scheduler makes of pods that describe it themselves. It exists once a pod states a readable
    minimum: `written` at `at`, and `minimum` as a number, None if this pod states none.
    """

    name: str
    at: FieldPath
    written: Any
    minimum: int | None


def pods_gang(pod: PodTemplate) -> PodsGang | None:
    """Returns the gang that a pod or a pod template describes itself; None if it names a PodGroup, or no gang.

    Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/util/gang_helper.go.
    """
    name = pod.labels.get(_GANG_LABEL) or pod.annotations.get(KOORDINATOR_GANG)
    if pod.labels.get(_POD_GROUP_LABEL) or not isinstance(name, str) or not name:
        return None
    written, at = pod.labels.get(_GANG_MINIMUM_LABEL), pod.labels_path / _GANG_MINIMUM_LABEL
    if not written:
        written, at = pod.annotations.get(GANG_MINIMUM), pod.annotations_path / GANG_MINIMUM
    return PodsGang(name, at, written, int32(written) if isinstance(written, str) else None)


def scheduler_of(pod: PodTemplate) -> str:
    """Returns the scheduler that a pod or a pod template names, or gets."""
    name = pod.spec.get("schedulerName")
    return name if isinstance(name, str) and name else DEFAULT_SCHEDULER


def claims_on(pod: PodTemplate) -> Iterator[Claim]:
    """Yields every mark of a gang membership on a pod or its template, including Rollcall's own."""
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
