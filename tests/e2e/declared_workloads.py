"""Workloads of declared kinds, their definitions without a schema, and pods as their operators create them.

Source of the labels, names and owners: kubeflow/training-operator release-1.9, mpi-operator v0.8, spark-operator v2.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.workload_objects import controller_reference, created, found

_KUBEFLOW = "training.kubeflow.org"
# Needed for the groups below k8s.io.
_APPROVED = {"api-approved.kubernetes.io": "unapproved, for tests"}


# The path of a template in a spec.
Path = tuple[str | int, ...]


class Played(NamedTuple):
    """A kind, and what its operator makes of a workload: pods one after the other, each with its labels."""

    group: str
    version: str
    kind: str
    spec: Manifest
    # By name of a pod: its labels, the path of its template in the spec, and the pod that controls it.
    pods: Mapping[str, tuple[Mapping[str, str], Path, str]]

    @property
    def plural(self) -> str:
        """Its name in paths."""
        return f"{self.kind.lower()}s"

    @property
    def crd(self) -> Manifest:
        """A CustomResourceDefinition that keeps every field."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": self.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": self.kind, "plural": self.plural, "singular": self.kind.lower()}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}", "annotations": _APPROVED},
            "spec": {"group": self.group, "names": names, "scope": "Namespaced", "versions": [version]},
        }

    def workload(self, namespace: str) -> Manifest:
        """A workload `run`."""
        metadata = {"name": "run", "namespace": namespace}
        return {
            "apiVersion": f"{self.group}/{self.version}",
            "kind": self.kind,
            "metadata": metadata,
            "spec": self.spec,
        }

    def made(self, plane: ControlPlane, stored: Manifest) -> Iterator[Manifest]:
        """Create the pods of a stored workload that are missing, as the operator does: from the stored templates."""
        known = {"": stored}
        for name, (labels, path, owner) in self.pods.items():
            template: Any = stored["spec"]
            for step in path:
                template = template[step]
            there = found(plane, "v1", "Pod", stored["metadata"]["namespace"], name)
            known[name] = there or created(plane, _pod(name, template, labels, known[owner]))
            yield known[name]


def _pod(name: str, template: Manifest, labels: Mapping[str, str], owner: Manifest) -> Manifest:
    # Spark's fields of a driver and an executor stand beside each other, without a template.
    flat = {**pod_template(), "metadata": {"labels": template.get("labels") or {}}}
    whole = template if "spec" in template else flat
    metadata = whole.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(metadata.get("labels") or {}), **labels},
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": whole.get("spec") or pod_template()["spec"],
    }


def _kubeflow(role: str, index: int) -> dict[str, str]:
    return {f"{_KUBEFLOW}/job-name": "run", f"{_KUBEFLOW}/replica-type": role, f"{_KUBEFLOW}/replica-index": str(index)}


def _mpi(index: int) -> dict[str, str]:
    return {
        f"{_KUBEFLOW}/operator-name": "mpi-operator",
        f"{_KUBEFLOW}/job-name": "run",
        f"{_KUBEFLOW}/job-role": "worker",
        f"{_KUBEFLOW}/replica-index": str(index),
    }


def _spark(role: str) -> dict[str, str]:
    return {"spark-role": role, "sparkoperator.k8s.io/app-name": "run", "sparkoperator.k8s.io/submission-id": "1"}


def _training(role: str) -> dict[str, str]:
    return {"example.com/training": "run", "example.com/role": role}


_REPLICAS = ("pytorchReplicaSpecs",)


def pytorch_job(workers: int = 2) -> Played:
    """A master and its workers."""
    template = pod_template(container="pytorch")
    spec = {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": template},
            "Worker": {"replicas": workers, "template": template},
        }
    }
    pods = {"run-master-0": (_kubeflow("master", 0), (*_REPLICAS, "Master", "template"), "")}
    for index in range(workers):
        pods[f"run-worker-{index}"] = (_kubeflow("worker", index), (*_REPLICAS, "Worker", "template"), "")
    return Played("kubeflow.org", "v1", "PyTorchJob", spec, pods)


def mpi_job(workers: int = 3) -> Played:
    """Workers; their launcher is a Job of its own."""
    spec = {
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": pod_template()},
            "Worker": {"replicas": workers, "template": pod_template()},
        }
    }
    path = ("mpiReplicaSpecs", "Worker", "template")
    pods = {f"run-worker-{index}": (_mpi(index), path, "") for index in range(workers)}
    return Played("kubeflow.org", "v2beta1", "MPIJob", spec, pods)


def spark_application(*executors: int) -> Played:
    """A driver, which runs before it creates the executors. Each of these has a number that is not used again."""
    spec = {"mode": "cluster", "driver": {"cores": 1}, "executor": {"instances": len(executors), "cores": 1}}
    pods = {
        "run-driver": (_spark("driver"), ("driver",), ""),
        **{f"run-exec-{index}": (_spark("executor"), ("executor",), "run-driver") for index in executors},
    }
    return Played("sparkoperator.k8s.io", "v1beta2", "SparkApplication", spec, pods)


def training(trainers: int = 2) -> Played:
    """A kind that no release of Rollcall knows, with the shape of docs/how-to/new-workload.md."""
    spec = {
        "coordinator": {"template": pod_template()},
        "roles": [{"name": "trainer", "replicas": trainers, "template": pod_template()}],
    }
    pods: dict[str, tuple[Mapping[str, str], Path, str]] = {
        "run-coordinator": (_training("coordinator"), ("coordinator", "template"), "")
    }
    for index in range(trainers):
        pods[f"run-trainer-{index}"] = (_training("trainer"), ("roles", 0, "template"), "")
    return Played("example.com", "v1", "Training", spec, pods)


def volcano_job(**task: Any) -> Played:
    """A Job of Volcano with one task; keywords go into the task."""
    spec = {"schedulerName": "volcano", "tasks": [{"name": "task", "replicas": 1, "template": pod_template(), **task}]}
    labels = {"volcano.sh/job-name": "run", "volcano.sh/task-spec": "task"}
    return Played("batch.volcano.sh", "v1alpha1", "Job", spec, {"run-task-0": (labels, ("tasks", 0, "template"), "")})
