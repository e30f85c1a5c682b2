"""Capabilities: what a workload may ask of a scheduler, which capabilities it uses at which paths, and how its gangs
may be preempted.

A backend's table says which capabilities the scheduler honours. The rules for unsupported ones run only for workloads
that ask for them. Pods of a gang are preempted each separately or only all together; without a choice of the workload,
it depends on whether the gang needs every pod that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.bounds import is_cut, list_kept
from webhook.model.fields import ANNOTATIONS, METADATA, SPEC, FieldPath
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import mapping, text
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet, ScalingGroup

# On a workload: its choice, which its new gangs follow.
DISRUPTION_LABEL = "rollcall.dev/disruption-mode"
# Stands for the index of a scaling group's replica. No name contains it.
_INDEX = "*"


class Disruption(StrEnum):
    """How pods of a group may be disrupted: each separately, or only all together."""

    SINGLE = "single"
    ALL = "all"

    @property
    def meaning(self) -> str:
        """What preemption does to such a gang."""
        single = "preemption may take single pods of a running gang"
        return "preemption takes all pods of a gang, or none" if self is Disruption.ALL else single


# The choice that depends on the gang.
AUTO = "auto"
CHOICES = (AUTO, *Disruption)


def has_spare_pods(clique: Clique) -> bool:
    """Returns whether a clique has, or may get, more pods than its minimum."""
    return clique.min_available != clique.replicas or bool(clique.spec.get("autoScalingConfig"))


def spare_cliques(workload: PodCliqueSet) -> tuple[str, ...]:
    """Returns the cliques of a set that have spare pods, as the end of their PodCliques' names."""
    return list_kept(tuple(end for end, clique in podclique_ends(workload) if has_spare_pods(clique)))


def needs_every_pod(podgang: PodGang, record: Record) -> bool:
    """Returns whether the minimum of a gang is its size. `record` is the record of its workload."""
    if (
        podgang.elastic
        or is_cut(record.spare)
        or any(member.pods > member.min_replicas > 0 for member in podgang.members)
    ):
        return False
    workload = text(podgang.labels.get(grove.LABEL_PART_OF)) or ""
    patterns = [_podclique(workload, end) for end in record.spare]
    return not any(pattern.fullmatch(member.name) for member in podgang.members for pattern in patterns)


def podclique_ends(workload: PodCliqueSet) -> Iterator[tuple[str, Clique]]:
    """Yields cliques with the end of their PodCliques' names: "worker"; "prefill-*-worker" in a scaling group."""
    for clique in workload.cliques:
        yield (clique.name if clique.group is None else f"{clique.group.name}-{_INDEX}-{clique.name}"), clique


def is_podclique(name: str, workload: str, end: str) -> bool:
    """Returns whether a PodClique is of the clique of a set with this end."""
    return _podclique(workload, end).fullmatch(name) is not None


def _podclique(workload: str, end: str) -> re.Pattern[str]:
    """Returns a pattern of the names of a clique's PodCliques, for any replica of its set and scaling group."""
    index = r"[0-9]+"
    return re.compile(f"{re.escape(workload)}-{index}-{re.escape(end).replace(re.escape(_INDEX), index)}")


_TEMPLATE = SPEC / "template"
_CLIQUES = _TEMPLATE / "cliques"


class Capability(StrEnum):
    """What a workload may ask for."""

    GANG = "gang"
    MULTI_NODE_NVLINK = "multiNodeNVLink"
    RESOURCE_CLAIMS = "resourceClaims"
    TOPOLOGY_WORKLOAD = "topology.workload"
    TOPOLOGY_SCALING_GROUP = "topology.scalingGroup"
    TOPOLOGY_CLIQUE = "topology.clique"
    TOPOLOGY_PREFERRED = "topology.preferred"
    TOPOLOGY_DIVERGENT = "topology.divergentCliques"
    MULTIPLE_POD_GROUPS = "multiplePodGroupsPerGang"
    CLIQUE_MINIMUM = "cliqueMinimum"
    SCALE_GANG = "scaleGang"
    QUEUE = "queue"
    QUOTA = "quota"
    QOS_CLASS = "qosClass"
    PRIORITY_CLASS = "priorityClass"


class Use(NamedTuple):
    """One place where a workload asks for a capability."""

    path: FieldPath
    value: Any


# Koordinator's two keys, by which a workload asks for a quota or a QoS class, whichever scheduler is chosen.
QUOTA_ANNOTATION = "scheduling.grove.io/koordinator-quota"
QUOTA_LABEL = "quota.scheduling.koordinator.sh/name"
QOS_LABEL = "koordinator.sh/qosClass"
# The keys by which a workload names its queue: Grove's annotation for Volcano, and KAI's own, a label first.
VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"
KAI_QUEUE = "kai.scheduler/queue"

