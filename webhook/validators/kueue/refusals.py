"""Rules about what Kueue's webhooks refuse in a workload or a pod: its keys, its fields, and the sizes of its pod sets.

No webhook sees a file. Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework, pkg/controller/jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.any_object import AnyObject
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.go_values import int32, int64
from webhook.model.kueue import holding, keys
from webhook.model.kueue.holding import PodSet, is_installed
from webhook.model.naming import is_domain_prefixed_path, is_subdomain
from webhook.model.workloads.job import parallelism, pods_at_once
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.readiness import QUEUED
from webhook.validators.kueue.template_keys import topology_faults
from webhook.validators.opted_in_examples import job, pod_template
from webhook.validators.registry import Context, Example, Results, Subject, rule

_JOB, _POD = ("batch", "Job"), ("", "Pod")
_RAY_CLUSTER, _RAY_JOB, _RAY_SERVICE = ("ray.io", "RayCluster"), ("ray.io", "RayJob"), ("ray.io", "RayService")
_SPARK = ("sparkoperator.k8s.io", "SparkApplication")
_JOB_SET, _LEADER_WORKER_SET = ("jobset.x-k8s.io", "JobSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
# Kueue holds the pods of these kinds instead of the objects.
_STATEFUL_SET = ("apps", "StatefulSet")
_SERVING = frozenset({("apps", "Deployment"), _STATEFUL_SET, _LEADER_WORKER_SET})
_RUNNING = frozenset(
    {
        _JOB,
        _POD,
        _SPARK,
        _RAY_SERVICE,
        _JOB_SET,
        ("trainer.kubeflow.org", "TrainJob"),
        ("workload.codeflare.dev", "AppWrapper"),
        *keys.OPERATOR_FRAMEWORKS,
    }
)
_ELASTIC = frozenset({_JOB, _RAY_CLUSTER, _RAY_JOB, _RAY_SERVICE})
_NOT_PREBUILT = frozenset({_SPARK, ("kubeflow.org", "JAXJob")})
# The field with the cluster of each kind of KubeRay; None for the kind itself.
_RAY_CLUSTERS = {_RAY_CLUSTER: None, _RAY_JOB: "rayClusterSpec", _RAY_SERVICE: "rayClusterConfig"}
_HEAD, _MOST_POD_SETS = "head", 18
_AS_NAME = "use lowercase letters, digits, dashes and dots"


@rule(
    "kueue/refused",
    subject=Subject.MANIFEST,
    passes=Example(job(labels=QUEUED, annotations={keys.MIN_PARALLELISM: "1"})),
    fails=Example(job(labels=QUEUED, annotations={keys.MIN_PARALLELISM: "few"})),
)
def refused(manifest: AnyObject, context: Context[Any]) -> Results:
    """Kueue's webhooks refuse labels and annotations that they cannot read, a pod of a group without the group's number
    of pods, and workloads of Ray and Spark that they cannot stop. No webhook sees a file.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/validation.go, pkg/util/webhook,
    pkg/controller/jobs/{job,pod,raycluster,rayjob,sparkapplication}.
    """
    kind = manifest.kind[::2]
    if is_installed(context.facts) is False or (kind == _STATEFUL_SET and manifest.is_controlled):
        # A StatefulSet of a LeaderWorkerSet is held through it.
        return
    spec = _object(manifest.raw.get("spec"))
    if kind not in _SERVING | _RUNNING or (kind == _RAY_JOB and spec.get("clusterSelector") and _has_queue(manifest)):
        if kind == _RAY_JOB and spec.get("rayClusterSpec") is not None:
            why = "Kueue refuses a RayJob in a queue that has a cluster and selects another"
            yield Finding(SPEC / "clusterSelector", next(iter(spec["clusterSelector"]), None), why, "remove it")
        return
    yield from _queue_faults(manifest)
    yield from _gates(manifest)
    if kind in _RUNNING:
        yield from _running_faults(manifest)
    if kind not in _ELASTIC and manifest.annotations.get(keys.ELASTIC_JOB) == "true":
        why = f"Kueue refuses an elastic {manifest.kind.kind}"
        yield Finding(ANNOTATIONS / keys.ELASTIC_JOB, "true", why, "remove it", at_most=Action.WARN)
    if kind == _JOB and all(type(spec.get(field)) in {int, type(None)} for field in ("parallelism", "completions")):
        yield from _job_faults(manifest, spec)
    elif kind == _POD:
        yield from _pod_faults(manifest)
    elif kind in _RAY_CLUSTERS and _has_queue(manifest):
        yield from _ray_faults(manifest, spec)
    elif kind == _SPARK and _has_queue(manifest):
        yield from _spark_faults(manifest, spec)


def _has_queue(manifest: AnyObject) -> bool:
    return bool(manifest.labels.get(keys.QUEUE_NAME))


def _unfit_name(path: FieldPath, holder: Mapping[str, Any], key: str, what: str) -> Results:
    name = holder.get(key)
    # The API server refuses other values than strings.
    if isinstance(name, str) and not is_subdomain(name):
        yield Finding(path / key, name, f"no {what} can have this name, so Kueue refuses it", _AS_NAME)


def _queue_faults(manifest: AnyObject) -> Results:
    yield from _unfit_name(LABELS, manifest.labels, keys.QUEUE_NAME, "LocalQueue")


def _running_faults(manifest: AnyObject) -> Results:
    by_annotation = bool(manifest.annotations.get(keys.PREBUILT_WORKLOAD))
    path, holder = (ANNOTATIONS, manifest.annotations) if by_annotation else (LABELS, manifest.labels)
    if manifest.kind[::2] in _NOT_PREBUILT and holder.get(keys.PREBUILT_WORKLOAD):
        why = f"Kueue refuses a {manifest.kind.kind} with a Workload that was made before"
        yield Finding(path / keys.PREBUILT_WORKLOAD, holder[keys.PREBUILT_WORKLOAD], why, "remove it")
    else:
        yield from _unfit_name(path, holder, keys.PREBUILT_WORKLOAD, "Workload")
    seconds = manifest.labels.get(keys.MAX_EXECUTION_TIME)
    if isinstance(seconds, str) and not (int64(seconds) or 0) > 0:
        why = "Kueue refuses a time that is no whole number of seconds above 0"
        yield Finding(LABELS / keys.MAX_EXECUTION_TIME, seconds, why, "write a number in quotes")


def _gates(manifest: AnyObject) -> Results:
    written = manifest.annotations.get(keys.ADMISSION_GATED_BY)
    if not isinstance(written, str) or not written.strip():
        return
    gates = [gate.strip() for gate in written.split(",")]
    if len(set(gates)) < len(gates) or not all(is_domain_prefixed_path(gate) for gate in gates):
        yield Finding(
            ANNOTATIONS / keys.ADMISSION_GATED_BY,
            written,
            "Kueue refuses gates that are no list of different DOMAIN/NAME",
            "write each once, with commas between them",
            at_most=Action.WARN,
        )


def _job_faults(manifest: AnyObject, spec: Mapping[str, Any]) -> Results:
    annotations = manifest.annotations
    least, at = annotations.get(keys.MIN_PARALLELISM), ANNOTATIONS / keys.MIN_PARALLELISM
    if isinstance(least, str):
        pods = pods_at_once(spec)
        if not 0 < (int64(least) or 0) < pods:
            why = f"Kueue refuses a number that is not between 0 and {pods}, the pods of the Job"
            yield Finding(at, least, why, "write one below parallelism, or remove it")
        if annotations.get(keys.ELASTIC_JOB) == "true":
            yield Finding(at, least, "Kueue refuses it in an elastic Job", "keep one of the two", at_most=Action.WARN)
    in_step, at = annotations.get(keys.COMPLETIONS_IN_STEP), ANNOTATIONS / keys.COMPLETIONS_IN_STEP
    if isinstance(in_step, str) and not keys.is_bool(in_step):
        yield Finding(at, in_step, "Kueue refuses a value that is neither true nor false", 'write "true", or remove it')
    elif keys.parse_bool(in_step):
        if spec.get("completionMode") in {None, "NonIndexed"}:
            yield Finding(at, in_step, "Kueue refuses it in a Job that is not Indexed", "set completionMode: Indexed")
        completions = spec.get("completions")
        if parallelism(spec) != (1 if completions is None else completions):
            why = f"Kueue refuses completions other than parallelism beside {keys.COMPLETIONS_IN_STEP}"
            yield Finding(SPEC / "completions", completions, why, "set the same number")
    if annotations.get(keys.ELASTIC_JOB) == "true":
        template = manifest.templates[0] if manifest.templates else None
        for key in (keys.REQUIRED_TOPOLOGY, keys.PREFERRED_TOPOLOGY):
            if template is not None and key in template.annotations:
                why = "Kueue refuses this topology in an elastic Job"
                path = template.annotations_path / key
                yield Finding(path, template.annotations[key], why, "remove one of the two", at_most=Action.WARN)


def _pod_faults(manifest: AnyObject) -> Results:
    labels, annotations = manifest.labels, manifest.annotations
    if labels.get(keys.MANAGED, "true") != "true":
        why = "Kueue refuses another value than true"
        yield Finding(LABELS / keys.MANAGED, labels[keys.MANAGED], why, "remove it: Kueue sets it")
    by_annotation = bool(annotations.get(keys.POD_GROUP_NAME))
    path, holder = (ANNOTATIONS, annotations) if by_annotation else (LABELS, labels)
    group, total = holder.get(keys.POD_GROUP_NAME), annotations.get(keys.POD_GROUP_TOTAL_COUNT)
    at = ANNOTATIONS / keys.POD_GROUP_TOTAL_COUNT
    if not group:
        if keys.POD_GROUP_TOTAL_COUNT in annotations:
            yield Finding(at, total, "Kueue refuses it without the name of a group", f"add {keys.POD_GROUP_NAME}")
        return
    yield from _unfit_name(path, holder, keys.POD_GROUP_NAME, "Workload")
    if total is None:
        yield Finding(at, None, "Kueue refuses a pod of a group without the group's number of pods", "add it")
    elif isinstance(total, str) and not (int64(total) or 0) > 0:
        yield Finding(at, total, "Kueue refuses a group whose number of pods is not above 0", "write it in quotes")
    prebuilt = annotations.get(keys.PREBUILT_WORKLOAD) or labels.get(keys.PREBUILT_WORKLOAD)
    if prebuilt and prebuilt != group:
        path = ANNOTATIONS if annotations.get(keys.PREBUILT_WORKLOAD) else LABELS
        why = "Kueue refuses a Workload that is not called as the pod group"
        yield Finding(path / keys.PREBUILT_WORKLOAD, prebuilt, why, "remove one of the two")


def _ray_faults(manifest: AnyObject, spec: Mapping[str, Any]) -> Results:
    kind = manifest.kind[::2]
    field = _RAY_CLUSTERS[kind]
    path, cluster = (SPEC, spec) if field is None else (SPEC / field, _object(spec.get(field)))
    if kind == _RAY_JOB and spec.get("shutdownAfterJobFinishes") is not True:
        why = "Kueue refuses a RayJob that keeps its cluster, which would keep its quota"
        yield Finding(SPEC / "shutdownAfterJobFinishes", spec.get("shutdownAfterJobFinishes"), why, "set true")
    if cluster.get("enableInTreeAutoscaling") is True and manifest.annotations.get(keys.ELASTIC_JOB) != "true":
        why = "Kueue refuses a cluster that changes its size"
        remedy = f"remove it, or annotate the {manifest.kind.kind} with {keys.ELASTIC_JOB}"
        yield Finding(path / "enableInTreeAutoscaling", True, why, remedy)
    groups = cluster.get("workerGroupSpecs")
    groups = groups if isinstance(groups, list) else []
    if len(groups) + 1 > _MOST_POD_SETS:
        # Before v0.19 there may be fewer.
        why = f"Kueue refuses more than {_MOST_POD_SETS - 1} worker groups"
        yield Finding(path / "workerGroupSpecs", len(groups), why, "merge some")
    for index, group in enumerate(groups):
        if _object(group).get("groupName") == _HEAD:
            at = path / "workerGroupSpecs" / Item(index) / "groupName"
            yield Finding(at, _HEAD, "Kueue refuses a worker group with the name of the head's", "rename it")


def _spark_faults(manifest: AnyObject, spec: Mapping[str, Any]) -> Results:
    if spec.get("mode") not in {None, "cluster"}:
        why = "Kueue refuses another mode than cluster"
        yield Finding(SPEC / "mode", spec["mode"], why, "set cluster", at_most=Action.WARN)
    if _object(spec.get("dynamicAllocation")).get("enabled") is True:
        # Kueue refuses an elastic SparkApplication as well.
        why = "Kueue refuses an application that changes its size"
        yield Finding(SPEC / "dynamicAllocation" / "enabled", True, why, "remove it", at_most=Action.WARN)


# --- pod sets

_PAIR = 2
_GROUPING = frozenset({_JOB_SET, _LEADER_WORKER_SET, _RAY_CLUSTER, _RAY_JOB, ("kubeflow.org", "MPIJob")})


@rule(
    "kueue/pod-sets",
    looks_at=(keys.SLICE_SIZE, keys.SLICE_CONSTRAINTS, keys.PODSET_GROUP_NAME),
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(labels=QUEUED, template=pod_template(annotations={keys.SLICE_SIZE: "2"}))),
    fails=Example(job(labels=QUEUED, template=pod_template(annotations={keys.SLICE_SIZE: "64"}))),
)
def pod_sets(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue's webhooks refuse slices that are larger than the pod set, and a pod set group of two topologies, or of
    which no pod set is a single pod. For a TrainJob, they read the pods that its runtime makes.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/tas_validation.go
    (`ValidateSliceSizeAnnotationUpperBound`, `ValidatePodSetGroupingTopology`), pkg/controller/jobs.
    """
    api = workload.resource.api
    kind = (api.group, api.kind)
    if kind not in _RUNNING | _SERVING or is_installed(context.facts) is False:
        return
    every = holding.pod_sets(workload)
    for pods in every:
        if isinstance(workload, MadeJobSet):
            yield from topology_faults(pods.template)
        yield from _too_large(pods)
    if kind in _GROUPING and not isinstance(workload, MadeJobSet):
        yield from _groups(workload, every)


