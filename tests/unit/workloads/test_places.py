"""The place of a pod in a workload of a declared kind."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.workloads.workloads import (
    deployment,
    mpi_job,
    pod_of,
    pytorch_job,
    ray_cluster,
    ray_job,
    spark_application,
    volcano_job,
)
from webhook.config.defaults import built_in_kinds
from webhook.model.place import Place
from webhook.model.pod_template import Pod
from webhook.model.reading import Manifest
from webhook.validators.examples import stateful_set

HASH = {"pod-template-hash": "7d9"}


def _controller(api_version: str, kind: str, name: str) -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind, "name": name}


def _place(manifest: Manifest) -> Place | None:
    return built_in_kinds().place_of(Pod(manifest))


@pytest.mark.parametrize(
    ("manifest", "labels", "controller", "crd", "part"),
    [
        (ray_cluster(), {"ray.io/group": "headgroup"}, None, "rayclusters.ray.io", "headgroup"),
        (ray_cluster(), {"ray.io/group": "gpu"}, None, "rayclusters.ray.io", "gpu"),
        (pytorch_job(), {"training.kubeflow.org/replica-type": "worker"}, None, "pytorchjobs.kubeflow.org", "worker"),
        (mpi_job(), {"training.kubeflow.org/job-role": "worker"}, None, "mpijobs.kubeflow.org", "worker"),
        (spark_application(), {"spark-role": "driver"}, None, "sparkapplications.sparkoperator.k8s.io", "driver"),
        (
            spark_application(),
            {"spark-role": "executor"},
            _controller("v1", "Pod", "demo-driver"),
            "sparkapplications.sparkoperator.k8s.io",
            "executor",
        ),
        (deployment(), HASH, _controller("apps/v1", "ReplicaSet", "demo-7d9"), "deployments.apps", ""),
        (stateful_set(), {}, None, "statefulsets.apps", ""),
    ],
)
def test_a_pod_has_the_place_that_its_controllers_say(
    manifest: Manifest, labels: Mapping[str, str], controller: Mapping[str, str] | None, crd: str, part: str
) -> None:
    found = _place(pod_of(manifest, labels, controller))
    assert found is not None
    assert (found.workload.key, found.part) == ((crd, "default", "demo"), part)


@pytest.mark.parametrize(
    ("manifest", "labels", "controller"),
    [
        (ray_cluster(), {}, None),
        (ray_cluster(), {"ray.io/group": ""}, None),
        (ray_job(), {"ray.io/group": "gpu"}, None),
        (volcano_job(), {"volcano.sh/task-spec": "task"}, None),
        (mpi_job(), {"training.kubeflow.org/job-role": "launcher"}, None),
        (spark_application(), {"spark-role": "executor"}, _controller("v1", "Pod", "demo-drive")),
        (spark_application(), {"spark-role": "executor"}, _controller("v1", "Pod", "-driver")),
        (deployment(), {}, _controller("apps/v1", "ReplicaSet", "demo-7d9")),
        (deployment(), HASH, _controller("apps/v1", "ReplicaSet", "demo-8e0")),
        (deployment(), {"pod-template-hash": ""}, _controller("apps/v1", "ReplicaSet", "demo-")),
        (deployment(), HASH, _controller("extensions/v1beta1", "ReplicaSet", "demo-7d9")),
    ],
)
def test_other_pods_have_none(
    manifest: Manifest, labels: Mapping[str, str], controller: Mapping[str, str] | None
) -> None:
    assert _place(pod_of(manifest, labels, controller)) is None


def test_the_pods_of_a_leader_worker_set_stay_its_pods() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "demo"}
    pod = pod_of(stateful_set(), labels, _controller("apps/v1", "StatefulSet", "demo-1"))
    found = _place(pod)
    assert found is not None
    assert (found.workload.part, found.group) == ("leader_worker_sets", "1")


def test_the_launcher_of_an_mpi_job_is_a_pod_of_its_job() -> None:
    pod = pod_of(
        mpi_job(), {"training.kubeflow.org/job-role": "launcher"}, _controller("batch/v1", "Job", "demo-launcher")
    )
    found = _place(pod)
    assert found is not None
    assert (found.workload.part, found.workload.name) == ("jobs", "demo-launcher")
