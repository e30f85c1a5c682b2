"""The Workload API's objects as they are written, in its three generations: Workloads, PodGroups, CompositePodGroups,
and the group that a pod says it is of.

Source: k8s.io/api scheduling v1alpha1 (1.35), v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37), core/v1 PodSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.facts import ObjectKey
from webhook.model.group_tree import Disruption, Group, Workload
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, integer, mapping, sequence, text

API_GROUP = "scheduling.k8s.io"
# The generation whose Workloads are the groups themselves; later ones have PodGroups, made from templates.
FIRST = "v1alpha1"


class Membership(NamedTuple):
    """The group that a pod names. In the first generation that is an entry of a Workload, and `replica` tells gangs of
    one entry apart.
    """

    group: str
    workload: str | None = None
    replica: str | None = None


def read_workload(raw: Manifest) -> tuple[ObjectKey, Workload]:
    """A Workload of any generation. Raises `Malformed`."""
    spec = mapping(raw.get("spec"))
    return key_of(raw), Workload({name: template for name, template in _templates(spec) if name})


def read_pod_group(raw: Manifest) -> tuple[ObjectKey, Group]:
    """A PodGroup of 1.36 or later. Raises `Malformed`."""
    return key_of(raw), _stored(mapping(raw.get("spec")), composite=False)


def read_composite_pod_group(raw: Manifest) -> tuple[ObjectKey, Group]:
    """A CompositePodGroup. Raises `Malformed`."""
    return key_of(raw), _stored(mapping(raw.get("spec")), composite=True)


def membership_of(spec: Mapping[str, Any]) -> Membership | None:
    """The group that a pod's spec names, None for one without. Raises `Malformed`."""
    group = text(mapping(spec.get("schedulingGroup")).get("podGroupName"))
    if group is not None:
        return Membership(group)
    reference = mapping(spec.get("workloadRef"))
    group, workload = text(reference.get("podGroup")), text(reference.get("name"))
    if group is None or workload is None:
        return None
    return Membership(group, workload, text(reference.get("podGroupReplicaKey")))


def _stored(spec: Mapping[str, Any], *, composite: bool) -> Group:
    # 1.36 names its template one level further down.
    reference = mapping(spec.get("workloadRef")) or mapping(mapping(spec.get("podGroupTemplateRef")).get("workload"))
    template = text(reference.get("templateName")) or text(reference.get("podGroupTemplateName"))
    parent = text(spec.get("parentCompositePodGroupName"))
    return _group(spec, composite=composite, parent=parent, workload=text(reference.get("workloadName")), made=template)


def _templates(spec: Mapping[str, Any]) -> Iterator[tuple[str, Group]]:
    """Every template of a Workload by its name, each after the one above it."""
    for entry in sequence(spec.get("podGroups")):
        yield text(mapping(entry).get("name")) or "", _group(mapping(entry), composite=False)
    # Not by recursion: a file may be nested deeper than any API server takes.
    waiting: list[tuple[Mapping[str, Any], str | None]] = [(spec, None)]
    while waiting:
        holder, parent = waiting.pop()
        for entry in sequence(holder.get("podGroupTemplates")):
            yield text(mapping(entry).get("name")) or "", _group(mapping(entry), composite=False, parent=parent)
        for entry in sequence(holder.get("compositePodGroupTemplates")):
            name = text(mapping(entry).get("name")) or ""
            yield name, _group(mapping(entry), composite=True, parent=parent)
            waiting.append((mapping(entry), name))


def _group(
    spec: Mapping[str, Any],
    *,
    composite: bool,
    parent: str | None = None,
    workload: str | None = None,
    made: str | None = None,
) -> Group:
    policy = mapping(spec.get("schedulingPolicy")) or mapping(spec.get("policy"))
    gang = policy.get("gang")
    counted = mapping(gang).get("minGroupCount" if composite else "minCount")
    levels = sequence(mapping(spec.get("schedulingConstraints")).get("topology"))
    return Group(
        composite=composite,
        minimum=None if gang is None else integer(counted) or 0,
        parent=parent,
        workload=workload,
        template=made,
        disruption=_disruption(spec.get("disruptionMode")),
        topology=text(mapping(levels[0]).get("key")) if levels else None,
        priority_class=text(spec.get("priorityClassName")),
        priority=integer(spec.get("priority")),
    )


def _disruption(mode: object) -> Disruption:
    """A word in 1.36, a union of empty objects since."""
    if isinstance(mode, str):
        return Disruption.ALL if mode == "PodGroup" else Disruption.SINGLE
    return Disruption.ALL if mapping(mode).get("all") is not None else Disruption.SINGLE
