"""Rules about what Kueue refuses or overwrites: keys, fields and sizes of pod sets that its webhooks refuse, and
labels and annotations of pod templates that it reads, writes or puts back.

No webhook sees a file. Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework, pkg/controller/jobs,
pkg/podset/podset.go (`Merge`, `RestorePodSpec`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import is_domain_prefixed_path, is_key, is_subdomain
from webhook.model.kueue_objects import LocalQueue
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import int32, int64
from webhook.model.reading import mapping
from webhook.validators.examples import job, pod_template
from webhook.validators.kueue_readiness import QUEUED
from webhook.validators.registry import Context, Example, OptedInChange, Results, Subject, rule
from webhook.workloads import kueue_integration
from webhook.workloads.job import Job, parallelism, pods_at_once
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import Held, HeldBy, PodSet, held, is_installed
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import TrainerJobSet

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
        *kueue.OPERATOR_FRAMEWORKS,
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
    passes=Example(job(labels=QUEUED, annotations={kueue.MIN_PARALLELISM: "1"})),
    fails=Example(job(labels=QUEUED, annotations={kueue.MIN_PARALLELISM: "few"})),
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
    yield from _unfit_name(LABELS, manifest.labels, kueue.QUEUE_NAME, "LocalQueue")
    yield from _gates(manifest)
    if kind in _RUNNING:
        yield from _running_faults(manifest)
    if kind not in _ELASTIC and manifest.annotations.get(kueue.ELASTIC_JOB) == "true":
        why = f"Kueue refuses an elastic {manifest.kind.kind}"
        yield Finding(ANNOTATIONS / kueue.ELASTIC_JOB, "true", why, "remove it", at_most=Action.WARN)
    if kind == _JOB and all(type(spec.get(field)) in {int, type(None)} for field in ("parallelism", "completions")):
        yield from _job_faults(manifest, spec)
    elif kind == _POD:
        yield from _pod_faults(manifest)
    elif kind in _RAY_CLUSTERS and _has_queue(manifest):
        yield from _ray_faults(manifest, spec)
    elif kind == _SPARK and _has_queue(manifest):
        yield from _spark_faults(manifest, spec)


def _has_queue(manifest: AnyObject) -> bool:
    return bool(manifest.labels.get(kueue.QUEUE_NAME))


def _unfit_name(path: FieldPath, holder: Mapping[str, Any], key: str, what: str) -> Results:
    name = holder.get(key)
    # The API server refuses other values than strings.
    if isinstance(name, str) and not is_subdomain(name):
        yield Finding(path / key, name, f"no {what} can have this name, so Kueue refuses it", _AS_NAME)


def _running_faults(manifest: AnyObject) -> Results:
    by_annotation = bool(manifest.annotations.get(kueue.PREBUILT_WORKLOAD))
    path, holder = (ANNOTATIONS, manifest.annotations) if by_annotation else (LABELS, manifest.labels)
    if manifest.kind[::2] in _NOT_PREBUILT and holder.get(kueue.PREBUILT_WORKLOAD):
        why = f"Kueue refuses a {manifest.kind.kind} with a Workload that was made before"
        yield Finding(path / kueue.PREBUILT_WORKLOAD, holder[kueue.PREBUILT_WORKLOAD], why, "remove it")
    else:
        yield from _unfit_name(path, holder, kueue.PREBUILT_WORKLOAD, "Workload")
    seconds = manifest.labels.get(kueue.MAX_EXECUTION_TIME)
    if isinstance(seconds, str) and not (int64(seconds) or 0) > 0:
        why = "Kueue refuses a time that is no whole number of seconds above 0"
        yield Finding(LABELS / kueue.MAX_EXECUTION_TIME, seconds, why, "write a number in quotes")


def _gates(manifest: AnyObject) -> Results:
    written = manifest.annotations.get(kueue.ADMISSION_GATED_BY)
    if not isinstance(written, str) or not written.strip():
        return
    gates = [gate.strip() for gate in written.split(",")]
    if len(set(gates)) < len(gates) or not all(is_domain_prefixed_path(gate) for gate in gates):
        yield Finding(
            ANNOTATIONS / kueue.ADMISSION_GATED_BY,
            written,
            "Kueue refuses gates that are no list of different DOMAIN/NAME",
            "write each once, with commas between them",
            at_most=Action.WARN,
        )


def _job_faults(manifest: AnyObject, spec: Mapping[str, Any]) -> Results:
    annotations = manifest.annotations
    least, at = annotations.get(kueue.MIN_PARALLELISM), ANNOTATIONS / kueue.MIN_PARALLELISM
    if isinstance(least, str):
        pods = pods_at_once(spec)
        if not 0 < (int64(least) or 0) < pods:
            why = f"Kueue refuses a number that is not between 0 and {pods}, the pods of the Job"
            yield Finding(at, least, why, "write one below parallelism, or remove it")
        if annotations.get(kueue.ELASTIC_JOB) == "true":
            yield Finding(at, least, "Kueue refuses it in an elastic Job", "keep one of the two", at_most=Action.WARN)
    in_step, at = annotations.get(kueue.COMPLETIONS_IN_STEP), ANNOTATIONS / kueue.COMPLETIONS_IN_STEP
    if isinstance(in_step, str) and not kueue.is_bool(in_step):
        yield Finding(at, in_step, "Kueue refuses a value that is neither true nor false", 'write "true", or remove it')
    elif kueue.parse_bool(in_step):
        if spec.get("completionMode") in {None, "NonIndexed"}:
            yield Finding(at, in_step, "Kueue refuses it in a Job that is not Indexed", "set completionMode: Indexed")
        completions = spec.get("completions")
        if parallelism(spec) != (1 if completions is None else completions):
            why = f"Kueue refuses completions other than parallelism beside {kueue.COMPLETIONS_IN_STEP}"
            yield Finding(SPEC / "completions", completions, why, "set the same number")
    if annotations.get(kueue.ELASTIC_JOB) == "true":
        template = manifest.templates[0] if manifest.templates else None
        for key in (kueue.REQUIRED_TOPOLOGY, kueue.PREFERRED_TOPOLOGY):
            if template is not None and key in template.annotations:
                why = "Kueue refuses this topology in an elastic Job"
                path = template.annotations_path / key
                yield Finding(path, template.annotations[key], why, "remove one of the two", at_most=Action.WARN)


def _pod_faults(manifest: AnyObject) -> Results:
    labels, annotations = manifest.labels, manifest.annotations
    if labels.get(kueue.MANAGED, "true") != "true":
        why = "Kueue refuses another value than true"
        yield Finding(LABELS / kueue.MANAGED, labels[kueue.MANAGED], why, "remove it: Kueue sets it")
    by_annotation = bool(annotations.get(kueue.POD_GROUP_NAME))
    path, holder = (ANNOTATIONS, annotations) if by_annotation else (LABELS, labels)
    group, total = holder.get(kueue.POD_GROUP_NAME), annotations.get(kueue.POD_GROUP_TOTAL_COUNT)
    at = ANNOTATIONS / kueue.POD_GROUP_TOTAL_COUNT
    if not group:
        if kueue.POD_GROUP_TOTAL_COUNT in annotations:
            yield Finding(at, total, "Kueue refuses it without the name of a group", f"add {kueue.POD_GROUP_NAME}")
        return
    yield from _unfit_name(path, holder, kueue.POD_GROUP_NAME, "Workload")
    if total is None:
        yield Finding(at, None, "Kueue refuses a pod of a group without the group's number of pods", "add it")
    elif isinstance(total, str) and not (int64(total) or 0) > 0:
        yield Finding(at, total, "Kueue refuses a group whose number of pods is not above 0", "write it in quotes")
    prebuilt = annotations.get(kueue.PREBUILT_WORKLOAD) or labels.get(kueue.PREBUILT_WORKLOAD)
    if prebuilt and prebuilt != group:
        path = ANNOTATIONS if annotations.get(kueue.PREBUILT_WORKLOAD) else LABELS
        why = "Kueue refuses a Workload that is not called as the pod group"
        yield Finding(path / kueue.PREBUILT_WORKLOAD, prebuilt, why, "remove one of the two")


def _ray_faults(manifest: AnyObject, spec: Mapping[str, Any]) -> Results:
    kind = manifest.kind[::2]
    field = _RAY_CLUSTERS[kind]
    path, cluster = (SPEC, spec) if field is None else (SPEC / field, _object(spec.get(field)))
    if kind == _RAY_JOB and spec.get("shutdownAfterJobFinishes") is not True:
        why = "Kueue refuses a RayJob that keeps its cluster, which would keep its quota"
        yield Finding(SPEC / "shutdownAfterJobFinishes", spec.get("shutdownAfterJobFinishes"), why, "set true")
    if cluster.get("enableInTreeAutoscaling") is True and manifest.annotations.get(kueue.ELASTIC_JOB) != "true":
        why = "Kueue refuses a cluster that changes its size"
        remedy = f"remove it, or annotate the {manifest.kind.kind} with {kueue.ELASTIC_JOB}"
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
    looks_at=(kueue.SLICE_SIZE, kueue.SLICE_CONSTRAINTS, kueue.PODSET_GROUP_NAME),
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(labels=QUEUED, template=pod_template(annotations={kueue.SLICE_SIZE: "2"}))),
    fails=Example(job(labels=QUEUED, template=pod_template(annotations={kueue.SLICE_SIZE: "64"}))),
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
    every = kueue_integration.pod_sets(workload)
    for pods in every:
        if isinstance(workload, TrainerJobSet):
            yield from topology_faults(pods.template)
        yield from _too_large(pods)
    if kind in _GROUPING and not isinstance(workload, TrainerJobSet):
        yield from _groups(workload, every)


def _too_large(pods: PodSet) -> Results:
    for key, size in _slice_sizes(pods.template.annotations):
        if size > pods.count:
            at, written = pods.template.annotations_path / key, pods.template.annotations[key]
            why = f"Kueue refuses slices of {size} pods: the pod set {pods.name} has {pods.count}"
            yield Finding(at, written, why, "lower the size, or remove the slices")


def _slice_sizes(annotations: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields the sizes of the largest slices that annotations state, each with its key."""
    written = annotations.get(kueue.SLICE_SIZE)
    if isinstance(written, str) and (size := int32(written)) is not None:
        yield kueue.SLICE_SIZE, size
    layers: Any = None
    try:
        layers = json.loads(annotations.get(kueue.SLICE_CONSTRAINTS) or "null")
    except (TypeError, ValueError, RecursionError):
        return
    first = layers[0] if isinstance(layers, list) and layers else None
    if isinstance(first, dict) and type(first.get("size")) is int:
        yield kueue.SLICE_CONSTRAINTS, first["size"]


