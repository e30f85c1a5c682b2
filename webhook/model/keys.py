"""What objects and kinds are called, what a workload recorded, and which fact a decision still needs: small values that
all else refers to, and that refer to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# (namespace, name)
ObjectKey = tuple[str, str]


@dataclass(frozen=True, slots=True, order=True)
class Api:
    """A kind that a cluster may serve."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version} {self.kind}"


@dataclass(frozen=True, slots=True)
class Record:
    """What a workload recorded at CREATE, and what else of it its pods are prepared from. Hashable: it keys a cache.

    `scheduler` is None for a workload that is older than Rollcall, or was admitted while it was down.
    """

    scheduler: str | None
    quota: str | None = None
    # What it says under keys that name a queue, whichever scheduler's: `webhook.model.record.queues_of`.
    queues: tuple[tuple[str, str], ...] = ()
    priority_class: str | None = None

    def queue(self, key: str) -> str | None:
        """The queue that the workload names under `key`."""
        return next((queue for found, queue in self.queues if found == key), None)


class Needed(NamedTuple):
    """One fact that a decision needs and a snapshot lacks: the part, and the key in it.

    Without a key the part is needed as a whole, as `apis` always is; an empty name is a key, of nothing. For
    `bound_gangs` the key is that of a PodCliqueSet.
    """

    part: str
    key: ObjectKey | str | None = None

    @property
    def name(self) -> str:
        """The name of the object, without its namespace."""
        return self.key if isinstance(self.key, str) else (self.key or ("", ""))[1]

    def __str__(self) -> str:
        name = self.key if isinstance(self.key, str) else "/".join(self.key or ())
        return f"{_PARTS.get(self.part, self.part)} {name}".rstrip()


# What the parts are called in messages.
_PARTS = {
    "namespaces": "Namespace",
    "pod_clique_sets": "PodCliqueSet",
    "pod_gangs": "PodGang",
    "bound_gangs": "bound pods of PodCliqueSet",
    "elastic_quotas": "ElasticQuota",
    "topology_bindings": "ClusterTopologyBinding",
    "network_topologies": "ClusterNetworkTopology",
    "koordinator_pod_groups": "Koordinator PodGroup",
    "priority_classes": "PriorityClass",
    "volcano_queues": "Volcano Queue",
    "hyper_nodes": "HyperNode",
    "kai_queues": "KAI Queue",
    "kai_topologies": "KAI Topology",
    "kai_shards": "SchedulingShard",
    "kai_pod_groups": "KAI PodGroup",
    "volcano_pod_groups": "Volcano PodGroup",
    "workloads": "Workload",
    "pod_groups": "PodGroup",
    "composite_pod_groups": "CompositePodGroup",
    "jobs": "Job",
    "job_sets": "JobSet",
    "leader_worker_sets": "LeaderWorkerSet",
    "train_jobs": "TrainJob",
    "training_runtimes": "TrainingRuntime",
    "cluster_training_runtimes": "ClusterTrainingRuntime",
    "group_pods": "Pod",
    "apis": "list of served APIs",
    "spec_fields": "schemas of served APIs",
}