# What a set or its cliques mention if they ask for something, besides minimums.
_ASKING = frozenset(
    {
        "topologyConstraint",
        "priorityClassName",
        "resourceClaimTemplates",
        "resourceSharing",
        "resourceClaims",
        grove.AUTO_MNNVL,
        VOLCANO_QUEUE,
        KAI_QUEUE,
        QUOTA_ANNOTATION,
        QUOTA_LABEL,
        QOS_LABEL,
    }
)

Uses = dict[Capability, list[Use]]
# What nearly every set uses. Constants, because looking up a member of an enumeration takes as long as a use.
_GANG, _SCALE_GANG, _SEVERAL_GROUPS = Capability.GANG, Capability.SCALE_GANG, Capability.MULTIPLE_POD_GROUPS


def capabilities_used(workload: PodCliqueSet) -> Uses:
    """Returns the capabilities that `workload` asks for, each with the places that ask; none without a place."""
    uses: Uses = {_GANG: [Use(_CLIQUES, len(workload.cliques))]}
    mentions = workload.mentions
    grouped_nvlink = grove.MNNVL_GROUP in mentions
    asks = not _ASKING.isdisjoint(mentions)
    _several(workload, uses)
    if asks:
        _whole(workload, uses)
    for scaling_group in workload.scaling_groups:
        _group(scaling_group, uses)
    # Several cliques may get the same annotation from their scaling group or set: one place, one use.
    groups: set[FieldPath] = set()
    for clique in workload.cliques:
        if clique.min_available < clique.replicas:
            _add(uses, Capability.CLIQUE_MINIMUM, Use(clique.path / "spec" / "minAvailable", clique.min_available))
        if asks:
            _clique(clique, uses)
        group = workload.mnnvl_group(clique) if grouped_nvlink else None
        if group is not None and group.path not in groups and clique.wants_gpu():
            groups.add(group.path)
            _add(uses, Capability.MULTI_NODE_NVLINK, Use(group.path, group.value))
    if asks and Capability.TOPOLOGY_CLIQUE in uses:
        _divergence(workload, uses)
    return uses


def capabilities_of_pod(pod: PodTemplate) -> Uses:
    """Returns the capabilities that the labels of a single pod ask for."""
    uses: Uses = {}
    for key, capability in ((QUOTA_LABEL, Capability.QUOTA), (QOS_LABEL, Capability.QOS_CLASS)):
        if key in pod.labels:
            uses[capability] = [Use(pod.labels_path / key, pod.labels[key])]
    return uses


def _add(uses: Uses, capability: Capability, use: Use) -> None:
    uses.setdefault(capability, []).append(use)


def _several(workload: PodCliqueSet, uses: Uses) -> None:
    # Each clique is a group of its gang, and each replica in the base gang has its own group.
    if len(workload.cliques) > 1:
        uses[_SEVERAL_GROUPS] = [Use(_CLIQUES, len(workload.cliques))]
        return
    for group in workload.scaling_groups:
        if (replicas := min(group.min_available, group.replicas)) > 1 and workload.cliques:
            uses[_SEVERAL_GROUPS] = [Use(group.path / "minAvailable", replicas)]


def _whole(workload: PodCliqueSet, uses: Uses) -> None:
    template = workload.template
    if workload.annotations.get(grove.AUTO_MNNVL) == grove.AUTO_MNNVL_ENABLED:
        _add(uses, Capability.MULTI_NODE_NVLINK, Use(ANNOTATIONS / grove.AUTO_MNNVL, grove.AUTO_MNNVL_ENABLED))
    if (topology := workload.topology) is not None:
        if topology.required is not None:
            _add(uses, Capability.TOPOLOGY_WORKLOAD, Use(topology.required_path, topology.required))
        if topology.preferred is not None:
            _add(uses, Capability.TOPOLOGY_PREFERRED, Use(topology.preferred_path, topology.preferred))
    if quota := workload.annotations.get(QUOTA_ANNOTATION):
        _add(uses, Capability.QUOTA, Use(ANNOTATIONS / QUOTA_ANNOTATION, quota))
    _queues(workload.labels, METADATA / "labels", workload.annotations, ANNOTATIONS, uses)
    if workload.priority_class is not None:
        _add(uses, Capability.PRIORITY_CLASS, Use(_TEMPLATE / "priorityClassName", workload.priority_class))
    for field in ("resourceClaimTemplates", "resourceSharing"):
        if template.get(field):
            _add(uses, Capability.RESOURCE_CLAIMS, Use(_TEMPLATE / field, template[field]))


