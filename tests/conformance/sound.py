"""A small backend without faults that uses every part of the contract.

Its gang is a Gang that has the queue, and a Part for each PodClique, which names the Gang.
"""

from __future__ import annotations

from collections.abc import Mapping

from webhook.backends.base import Backend, BackendSettings, GangMember, PodChanges
from webhook.errors import Inexpressible
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, unsupported
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, gang_metadata
from webhook.model.grove import LABEL_MANAGED_BY, ClusterTopologyBinding, PodGang
from webhook.model.keys import Api, Record, cut_name, pod_group_name
from webhook.model.projections import Resource
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.topology_tree import DriftReason, NodeLabels, NodeTopology, TopologyDrift
from webhook.validators.examples import pod_clique_set, required
from webhook.validators.registry import Context, Example, Results, rule
from webhook.workloads.pod_clique_set import PodCliqueSet

GROUP = "sound.example.com"
GANG, PART, MAP = (Api(GROUP, "v1", kind) for kind in ("Gang", "Part", "Map"))
TOPOLOGY = (
    Capability.TOPOLOGY_WORKLOAD,
    Capability.TOPOLOGY_SCALING_GROUP,
    Capability.TOPOLOGY_CLIQUE,
    Capability.TOPOLOGY_PREFERRED,
)
WHY, REMEDY = "sound-scheduler places pods anywhere", "remove the topologyConstraint"


class SoundSettings(BackendSettings):
    queue: str = "all"


@rule(
    "sound/topology",
    capability=TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set()),
    fails=Example(pod_clique_set(topologyConstraint=required("rack"))),
)
def topology(workload: PodCliqueSet, context: Context[SoundSettings]) -> Results:
    """A gang with topology would be placed anywhere.

    Source: made up.
    """
    for capability in TOPOLOGY:
        for use in context.uses.get(capability, ()):
            yield Finding(use.path, use.value, WHY, REMEDY)


class SoundBackend(Backend[SoundSettings]):
    name = "sound-scheduler"
    settings_model = SoundSettings
    rules = (topology,)
    required_apis = (GANG, PART)
    gang_heads = (Resource(PART, "parts"),)

    @property
    def capabilities(self) -> CapabilityTable:
        return {Capability.GANG: SUPPORTED, **dict.fromkeys(TOPOLOGY, unsupported(WHY, REMEDY))}

    def prepare_pod(self, member: GangMember) -> PodChanges:
        part, queue = pod_group_name(member.podgang, member.podclique), self.settings.queue
        return PodChanges(self.name, (part, queue), {f"{GROUP}/part": part, f"{GROUP}/queue": queue})

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        constraints = [podgang.constraint, *(config.constraint for config in podgang.group_configs)]
        for constraint in (*constraints, *(member.constraint for member in podgang.members)):
            if found := constraint.required or constraint.preferred:
                raise Inexpressible((Finding(constraint.path, found, WHY, REMEDY, rule="sound/topology"),))
        gang = cut_name(podgang.gang, 253)
        objects = [_object(GANG, gang_metadata(podgang, gang), {"queue": self.settings.queue})]
        for member in podgang.members:
            metadata = gang_metadata(
                podgang, pod_group_name(podgang.gang, member.name), {podgang.member_label: member.name}
            )
            objects.append(_object(PART, metadata, {"gangName": gang, "minMember": member.min_replicas}))
        return objects

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        if desired["spec"].get("minMember") != 0:
            return desired
        recorded = integer(mapping(mapping(live).get("spec")).get("minMember")) or 1
        return {**desired, "spec": {**desired["spec"], "minMember": max(recorded, 1)}}


class MappedBackend(SoundBackend):
    """The same with a Map for each ClusterTopologyBinding, whose keys are immutable, and to which anybody may give a
    title.
    """

    topology_kind = Resource(MAP, "maps", namespaced=False)

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        if self.name in binding.references:
            return []
        owner = {"kind": "ClusterTopologyBinding", "name": binding.name, "uid": binding.uid, "controller": True}
        labels = {LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL}
        metadata = {"name": binding.name, "labels": labels, "ownerReferences": [owner]}
        return [_object(MAP, metadata, {"keys": [level.key for level in binding.levels]})]

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        if desired["kind"] != MAP.kind:
            return super().adopt(desired, live)
        title = text(mapping(mapping(live).get("spec")).get("title"))
        return desired if title is None else {**desired, "spec": {**desired["spec"], "title": title}}

    def topology_must_be_remade(self, desired: Manifest, live: Manifest) -> bool:
        return _keys(desired) != _keys(live)

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        name = binding.references.get(self.name, binding.name)
        if live is None:
            return TopologyDrift(name, DriftReason.NOT_FOUND, f"there is no Map {name}")
        if _keys(live) == [level.key for level in binding.levels]:
            return None
        return TopologyDrift(name, DriftReason.DRIFT, f"Map {name} has other keys than {binding.name}")


class RackedBackend(SoundBackend):
    """The same with a Map for each value of the narrowest level, whose keys are the names of its nodes."""

    topology_kind = Resource(MAP, "maps", namespaced=False)
    topology_binding = "dc"
    topology_from_nodes = True

    def node_topology_objects(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> NodeTopology:
        racks: dict[str, list[str]] = {}
        for node, labels in sorted(nodes.items()):
            racks.setdefault("-".join(labels[level.key or ""] for level in binding.levels), []).append(node)
        owner = {"kind": "ClusterTopologyBinding", "name": binding.name, "uid": binding.uid, "controller": True}
        labels = {LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL}
        made = [
            _object(MAP, {"name": rack, "labels": labels, "ownerReferences": [owner]}, {"keys": members})
            for rack, members in racks.items()
            if rack not in live
        ]
        return NodeTopology(tuple(made), tuple(rack for rack in racks if rack in live))

    def node_topology_drift(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> TopologyDrift | None:
        wanted = {made["metadata"]["name"]: made for made in self.node_topology_objects(binding, nodes, {}).objects}
        same = {name: _keys(made) for name, made in wanted.items()} == {name: _keys(one) for name, one in live.items()}
        return None if same else TopologyDrift(binding.name, DriftReason.DRIFT, "the Maps have other nodes")


def _keys(found: Manifest) -> list[str | None]:
    return [text(key) for key in sequence(mapping(found.get("spec")).get("keys"))]


def _object(api: Api, metadata: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}
