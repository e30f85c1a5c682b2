"""Names and keys: kinds, objects, the record of a workload, the facts that a decision still needs, and the names of
gang objects.

Everything imports this file, and it imports nothing. Pods are stamped and gang objects are written with the same
functions: if the two names differed, a scheduler would hold the pods for a group that never exists.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# (namespace, name)
ObjectKey = tuple[str, str]
# (group, kind)
GroupKind = tuple[str, str]
# The part of the facts about workloads of declared kinds. Its keys are the name of the kind's
# CustomResourceDefinition, namespace and name.
SHAPED_WORKLOADS = "shaped_workloads"


@dataclass(frozen=True, slots=True, order=True)
class Api:
    """A kind that a cluster may serve."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> GroupKind:
        """The kind, whatever its version."""
        return self.group, self.kind

    def __str__(self) -> str:
        return f"{self.group}/{self.version} {self.kind}"


class SharedClaim(NamedTuple):
    """An entry of the `resourceClaims` of a group or a pod: its name, and the ResourceClaim or the template."""

    name: str
    claim: str | None = None
    template: str | None = None

    @property
    def manifest(self) -> dict[str, str]:
        """The entry of a group."""
        fields = {"name": self.name, "resourceClaimName": self.claim, "resourceClaimTemplateName": self.template}
        return {key: value for key, value in fields.items() if value is not None}


class PodsClaim(NamedTuple):
    """A claim that the pods of a template share. `pods`: the end of their PodCliques' names, or a workload's part."""

    pods: str
    shared: SharedClaim


class Scalable(NamedTuple):
    """A clique or a scaling group of a PodCliqueSet, as the author of a scale meets it: its name, the replicas that its
    gang needs, and the most that Kueue admits, None without a limit. A scaling group has `cliques`, each without a
    limit.
    """

    name: str
    minimum: int
    most: int | None = None
    cliques: tuple[Scalable, ...] | None = None


# Nothing changes one. It is not frozen, because one may be made for each pod.
@dataclass(slots=True, unsafe_hash=True)
class Record:
    """What a workload recorded at CREATE, and what else its pods are prepared from. Hashable: it is a cache key.

    `scheduler` is None for a workload that predates Rollcall, or was admitted while Rollcall was down.
    """

    scheduler: str | None
    quota: str | None = None
    # The values under keys that name a queue, for any scheduler: `webhook.model.workload_record.queues_of`.
    queues: tuple[tuple[str, str], ...] = ()
    priority_class: str | None = None
    # The disruption mode that the workload names, and its PodCliques with more pods than their minimum:
    # `webhook.model.capabilities`.
    disruption: str | None = None
    spare: tuple[str, ...] = ()
    # The ResourceClaims that the pods of each group are to share: `webhook.model.pod_template`.
    claims: tuple[PodsClaim, ...] = ()
    # The cliques and scaling groups of a PodCliqueSet. No pod is prepared from them, so the hash leaves them out.
    scalable: tuple[Scalable, ...] = field(default=(), hash=False, repr=False)

    def queue(self, key: str) -> str | None:
        """Returns the queue that the workload names under `key`."""
        return next((queue for name, queue in self.queues if name == key), None)


class Needed(NamedTuple):
    """One fact that a decision needs and a snapshot lacks: the part, and the key in it.

    Without a key the whole part is needed, as `apis` always is. An empty name is a key that no object has. The key of a
    gang object begins with its kind. For `bound_gangs` the key is that of a PodCliqueSet, with the scheduler that its
    pods should be prepared for.
    """

    part: str
    key: ObjectKey | tuple[Any, str, str] | str | None = None

    @property
    def name(self) -> str:
        """The name of the object, without its namespace."""
        return self.key if isinstance(self.key, str) else (self.key or ("",))[-1]

    @property
    def namespace(self) -> str | None:
        """The namespace of the object; None for one of a cluster."""
        return None if self.key is None or isinstance(self.key, str) else self.key[-2]

    def __str__(self) -> str:
        if self.part == SHAPED_WORKLOADS and self.key is not None:
            return f"{self.key[0]} {'/'.join(self.key[1:])}"
        parts = (self.key or ())[:2] if self.part == "bound_gangs" else self.key or ()
        name = self.key if isinstance(self.key, str) else "/".join(map(str, parts))
        return f"{_PARTS.get(self.part, self.part)} {name}".rstrip()


