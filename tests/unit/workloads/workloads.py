"""Workloads of declared kinds, and pods as their operators create them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.unit.admission.opted_in.worlds import EVERY
from webhook.config.defaults import built_in_kinds
from webhook.config.settings import Settings
from webhook.config.shape_document import read_shape
from webhook.errors import Problem
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import SHAPED_WORKLOADS
from webhook.model.reading import Manifest
from webhook.offline.judgement import kind_of
from webhook.workloads.shaped_workload import ShapedWorkload
from webhook.workloads.workload_shape import WorkloadShape

RECORD = "rollcall.dev/scheduler"
HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "WorkloadShape"}


def template(*, container: str = "node", **metadata: Any) -> Manifest:
    """A pod template of one container."""
    found: Manifest = {"spec": {"containers": [{"name": container, "image": "example.com/node"}]}}
    return {"metadata": metadata, **found} if metadata else found


def workload(api_version: str, kind: str, spec: Mapping[str, Any], scheduler: str | None = None) -> Manifest:
    """A workload `demo`."""
    labels = {} if scheduler is None else {"labels": {RECORD: scheduler}}
    metadata = {"name": "demo", "namespace": "default", **labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": dict(spec)}


def worker_group(name: str = "gpu", **fields: Any) -> Manifest:
    """A worker group of a RayCluster, of two pods."""
    return {"groupName": name, "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "template": template(), **fields}


def ray_cluster(*groups: Manifest, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """A RayCluster."""
    body = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": list(groups) or [worker_group()], **spec}
    return workload("ray.io/v1", "RayCluster", body, scheduler)


def ray_job(*groups: Manifest, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """A RayJob."""
    body = {"rayClusterSpec": ray_cluster(*groups)["spec"], "entrypoint": "python train.py", **spec}
    return workload("ray.io/v1", "RayJob", body, scheduler)


def pytorch_job(
    *, master: int | None = 1, worker: int = 3, scheduler: str | None = "koord-scheduler", **spec: Any
) -> Manifest:
    """A PyTorchJob."""
    replicas = {"Master": master, "Worker": worker}
    pod = template(container="pytorch")
    specs = {name: {"replicas": pods, "template": pod} for name, pods in replicas.items() if pods is not None}
    return workload("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": specs, **spec}, scheduler)


def mpi_job(*, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """An MPIJob of two workers."""
    specs = {"Launcher": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template()}}
    return workload("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": specs, **spec}, scheduler)


def spark_application(*, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """A SparkApplication of three executors."""
    body = {"mode": "cluster", "driver": {"cores": 1}, "executor": {"instances": 3, "cores": 2}, **spec}
    return workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", body, scheduler)


def volcano_job(*, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """A Job of Volcano."""
    body = {"tasks": [{"name": "task", "replicas": 2, "template": template()}], **spec}
    return workload("batch.volcano.sh/v1alpha1", "Job", body, scheduler)


def dynamo_deployment(*, scheduler: str | None = "koord-scheduler", **component: Any) -> Manifest:
    """A DynamoGraphDeployment of one component."""
    spec = {"components": [{"name": "decode", "podTemplate": template(), **component}]}
    return workload("nvidia.com/v1beta1", "DynamoGraphDeployment", spec, scheduler)


def dynamo_service(*, scheduler: str | None = "koord-scheduler", **service: Any) -> Manifest:
    """A DynamoGraphDeployment of one component, as v1alpha1 writes it."""
    return workload("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": {"Decode": service}}, scheduler)


def deployment(*, scheduler: str | None = "koord-scheduler", **spec: Any) -> Manifest:
    """A Deployment of three pods."""
    return workload("apps/v1", "Deployment", {"replicas": 3, "template": template(), **spec}, scheduler)


def disaggregated_set(*, scheduler: str | None = "koord-scheduler", **role: Any) -> Manifest:
    """A DisaggregatedSet of two roles."""
    templates = {"size": 2, "workerTemplate": template()}
    roles = [
        {"name": name, "spec": {"replicas": 1, "leaderWorkerTemplate": templates, **role}}
        for name in ("prefill", "decode")
    ]
    return workload("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet", {"roles": roles}, scheduler)


def view(manifest: Manifest, settings: Settings = EVERY) -> ShapedWorkload:
    """The view of a workload of a declared kind."""
    found = settings.kinds.views[kind_of(manifest)[::2]](manifest)
    assert isinstance(found, ShapedWorkload)
    return found


def known_shaped(*manifests: Manifest, facts: ClusterFacts = NO_FACTS, settings: Settings = EVERY) -> ClusterFacts:
    """Facts with these workloads."""
    entries = dict(facts.shaped_workloads or {})
    for manifest in manifests:
        projection = settings.kinds.projection(*kind_of(manifest)[::2])
        assert projection is not None
        read = projection.read(manifest)
        assert read is not None
        entries[read[0]] = read[1]
    changed: dict[str, Any] = {SHAPED_WORKLOADS: entries}
    return replace(facts, **changed)


def pod_of(manifest: Manifest, labels: Mapping[str, str], controller: Mapping[str, str] | None = None) -> Manifest:
    """A pod with these labels, made by the workload or by another controller for it."""
    named = manifest["metadata"]["name"]
    own = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "name": named}
    reference = {**(controller or own), "uid": "1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{named}-",
            "namespace": "default",
            "labels": {RECORD: "koord-scheduler", **labels},
            "ownerReferences": [reference],
        },
        "spec": {"containers": [{"name": "node", "image": "example.com/node"}], "schedulerName": "default-scheduler"},
    }


def declared(spec: Mapping[str, Any], name: str = "training") -> Manifest:
    """A WorkloadShape."""
    return {**HEAD, "metadata": {"name": name}, "spec": dict(spec)}


def shape_of(document: Manifest) -> WorkloadShape:
    """The shape that a document declares."""
    problems: list[Problem] = []
    found = read_shape(document, "", problems)
    assert found is not None, list(map(str, problems))
    return found


def mistakes_of(document: object) -> list[str]:
    """What is wrong with a document."""
    problems: list[Problem] = []
    assert read_shape(document, "", problems) is None
    return list(map(str, problems))


def with_shapes(*documents: Manifest, settings: Settings = EVERY) -> Settings:
    """Settings that know these kinds, too."""
    return replace(settings, kinds=built_in_kinds().add_declared(map(shape_of, documents)))