class _Member(NamedTuple):
    """A pod set that may be in a group."""

    annotations: Mapping[str, Any]
    path: FieldPath
    is_one_pod: bool


def _members(workload: OptedInWorkload, every: Iterable[PodSet]) -> Iterator[_Member]:
    """Yields the pod sets of a workload. A LeaderWorkerSet without workers has a pod set of none, and an MPIJob's
    launcher is perhaps not in its gang. Leaders and launchers are one pod.
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
        name = member.annotations.get(kueue.PODSET_GROUP_NAME)
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
        yield Finding(members[-1].path / kueue.PODSET_GROUP_NAME, name, why, remedy)


def _topology(annotations: Mapping[str, Any]) -> tuple[str, str]:
    return str(annotations.get(kueue.REQUIRED_TOPOLOGY)), str(annotations.get(kueue.PREFERRED_TOPOLOGY))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_QUEUES = ClusterFacts(local_queues={("default", "research"): LocalQueue("gpus", active=True)})


@rule(
    "kueue/preset-key",
    subject=Subject.OPTED_IN,
    passes=Example(job(labels=QUEUED, template=pod_template(labels={kueue.PODSET: "main"})), facts=_QUEUES),
    fails=Example(
        job(labels=QUEUED, template=pod_template(labels={kueue.LOCAL_QUEUE_NAME: "teaching"})), facts=_QUEUES
    ),
)
def preset_key(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue writes these keys into pod templates when it admits a workload. If a template has one with another value,
    Kueue ends the Workload for good, with the reason FailedToStart. The keys come from a manifest that was copied from
    a cluster. A template of a stored workload, which has a status, has the keys from Kueue.

    Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`Merge`: `HaveConflict`),
    pkg/controller/jobframework/reconciler.go (`getPodSetsInfoFromStatus`).
    """
    # Trainer merges Kueue's entry of runtimePatches over the runtime, so there is no conflict.
    if isinstance(workload, TrainerJobSet) or mapping(workload.raw.get("status")):
        return
    hold = held(workload, context.facts, context.kueue)
    if hold is None or hold.by is HeldBy.ELASTIC:
        return
    for pods in hold.pod_sets:
        for path, key, value, written in _preset(hold, pods, workload, context):
            why = (
                f"Kueue writes {written} here when it admits the workload, and ends it for good if there is "
                "another value"
            )
            yield Finding(path, value, why, f"remove {key} from the template")


