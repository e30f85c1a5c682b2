"""TrainJob: a read view over Kubeflow Trainer's job, and the JobSet that Trainer makes from it and its runtime.

A TrainJob has no pod template; its runtime has. Source: kubeflow/trainer, pkg/runtime (v2.3.0): the counts of
core/trainingruntime.go and framework/plugins/{plainml,mpi}, the marks of framework/plugins/{coscheduling,volcano}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from webhook.model.bounds import Packed, unpacked
from webhook.model.capabilities import KAI_QUEUE
from webhook.model.fields import METADATA, SPEC, FieldPath, Item
from webhook.model.keys import Needed, ObjectKey
from webhook.model.known_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS, is_a
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_workload import OptedInWorkload, Part

# On a Job template: the TrainJob's step that the template is for.
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
# The containers that get what a TrainJob says about its trainer.
_NODE = "node"
_CONTAINERS = frozenset({_NODE, "launcher"})


class TrainerMark(NamedTuple):
    """A label or annotation that Trainer writes on every pod template, and the runtime field that causes it."""

    field: str
    key: str
    value: str
    path: FieldPath


class Plugin(NamedTuple):
    """A plugin of Trainer that makes the PodGroup of a TrainJob, and the runtime field that turns it on."""

    name: str
    path: FieldPath

    def mark(self, train_job: str) -> TrainerMark:
        """Returns the mark that makes the pods members of that PodGroup, which has the TrainJob's name."""
        if self.name == "coscheduling":
            return TrainerMark("labels", COSCHEDULING_LABEL, train_job, self.path)
        return TrainerMark("annotations", VOLCANO_ANNOTATION, train_job, self.path)


