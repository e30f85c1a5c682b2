"""The topology that a gang requires, as its author wrote it: a node label key, and which parts must be in one domain.

A PodCliqueSet names a domain of a ClusterTopologyBinding. The other workloads ask their scheduler directly: KAI by
annotations, kube-scheduler by `spec.scheduling`. Source: kai-scheduler/KAI-Scheduler,
pkg/podgrouper/podgrouper/plugins/{defaultgrouper,jobset} (v0.17.0); k8s.io/api batch/v1 (1.37), JobSet KEP-969, LWS
KEP-666.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath, Item
from webhook.model.known_objects import KaiLevels
from webhook.model.reading import text
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload

KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"


class RequiredLevel(NamedTuple):
    """A level of a topology: all pods of `parts` must be in one domain of it. `parts` are names of cliques; None for
    all. `key` is the node label key, `said` what the author wrote. `inherited` means that a TrainJob says it, and not
    the JobSet that is made of it.
    """

    key: str
    path: FieldPath
    said: str
    parts: frozenset[str] | None = None
    inherited: bool = False

    def covers(self, part: str) -> bool:
        """Whether it is about a part."""
        return self.parts is None or part in self.parts


def levels_of_set(workload: PodCliqueSet, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """The levels that a PodCliqueSet requires, if their ClusterTopologyBinding is known."""
    binding = (facts.topology_bindings or {}).get(workload.topology_name() or "")
    if binding is None:
        return
    for asked in workload.constraints():
        said = asked.topology.required or ""
        if (key := binding.keys.get(said)) is not None:
            yield RequiredLevel(key, asked.topology.required_path, said, frozenset(asked.clique_names))


def levels_for_kai(workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """The level that podgrouper reads from the annotations of a workload. Without the name of a Topology KAI ignores
    it.
    """
    above: Mapping[str, Any] = workload.train_job.annotations if isinstance(workload, MadeJobSet) else {}
    said = {**above, **workload.annotations}
    level, topology = text(said.get(KAI_REQUIRED)), text(said.get(KAI_TOPOLOGY))
    if level is not None and topology is not None:
        known = (facts.kai_topologies or {}).get(topology)
        aliases = known.aliases if isinstance(known, KaiLevels) else {}
        inherited = not workload.annotations.get(KAI_REQUIRED)
        yield RequiredLevel(aliases.get(level, level), ANNOTATIONS / KAI_REQUIRED, level, inherited=inherited)


def levels_of_own_gang(workload: OptedInWorkload) -> Iterator[RequiredLevel]:
    """The level that the workload's own controller writes into its groups of the Workload API."""
    path: FieldPath | None = workload.native_path
    found: Any = workload.spec
    # No rule has checked the types of these fields.
    for field in ("scheduling", "schedulingConstraints", "topology"):
        found = found.get(field) if isinstance(found, Mapping) else None
    for index, one in enumerate(found if isinstance(found, list) else ()):
        key = one.get("key") if isinstance(one, Mapping) else None
        if path is not None and isinstance(key, str):
            yield RequiredLevel(key, path / "schedulingConstraints" / "topology" / Item(index) / "key", key)