def _preset(
    hold: Held, pods: PodSet, workload: OptedInWorkload, context: Context[Any]
) -> Iterator[tuple[FieldPath, str, Any, str]]:
    """Yields the keys of a template that Kueue will write with another value: path, key, value, and what Kueue
    writes.
    """
    template = pods.template
    local_queue = (context.facts.local_queues or {}).get((workload.namespace, hold.queue or ""))
    written = {
        kueue.PODSET: pods.name,
        kueue.LOCAL_QUEUE_NAME: hold.queue,
        kueue.CLUSTER_QUEUE_NAME: None if local_queue is None else local_queue.cluster_queue,
    }
    for key, value in written.items():
        if value is not None and key in template.labels and template.labels[key] != value:
            yield template.labels_path / key, key, template.labels[key], shown(value)
    if context.kueue.topology_aware and kueue.WORKLOAD in template.annotations:
        at = template.annotations_path / kueue.WORKLOAD
        yield at, kueue.WORKLOAD, template.annotations[kueue.WORKLOAD], "the name of its Workload"


_RACK = "example.com/rack"
_TOPOLOGY_KEYS = (kueue.REQUIRED_TOPOLOGY, kueue.PREFERRED_TOPOLOGY, kueue.UNCONSTRAINED_TOPOLOGY)
_LABEL_KEYS = (kueue.REQUIRED_TOPOLOGY, kueue.PREFERRED_TOPOLOGY, kueue.SLICE_REQUIRED_TOPOLOGY)
_OF_SLICES = (kueue.SLICE_REQUIRED_TOPOLOGY, kueue.SLICE_SIZE, kueue.SLICE_CONSTRAINTS)
_MOST_LAYERS = 3
_SO = "so Kueue refuses the workload"