def _queues(
    labels: Mapping[str, Any], labels_path: FieldPath, annotations: Mapping[str, Any], path: FieldPath, uses: Uses
) -> None:
    for key, holder, place in (
        (VOLCANO_QUEUE, annotations, path),
        (KAI_QUEUE, labels, labels_path),
        (KAI_QUEUE, annotations, path),
    ):
        if holder and holder.get(key):
            _add(uses, Capability.QUEUE, Use(place / key, holder[key]))


def _group(group: ScalingGroup, uses: Uses) -> None:
    if (topology := group.topology) is not None:
        _add(uses, Capability.TOPOLOGY_SCALING_GROUP, Use(topology.path, topology.required or topology.preferred))
    if group.replicas > group.min_available:
        _add(uses, _SCALE_GANG, Use(group.path / "minAvailable", group.min_available))
    if group.raw.get("resourceSharing"):
        _add(uses, Capability.RESOURCE_CLAIMS, Use(group.path / "resourceSharing", group.raw["resourceSharing"]))


def _clique(clique: Clique, uses: Uses) -> None:
    raw = clique.raw
    if raw.get("topologyConstraint") is not None and (topology := clique.topology) is not None:
        if topology.required is not None:
            _add(uses, Capability.TOPOLOGY_CLIQUE, Use(topology.required_path, topology.required))
        if topology.preferred is not None:
            _add(uses, Capability.TOPOLOGY_PREFERRED, Use(topology.preferred_path, topology.preferred))
    if raw.get("resourceSharing"):
        _add(uses, Capability.RESOURCE_CLAIMS, Use(clique.path / "resourceSharing", raw["resourceSharing"]))
    if clique.pod_spec.get("resourceClaims"):
        place = clique.path / "spec" / "podSpec" / "resourceClaims"
        _add(uses, Capability.RESOURCE_CLAIMS, Use(place, clique.pod_spec["resourceClaims"]))
    labels = mapping(raw.get("labels"))
    if labels or clique.annotations:
        _marks(clique, labels, uses)


def _marks(clique: Clique, labels: Mapping[str, Any], uses: Uses) -> None:
    annotations = clique.annotations
    at_labels, at_annotations = clique.path / "labels", clique.path / "annotations"
    _queues(labels, at_labels, annotations, at_annotations, uses)
    if annotations.get(grove.AUTO_MNNVL) == grove.AUTO_MNNVL_ENABLED:
        _add(uses, Capability.MULTI_NODE_NVLINK, Use(at_annotations / grove.AUTO_MNNVL, grove.AUTO_MNNVL_ENABLED))
    if annotations.get(QUOTA_ANNOTATION):
        _add(uses, Capability.QUOTA, Use(at_annotations / QUOTA_ANNOTATION, annotations[QUOTA_ANNOTATION]))
    if labels.get(QUOTA_LABEL):
        _add(uses, Capability.QUOTA, Use(at_labels / QUOTA_LABEL, labels[QUOTA_LABEL]))
    if QOS_LABEL in labels:
        _add(uses, Capability.QOS_CLASS, Use(at_labels / QOS_LABEL, labels[QOS_LABEL]))


def _divergence(workload: PodCliqueSet, uses: Uses) -> None:
    """Adds the cliques whose required domains differ. Every clique is in the base gang, so all are compared."""
    # By name, so that reordering the cliques moves no finding.
    reference, *others = sorted(workload.cliques, key=lambda clique: clique.name)
    first = workload.effective_topology(reference)[0]
    for clique in others:
        required = workload.effective_topology(clique)[0]
        if required != first:
            topology = clique.topology
            place = clique.path if topology is None else topology.required_path
            _add(uses, Capability.TOPOLOGY_DIVERGENT, Use(place, required))


class Support(NamedTuple):
    """Whether a scheduler honours a capability: always, never, or under the condition that `depends` states in words.

    `why` and `remedy` are the message of the refusal; they are empty if nothing is refused.
    """

    supported: bool
    why: str = ""
    remedy: str = ""
    depends: str = ""


SUPPORTED = Support(supported=True)


def depends(on: str) -> Support:
    """Returns support under a condition that rules check: `on` names the condition."""
    return Support(supported=True, depends=on)


def unsupported(why: str, remedy: str) -> Support:
    """Returns no support, with `why`, and what the user can do."""
    return Support(supported=False, why=why, remedy=remedy)


CapabilityTable = Mapping[Capability, Support]
