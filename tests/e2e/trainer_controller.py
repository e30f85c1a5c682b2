"""Plays Trainer's controller: creates the JobSet and PodGroups of a stored TrainJob and its runtime.

As Trainer v2.3, with its coscheduling and volcano plugins. Of the ML plugins only counts and torch's variables are
played; initializers get no variables, and a runtime is not frozen in a ConfigMap.
"""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import NamedTuple

from kubernetes.utils.quantity import parse_quantity

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.jobset_controller import API as JOBSET_API
from tests.e2e.jobset_controller import JobSetController, defaulted
from tests.e2e.runtime_patches import patched_template
from tests.e2e.workload_objects import applied, controller_reference, found, read

API = "trainer.kubeflow.org/v1alpha1"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
_QUEUE = "scheduling.volcano.sh/queue-name"
_CONTROLLER = "trainer.kubeflow.org/trainjob-controller"
# Who applies: Trainer's field manager.
_MANAGER = "trainer"
_MASTER_PORT = "29400"


class Resolved(NamedTuple):
    """A TrainJob and the spec of its runtime, with the TrainJob's own patches."""

    train_job: Manifest
    runtime: Manifest

    @property
    def name(self) -> str:
        """Its name, and so that of the JobSet and of each PodGroup."""
        return str(self.train_job["metadata"]["name"])

    @property
    def trainer(self) -> Manifest:
        """What the TrainJob says of the trainer."""
        found: Manifest = self.train_job["spec"].get("trainer", {})
        return found

    @property
    def policy(self) -> Manifest:
        """The runtime's mlPolicy."""
        found: Manifest = self.runtime.get("mlPolicy", {})
        return found

    @property
    def pod_groups(self) -> Manifest:
        """The runtime's podGroupPolicy."""
        found: Manifest = self.runtime.get("podGroupPolicy", {})
        return found


class TrainJobController:
    """The controller for the TrainJobs of one namespace; a test calls it where it would have woken up."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.job_sets = JobSetController(plane, namespace)

    def sync(self, name: str) -> list[Manifest]:
        """Do what is due: apply PodGroups and JobSet, and then what is the JobSet's; the Jobs that were created."""
        train_job = read(self.plane, API, "TrainJob", self.namespace, name)
        if train_job["spec"]["managedBy"] != _CONTROLLER:
            return []
        resolved = Resolved(train_job, patched_template(self._runtime(train_job), train_job))
        wanted = job_set_of(resolved)
        suspended = train_job["spec"].get("suspend", False)
        for group in pod_groups_of(resolved, wanted):
            self._apply(group, again=suspended)
        existing = found(self.plane, JOBSET_API, "JobSet", self.namespace, name)
        resting = existing is not None and existing["spec"].get("suspend", False)
        self._apply(defaulted(wanted), again=suspended or resting)
        return self.job_sets.sync(name)

    def pods(self, name: str, count: int, replicated_job: str | None = None) -> list[Manifest]:
        """Its pods, or those of one of its steps, once the Job controller has made so many."""
        return self.job_sets.pods(name, count, replicated_job)

    def _runtime(self, train_job: Manifest) -> Manifest:
        reference = train_job["spec"]["runtimeRef"]
        namespace = self.namespace if reference["kind"] == "TrainingRuntime" else None
        spec: Manifest = read(self.plane, API, reference["kind"], namespace, reference["name"])["spec"]
        return spec

    def _apply(self, manifest: Manifest, *, again: bool) -> None:
        """What is there is left alone while the TrainJob runs."""
        metadata = manifest["metadata"]
        stored = found(self.plane, manifest["apiVersion"], manifest["kind"], self.namespace, metadata["name"])
        if stored is None or again:
            applied(self.plane, manifest, _MANAGER)


def job_set_of(resolved: Resolved) -> Manifest:
    """The JobSet of a TrainJob, as Trainer applies it. Nothing of the TrainJob's own metadata is in it."""
    template, train_job = deepcopy(resolved.runtime["template"]), resolved.train_job
    spec = template["spec"]
    for replicated in spec["replicatedJobs"]:
        job = replicated["template"].setdefault("spec", {})
        job["parallelism"] = job["completions"] = count_of(resolved, replicated)
        if _step(replicated) == "trainer":
            _train(resolved, job["template"]["spec"])
        metadata = job["template"].setdefault("metadata", {})
        if "coscheduling" in resolved.pod_groups:
            metadata.setdefault("labels", {})[COSCHEDULING_LABEL] = resolved.name
        if "volcano" in resolved.pod_groups:
            metadata.setdefault("annotations", {})[VOLCANO_ANNOTATION] = resolved.name
    spec["suspend"] = train_job["spec"].get("suspend", False)
    metadata = {key: value for key, value in template.get("metadata", {}).items() if key in {"labels", "annotations"}}
    named = {"name": resolved.name, "namespace": train_job["metadata"]["namespace"]}
    owned = {"ownerReferences": [controller_reference(train_job)]}
    return {"apiVersion": JOBSET_API, "kind": "JobSet", "metadata": {**metadata, **named, **owned}, "spec": spec}


