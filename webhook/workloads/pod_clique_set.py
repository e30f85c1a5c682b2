"""PodCliqueSet: a read view over Grove's workload, with its cliques and scaling groups.

Views keep the received dict and read from it. They copy nothing, and default only what Grove's own defaulting webhook
defaults (grove reference: operator/api/core/v1alpha1/podcliqueset.go,
operator/internal/webhook/admission/pcs/defaulting).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webhook.model import grove
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath, Item
from webhook.model.pod_template import PodTemplate, add_resources, find_request
from webhook.model.reading import Manifest, any_true, integer, mapping, sequence, text

_TEMPLATE = SPEC / "template"
_CLIQUES, _SCALING_GROUPS = _TEMPLATE / "cliques", _TEMPLATE / "podCliqueScalingGroups"
_GPU = frozenset({grove.GPU_RESOURCE})


class Topology(NamedTuple):
    """A topologyConstraint: the domains (level names in the ClusterTopologyBinding) that it requires and prefers."""

    path: FieldPath
    name: str | None
    required: str | None
    preferred: str | None
    required_path: FieldPath

    @property
    def preferred_path(self) -> FieldPath:
        """The path of the preferred domain."""
        return self.path / "pack" / "preferred"


class MnnvlGroup(NamedTuple):
    """The multi-node NVLink group of a clique, and the annotation that names it."""

    path: FieldPath
    value: str


class ScalingGroup:
    """One entry of `spec.template.podCliqueScalingGroups`."""

    __slots__ = ("annotations", "clique_names", "index", "min_available", "name", "raw", "replicas")

    def __init__(self, raw: Mapping[str, Any], index: int) -> None:
        self.raw = raw
        self.index = index
        self.name = text(raw.get("name")) or ""
        self.clique_names = [text(name) or "" for name in sequence(raw.get("cliqueNames"))]
        self.annotations = mapping(raw.get("annotations"))
        replicas, minimum = integer(raw.get("replicas")), integer(raw.get("minAvailable"))
        self.replicas = 1 if replicas is None else replicas
        self.min_available = 1 if minimum is None else minimum

    @property
    def path(self) -> FieldPath:
        return _SCALING_GROUPS / Item(self.index, self.name or None)

    @property
    def topology(self) -> Topology | None:
        """The group's own constraint."""
        return None if self.raw.get("topologyConstraint") is None else _topology(self.raw, self.path)

    @property
    def first_replicas(self) -> int:
        """How many of its replicas are in the PodGang that starts first."""
        return max(min(self.min_available, self.replicas), 0)

    @property
    def further_replicas(self) -> int:
        """How many of its replicas are PodGangs of their own."""
        return max(self.replicas - self.min_available, 0)


class Clique:
    """One entry of `spec.template.cliques`, and its scaling group, if it has one."""

    __slots__ = ("_path", "_template", "group", "index", "min_available", "name", "pod_spec", "raw", "replicas", "spec")

    def __init__(self, raw: Mapping[str, Any], index: int, groups: Mapping[str, ScalingGroup]) -> None:
        """`groups` are the scaling groups of the set, by the names of their cliques."""
        self._path: FieldPath | None = None
        self._template: PodTemplate | None = None
        self.raw = raw
        self.index = index
        self.name = text(raw.get("name")) or ""
        self.group = groups.get(self.name)
        self.spec = mapping(raw.get("spec"))
        self.pod_spec = mapping(self.spec.get("podSpec"))
        # Grove's defaulting: replicas that are 0 or missing become 1; a missing minAvailable becomes the written
        # replicas, which are 0 if missing.
        replicas, minimum = integer(self.spec.get("replicas")), integer(self.spec.get("minAvailable"))
        self.replicas = replicas or 1
        self.min_available = (replicas or 0) if minimum is None else minimum

    @property
    def path(self) -> FieldPath:
        if self._path is None:
            self._path = FieldPath((*_CLIQUES, Item(self.index, self.name or None)))
        return self._path

    @property
    def template(self) -> PodTemplate:
        """The clique's pod template. A clique's labels and annotations are copied to its pods."""
        if self._template is None:
            self._template = PodTemplate(self.raw, self.pod_spec, self)
        return self._template

    @property
    def metadata_path(self) -> FieldPath:
        """The path of its pods' labels and annotations."""
        return self.path

    @property
    def spec_path(self) -> FieldPath:
        return self.path / "spec" / "podSpec"

    @property
    def topology(self) -> Topology | None:
        """The clique's own constraint."""
        return None if self.raw.get("topologyConstraint") is None else _topology(self.raw, self.path)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The clique's annotations."""
        return mapping(self.raw.get("annotations"))

    @property
    def scheduler_name(self) -> str | None:
        """The schedulerName of the clique's pod spec."""
        return text(self.pod_spec.get("schedulerName"))

    def wants_gpu(self) -> bool:
        """Returns whether Grove treats it as a GPU clique."""
        return find_request(self.pod_spec, _GPU) is not None


class Constrained(NamedTuple):
    """A constraint of the set, and the names of the cliques that it covers."""

    topology: Topology
    clique_names: Sequence[str]


class GroupCliques(NamedTuple):
    """A scaling group and the cliques that each of its replicas has."""

    group: ScalingGroup
    cliques: tuple[Clique, ...]


