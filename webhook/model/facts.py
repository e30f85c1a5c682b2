"""ClusterFacts: what is known of the cluster, as an immutable snapshot of small projections.

Every part may be None: *unknown*, which is not the same as empty. A rule that needs an unknown part yields `Unjudged`;
it neither passes nor refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from webhook.model import known_objects
from webhook.model.fields import KindFields
from webhook.model.gang_objects import GangObjects, map_key
from webhook.model.keys import Api, Needed, ObjectKey, Record
from webhook.model.kueue_objects import AdmissionCheck, ClusterQueue, Cohort, KueueWorkloads, LocalQueue, ResourceFlavor
from webhook.model.node_pods import NodePods, Reservation
from webhook.model.nodes import NodeGrower, Nodes
from webhook.model.pod_gang_map import POD_GANG_MAPS, PodGangMap
from webhook.model.pod_groups import GroupPods, Groups, KoordinatorPodGroups, WorkloadTemplates
from webhook.model.resources import Claim, DeviceClass, NamespaceQuota, ResourceRange, Slice
from webhook.workloads.known_workloads import WorkloadFacts
from webhook.workloads.shaped_workload import GangSize, WorkloadKey


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The snapshot. Cluster-scoped objects are keyed by name, others by (namespace, name). None means unknown."""

    namespaces: Mapping[str, known_objects.Namespace] | None = None
    pod_clique_sets: Mapping[ObjectKey, Record] | None = None
    pod_gangs: Mapping[ObjectKey, known_objects.PodGangFacts] | None = None
    # By the namespace and name of the replica of a PodCliqueSet. None for a Grove that has no PodGangMaps.
    pod_gang_maps: Mapping[ObjectKey, PodGangMap] | None = None
    # Rollcall's gang objects, of every enabled scheduler. Only known in a cluster.
    gang_objects: GangObjects | None = None
    # The kinds of these that the cluster serves and that are not read now.
    unread_gang_kinds: frozenset[Api] | None = None
    # By system (`webhook.model.claims`), namespace and name of a group: how many pods name it in the files that are
    # judged together, None if they do not say. Unknown in a cluster, where pods come after their group.
    group_sizes: Mapping[tuple[str, str, str], int | None] | None = None
    # By system and namespace: the PodGroups that these files define, and whether no pod names it although pods of its
    # scheduler beside it name none.
    file_groups: Mapping[tuple[str, str], Mapping[str, bool]] | None = None
    # By namespace and name: the minimum of a gang that pods in these files describe without a PodGroup; None if they
    # state different ones.
    pods_gangs: Mapping[ObjectKey, int | None] | None = None
    # The sizes of workloads of declared kinds that own a PodGroup, in the files that are judged together.
    gang_sizes: Mapping[WorkloadKey, GangSize] | None = None
    # Pods on nodes, and what Koordinator's Reservations keep, by name. Admission does not read them.
    node_pods: NodePods | None = None
    node_reservations: Mapping[str, Reservation] | None = None
    # The PodGangs that have a pod on a node. In a cluster this is read on demand: see `Needed`.
    bound_gangs: frozenset[ObjectKey] | None = None
    # Koordinator looks a quota up by its name over all namespaces: see `ElasticQuotas`.
    elastic_quotas: Mapping[str, known_objects.Quota] | None = None
    topology_bindings: Mapping[str, known_objects.TopologyBinding] | None = None
    network_topologies: Mapping[str, tuple[known_objects.TopologyLayer, ...]] | None = None
    koordinator_pod_groups: KoordinatorPodGroups | None = None
    priority_classes: Mapping[str, known_objects.PriorityClass] | None = None
    volcano_queues: Mapping[str, known_objects.VolcanoQueue] | None = None
    # HyperNodes by name: the tier of each.
    hyper_nodes: Mapping[str, known_objects.HyperNode] | None = None
    kai_queues: Mapping[str, known_objects.KaiQueue] | None = None
    # KAI's Topologies by name: their node label keys, broadest first.
    kai_topologies: Mapping[str, tuple[str, ...]] | None = None
    # KAI's SchedulingShards by name: the value of the node-pool label that each serves, None for the default one.
    kai_shards: Mapping[str, str | None] | None = None
    kai_pod_groups: known_objects.QueuedGroups | None = None
    volcano_pod_groups: known_objects.QueuedGroups | None = None
    # Of the Workload API, by namespace and name.
    workloads: Mapping[ObjectKey, WorkloadTemplates] | None = None
    pod_groups: Groups | None = None
    composite_pod_groups: Groups | None = None
    # The opted-in workloads, which are those that Rollcall has recorded.
    jobs: Mapping[ObjectKey, WorkloadFacts] | None = None
    job_sets: Mapping[ObjectKey, WorkloadFacts] | None = None
    leader_worker_sets: Mapping[ObjectKey, WorkloadFacts] | None = None
    train_jobs: Mapping[ObjectKey, WorkloadFacts] | None = None
    # Those of declared kinds, by the name of the CustomResourceDefinition, namespace and name.
    shaped_workloads: Mapping[tuple[str, str, str], WorkloadFacts] | None = None
    # What a TrainJob takes its pods from, as it is stored: metadata.name and spec, as a `Packed` or a `Manifest`.
    training_runtimes: Mapping[ObjectKey, Any] | None = None
    cluster_training_runtimes: Mapping[str, Any] | None = None
    # Pods that wait for a node as members of such a group.
    group_pods: GroupPods | None = None
    # What limits the pods of a namespace, by namespace and name.
    resource_quotas: Mapping[ObjectKey, NamespaceQuota] | None = None
    limit_ranges: Mapping[ObjectKey, tuple[ResourceRange, ...]] | None = None
    # Devices, and what requests them. Claims and their templates by namespace and name.
    resource_slices: Mapping[str, Slice] | None = None
    device_classes: Mapping[str, DeviceClass] | None = None
    resource_claim_templates: Mapping[ObjectKey, Claim] | None = None
    resource_claims: Mapping[ObjectKey, Claim] | None = None
    # Of Kueue: LocalQueues and Workloads by namespace and name, the others by name. Of a Topology the node label keys,
    # broadest first.
    local_queues: Mapping[ObjectKey, LocalQueue] | None = None
    cluster_queues: Mapping[str, ClusterQueue] | None = None
    cohorts: Mapping[str, Cohort] | None = None
    resource_flavors: Mapping[str, ResourceFlavor] | None = None
    kueue_topologies: Mapping[str, tuple[str, ...]] | None = None
    admission_checks: Mapping[str, AdmissionCheck] | None = None
    # Only known to what explains gangs. Admission does not read them.
    kueue_workloads: KueueWorkloads | None = None
    nodes: Nodes | None = None
    # What makes nodes, by namespace and name or by name: the status of the Cluster Autoscaler, groups of machines of
    # Cluster API that an autoscaler may scale, and NodePools of Karpenter.
    cluster_autoscaler: Mapping[ObjectKey, NodeGrower] | None = None
    machine_deployments: Mapping[ObjectKey, NodeGrower] | None = None
    machine_sets: Mapping[ObjectKey, NodeGrower] | None = None
    machine_pools: Mapping[ObjectKey, NodeGrower] | None = None
    node_pools: Mapping[str, NodeGrower] | None = None
    apis: frozenset[Api] | None = None
    # The release of Kubernetes that is assumed where `apis` do not show what is built in: "1.37". Only commands assume.
    kubernetes: str | None = None
    # For kinds whose schema is known: the fields of their spec.
    spec_fields: Mapping[Api, frozenset[str]] | None = None
    # The names of all fields of a kind. Only files are judged by them.
    field_names: Mapping[Api, KindFields] | None = None
    # By part that could not be read: how to supply it. Only known where a cluster was read once, by a command.
    unread: Mapping[str, str] | None = None
    # Parts that contain only the objects of one folder. An object missing there may still exist.
    partial: frozenset[str] | None = None
    # By such a part: the namespaces of which it has every object.
    whole_namespaces: Mapping[str, frozenset[str]] | None = None
    # By part, kind, namespace and name: where an object stands, in words. Only known of files of facts.
    origins: Mapping[tuple[str, str, str, str], str] | None = field(default=None, compare=False)

    def is_whole(self, part: str, namespace: str | None = None) -> bool:
        """Returns whether every object of a part, or of it in a namespace, is known: another one does not exist."""
        if getattr(self, part) is None:
            return False
        return part not in (self.partial or ()) or namespace in (self.whole_namespaces or {}).get(part, ())

    def may_exist(self, needed: Needed) -> bool:
        """Returns whether a missing object may exist all the same, because only some of the part is known."""
        is_partial = needed.part in (self.partial or ())
        return is_partial and self.lacks(needed) and not self.is_whole(needed.part, needed.namespace)

    def lacks_field(self, spec_field: known_objects.SpecField) -> bool:
        """Returns whether the cluster is known not to have this field. An unknown field is not missing."""
        names = (self.spec_fields or {}).get(spec_field.api)
        return names is not None and spec_field.name not in names

    def namespace_label(self, namespace: str, key: str) -> str | None:
        """Returns a namespace's label; None if it does not have the label or the namespace is unknown."""
        namespace_facts = (self.namespaces or _NOTHING).get(namespace)
        return namespace_facts.labels.get(key) if namespace_facts is not None else None

    def pod_gang_map(self, namespace: str, labels: Mapping[str, Any]) -> PodGangMap | None:
        """Returns the PodGangMap of an object with Grove's labels; None if it is not known."""
        key = map_key(namespace, labels)
        return None if key is None else (self.pod_gang_maps or {}).get(key)

    @property
    def lacks_pod_gang_maps(self) -> bool:
        """Whether the cluster serves PodGangMaps that are not read."""
        return self.pod_gang_maps is None and POD_GANG_MAPS.resource.api in (self.apis or ())

    def lacks(self, needed: Needed) -> bool:
        """Returns whether no object is known by that key: the part is unknown, or has no such object."""
        entries = getattr(self, needed.part)
        return entries is None or needed.key not in entries

    def learned(self, values: Mapping[Needed, Any]) -> ClusterFacts:
        """Returns these facts with more values, None for an object that does not exist. For a part that was needed as a
        whole, the value is the whole part.
        """
        changed: dict[str, Any] = {}
        one_by_one: dict[str, dict[Any, Any]] = {}
        for needed, value in values.items():
            if needed.key is None or needed.part == "bound_gangs":
                changed[needed.part] = value
            else:
                one_by_one.setdefault(needed.part, {})[needed.key] = value
        for name, entries in one_by_one.items():
            before = changed.get(name, getattr(self, name))
            changed[name] = _changed({} if before is None else before, entries)
        return replace(self, **changed)

    def other_cluster_facts(self) -> ClusterFacts:
        """Returns what is known here about a workload that another cluster runs: its namespace, its runtime, and what
        Kueue holds it by. The queues, topologies and kinds of the other cluster are unknown.
        """
        return replace(NO_FACTS, **{part: getattr(self, part) for part in _OF_OTHER_CLUSTERS})

    def snapshot(self) -> Callable[[], ClusterFacts]:
        """Returns a function that returns an unchanging copy, for a thread that reads while caches are written. This
        method copies the entries at once. The returned function builds the indexes, and any thread may call it.
        """
        copied: dict[str, tuple[type[dict[Any, Any]], dict[Any, Any]]] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, dict):
                copied[part.name] = (type(value), value.copy())

        def build() -> ClusterFacts:
            parts: dict[str, Any] = {name: kind(entries) for name, (kind, entries) in copied.items()}
            return replace(self, **parts)

        return build


def _changed(part: Mapping[Any, Any], entries: Mapping[Any, Any]) -> Any:
    """Returns a part with these entries changed, None for a removed one. Some kinds of part need no copy."""
    overlaid = getattr(part, "overlaid", None)
    if overlaid is not None:
        return overlaid(entries)
    # A copy of the same type: some types keep more than their entries.
    copied: Any = type(part)(part) if isinstance(part, dict) else dict(part)
    for key, value in entries.items():
        if value is None:
            copied.pop(key, None)
        else:
            copied[key] = value
    return copied


_NOTHING: Mapping[str, known_objects.Namespace] = MappingProxyType({})

NO_FACTS = ClusterFacts()
_OF_OTHER_CLUSTERS = (
    "namespaces",
    "train_jobs",
    "training_runtimes",
    "cluster_training_runtimes",
    "local_queues",
    "cluster_queues",
    "partial",
    "whole_namespaces",
)
