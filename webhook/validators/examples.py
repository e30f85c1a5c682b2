"""Builders of the small objects and facts that rules show as passing and failing examples: PodCliqueSets, opted-in
workloads, and nodes with their devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import TopologyBinding, TopologyLayer
from webhook.model.nodes import Nodes, node_of
from webhook.model.reading import Manifest
from webhook.model.resources import Alternative, DeviceClass, DeviceRequest, Slice
from webhook.model.workload_record import SCHEDULER_LABEL

# The uid of an owner that exists.
OWNER_UID = "7c1c5bd2-5d4f-4b0e-9a35-4a6a9d0b1c11"


def pod_clique_set(
    *cliques: Manifest,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    groups: Sequence[Manifest] = (),
    **template: Any,
) -> Manifest:
    """Returns a PodCliqueSet `demo` with these cliques and scaling groups; other keywords go into `spec.template`."""
    metadata: Manifest = {"name": "demo", "namespace": "default"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: Manifest = {"cliques": list(cliques) or [clique("worker")]}
    if groups:
        body["podCliqueScalingGroups"] = list(groups)
    spec = {"replicas": 1, "template": {**body, **template}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


def clique(
    name: str,
    *,
    replicas: int = 2,
    minimum: int | None = None,
    requests: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Manifest:
    """Returns a clique of one container; `pod` goes into its pod spec, other keywords go beside `spec`."""
    container: Manifest = {"name": "main", "image": "example.com/main"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    spec: Manifest = {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container], **(pod or {})}}
    if minimum is not None:
        spec["minAvailable"] = minimum
    return {"name": name, "spec": spec, **fields}


def scaling_group(name: str, *clique_names: str, **fields: Any) -> Manifest:
    """Returns a scaling group over these cliques."""
    return {"name": name, "cliqueNames": list(clique_names), **fields}


def required(domain: str) -> Manifest:
    """Returns a topologyConstraint that requires `domain` of the binding `dc`."""
    return {"topologyName": "dc", "pack": {"required": domain}}


def preferred(domain: str) -> Manifest:
    """Returns a topologyConstraint that prefers `domain` of the binding `dc`."""
    return {"topologyName": "dc", "pack": {"preferred": domain}}


_METADATA = {"name": "demo", "namespace": "default"}


def _metadata(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, scheduler: str | None
) -> Manifest:
    metadata: Manifest = dict(_METADATA)
    recorded = {} if scheduler is None else {SCHEDULER_LABEL: scheduler}
    if all_labels := {**recorded, **(labels or {})}:
        metadata["labels"] = all_labels
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def pod_template(pod: Mapping[str, Any] | None = None, **metadata: Any) -> Manifest:
    """Returns a pod template of one container; `pod` goes into its spec."""
    container = {"name": "node", "image": "example.com/node"}
    body: Manifest = {"spec": {"containers": [container], **(pod or {})}}
    return {"metadata": metadata, **body} if metadata else body


def job(
    *,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    template: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """Returns a Job `demo` of two pods."""
    body = {"parallelism": 2, "completions": 2, "template": template or pod_template(), **spec}
    # A Job whose pods always restart is refused.
    body["template"] = {**body["template"], "spec": {"restartPolicy": "Never", **body["template"].get("spec", {})}}
    metadata = _metadata(labels, annotations, scheduler)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def replicated(
    name: str,
    pods: int = 2,
    *,
    template: Manifest | None = None,
    job: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Manifest:
    """Returns a replicated Job of so many pods. `job` goes into the Job's spec and `metadata` beside that spec; other
    keywords go beside its template.
    """
    spec = {"parallelism": pods, "completions": pods, "template": template or pod_template(), **(job or {})}
    beside = {} if metadata is None else {"metadata": dict(metadata)}
    return {"name": name, "template": {**beside, "spec": spec}, **fields}


def job_set(
    *jobs: Manifest,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """Returns a JobSet `demo` of these replicated Jobs."""
    body = {"replicatedJobs": list(jobs) or [replicated("node")], **spec}
    metadata = _metadata(labels, annotations, scheduler)
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": body}


def leader_worker_set(
    *,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    size: int = 3,
    leader: Manifest | None = None,
    worker: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """Returns a LeaderWorkerSet `demo` of two groups."""
    templates: Manifest = {"size": size, "workerTemplate": worker or pod_template()}
    if leader is not None:
        templates["leaderTemplate"] = leader
    body = {"replicas": 2, "leaderWorkerTemplate": templates, **spec}
    metadata = _metadata(labels, annotations, scheduler)
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return {**kind, "metadata": metadata, "spec": body}


def stateful_set(*, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """Returns a StatefulSet `demo` of three pods, whose kind is declared by a built-in WorkloadShape."""
    body = {"replicas": 3, "selector": {"matchLabels": {"app": "demo"}}, "template": pod_template(), **spec}
    metadata = _metadata(None, None, scheduler)
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": body}


def ray_cluster(
    *,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    minReplicas: int = 2,  # noqa: N803 - a field of its spec, as the keywords of all builders
    **spec: Any,
) -> Manifest:
    """Returns a RayCluster `demo` of a head and two workers, whose kind is declared by a built-in WorkloadShape."""
    workers = {"groupName": "gpu", "replicas": 2, "minReplicas": minReplicas, "maxReplicas": 2}
    body = {
        "headGroupSpec": {"template": pod_template()},
        "workerGroupSpecs": [{**workers, "template": pod_template()}],
        **spec,
    }
    metadata = _metadata(labels, None, scheduler)
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": body}


def volcano_task(name: str, replicas: int, **fields: Any) -> Manifest:
    """Returns a task of a Volcano Job."""
    return {"name": name, "replicas": replicas, "template": pod_template(), **fields}


def volcano_job(*tasks: Manifest, scheduler: str | None = "volcano", **spec: Any) -> Manifest:
    """Returns a Volcano Job `demo` with these tasks, or with one of two pods."""
    body = {"schedulerName": "volcano", "tasks": list(tasks) or [volcano_task("worker", 2)], **spec}
    metadata = _metadata(None, None, scheduler)
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": body}


def disaggregated_set(
    *,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    """Returns a DisaggregatedSet `demo` of two groups to prefill and two to decode, each of two pods."""
    groups = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod_template()}}
    roles = [{"name": name, "spec": groups} for name in ("prefill", "decode")]
    metadata = _metadata(labels, annotations, scheduler)
    kind = {"apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": "DisaggregatedSet"}
    return {**kind, "metadata": metadata, "spec": {"roles": roles}}


def train_job(
    *,
    scheduler: str | None = "koord-scheduler",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    runtime: str = "torch",
    **spec: Any,
) -> Manifest:
    """Returns a TrainJob `demo` of the ClusterTrainingRuntime `torch`."""
    body = {"runtimeRef": {"name": runtime}, **spec}
    metadata = _metadata(labels, annotations, scheduler)
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": body}


def runtimes(
    *jobs: Manifest,
    name: str = "torch",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> ClusterFacts:
    """Returns facts with a ClusterTrainingRuntime of these replicated Jobs. Its labels and annotations become the
    JobSet's; keywords go beside its template.
    """
    template: Manifest = {"spec": {"replicatedJobs": list(jobs) or [replicated("node")]}}
    metadata = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    template["metadata"] = {field: entries for field, entries in metadata.items() if entries}
    raw = {"metadata": {"name": name}, "spec": {"template": template, **spec}}
    return ClusterFacts(cluster_training_runtimes={name: raw})


GPU = "nvidia.com/gpu"
_DRIVER = "gpu.example.com"
_RACK, _HOST = "example.com/rack", "kubernetes.io/hostname"


def node(name: str, gpus: int = 0, labels: Mapping[str, str] | None = None) -> Manifest:
    """Returns a node with so many GPUs."""
    amounts: dict[str, Any] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    if gpus:
        amounts[GPU] = str(gpus)
    metadata = {"name": name, "labels": {_HOST: name, **(labels or {})}}
    return {"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}


def nodes(number: int, gpus: int = 0) -> ClusterFacts:
    """Returns so many equal nodes, and nothing that adds others."""
    return _facts_of_nodes(node(f"node-{index}", gpus) for index in range(1, number + 1))


def racks(number: int, each: int, gpus: int = 0) -> ClusterFacts:
    """Returns so many racks of so many equal nodes, with the objects that Koordinator finds them by."""
    facts = _facts_of_nodes(
        node(f"node-{rack}-{index}", gpus, {_RACK: f"r{rack}"})
        for rack in range(1, number + 1)
        for index in range(1, each + 1)
    )
    layers = (TopologyLayer("rack", None, (_RACK,)), TopologyLayer("NodeTopologyLayer", "rack", ()))
    bindings = {"dc": TopologyBinding({"rack": _RACK})}
    return replace(facts, topology_bindings=bindings, network_topologies={"default": layers})


def devices(number: int, each: int, amount: int) -> ClusterFacts:
    """Returns so many nodes of so many devices of one driver, and a ResourceClaimTemplate `gpus` for some of them."""
    names = [f"node-{index}" for index in range(1, number + 1)]
    return replace(
        nodes(number),
        resource_slices={name: Slice(_DRIVER, name, 1, 1, ((name, each),)) for name in names},
        device_classes={_DRIVER: DeviceClass(_DRIVER)},
        resource_claim_templates={("default", "gpus"): (DeviceRequest("gpu", (Alternative(_DRIVER, amount),)),)},
    )


def _facts_of_nodes(manifests: Iterator[Manifest]) -> ClusterFacts:
    by_name = Nodes()
    for manifest in manifests:
        read = node_of(manifest)
        by_name[read.name] = read
    return ClusterFacts(nodes=by_name)
