"""JobSets, LeaderWorkerSets, TrainJobs with their runtimes, and Jobs for the cluster tests, as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.control_plane import Manifest
from tests.e2e.workloads import GPU

Keys = Mapping[str, str]


def pod_template(
    *,
    container: str = "main",
    cpu: str = "1",
    gpu: int = 0,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    **spec: Any,
) -> Manifest:
    """A pod template of one container; other keywords are fields of the pod's spec."""
    resources: Manifest = {"requests": {"cpu": cpu}}
    if gpu:
        resources["limits"] = {GPU: str(gpu)}
    containers = [{"name": container, "image": "registry.example.com/main:1.0", "resources": resources}]
    return {**_metadata(labels=labels, annotations=annotations), "spec": {"containers": containers, **spec}}


def job(
    name: str,
    namespace: str,
    pods: int = 1,
    *,
    completions: int | None = None,
    indexed: bool = True,
    suspend: bool = False,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    **template: Any,
) -> Manifest:
    """A Job of so many pods at a time; other keywords are those of `pod_template`."""
    spec: Manifest = {
        "parallelism": pods,
        "completions": completions or pods,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "backoffLimit": 0,
        "template": pod_template(**{"restartPolicy": "Never", **template}),
    }
    if suspend:
        spec["suspend"] = True
    metadata = _metadata(name, namespace, labels, annotations)
    return {"apiVersion": "batch/v1", "kind": "Job", **metadata, "spec": spec}


def replicated_job(
    name: str,
    pods: int = 1,
    *,
    replicas: int = 1,
    completions: int | None = None,
    depends_on: Keys | None = None,
    group: str | None = None,
    backoff_limit: int = 0,
    job_labels: Keys | None = None,
    job_annotations: Keys | None = None,
    **template: Any,
) -> Manifest:
    """One replicatedJob: `replicas` Jobs of `pods` pods each. `depends_on` is status by name, as `{"driver": "Ready"}`;
    other keywords are those of `pod_template`.
    """
    spec = {"parallelism": pods, "completions": completions or pods, "backoffLimit": backoff_limit}
    made: Manifest = {
        "name": name,
        "replicas": replicas,
        "template": {
            **_metadata(labels=job_labels, annotations=job_annotations),
            "spec": {**spec, "template": pod_template(**template)},
        },
    }
    if depends_on:
        made["dependsOn"] = [{"name": earlier, "status": status} for earlier, status in depends_on.items()]
    if group is not None:
        made["groupName"] = group
    return made


def job_set(
    name: str,
    namespace: str,
    *replicated: Manifest,
    in_order: bool = False,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    **spec: Any,
) -> Manifest:
    """A JobSet; other keywords are fields of its spec."""
    made: Manifest = {"replicatedJobs": list(replicated), **spec}
    if in_order:
        made["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    metadata = _metadata(name, namespace, labels, annotations)
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **metadata, "spec": made}


def leader_worker_set(
    name: str,
    namespace: str,
    *,
    groups: int = 1,
    size: int = 2,
    leader: Manifest | None = None,
    worker: Manifest | None = None,
    leader_ready: bool = False,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    **spec: Any,
) -> Manifest:
    """A LeaderWorkerSet of groups of a leader and `size` - 1 workers; other keywords are fields of its spec."""
    template: Manifest = {"size": size, "workerTemplate": worker or pod_template()}
    if leader is not None:
        template["leaderTemplate"] = leader
    made: Manifest = {"replicas": groups, "leaderWorkerTemplate": template, **spec}
    if leader_ready:
        made["startupPolicy"] = "LeaderReady"
    metadata = _metadata(name, namespace, labels, annotations)
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", **metadata, "spec": made}


def training_runtime(
    name: str,
    *replicated: Manifest,
    namespace: str | None = None,
    nodes: int = 1,
    policy: Manifest | None = None,
    pod_groups: Manifest | None = None,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    **spec: Any,
) -> Manifest:
    """A ClusterTrainingRuntime, or in a namespace a TrainingRuntime; without replicatedJobs one called `node`.

    `policy` is the member of mlPolicy, as `{"torch": {}}`; `pod_groups` the podGroupPolicy, as `{"coscheduling": {}}`;
    labels and annotations go to the JobSet, and so do other keywords, as fields of its spec.
    """
    jobs = list(replicated) or [training_step("node")]
    template = {**_metadata(labels=labels, annotations=annotations), "spec": {"replicatedJobs": jobs, **spec}}
    made: Manifest = {"mlPolicy": {"numNodes": nodes, **(policy or {})}, "template": template}
    if pod_groups is not None:
        made["podGroupPolicy"] = pod_groups
    kind = "TrainingRuntime" if namespace else "ClusterTrainingRuntime"
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, **_metadata(name, namespace), "spec": made}


def training_step(name: str, step: str = "trainer", **fields: Any) -> Manifest:
    """A replicatedJob of a runtime that is one of Trainer's steps; keywords are those of `replicated_job`."""
    container = "node" if step == "trainer" else step
    ancestor = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    return replicated_job(name, **{"container": container, "job_labels": ancestor, **fields})


def train_job(
    name: str,
    namespace: str,
    runtime: str,
    *,
    kind: str = "ClusterTrainingRuntime",
    nodes: int | None = None,
    labels: Keys | None = None,
    annotations: Keys | None = None,
    trainer: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """A TrainJob; other keywords are fields of its spec."""
    made: Manifest = {"runtimeRef": {"name": runtime, "kind": kind}, **spec}
    trained = {**(trainer or {}), **({} if nodes is None else {"numNodes": nodes})}
    if trained:
        made["trainer"] = trained
    metadata = _metadata(name, namespace, labels, annotations)
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **metadata, "spec": made}


def ray_cluster(
    name: str, namespace: str, workers: int, *, labels: Keys | None = None, annotations: Keys | None = None, **spec: Any
) -> Manifest:
    """A RayCluster of a head and one group of workers; other keywords are fields of its spec."""
    group = {"groupName": "workers", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    made: Manifest = {
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": pod_template(container="ray-head")},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": pod_template(container="ray-worker")}],
        **spec,
    }
    metadata = _metadata(name, namespace, labels, annotations)
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", **metadata, "spec": made}


def _metadata(
    name: str | None = None, namespace: str | None = None, labels: Keys | None = None, annotations: Keys | None = None
) -> Manifest:
    """Metadata with what is given, or nothing where nothing is."""
    given = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    metadata = {key: value for key, value in given.items() if value is not None}
    return {"metadata": metadata} if metadata else {}