def _placed(**annotations: str) -> dict[str, Any]:
    topology = {f"{kueue.GROUP}/podset-{name.replace('_', '-')}": value for name, value in annotations.items()}
    return job(labels=QUEUED, template=pod_template(annotations=topology))


@rule(
    "kueue/topology-keys",
    subject=Subject.MANIFEST,
    passes=Example(_placed(required_topology=_RACK)),
    fails=Example(_placed(required_topology=_RACK, preferred_topology="example.com/block")),
)
def topology_keys(manifest: AnyObject, _: Context[Any]) -> Results:
    """Kueue's webhooks refuse a workload whose templates have more than one topology, a topology that is no
    label key, slices without their topology or size, slices in several layers beside those in one, or a pod set group
    with slices or without a topology. No webhook sees a file.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/tas_validation.go (`ValidateTASPodSetRequest`).
    """
    for template in manifest.templates:
        yield from topology_faults(template)


def topology_faults(template: PodTemplate) -> Results:
    """Yields what Kueue refuses in the annotations of a template, whether it has a queue or not."""
    # The API server refuses other values than strings.
    annotations = {key: value for key, value in template.annotations.items() if isinstance(value, str)}
    for key, why, remedy in _topology_faults(annotations):
        at, value = template.annotations_path / key, annotations.get(key)
        yield Finding(at=at, value=value, why=f"{why}, {_SO}", remedy=remedy)


