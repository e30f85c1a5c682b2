"""The Queues that limit a gang under KAI: its own and every one above it.

A Queue limits GPUs, cpu and memory. What it does not state it does not give, and exactly -1 is no limit. The whole
minimum is held against `limit` in one sum. A gang that is never preempted is held against `quota`, too. GPUs count by
annotations: parts of a GPU by their part, MIG instances by their number of slices, and GPU memory, which is unknown
here, as nothing.

Source: kai-scheduler/KAI-Scheduler v0.16.8, pkg/scheduler/plugins/proportion/{proportion.go,capacity_policy},
pkg/scheduler/api/resource_info/gpu_resource_requirment.go (`GetGpusQuota`), pkg/podgrouper (defaultgrouper).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from webhook.backends.kai.keys import LABEL_PREEMPTIBILITY, NON_PREEMPTIBLE
from webhook.backends.kai.podgrouper import RAY, holders_of
from webhook.backends.kai.settings import KaiSettings
from webhook.backends.queue_tree import leaves, path_of, place_of
from webhook.fit.demand import MOST_TRIED, Counted, allows
from webhook.fit.packing import Ceiling, Ceilings, Role
from webhook.fit.requests import GPU_PARTS, GPUS
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Family, Scope
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath
from webhook.model.findings import shown
from webhook.model.known_objects import KaiQueue
from webhook.model.reading import text
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.workload import OptedInWorkload

_UNKNOWN_QUEUES = "the KAI Queues are unknown"
_NO_QUEUE = "the KAI Queue of the gang is unknown"
_UNKNOWN_LIMITS = "the limits of the KAI Queue {} are unknown"
_MISSING = "the KAI Queue {} above {} is unknown"
_MIG = re.compile(r"nvidia\.com/mig-(\d{1,2})g\.", re.ASCII)
_MILLI = 1000
# The name of a PriorityClass, on a workload or a pod.
_CLASS_LABEL, _RAY_CLASS = "priorityClassName", "ray.io/priority-class-name"
# Under these names a Queue states what it gives. GPUs are kept in thousandths.
_GPU, _PLAIN = "gpu", ("cpu", "memory")
# The amounts of a Queue, with None for no limit.
_Stated = Mapping[str, int | None] | None


def ceilings_of(
    shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts, settings: KaiSettings, queue: str | None = None
) -> Ceilings:
    """Return the queues that limit a gang with these roles. `queue` is that of its PodGroup, where that is known."""
    name = queue or shape.record.queue(settings.queueLabelKey) or settings.defaultQueue
    known = facts.kai_queues
    if name is None or known is None:
        return Ceilings(unknown=(_NO_QUEUE if name is None else _UNKNOWN_QUEUES,))
    found = list(path_of(name, known))
    limits: list[tuple[str, Callable[[KaiQueue], _Stated]]] = [("the KAI Queue", lambda one: one.limit)]
    if _is_never_preempted(shape, facts):
        limits.append(("the quota of the KAI Queue", lambda one: one.quota))
    whole = all(_gpus(role) % _MILLI == 0 for role in roles.values())
    key = settings.queueLabelKey
    at = place_of(shape, [("labels", key)] if shape.opted_in else [("labels", key), ("annotations", key)], LABELS / key)
    ceilings = [
        _ceiling(called, name, one, amounts, at, whole=whole)
        for called, stated in limits
        for one, queue_found in found
        if (amounts := _amounts(stated(queue_found), whole=whole)) is not None
    ]
    unknown = [_UNKNOWN_LIMITS.format(shown(one)) for one, of_queue in found if of_queue.limit is None]
    top = found[-1][1].parent if found else name
    if top and top not in known:
        unknown.append(_UNKNOWN_LIMITS.format(shown(top)) if top == name else _MISSING.format(shown(top), shown(name)))
    if not all(allows(one, shape, roles) for one in ceilings):
        cure = _cure(name, shape, roles, known, settings)
        ceilings = [one._replace(cure=cure) for one in ceilings]
    return Ceilings(tuple(ceilings), tuple(unknown))


def _ceiling(called: str, own: str, name: str, amounts: Mapping[str, int], at: FieldPath, *, whole: bool) -> Ceiling:
    return Ceiling(
        called if name == own else called.replace("KAI", "parent KAI"),
        name,
        amounts,
        Family.QUEUE,
        Scope.EVER,
        at=at,
        counted=_counted(whole=whole),
    )


def _amounts(stated: _Stated, *, whole: bool) -> Mapping[str, int] | None:
    """Return what a queue gives; None if that is unknown. What it does not state is 0."""
    if stated is None:
        return None
    found = {resource: amount for resource in _PLAIN if (amount := stated.get(resource, 0)) is not None}
    if (gpus := stated.get(_GPU, 0)) is not None:
        found |= {GPUS: gpus // _MILLI} if whole else {GPU_PARTS: gpus}
    return found


def _counted(*, whole: bool) -> Counted:
    """Return what one pod counts, with GPUs as whole ones or in thousandths."""

    def counted(role: Role) -> Mapping[str, int]:
        found = {resource: role.pods.request.get(resource, 0) for resource in _PLAIN}
        gpus = _gpus(role)
        return {**found, GPUS: gpus // _MILLI} if whole else {**found, GPU_PARTS: gpus}

    return counted


def _gpus(role: Role) -> int:
    """Return the GPUs that one pod counts, in thousandths."""
    found = role.pods.request.get(GPU_PARTS, 0)
    for resource, amount in role.pods.request.items():
        if profile := _MIG.match(resource):
            found += int(profile[1]) * amount * _MILLI
    return found


def _is_never_preempted(shape: GangShape, facts: ClusterFacts) -> bool:
    """Return whether a gang is surely never preempted: it says so, or says nothing and has such a PriorityClass."""
    stated = text(shape.labels.get(LABEL_PREEMPTIBILITY))
    if stated is not None:
        return stated == "non-preemptible"
    if shape.opted_in is not None:
        return _has_such_class(shape, shape.opted_in.workload, facts)
    found = (facts.priority_classes or {}).get(shape.record.priority_class or "")
    return found is not None and found.value >= NON_PREEMPTIBLE


def _has_such_class(shape: GangShape, workload: OptedInWorkload, facts: ClusterFacts) -> bool:
    """Return whether podgrouper surely finds a class with which a gang is never preempted, whichever pod it reads. It
    takes the first name that is stated: in the label of the workload, in that of the pod, in the pod's spec. If there
    is no such class, it takes one of its configuration. Of Ray it takes the label of Ray, whatever it names.
    """
    above = [holder.labels for holder in holders_of(workload)]
    templates = [member.template for member in shape.members]
    stated = (*above, *(template.labels for template in templates))
    if any(LABEL_PREEMPTIBILITY in labels for labels in stated) or not templates:
        return False
    known = facts.priority_classes or {}
    if workload.resource.api.group == RAY and _RAY_CLASS in workload.labels:
        found = known.get(text(workload.labels[_RAY_CLASS]) or "")
        return found is not None and found.value >= NON_PREEMPTIBLE
    return all(
        (value := _value_of(template, above, facts)) is not None and value >= NON_PREEMPTIBLE for template in templates
    )


def _value_of(template: PodTemplate, above: Iterable[Mapping[str, Any]], facts: ClusterFacts) -> int | None:
    """Return the value of the class that is named first; of the cluster's default class, which the API server writes
    into pods that name none. None if it is not known.
    """
    known = facts.priority_classes or {}
    labels = next((labels for labels in (*above, template.labels) if _CLASS_LABEL in labels), None)
    name = text(template.spec.get("priorityClassName")) if labels is None else text(labels[_CLASS_LABEL]) or ""
    if name is not None:
        return known[name].value if name in known else None
    if not facts.is_whole("priority_classes"):
        return None
    return min((found.value for found in known.values() if found.is_default), default=None)


def _cure(
    name: str, shape: GangShape, roles: Mapping[str, Role], known: Mapping[str, KaiQueue], settings: KaiSettings
) -> str:
    """Return the advice to name another queue of the same node pool that allows the gang, if one is known."""
    pool = known[name].labels.get(settings.nodePoolLabelKey)
    for other in leaves(known)[:MOST_TRIED]:
        if other != name and known[other].labels.get(settings.nodePoolLabelKey) == pool:
            ceilings = list(_every(other, known))
            if None not in ceilings and all(one is not None and allows(one, shape, roles) for one in ceilings):
                return f"name the Queue {shown(other)}, which allows it"
    return ""


def _every(name: str, known: Mapping[str, KaiQueue]) -> Iterator[Ceiling | None]:
    """Yield the limits and quotas of a queue and of all above it; None for one that is unknown."""
    for one, queue in path_of(name, known):
        for stated in (queue.limit, queue.quota):
            amounts = _amounts(stated, whole=False)
            yield None if amounts is None else _ceiling("", name, one, amounts, LABELS, whole=False)
