"""The place of a pod in a workload of a declared kind, from its controller and its labels.

On CREATE a pod has no name yet. Anyone can write labels and name a controller, so a gang counts a pod only if the
controllers above it end at the workload (`webhook.gangs.roster`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from webhook.model.keys import SHAPED_WORKLOADS, Needed
from webhook.model.reading import text
from webhook.model.workloads.place import Place
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import OwnerReference
from webhook.model.workloads.shapes.shape import PartShape, WorkloadShape


class Candidate(NamedTuple):
    """A part of a shape whose pods have a controller of a certain kind."""

    shape: WorkloadShape
    part: PartShape


def place_by_shape(pod: Pod, controller: OwnerReference, candidates: Iterable[Candidate]) -> Place | None:
    """The place of a pod with this controller; None if the pod belongs to none of the parts."""
    for shape, part in candidates:
        links = part.pod.chain
        name = links[0].workload_of(controller.name, pod.template.labels) if links else controller.name
        named = _part_of(pod, part)
        if name and named is not None:
            return Place(Needed(SHAPED_WORKLOADS, (shape.crd, pod.namespace, name)), named)
    return None


def place_in_role(pod: Pod, known: Place, shapes: Iterable[WorkloadShape]) -> Place | None:
    """The place of a pod, whose place in its LeaderWorkerSet is `known`, in the workload that made this for a role;
    None if none of the shapes says so. The labels must agree with the name of the LeaderWorkerSet: it begins with the
    workload's and ends with the role.
    """
    made, labels = known.workload.name, pod.template.labels
    for shape in shapes:
        name, role = (text(labels.get(key)) for key in (shape.name_label, shape.role_label))
        if name and role and made.startswith(f"{name}-") and made.removeprefix(name).endswith(f"-{role}"):
            return Place(Needed(SHAPED_WORKLOADS, (shape.crd, pod.namespace, name)), role, known.group, known)
    return None


def _part_of(pod: Pod, part: PartShape) -> str | None:
    """The name of the part, None if the labels of the pod are not those of the part."""
    labels = pod.template.labels
    if any(labels.get(key) != value for key, value in part.pod.labels):
        return None
    return text(labels.get(part.pod.name_label)) if part.pod.name_label else part.name.literal