def _too_large(pods: PodSet) -> Results:
    for key, size in _slice_sizes(pods.template.annotations):
        if size > pods.count:
            at, written = pods.template.annotations_path / key, pods.template.annotations[key]
            why = f"Kueue refuses slices of {size} pods: the pod set {pods.name} has {pods.count}"
            yield Finding(at, written, why, "lower the size, or remove the slices")


def _slice_sizes(annotations: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The sizes of the largest slices that annotations state, each with its key."""
    written = annotations.get(keys.SLICE_SIZE)
    if isinstance(written, str) and (size := int32(written)) is not None:
        yield keys.SLICE_SIZE, size
    layers: Any = None
    try:
        layers = json.loads(annotations.get(keys.SLICE_CONSTRAINTS) or "null")
    except (TypeError, ValueError, RecursionError):
        return
    first = layers[0] if isinstance(layers, list) and layers else None
    if isinstance(first, dict) and type(first.get("size")) is int:
        yield keys.SLICE_CONSTRAINTS, first["size"]


class _Member(NamedTuple):
    """A pod set that may be in a group."""

    annotations: Mapping[str, Any]
    path: FieldPath
    is_one_pod: bool


def _members(workload: OptedInWorkload, every: Iterable[PodSet]) -> Iterator[_Member]:
    """The pod sets of a workload. A LeaderWorkerSet without workers has a pod set of none, and an MPIJob's launcher is
    perhaps not in its gang. Leaders and launchers are one pod.
    """
    groups, replicas = workload.spec.get("leaderWorkerTemplate"), workload.spec.get("mpiReplicaSpecs")
    if isinstance(groups, dict):
        at = SPEC / "leaderWorkerTemplate"
        templates = [(at / field, groups.get(field)) for field in ("leaderTemplate", "workerTemplate")]
    elif isinstance(replicas, dict):
        at = SPEC / "mpiReplicaSpecs"
        templates = [(at / role / "template", _object(replica).get("template")) for role, replica in replicas.items()]
    else:
        for pods in every:
            yield _Member(pods.template.annotations, pods.template.annotations_path, pods.count == 1)
        return
    for path, template in templates:
        annotations = _object(_object(_object(template).get("metadata")).get("annotations"))
        yield _Member(annotations, path / "metadata" / "annotations", is_one_pod=True)


def _groups(workload: OptedInWorkload, every: Iterable[PodSet]) -> Results:
    groups: dict[str, list[_Member]] = {}
    for member in _members(workload, every):
        name = member.annotations.get(keys.PODSET_GROUP_NAME)
        if isinstance(name, str):
            groups.setdefault(name, []).append(member)
    for name, members in groups.items():
        if len(members) != _PAIR:
            why = f"Kueue refuses a pod set group of {len(members)}: it has two pod sets"
        elif not any(member.is_one_pod for member in members):
            why = "Kueue refuses a pod set group without a pod set of one pod"
        elif len({_topology(member.annotations) for member in members}) > 1:
            why = "Kueue refuses a pod set group of two topologies"
        else:
            continue
        remedy = "put the leader and its workers, with one topology, into the group"
        yield Finding(members[-1].path / keys.PODSET_GROUP_NAME, name, why, remedy)


def _topology(annotations: Mapping[str, Any]) -> tuple[str, str]:
    return str(annotations.get(keys.REQUIRED_TOPOLOGY)), str(annotations.get(keys.PREFERRED_TOPOLOGY))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
