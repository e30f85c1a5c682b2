"""TrainJob: a read view over Kubeflow Trainer's job, and the JobSet that Trainer makes of it and of its runtime.

A TrainJob has no pod template: its runtime has. Source: kubeflow/trainer, pkg/runtime (v2.3.0): the counts of
core/trainingruntime.go, the marks of framework/plugins/{coscheduling,volcano}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts, Needed, ObjectKey
from webhook.model.fields import SPEC, FieldPath
from webhook.model.owners.jobset import JobSet
from webhook.model.owners.kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS
from webhook.model.owners.workload import OwnedWorkload, Part
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text

# On a Job template: which step of the TrainJob it is.
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
# From a replicated Job to its pod template.
_POD_TEMPLATE = ("template", "spec", "template")


class Plugin(NamedTuple):
    """A plugin of Trainer's that makes the PodGroup of a TrainJob, and the field of the runtime that turns it on."""

    name: str
    path: FieldPath


class Runtime:
    """A TrainingRuntime or ClusterTrainingRuntime."""

    __slots__ = ("name", "raw", "spec", "template")

    def __init__(self, raw: Manifest) -> None:
        self.raw = raw
        self.name = text(mapping(raw.get("metadata")).get("name")) or ""
        self.spec = mapping(raw.get("spec"))
        self.template = mapping(self.spec.get("template"))

    @property
    def job_set_metadata(self) -> Mapping[str, Any]:
        """What it gives the JobSet of labels and annotations."""
        return mapping(self.template.get("metadata"))

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins that are on. The CRD does not keep anybody from turning on both."""
        policy = mapping(self.spec.get("podGroupPolicy"))
        path = SPEC / "podGroupPolicy"
        return [Plugin(name, path / name) for name in ("coscheduling", "volcano") if policy.get(name) is not None]

    @property
    def kai_queue(self) -> str | None:
        """The queue of the KAI plugin as it was proposed; the CRD of every release drops it."""
        policy = mapping(self.spec.get("podGroupPolicy"))
        return text(mapping(policy.get("kaiScheduler")).get("queue"))


class TrainJob(OwnedWorkload):
    """A TrainJob (trainer.kubeflow.org/v1alpha1)."""

    resource = TRAIN_JOBS

    def _read_parts(self) -> Iterator[Part]:
        return iter(())

    @property
    def runtime_path(self) -> FieldPath:
        """Where it names its runtime."""
        return SPEC / "runtimeRef" / "name"

    @property
    def runtime_kind(self) -> str:
        """The kind of its runtime."""
        return text(mapping(self.spec.get("runtimeRef")).get("kind")) or CLUSTER_TRAINING_RUNTIMES.api.kind

    @property
    def runtime(self) -> Needed:
        """The runtime that it names, as a fact."""
        name = text(mapping(self.spec.get("runtimeRef")).get("name")) or ""
        if self.runtime_kind == CLUSTER_TRAINING_RUNTIMES.api.kind:
            return Needed("cluster_training_runtimes", name)
        return Needed("training_runtimes", (self.namespace, name))

    @property
    def nodes(self) -> int | None:
        """How many nodes it asks for."""
        return integer(mapping(self.spec.get("trainer")).get("numNodes"))

    def job_set(self, runtime: Runtime) -> JobSet:
        """The JobSet that Trainer makes of it: of its name, with its counts and the marks of the plugins that are on.

        The containers are the runtime's: what a TrainJob changes in them says nothing about its gang. Raises
        `Malformed`.
        """
        metadata: Manifest = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": dict(mapping(runtime.job_set_metadata.get("labels"))),
            "annotations": dict(mapping(runtime.job_set_metadata.get("annotations"))),
            "ownerReferences": [
                {"apiVersion": self.reference.api_version, "kind": self.kind, "name": self.name, "controller": True}
            ],
        }
        spec = deepcopy(dict(mapping(runtime.template.get("spec"))))
        for raw in sequence(spec.get("replicatedJobs")):
            self._count(mapping(raw), runtime)
        for patch in sequence(self.spec.get("runtimePatches")):
            _patch(metadata, spec, mapping(mapping(mapping(patch).get("trainingRuntimeSpec")).get("template")))
        if self.spec.get("suspend") is not None:
            spec["suspend"] = self.spec["suspend"]
        for plugin in runtime.plugins:
            for raw in sequence(spec.get("replicatedJobs")):
                _mark(_within(mapping(raw), *_POD_TEMPLATE, "metadata"), plugin, self.name)
        api = JOB_SETS.api
        return JobSet(
            {"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}
        )

    def _count(self, replicated: Mapping[str, Any], runtime: Runtime) -> None:
        """Trainer writes parallelism and completions of every replicated Job."""
        policy = mapping(runtime.spec.get("mlPolicy"))
        template = _within(replicated, "template")
        step = mapping(mapping(template.get("metadata")).get("labels")).get(ANCESTOR)
        job = _within(template, "spec")
        own = integer(job.get("parallelism"))
        pods = 1 if own is None else own
        launched = mapping(policy.get("mpi")).get("runLauncherAsNode") is True
        if step == "trainer":
            stated = integer(policy.get("numNodes"))
            pods = max(1 if stated is None else stated, 1)
            if self.nodes is not None and not launched:
                pods = self.nodes
        elif launched and replicated.get("name") == "node" and self.nodes is not None:
            # The launcher is one of the nodes.
            pods = max(self.nodes - 1, 1)
        job["parallelism"] = job["completions"] = pods


def _patch(metadata: Manifest, spec: Manifest, template: Mapping[str, Any]) -> None:
    """What a runtime patch says of labels and annotations: of the JobSet, of its Jobs and of the pods."""
    _add(metadata, mapping(template.get("metadata")))
    by_name = {text(mapping(raw).get("name")): mapping(raw) for raw in sequence(spec.get("replicatedJobs"))}
    for raw in sequence(mapping(template.get("spec")).get("replicatedJobs")):
        patched = mapping(raw)
        if (known := by_name.get(text(patched.get("name")))) is not None:
            job = mapping(patched.get("template"))
            _add(_within(known, "template", "metadata"), mapping(job.get("metadata")))
            below = mapping(mapping(job.get("spec")).get("template"))
            _add(_within(known, *_POD_TEMPLATE, "metadata"), mapping(below.get("metadata")))


def _add(metadata: Manifest, more: Mapping[str, Any]) -> None:
    for field in ("labels", "annotations"):
        if mapping(more.get(field)):
            metadata[field] = {**mapping(metadata.get(field)), **mapping(more.get(field))}


def _within(holder: Mapping[str, Any], *fields: str) -> Manifest:
    """The object below `holder`, made where there is none: what is read here is a copy. Raises `Malformed`."""
    found: Any = holder
    if not isinstance(found, dict):
        raise Malformed(found, "an object")
    for field in fields:
        below = mapping(found.get(field))
        if not isinstance(below, dict):
            below = found[field] = {}
        found = below
    made: Manifest = found
    return made


def _mark(metadata: Manifest, plugin: Plugin, name: str) -> None:
    if plugin.name == "coscheduling":
        _add(metadata, {"labels": {COSCHEDULING_LABEL: name}})
    else:
        _add(metadata, {"annotations": {VOLCANO_ANNOTATION: name}})


def runtime_of(workload: TrainJob, facts: ClusterFacts) -> Runtime | None:
    """The runtime of a TrainJob, where it is known. Raises `Malformed`."""
    needed = workload.runtime
    raw = (getattr(facts, needed.part) or {}).get(needed.key)
    return None if raw is None else Runtime(raw)


def train_job_of(job_set: JobSet) -> ObjectKey | None:
    """The TrainJob that made a JobSet."""
    controller = job_set.controller
    if controller is None or controller.kind != TRAIN_JOBS.api.kind:
        return None
    return job_set.namespace, controller.name