def _topology_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yields what Kueue refuses in the annotations of one template: the key, why, and what to do."""
    stated = [key for key in _TOPOLOGY_KEYS if key in annotations]
    for key in stated[1:]:
        yield key, f"the template has {stated[0].partition('/')[2]} as well, and only one may be there", "keep one"
    for key in _LABEL_KEYS:
        value = annotations.get(key)
        if value is not None and not is_key(value):
            yield key, "it is no label key of nodes", "write the label key of a level of the Topology"
    unconstrained = annotations.get(kueue.UNCONSTRAINED_TOPOLOGY)
    if unconstrained is not None and not kueue.is_bool(unconstrained):
        yield kueue.UNCONSTRAINED_TOPOLOGY, "it is neither true nor false", 'write "true", or remove it'
    yield from _slice_faults(annotations)
    if (group := annotations.get(kueue.PODSET_GROUP_NAME)) is None:
        return
    if group.isascii() and group.isdigit():
        yield kueue.PODSET_GROUP_NAME, "the name of a group is no number", "write a name"
    if not annotations.keys().isdisjoint(_OF_SLICES):
        yield kueue.PODSET_GROUP_NAME, "the template has slices as well", "keep one of the two"
    if kueue.REQUIRED_TOPOLOGY not in annotations and kueue.PREFERRED_TOPOLOGY not in annotations:
        yield kueue.PODSET_GROUP_NAME, "the template asks for no topology", f"add {kueue.REQUIRED_TOPOLOGY}"


def _slice_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    sliced, sized = kueue.SLICE_REQUIRED_TOPOLOGY in annotations, kueue.SLICE_SIZE in annotations
    if sized and not (int32(annotations[kueue.SLICE_SIZE]) or 0) > 0:
        yield kueue.SLICE_SIZE, "it is no number of pods of at least 1", "write a whole number in quotes"
    if sliced and not sized:
        yield kueue.SLICE_SIZE, "the template names the topology of slices, and no size", "add it"
    if sized and not sliced:
        yield kueue.SLICE_SIZE, "the template names no topology of slices", f"add {kueue.SLICE_REQUIRED_TOPOLOGY}"
    layered = kueue.SLICE_CONSTRAINTS in annotations
    if layered and (sliced or sized):
        yield kueue.SLICE_CONSTRAINTS, "the template has slices in one layer as well", "keep one of the two ways"
    if layered and not _are_layers(annotations[kueue.SLICE_CONSTRAINTS]):
        why = (
            f"it is no JSON list of one to {_MOST_LAYERS} layers, each with a topology and a size that divides the last"
        )
        yield kueue.SLICE_CONSTRAINTS, why, "correct it"


def _are_layers(written: str) -> bool:
    """Returns whether an annotation lists the layers of slices as Kueue takes them."""
    try:
        layers = json.loads(written)
    except (ValueError, RecursionError):
        return False
    if not isinstance(layers, list) or not 0 < len(layers) <= _MOST_LAYERS:
        return False
    above, topologies = 0, set[str]()
    for layer in layers:
        topology, size = (layer.get("topology"), layer.get("size")) if isinstance(layer, dict) else (None, None)
        if not isinstance(topology, str) or topology in topologies or not is_key(topology):
            return False
        if not isinstance(size, int) or size < 1 or above % size:
            return False
        topologies.add(topology)
        above = size
    return True


def _suspended(**labels: str) -> dict[str, Any]:
    return job(labels=QUEUED, suspend=True, template=pod_template(labels=labels))


@rule(
    "kueue/template-labels",
    subject=Subject.OPTED_IN_CHANGE,
    default=Action.WARN,
    passes=Example(_suspended(team="a"), old=_suspended(team="a")),
    fails=Example(_suspended(team="b"), old=_suspended(team="a")),
)
def template_labels(change: OptedInChange, context: Context[Any]) -> Results:
    """Kueue keeps the labels and annotations that a template had when its Workload was made. When it stops the
    workload, it writes these back, so a change of a suspended template is lost with the first eviction. A changed label
    is not a reason for Kueue to make a new Workload.

    Source: kubernetes-sigs/kueue v0.19, pkg/podset/podset.go (`RestorePodSpec`), pkg/util/equality/podset.go.
    """
    old, new = change.old, change.new
    # A TrainJob's own patches stay, and the pods of a LeaderWorkerSet are deleted.
    if not isinstance(new, Job | JobSet) or not (old.suspended and new.suspended):
        return
    if held(old, context.facts, context.kueue) is None or held(new, context.facts, context.kueue) is None:
        return
    before = {part.place: part.template for part in old.distinct_parts}
    for part in new.distinct_parts:
        if (was := before.get(part.place)) is None:
            continue
        now = part.template
        for at, before_change, after_change in (
            (now.labels_path, was.labels, now.labels),
            (now.annotations_path, was.annotations, now.annotations),
        ):
            # Kueue's own keys come and go with an admission.
            changed = {
                key
                for key in {*before_change, *after_change}
                if before_change.get(key) != after_change.get(key) and not key.startswith(f"{kueue.GROUP}/")
            }
            for key in sorted(changed):
                why = (
                    f"Kueue puts back {shown(before_change.get(key))}, which the template had at first, when it "
                    f"stops the {new.kind}"
                )
                remedy = f"delete the {new.kind} and create it with the new value"
                yield Finding(at / key, after_change.get(key), why, remedy)
