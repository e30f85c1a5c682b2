"""The GangShape of a gang that exists, from its PodGang and its stored pods.

A stored pod is what the scheduler sees: no webhook changes it any more. Only a fresh gang has a shape: schedulers count
pods on nodes, and pods that ended, each in its own way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webhook.fit.selectors import OF_ONE_POD
from webhook.fit.shape import GangShape, MemberShape, SubsetShape
from webhook.model import grove
from webhook.model.keys import Record
from webhook.model.reading import Malformed, mapping, sequence, text
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.podtemplate import PodTemplate

# Gates of those who change nothing else of a pod: Grove and Rollcall.
_ADDS_NOTHING = (grove.GATE, "rollcall.dev/gang-sync")
_TOLERATES_ALL = {"operator": "Exists"}
# What decides which nodes have room for a pod.
_OF_PODS = (
    "affinity",
    "hostNetwork",
    "nodeName",
    "nodeSelector",
    "overhead",
    "resourceClaims",
    "resources",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
_OF_CONTAINERS = ("resources", "ports", "restartPolicy")
# KAI reads requests for GPUs from annotations whose keys begin with these.
_OF_REQUESTS = ("gpu-fraction", "gpu-memory", "nvidia.com/mig-")


def shape_of_gang(podgang: PodGang, pods: Mapping[str, Iterable[Pod]], record: Record) -> GangShape | None:
    """Return the shape of a gang with these pods, by the name of their member. Return None if a pod is on a node, has
    ended or is being deleted: the gang is not fresh. Raises `Malformed`.
    """
    known = {member: list(found) for member, found in pods.items()}
    if not all(_is_fresh(pod) for found in known.values() for pod in found):
        return None
    templates = {name: [_ungated(pod.template) for pod in found] for name, found in known.items()}
    return shape_of_templates(podgang, templates, record)


def _ungated(template: PodTemplate) -> PodTemplate:
    """Return a stored pod as its scheduler may see it: who removes a gate may add tolerations, as Kueue does."""
    gates = sequence(template.spec.get("schedulingGates"))
    if all(text(mapping(gate).get("name")) in _ADDS_NOTHING for gate in gates):
        return template
    return template.with_spec({**template.spec, "tolerations": [_TOLERATES_ALL]})


def shape_of_templates(podgang: PodGang, pods: Mapping[str, Sequence[PodTemplate]], record: Record) -> GangShape:
    """Return the shape of a fresh gang with these pods, by the name of their member. A member whose pods differ, or
    that has none, is left out: the others must still fit.
    """
    members, left_out = [], []
    for member in podgang.members:
        found = pods.get(member.name, ())
        if not found or any(kept(found[0]) != kept(other) for other in found[1:]):
            if member.min_replicas > 0:
                left_out.append(f"the pods of {member.name}, which {'differ' if found else 'are missing'}")
            continue
        template = found[0]
        required = member.constraint.required
        at = None if required is None else member.constraint.path / "required"
        members.append(
            MemberShape(
                member.name,
                template.spec_path,
                template,
                max(member.min_replicas, 0),
                len(found),
                required,
                at,
                part=member.name,
            )
        )
    named = {member.name for member in members}
    subsets = [
        SubsetShape(one.name, inside, one.constraint.required, one.constraint.path / "required")
        for one in podgang.group_configs
        if one.constraint.required is not None and (inside := tuple(name for name in one.members if name in named))
    ]
    whole = podgang.constraint.required
    return GangShape(
        podgang.name,
        podgang.namespace,
        tuple(members),
        record,
        tuple(subsets),
        whole,
        None if whole is None else podgang.constraint.path / "required",
        podgang.labels,
        podgang.annotations,
        podgang.topology_name,
        stored=True,
        opted_in=podgang if isinstance(podgang, OptedInGang) else None,
        left_out=tuple(left_out),
    )


def kept(template: PodTemplate) -> str:
    """Return what two pods must have in common to be equal for a scheduler."""
    spec = template.spec
    found: dict[str, Any] = {field: spec.get(field) for field in _OF_PODS if spec.get(field)}
    for field in ("containers", "initContainers"):
        found[field] = [
            [mapping(one).get(of_container) for of_container in _OF_CONTAINERS] for one in sequence(spec.get(field))
        ]
    found["labels"] = {key: value for key, value in template.labels.items() if key not in OF_ONE_POD}
    found["annotations"] = {key: value for key, value in template.annotations.items() if key.startswith(_OF_REQUESTS)}
    return json.dumps(found, sort_keys=True, default=str)


def _is_fresh(pod: Pod) -> bool:
    metadata, status = mapping(pod.raw.get("metadata")), mapping(pod.raw.get("status"))
    try:
        phase, node = text(status.get("phase")), text(pod.template.spec.get("nodeName"))
    except Malformed:
        return False
    return metadata.get("deletionTimestamp") is None and phase in {None, "Pending"} and not node