# The names of the parts in messages.
_PARTS = {
    "namespaces": "Namespace",
    "pod_clique_sets": "PodCliqueSet",
    "pod_gangs": "PodGang",
    "pod_gang_maps": "PodGangMap",
    "gang_objects": "gang object",
    "bound_gangs": "bound pods of PodCliqueSet",
    "elastic_quotas": "ElasticQuota",
    "topology_bindings": "ClusterTopologyBinding",
    "network_topologies": "ClusterNetworkTopology",
    "koordinator_pod_groups": "Koordinator PodGroup",
    "priority_classes": "PriorityClass",
    "resource_quotas": "ResourceQuota",
    "limit_ranges": "LimitRange",
    "resource_slices": "ResourceSlice",
    "device_classes": "DeviceClass",
    "resource_claim_templates": "ResourceClaimTemplate",
    "resource_claims": "ResourceClaim",
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
    SHAPED_WORKLOADS: "workloads of declared kinds",
    "group_pods": "Pod",
    "local_queues": "LocalQueue",
    "cluster_queues": "ClusterQueue",
    "cohorts": "Cohort",
    "resource_flavors": "ResourceFlavor",
    "kueue_topologies": "Kueue Topology",
    "admission_checks": "AdmissionCheck",
    "kueue_workloads": "Kueue Workload",
    "nodes": "Node",
    "cluster_autoscaler": "status of the Cluster Autoscaler",
    "machine_deployments": "MachineDeployment",
    "machine_sets": "MachineSet",
    "machine_pools": "MachinePool",
    "node_pools": "NodePool",
    "apis": "list of served APIs",
    "spec_fields": "schemas of served APIs",
}


# Koordinator reads the PodGroup's name from a pod label, and a label value has at most 63 characters.
LABEL_VALUE_LIMIT = 63
_HASH_CHARACTERS = 10
# Parts of a gang object usually have a DNS label as name. Grove's names may contain dots and be longer.
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# RFC 1035: the form of a Service's name.
_SERVICE = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_HASH_CHARACTERS = 20
# RFC 1123 subdomain: the form of most object names.
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
NAME_LIMIT = 253
# The name of a namespace, an RFC 1123 label, as a configuration and its JSON Schema have it.
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
# IsDomainPrefixedPath of k8s.io/apimachinery.
_DOMAIN_AND_PATH = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
# The name of a key of labels or annotations, and the value of a label.
_KEY_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")


def pod_group_name(podgang: str, podgroup: str, limit: int = LABEL_VALUE_LIMIT) -> str:
    """Returns the PodGroup's name for one member of a PodGang: `{podgang}-{podgroup}`, at most `limit` characters.

    Grove names a member after its PodClique, whose name usually starts with the PodGang's name. The prefix is then not
    repeated, nor if the only member has the gang's name. A longer name is cut and ends in ten hex digits of the SHA-256
    of the full name.
    """
    full = podgroup if podgroup == podgang or podgroup.startswith(f"{podgang}-") else f"{podgang}-{podgroup}"
    return cut_name(full, limit)


def cut_name(full: str, limit: int) -> str:
    """Returns `full` if it fits, else its start and a hash of the whole; at most `limit` characters."""
    if len(full) <= limit:
        return full
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{full[: limit - _HASH_CHARACTERS - 1].rstrip('-._')}-{digest}"


def is_subdomain(name: str) -> bool:
    """Returns whether an object can have that name."""
    if len(name) > NAME_LIMIT:
        return False
    # Most names are one word.
    return (name.isascii() and name.isalnum() and name.islower()) or _SUBDOMAIN.fullmatch(name) is not None


def is_domain_prefixed_path(name: str) -> bool:
    """Returns whether it can be the name of a controller: a DNS subdomain, a slash, and a path of any depth."""
    return len(name) <= LABEL_VALUE_LIMIT and _DOMAIN_AND_PATH.fullmatch(name) is not None


def is_label(name: str) -> bool:
    """Returns whether it is a DNS label."""
    return _LABEL.fullmatch(name) is not None


def is_service_name(name: str) -> bool:
    """Returns whether a Service can have that name: a DNS label that begins with a letter."""
    return _SERVICE.fullmatch(name) is not None


def is_key(key: str) -> bool:
    """Returns whether it can be the key of a label or an annotation: a name, perhaps with a DNS subdomain."""
    prefix, slash, name = key.rpartition("/")
    return _KEY_NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


def is_label_value(value: str) -> bool:
    return not value or _KEY_NAME.fullmatch(value) is not None


def label_name(name: str, kind: str, taken: Container[str] = ()) -> str:
    """Returns `name` if it is a DNS label and not in `taken`, else `kind` and a hash of the name."""
    if _LABEL.fullmatch(name) and name not in taken:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_LABEL_HASH_CHARACTERS]
    return f"{kind}-{digest}"
