"""The pods of a workload of a declared kind as its controllers create them, as far as its WorkloadShape says."""

from __future__ import annotations

from typing import NamedTuple

from webhook.model.reading import Manifest
from webhook.model.workloads.shapes.shape import LABEL_IN_NAME, WORKLOAD, PodShape
from webhook.model.workloads.shapes.workload import ShapedWorkload
from webhook.model.workloads.workload import Part

# Stands for the value of a label that only the controller knows.
VALUE = "value"


class MadeBy(NamedTuple):
    """A controller of a pod: its kind and name as an owner reference has them."""

    api_version: str
    kind: str
    name: str
    uid: str | None = None


def labels_of_pod(workload: ShapedWorkload, part: Part, known_by: PodShape) -> dict[str, str]:
    """The labels that the controllers write on a pod of a part."""
    named = {workload.name_label: workload.name} if workload.name_label else {}
    of_part = {known_by.name_label: part.name} if known_by.name_label else {}
    others = {key: VALUE for link in known_by.chain for key in LABEL_IN_NAME.findall(link.name)}
    return {**named, **dict(known_by.labels), **of_part, **others}


def makers_of_pod(workload: ShapedWorkload, known_by: PodShape) -> list[MadeBy]:
    """The controllers above a pod, nearest first; the last is the workload."""
    made = []
    for link in known_by.chain:
        api = link.resource.api
        name = LABEL_IN_NAME.sub(VALUE, link.name).replace(WORKLOAD, workload.name)
        made.append(MadeBy(f"{api.group}/{api.version}".lstrip("/"), api.kind, name))
    own = workload.reference
    return [*made, MadeBy(own.api_version, own.kind, own.name, own.uid)]


def prefix_of_pod(workload: ShapedWorkload, part: Part) -> Manifest:
    """The generateName of a pod: what follows is chosen by the API server, or by the controller."""
    return {"generateName": f"{workload.name}-{part.name}-" if part.name else f"{workload.name}-"}
