"""The topology that a gang requires: which of its parts must be in one domain, of which level.

A PodCliqueSet names a domain of a ClusterTopologyBinding. The other workloads ask their scheduler directly, by
annotations (see `topology_request`) or by `spec.scheduling`. Source: k8s.io/api batch/v1 (1.37), JobSet KEP-969, LWS
KEP-666.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.known_objects import KaiLevels
from webhook.model.reading import text
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.topology_request import (
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    KOORDINATOR_TOPOLOGY,
    VOLCANO_TIER,
    Annotations,
    Holder,
    domains,
    every_place,
    of_jobs,
    of_workload,
)
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload

# The ClusterNetworkTopology that koord-scheduler reads.
_NETWORK_TOPOLOGY = "default"


class RequiredLevel(NamedTuple):
    """A level of a topology: all pods of `parts` must be in one domain of it. `parts` are names of cliques, or of the
    parts of a workload; None for all. `said` is what the author wrote, and `key` the node label key, which Volcano's
    tiers do not have. `inherited` means that a TrainJob says it, and not the JobSet that is made of it.
    """

    said: str
    path: FieldPath
    key: str | None = None
    parts: tuple[str, ...] | None = None
    inherited: bool = False

    @property
    def name(self) -> str:
        """The node label key, else what the author wrote."""
        return self.key or self.said


def levels_of_set(workload: PodCliqueSet, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """The levels that a PodCliqueSet requires, if their ClusterTopologyBinding is known."""
    binding = (facts.topology_bindings or {}).get(workload.topology_name() or "")
    if binding is None:
        return
    for asked in workload.constraints():
        said = asked.topology.required or ""
        if (key := binding.keys.get(said)) is not None:
            yield RequiredLevel(said, asked.topology.required_path, key, tuple(dict.fromkeys(asked.clique_names)))


def levels_for(system: str, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """The levels that the scheduler `system` (as named in `webhook.model.claims`) reads in the annotations of a
    workload.
    """
    if system == "KAI":
        yield from _for_kai(of_workload(workload), facts)
        # Podgrouper reads the templates of a JobSet's Jobs as well, and no pods.
        for part, place in zip(workload.parts, of_jobs(workload), strict=False):
            yield from (found._replace(parts=(part.name,)) for found in _for_kai(place, facts))
        if isinstance(workload, MadeJobSet) and KAI_REQUIRED not in workload.annotations:
            above = of_workload(workload.train_job)
            yield from (found._replace(inherited=True) for found in _for_kai(above, facts))
    elif system in {"Koordinator", "Volcano"}:
        key = KOORDINATOR_TOPOLOGY if system == "Koordinator" else VOLCANO_TIER
        for place in every_place(workload):
            if place.holder is not Holder.JOBS and place.asks(key) and (said := domains(place)[0]) is not None:
                yield RequiredLevel(said, place.path / key, _label_key(said, facts))
                # A gang has one topology.
                return


def levels_of_own_gang(workload: OptedInWorkload) -> Iterator[RequiredLevel]:
    """The levels that the workload's own controller writes into its groups of the Workload API."""
    for block in workload.scheduling_blocks():
        topology: Any = block.spec.get("schedulingConstraints")
        topology = topology.get("topology") if isinstance(topology, Mapping) else None
        for index, constraint in enumerate(topology if isinstance(topology, list) else ()):
            key = constraint.get("key") if isinstance(constraint, Mapping) else None
            if isinstance(key, str):
                path = block.path / "schedulingConstraints" / "topology" / Item(index) / "key"
                yield RequiredLevel(key, path, key, block.parts)


def _for_kai(place: Annotations, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """The level at one place. Without the name of a Topology KAI ignores it."""
    level, topology = text(place.found.get(KAI_REQUIRED)), text(place.found.get(KAI_TOPOLOGY))
    if level is not None and topology is not None:
        known = (facts.kai_topologies or {}).get(topology)
        aliases = known.aliases if isinstance(known, KaiLevels) else {}
        yield RequiredLevel(level, place.path / KAI_REQUIRED, aliases.get(level, level))


def _label_key(layer: str, facts: ClusterFacts) -> str | None:
    """The node label key of a layer of Koordinator's topology."""
    layers = (facts.network_topologies or {}).get(_NETWORK_TOPOLOGY, ())
    return next((one.label_keys[0] for one in layers if one.name == layer and one.label_keys), None)
