"""ClusterFacts: what is known of the cluster, as an immutable snapshot of small projections.

Every part may be None: *unknown*, which is not the same as empty. A rule that needs an unknown part says `Unjudged`; it
neither passes nor refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from webhook.model.gang_groups import KoordinatorPodGroups
from webhook.model.group_pods import GroupPods
from webhook.model.group_tree import Groups, Workload
from webhook.model.keys import Api, Needed, ObjectKey, Record
from webhook.model.known_objects import (
    HyperNode,
    KaiQueue,
    Namespace,
    PodGangFacts,
    PriorityClass,
    QueuedGroups,
    Quota,
    SpecField,
    TopologyBinding,
    TopologyLayer,
    VolcanoQueue,
)
from webhook.model.workloads.facts import Owner


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The snapshot. Cluster-scoped objects go by name, others by (namespace, name); None is unknown."""

    namespaces: Mapping[str, Namespace] | None = None
    pod_clique_sets: Mapping[ObjectKey, Record] | None = None
    pod_gangs: Mapping[ObjectKey, PodGangFacts] | None = None
    # Those PodGangs that have a pod on a node. In a cluster it is read when asked for: see `Needed`.
    bound_gangs: frozenset[ObjectKey] | None = None
    # Koordinator looks a quota up by its name over all namespaces: see `ElasticQuotas`.
    elastic_quotas: Mapping[str, Quota] | None = None
    topology_bindings: Mapping[str, TopologyBinding] | None = None
    network_topologies: Mapping[str, tuple[TopologyLayer, ...]] | None = None
    koordinator_pod_groups: KoordinatorPodGroups | None = None
    priority_classes: Mapping[str, PriorityClass] | None = None
    volcano_queues: Mapping[str, VolcanoQueue] | None = None
    # HyperNodes by name: the tier of each.
    hyper_nodes: Mapping[str, HyperNode] | None = None
    kai_queues: Mapping[str, KaiQueue] | None = None
    # KAI's Topologies by name: their node label keys, broadest first.
    kai_topologies: Mapping[str, tuple[str, ...]] | None = None
    # KAI's SchedulingShards by name: the value of the node-pool label that each serves, None for the default one.
    kai_shards: Mapping[str, str | None] | None = None
    kai_pod_groups: QueuedGroups | None = None
    volcano_pod_groups: QueuedGroups | None = None
    # Of the Workload API, by namespace and name.
    workloads: Mapping[ObjectKey, Workload] | None = None
    pod_groups: Groups | None = None
    composite_pod_groups: Groups | None = None
    # Workloads that are not Grove's: those that Rollcall has recorded.
    jobs: Mapping[ObjectKey, Owner] | None = None
    job_sets: Mapping[ObjectKey, Owner] | None = None
    leader_worker_sets: Mapping[ObjectKey, Owner] | None = None
    train_jobs: Mapping[ObjectKey, Owner] | None = None
    # What a TrainJob takes its pods from, as it is stored: metadata.name and spec, as a `Packed` or a `Manifest`.
    training_runtimes: Mapping[ObjectKey, Any] | None = None
    cluster_training_runtimes: Mapping[str, Any] | None = None
    # Pods that wait for a node as one of such a group.
    group_pods: GroupPods | None = None
    apis: frozenset[Api] | None = None
    # Of kinds whose schema is known: the fields of their spec.
    spec_fields: Mapping[Api, frozenset[str]] | None = None
    # Parts of which only some objects are known, those of one folder: that another is not among them says nothing.
    partial: frozenset[str] | None = None

    def lacks_field(self, wanted: SpecField) -> bool:
        """Whether the cluster is known to have no such field. What is unknown is not lacking."""
        known = (self.spec_fields or {}).get(wanted.api)
        return known is not None and wanted.name not in known

    def namespace_label(self, namespace: str, key: str) -> str | None:
        """A namespace's label, or None where it has none or the namespace is not known."""
        found = (self.namespaces or _NOTHING).get(namespace)
        return found.labels.get(key) if found is not None else None

    def lacks(self, needed: Needed) -> bool:
        """Whether nothing is known by that key."""
        known = getattr(self, needed.part)
        return known is None or needed.key not in known

    def learned(self, found: Mapping[Needed, Any]) -> ClusterFacts:
        """These facts and those `found`: a value for each key, None where there is no such object, and for a part that
        was needed as a whole all of it.
        """
        changed: dict[str, Any] = {}
        one_by_one: dict[str, dict[Any, Any]] = {}
        for needed, value in found.items():
            if needed.key is None or needed.part == "bound_gangs":
                changed[needed.part] = value
            else:
                one_by_one.setdefault(needed.part, {})[needed.key] = value
        for name, entries in one_by_one.items():
            before = changed.get(name, getattr(self, name))
            changed[name] = _changed({} if before is None else before, entries)
        return replace(self, **changed)

    def snapshot(self) -> Callable[[], ClusterFacts]:
        """A copy that stays as it is, for a thread that reads while caches are written. The entries are copied now, at
        once; what is kept beside them for finding them is made when this is called, which any thread may do.
        """
        copied: dict[str, tuple[type[dict[Any, Any]], dict[Any, Any]]] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, dict):
                copied[part.name] = (type(value), dict(value))

        def made() -> ClusterFacts:
            parts: dict[str, Any] = {name: kept(entries) for name, (kept, entries) in copied.items()}
            return replace(self, **parts)

        return made


def _changed(part: Mapping[Any, Any], entries: Mapping[Any, Any]) -> Any:
    """A part with these entries, None for one that is gone. Some kinds of part need no copy for that."""
    overlaid = getattr(part, "overlaid", None)
    if overlaid is not None:
        return overlaid(entries)
    found = _copied(part)
    for key, value in entries.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def _copied(part: Mapping[Any, Any]) -> Any:
    """A part that can be written to, of the same type: some keep more than their entries."""
    return type(part)(part) if isinstance(part, dict) else dict(part)


_NOTHING: Mapping[str, Namespace] = MappingProxyType({})

NOTHING_KNOWN = ClusterFacts()