def count_of(resolved: Resolved, replicated: Manifest) -> int:
    """How many pods a replicatedJob has."""
    said = resolved.trainer.get("numNodes")
    shared = resolved.policy.get("mpi", {}).get("runLauncherAsNode", False)
    if _step(replicated) == "trainer":
        floor = max(resolved.policy.get("numNodes", 1), 1)
        # The launcher is one of MPI's nodes, and the others are the job called `node`.
        return int(floor if said is None or shared else said)
    if shared and replicated["name"] == "node" and said is not None:
        return max(int(said) - 1, 1)
    return int(replicated["template"].get("spec", {}).get("parallelism", 1))


def pod_groups_of(resolved: Resolved, job_set: Manifest) -> list[Manifest]:
    """The PodGroups of the plugins that the runtime switches on. They count every step, also those that come later."""
    pods = [(job["template"]["spec"]["parallelism"], job) for job in job_set["spec"]["replicatedJobs"]]
    templates = [(count, job["template"]["spec"]["template"]["spec"]) for count, job in pods]
    spec: Manifest = {"minMember": sum(count for count, _ in pods), "minResources": _resources(templates)}
    made = []
    if (coscheduling := resolved.pod_groups.get("coscheduling")) is not None:
        timeout = {"scheduleTimeoutSeconds": coscheduling.get("scheduleTimeoutSeconds", 60)}
        made.append(_pod_group(resolved, "scheduling.x-k8s.io/v1alpha1", {**spec, **timeout}))
    if (volcano := resolved.pod_groups.get("volcano")) is not None:
        queue = job_set["metadata"].get("annotations", {}).get(_QUEUE)
        priority = next(
            (pod["priorityClassName"] for _, pod in reversed(templates) if "priorityClassName" in pod), None
        )
        more = {"queue": queue, "priorityClassName": priority, "networkTopology": volcano.get("networkTopology")}
        given = {key: value for key, value in more.items() if value is not None}
        made.append(_pod_group(resolved, "scheduling.volcano.sh/v1beta1", {**spec, **given}))
    return made


def _pod_group(resolved: Resolved, api_version: str, spec: Manifest) -> Manifest:
    metadata = resolved.train_job["metadata"]
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": resolved.name,
            "namespace": metadata["namespace"],
            "ownerReferences": [controller_reference(resolved.train_job)],
        },
        "spec": spec,
    }


def _resources(templates: list[tuple[int, Manifest]]) -> dict[str, str]:
    """What so many pods of each template ask for."""
    total: dict[str, Decimal] = {}
    for count, pod in templates:
        for name, amount in _requests(pod).items():
            total[name] = total.get(name, Decimal(0)) + count * amount
    return {name: f"{amount.normalize():f}" for name, amount in sorted(total.items())}


def _requests(pod: Manifest) -> dict[str, Decimal]:
    """The sum of the containers, or an init container where that asks for more, and the overhead that is written."""
    asked: dict[str, Decimal] = {}
    for container in pod["containers"]:
        for name, amount in _of(container).items():
            asked[name] = asked.get(name, Decimal(0)) + amount
    for container in pod.get("initContainers", ()):
        for name, amount in _of(container).items():
            asked[name] = max(asked.get(name, amount), amount)
    for name, amount in pod.get("overhead", {}).items():
        asked[name] = asked.get(name, Decimal(0)) + _amount(amount)
    return asked


def _of(container: Manifest) -> dict[str, Decimal]:
    requests = container.get("resources", {}).get("requests", {})
    return {name: _amount(amount) for name, amount in requests.items()}


def _amount(quantity: str) -> Decimal:
    return Decimal(parse_quantity(quantity))  # type: ignore[no-untyped-call]


def _train(resolved: Resolved, pod: Manifest) -> None:
    """The trainer's container, as the TrainJob says."""
    (container,) = (one for one in pod["containers"] if one["name"] == "node")
    for field in ("image", "command", "args"):
        if field in resolved.trainer:
            container[field] = resolved.trainer[field]
    if "resourcesPerNode" in resolved.trainer:
        container["resources"] = resolved.trainer["resourcesPerNode"]
    env = [*container.get("env", ()), *resolved.trainer.get("env", ())]
    if "torch" in resolved.policy:
        env += _torch(resolved)
    if env:
        container["env"] = env


def _torch(resolved: Resolved) -> list[Manifest]:
    index = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    nodes = resolved.trainer.get("numNodes", max(resolved.policy.get("numNodes", 1), 1))
    return [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(resolved.trainer.get("numProcPerNode", 1))},
        {"name": "PET_NODE_RANK", "valueFrom": index},
        {"name": "PET_MASTER_ADDR", "value": f"{resolved.name}-node-0-0.{resolved.name}"},
        {"name": "PET_MASTER_PORT", "value": _MASTER_PORT},
    ]


def _step(replicated: Manifest) -> str | None:
    labels: Manifest = replicated["template"].get("metadata", {}).get("labels", {})
    return labels.get(STEP)