class PodCliqueSet:
    """A PodCliqueSet (grove.io/v1alpha1)."""

    __slots__ = (
        "_mentions",
        "annotations",
        "cliques",
        "labels",
        "name",
        "namespace",
        "raw",
        "replicas",
        "scaling_groups",
        "template",
    )

    kind = "PodCliqueSet"

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        self._mentions: set[str] | None = None
        self.raw = raw
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace or "default"
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        spec = mapping(raw.get("spec"))
        replicas = integer(spec.get("replicas"))
        self.replicas = 0 if replicas is None else replicas
        self.template = mapping(spec.get("template"))
        self.scaling_groups = [
            ScalingGroup(mapping(group), index)
            for index, group in enumerate(sequence(self.template.get("podCliqueScalingGroups")))
        ]
        # Of several groups that name a clique, the first.
        groups = {name: group for group in reversed(self.scaling_groups) for name in group.clique_names}
        self.cliques = [
            Clique(mapping(clique), index, groups)
            for index, clique in enumerate(sequence(self.template.get("cliques")))
        ]

    @property
    def topology(self) -> Topology | None:
        """The constraint on the whole set."""
        return _topology(self.template, _TEMPLATE)

    @property
    def priority_class(self) -> str | None:
        """The set's priority class. Grove copies it to PodGangs but never to pods."""
        return text(self.template.get("priorityClassName"))

    @property
    def migrating(self) -> bool:
        """Whether Grove gives its PodGangs other names at the moment. Raises `Malformed`."""
        return any_true(self.raw, {grove.MIGRATING})

    @property
    def mentions(self) -> set[str]:
        """The names of its labels and annotations, of the fields of its template, cliques and scaling groups, and all
        that the pod templates of its cliques mention. Raises `Malformed`.
        """
        if self._mentions is None:
            mentions = {*self.labels, *self.annotations, *self.template}
            for group in self.scaling_groups:
                mentions.update(group.raw, group.annotations)
            for clique in self.cliques:
                raw, pod_spec = clique.raw, clique.pod_spec
                mentions.update(raw, clique.spec, pod_spec)
                add_resources(pod_spec, mentions)
                if "labels" in raw or "annotations" in raw:
                    mentions.update(mapping(raw.get("labels")), clique.annotations)
            self._mentions = mentions
        return self._mentions

    def pod_templates(self) -> Iterator[PodTemplate]:
        """Yields the pod templates of the set: one per clique."""
        for clique in self.cliques:
            yield clique.template

    def groups_with_cliques(self) -> list[GroupCliques]:
        """Returns its scaling groups with their cliques. One without cliques has no pods and is left out."""
        by_name = {clique.name: clique for clique in self.cliques}
        groups = [
            GroupCliques(group, tuple(by_name[name] for name in group.clique_names if name in by_name))
            for group in self.scaling_groups
        ]
        return [group for group in groups if group.cliques]

    def mnnvl_group(self, clique: Clique) -> MnnvlGroup | None:
        """Returns the group that Grove resolves for a clique: its own annotation, else its scaling group's, else the
        set's.

        The first layer that has the key decides. `none` there ends the search, and an empty value names no group.
        """
        layers = [(clique.annotations, clique.path / "annotations")]
        if clique.group is not None:
            layers.append((clique.group.annotations, clique.group.path / "annotations"))
        layers.append((self.annotations, ANNOTATIONS))
        for layer, path in layers:
            if grove.MNNVL_GROUP in layer:
                value = text(layer[grove.MNNVL_GROUP])
                return None if value in {None, grove.MNNVL_NONE} else MnnvlGroup(path / grove.MNNVL_GROUP, str(value))
        return None

    def effective_topology(self, clique: Clique) -> tuple[str | None, str | None]:
        """Returns the required and the preferred domain for a clique's pods: for each the clique's, else the set's."""
        constraint, whole = clique.topology, self.topology
        required = (constraint and constraint.required) or (whole and whole.required) or None
        preferred = (constraint and constraint.preferred) or (whole and whole.preferred) or None
        return required, preferred

    def constraints(self) -> Iterator[Constrained]:
        """Yields its constraints, from the whole set to single cliques."""
        if self.topology is not None:
            yield Constrained(self.topology, [clique.name for clique in self.cliques])
        for group in self.scaling_groups:
            if group.topology is not None:
                yield Constrained(group.topology, group.clique_names)
        for clique in self.cliques:
            if clique.topology is not None:
                yield Constrained(clique.topology, [clique.name])

    def topology_name(self) -> str | None:
        """Returns the ClusterTopologyBinding that the constraints refer to. Grove lets a set name only one."""
        return next((constraint.topology.name for constraint in self.constraints() if constraint.topology.name), None)


def _topology(holder: Mapping[str, Any], path: FieldPath) -> Topology | None:
    if holder.get("topologyConstraint") is None:
        return None
    constraint = mapping(holder["topologyConstraint"])
    place = path / "topologyConstraint"
    pack = mapping(constraint.get("pack"))
    name, required, preferred = (
        text(constraint.get("topologyName")),
        text(pack.get("required")),
        text(pack.get("preferred")),
    )
    if required is None and (legacy := text(constraint.get("packDomain"))) is not None:
        # The older spelling of pack.required; the API server refuses both together.
        return Topology(place, name, legacy, preferred, place / "packDomain")
    return Topology(place, name, required, preferred, place / "pack" / "required")