class Runtime:
    """A TrainingRuntime or ClusterTrainingRuntime."""

    __slots__ = ("name", "raw", "spec", "template")

    def __init__(self, raw: Manifest) -> None:
        self.raw = raw
        self.name = text(mapping(raw.get("metadata")).get("name")) or ""
        self.spec = mapping(raw.get("spec"))
        self.template = mapping(self.spec.get("template"))

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins that are on. The CRD allows both at once."""
        policy = mapping(self.spec.get("podGroupPolicy"))
        path = SPEC / "podGroupPolicy"
        return [Plugin(name, path / name) for name in ("coscheduling", "volcano") if policy.get(name) is not None]

    @property
    def kai_marks(self) -> list[TrainerMark]:
        """The marks of the proposed KAI plugin for its queue: in files only, as every CRD drops that field."""
        policy = mapping(self.spec.get("podGroupPolicy"))
        queue = text(mapping(policy.get("kaiScheduler")).get("queue"))
        path = SPEC / "podGroupPolicy" / "kaiScheduler" / "queue"
        return [] if queue is None else [TrainerMark("labels", KAI_QUEUE, queue, path)]


class TrainJob(OptedInWorkload):
    """A TrainJob (trainer.kubeflow.org/v1alpha1)."""

    resource = TRAIN_JOBS
    default_controller = "trainer.kubeflow.org/trainjob-controller"
    has_own_pods = False
    # The JobSet that was made last, with the stored runtime that it was made from.
    _latest_job_set: tuple[object, TrainerJobSet] | None = None

    def _read_parts(self) -> Iterator[Part]:
        return iter(())

    def read(self) -> None:
        """Reads every field that any caller may read. Raises `Malformed`."""
        super().read()
        _ = self.runtime, self.nodes
        # With a replicated Job for every patched name; otherwise its patches would not be read.
        for template, path in self._patches:
            patches = enumerate(sequence(mapping(template.get("spec")).get("replicatedJobs")))
            # Each name once: a name that occurs twice would get every patch twice.
            names = {text(mapping(raw).get("name")): index for index, raw in patches}
            jobs: list[tuple[int, Manifest]] = [(index, {"name": name}) for name, index in names.items()]
            _patch(_Patched({}, jobs, {}), template, path)

    @property
    def _patches(self) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
        """What each runtime patch says about the JobSet, and its path."""
        for index, raw in enumerate(sequence(self.spec.get("runtimePatches"))):
            path = SPEC / "runtimePatches" / Item(index) / "trainingRuntimeSpec" / "template"
            yield mapping(mapping(mapping(raw).get("trainingRuntimeSpec")).get("template")), path

    @property
    def runtime_path(self) -> FieldPath:
        """The path where it names its runtime."""
        return SPEC / "runtimeRef" / "name"

    @property
    def runtime_kind(self) -> str:
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
        """The number of nodes that it asks for."""
        return integer(mapping(self.spec.get("trainer")).get("numNodes"))

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Yields its number of nodes."""
        yield SPEC / "trainer" / "numNodes", self.nodes

    def job_set_of(self, stored: Manifest | Packed) -> TrainerJobSet:
        """Returns the JobSet that Trainer makes with a stored runtime. Many rules ask for it, and it is made once."""
        if self._latest_job_set is None or self._latest_job_set[0] is not stored:
            self._latest_job_set = stored, self.job_set(Runtime(unpacked(stored)))
        return self._latest_job_set[1]

    def job_set(self, runtime: Runtime) -> TrainerJobSet:
        """Returns the JobSet that Trainer makes from it, with its name, its counts and the marks of the plugins that
        are on.

        The containers are the runtime's, with the resources that the TrainJob states. Its other changes to them do not
        affect its gang.
        """
        labelled = mapping(runtime.template.get("metadata"))
        metadata: Manifest = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": dict(mapping(labelled.get("labels"))),
            "annotations": dict(mapping(labelled.get("annotations"))),
            "ownerReferences": [
                {"apiVersion": self.reference.api_version, "kind": self.kind, "name": self.name, "controller": True}
            ],
        }
        spec = deepcopy(dict(mapping(runtime.template.get("spec"))))
        jobs = [(index, raw) for index, raw in enumerate(sequence(spec.get("replicatedJobs"))) if isinstance(raw, dict)]
        brought: dict[FieldPath, FieldPath] = {}
        for template, path in self._patches:
            _patch(_Patched(metadata, jobs, brought), template, path)
        for _, raw in jobs:
            self._count(raw, runtime)
        resources_known = self._give_resources([raw for _, raw in jobs], runtime)
        if self.spec.get("suspend") is not None:
            spec["suspend"] = self.spec["suspend"]
        marks = [*(plugin.mark(self.name) for plugin in runtime.plugins), *runtime.kai_marks]
        for index, raw in jobs:
            for mark in marks:
                _add(_object_at(raw, "template", "spec", "template", "metadata"), {mark.field: {mark.key: mark.value}})
                brought[_pod_metadata(index, raw) / mark.field / mark.key] = mark.path
        api = JOB_SETS.api
        manifest = {"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}
        return TrainerJobSet(manifest, self, runtime, brought, resources_known=resources_known)

    def _give_resources(self, jobs: list[Manifest], runtime: Runtime) -> bool:
        """Gives the containers of the trainer the resources that the TrainJob states, in place of the runtime's.
        Returns whether these are surely those that Trainer gives them: releases differ in what they do with MPI's
        launcher, and with other Jobs that have a container of that name.

        Source: pkg/runtime/framework/plugins/jobset/builder.go (`Trainer`).
        """
        stated = mapping(mapping(self.spec.get("trainer")).get("resourcesPerNode"))
        given = {field: stated[field] for field in ("limits", "requests") if stated.get(field) is not None}
        if not given:
            return True
        if mapping(runtime.spec.get("mlPolicy")).get("mpi") is not None:
            return False
        certain = True
        for raw in jobs:
            labels = mapping(mapping(mapping(raw.get("template")).get("metadata")).get("labels"))
            for container in sequence(_object_at(raw, "template", "spec", "template", "spec").get("containers")):
                if isinstance(container, dict) and container.get("name") in _CONTAINERS:
                    if labels.get(ANCESTOR) == "trainer" and container["name"] == _NODE:
                        container["resources"] = deepcopy(given)
                    elif labels:
                        certain = False
        return certain

    def _count(self, replicated: Manifest, runtime: Runtime) -> None:
        """Sets parallelism and completions of a replicated Job, as Trainer does."""
        policy = runtime.spec.get("mlPolicy")
        mpi = mapping(policy).get("mpi")
        template = mapping(replicated.get("template"))
        trains = mapping(mapping(template.get("metadata")).get("labels")).get(ANCESTOR) == "trainer"
        job = _object_at(replicated, "template", "spec")
        stated = integer(mapping(policy).get("numNodes") if trains and policy is not None else job.get("parallelism"))
        pods = 1 if stated is None else stated
        if trains and policy is not None:
            pods = max(pods, 1)
        if mpi is None and trains and self.nodes is not None:
            pods = self.nodes
        elif mpi is not None and replicated.get("name") == "node" and self.nodes is not None:
            # The launcher may be one of the nodes.
            launched = mapping(mpi).get("runLauncherAsNode") is True
            pods = max(self.nodes - 1, 1) if launched else self.nodes
        job["parallelism"] = job["completions"] = pods


class TrainerJobSet(JobSet):
    """The JobSet that Trainer makes from a TrainJob. The origin of each field is known."""

    has_own_pods = False

    def __init__(
        self,
        raw: Manifest,
        train_job: TrainJob,
        runtime: Runtime,
        brought: Mapping[FieldPath, FieldPath],
        *,
        resources_known: bool = True,
    ) -> None:
        super().__init__(raw)
        self.resources_known = resources_known
        self.train_job = train_job
        self.runtime = runtime
        self._brought = brought

    @property
    def managed_elsewhere(self) -> str | None:
        """The foreign controller of the TrainJob, else that of the runtime's template."""
        return self.train_job.managed_elsewhere or super().managed_elsewhere

    def counts(self) -> Iterator[tuple[FieldPath, int | None]]:
        """Returns nothing: the TrainJob states its numbers."""
        return iter(())

    def path_in_train_job(self, path: FieldPath) -> FieldPath:
        """Returns where the TrainJob sets the value at `path`: in a patch, or by naming its runtime."""
        origin = self._brought.get(path)
        return origin if origin is not None and "runtimePatches" in origin.parts else self.train_job.runtime_path

    def path_in_runtime(self, path: FieldPath) -> FieldPath:
        """Returns where the runtime sets the value."""
        return self._brought.get(path) or FieldPath(("spec", "template", *path.parts))

    def where(self, path: FieldPath) -> str:
        """Returns where the author finds the value at `path`, in words."""
        at = self.path_in_train_job(path)
        if at != self.train_job.runtime_path:
            return str(at)
        return f"{self.train_job.runtime_kind} {self.runtime.name}, {self.path_in_runtime(path)}"


class _Patched(NamedTuple):
    """What runtime patches change: the JobSet's metadata, its replicated Jobs, and the origin of each field."""

    metadata: Manifest
    jobs: list[tuple[int, Manifest]]
    brought: dict[FieldPath, FieldPath]


def _patch(patched: _Patched, template: Mapping[str, Any], path: FieldPath) -> None:
    """Applies the labels and annotations of a runtime patch: to the JobSet, its Jobs and its pods."""
    _merge(patched, patched.metadata, template, METADATA, path / "metadata")
    # Before the API server has checked a patch against its schema, the patch may name anything, any number of times.
    by_name: dict[str | None, list[tuple[int, Manifest]]] = {}
    for index, job in patched.jobs:
        by_name.setdefault(text(job.get("name")), []).append((index, job))
    for place, raw in enumerate(sequence(mapping(template.get("spec")).get("replicatedJobs"))):
        patch = mapping(raw)
        job_path = path / "spec" / "replicatedJobs" / Item(place, text(patch.get("name"))) / "template"
        for index, job in by_name.get(text(patch.get("name")), ()):
            of_job = mapping(patch.get("template"))
            of_pods = mapping(mapping(of_job.get("spec")).get("template"))
            at = _replicated(index, job) / "template" / "metadata"
            _merge(patched, _object_at(job, "template", "metadata"), of_job, at, job_path / "metadata")
            metadata = _object_at(job, "template", "spec", "template", "metadata")
            _merge(patched, metadata, of_pods, _pod_metadata(index, job), job_path / "spec" / "template" / "metadata")


def _merge(patched: _Patched, target: Manifest, holder: Mapping[str, Any], at: FieldPath, path: FieldPath) -> None:
    more = mapping(holder.get("metadata"))
    _add(target, more)
    for field in ("labels", "annotations"):
        for key in mapping(more.get(field)):
            patched.brought[at / field / key] = path / field / key


def _add(metadata: Manifest, more: Mapping[str, Any]) -> None:
    for field in ("labels", "annotations"):
        if mapping(more.get(field)):
            metadata[field] = {**mapping(metadata.get(field)), **mapping(more.get(field))}


def _replicated(index: int, raw: Mapping[str, Any]) -> FieldPath:
    return SPEC / "replicatedJobs" / Item(index, text(raw.get("name")))


def _pod_metadata(index: int, raw: Mapping[str, Any]) -> FieldPath:
    return _replicated(index, raw) / "template" / "spec" / "template" / "metadata"


def _object_at(holder: Manifest, *fields: str) -> Manifest:
    """Returns the object at that path, created if it is missing. The manifest is a copy and may be changed."""
    target = holder
    for field in fields:
        if target.get(field) is None:
            target[field] = {}
        target = target[field]
        mapping(target)
    return target


def train_job_of(job_set: JobSet) -> ObjectKey | None:
    """Returns the TrainJob that made a JobSet."""
    controller = job_set.controller
    if controller is None or not is_a(controller, TRAIN_JOBS):
        return None
    return job_set.namespace, controller.name
