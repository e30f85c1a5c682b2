"""GangSize: how many pods of a declared workload can start together, to judge the PodGroup that its operator writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from webhook.model.fields import FieldPath
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.kinds import GANG_KINDS
from webhook.model.workloads.shapes.shape import Over
from webhook.model.workloads.shapes.workload import ShapedWorkload

# Group, kind, namespace and name of a workload.
WorkloadKey = tuple[str, str, str, str]
# An object of these kinds, which a workload leaves its gang to, has gangs of its own number and size.
_IN_PYTHON = frozenset(resource.api.kind for resource in GANG_KINDS)


class GangSize(NamedTuple):
    """The pods of a workload that are created without waiting for others. `most` is their number, and `later` that of
    the pods which wait for them. The gang needs `needed` of them, None if the shape does not say. With the pods outside
    the gang that come at the same time these are `enough`. `name` is the object that creates them: the workload, or the
    object that has its gang.
    `stated_path` is the field of the workload with the minimum of its operator's PodGroup. `groups` is the number of
    PodGroups that the workload owns.
    """

    name: str
    most: int
    enough: int
    needed: int | None = None
    later: int = 0
    stated_path: FieldPath | None = None
    uid: str | None = None
    groups: int = 1


def gang_size(workload: ShapedWorkload) -> GangSize | None:
    """The gang size of a workload; None if it has no pods now. Raises `Malformed`."""
    if workload.suspended or workload.managed_elsewhere is not None or workload.operator_is_done:
        return None
    first, beside = workload.first_parts(outside=False), workload.first_parts(outside=True)
    pods = sum(part.pods for part in first)
    most = pods + sum(part.pods for part in beside)
    if not pods:
        return None
    needed, enough = _needed(workload), most
    if needed is not None and workload.shape.over is Over.ALL:
        enough = needed + most - pods
    stated_path, stated = workload.operator_minimum
    if stated is not None:
        # The author of the workload has chosen it.
        needed = None if needed is None else min(needed, stated)
        enough = max(enough, stated)
    later = sum(part.pods for part in (*workload.parts, *workload.outside_parts)) - most
    return GangSize(f"{workload.kind} {workload.name}", most, enough, needed, later, stated_path, workload.uid)


def _needed(workload: ShapedWorkload) -> int | None:
    """How many pods the gang needs, or the smallest of its gangs; None if the shape does not say."""
    shape = workload.shape
    on_request = not shape.by_namespace and SCHEDULER_LABEL not in workload.labels
    # A workload with roles has several gangs, each of another size.
    if on_request or shape.over in {Over.NONE, Over.GROUPS} or shape.left_to in _IN_PYTHON:
        return None
    every = [part.needed for part in workload.first_parts(outside=False) if part.needed]
    return min(every, default=None) if shape.over is Over.PART else sum(every)


def gang_sizes(workloads: Iterable[ShapedWorkload], groups: Mapping[WorkloadKey, int]) -> dict[WorkloadKey, GangSize]:
    """The sizes of workloads that own a PodGroup; `groups` is the number of PodGroups of each. A workload that leaves
    its gang to one object that it makes has the size of that object. Raises `Malformed`.
    """
    every = {key_of_workload(one): one for one in workloads}
    made: dict[WorkloadKey, list[ShapedWorkload]] = {}
    for one in every.values():
        if (controller := one.controller) is not None:
            owner = (controller.group, controller.kind, one.namespace, controller.name)
            made.setdefault(owner, []).append(one)
    found: dict[WorkloadKey, GangSize] = {}
    for key, number in groups.items():
        workload = every.get(key)
        if workload is None:
            continue
        left_to = [one for one in made.get(key, ()) if one.resource.api.kind == workload.left_to]
        size = gang_size(left_to[0] if left_to else workload) if len(left_to) <= 1 else None
        if size is not None:
            found[key] = size._replace(uid=workload.uid, groups=number)
    return found


def key_of_workload(workload: ShapedWorkload) -> WorkloadKey:
    """Its group, kind, namespace and name."""
    return (*workload.shape.group_kind, *workload.key)
