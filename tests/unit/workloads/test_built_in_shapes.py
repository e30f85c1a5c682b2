"""The built-in shapes: what they see in workloads of their kinds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.texts import is_like
from tests.unit.workloads.workloads import (
    deployment,
    disaggregated_set,
    dynamo_deployment,
    dynamo_service,
    mpi_job,
    pytorch_job,
    ray_cluster,
    ray_job,
    spark_application,
    template,
    view,
    volcano_job,
    worker_group,
    workload,
)
from webhook.config.defaults import built_in_kinds, built_in_shapes
from webhook.model.reading import Manifest
from webhook.validators.examples import stateful_set
from webhook.workloads.opted_in_gang import gangs_of, no_gang, starts_alone

SAMPLES = os.environ.get("ROLLCALL_SAMPLES")
FOLDERS = ("ray", "dynamo", "disaggregatedset", "pytorchjob", "mpijob", "spark", "volcano-job")


def _gangs(manifest: Manifest) -> dict[str, dict[str, tuple[int, int]]]:
    """By gang and member, the minimum and the pods."""
    return {
        gang.name: {member.name: (member.min_replicas, member.pods) for member in gang.members}
        for gang in gangs_of(view(manifest))
    }


AUTOSCALED: dict[str, Any] = {"enableInTreeAutoscaling": True}


@pytest.mark.parametrize(
    ("manifest", "gangs"),
    [
        (ray_cluster(), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (2, 2)}}),
        (ray_cluster(worker_group(numOfHosts=4)), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (8, 8)}}),
        (ray_cluster(worker_group(replicas=9)), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (4, 4)}}),
        (ray_cluster(worker_group(replicas=0)), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (1, 1)}}),
        (ray_cluster(worker_group(replicas=None)), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (1, 1)}}),
        (ray_cluster(worker_group(suspend=True)), {"demo": {"demo-headgroup": (1, 1)}}),
        (ray_cluster(**AUTOSCALED), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (1, 2)}}),
        (ray_cluster(worker_group(minReplicas=0), **AUTOSCALED), {"demo": {"demo-headgroup": (1, 1)}}),
        (ray_job(), {"demo": {"demo-headgroup": (1, 1), "demo-gpu": (2, 2)}}),
        (pytorch_job(), {"demo": {"demo-master": (1, 1), "demo-worker": (3, 3)}}),
        (pytorch_job(master=None, elasticPolicy={"minReplicas": 2}), {"demo": {"demo-worker": (2, 3)}}),
        (
            pytorch_job(
                master=None, elasticPolicy={"minReplicas": 2}, runPolicy={"schedulingPolicy": {"minAvailable": 1}}
            ),
            {"demo": {"demo-worker": (1, 3)}},
        ),
        (pytorch_job(elasticPolicy={"minReplicas": 2}), {"demo": {"demo-master": (1, 1), "demo-worker": (3, 3)}}),
        (mpi_job(), {"demo": {"demo-worker": (2, 2)}}),
        (spark_application(), {"demo-driver": {"demo-driver": (1, 1)}, "demo-executor": {"demo-executor": (3, 3)}}),
        (spark_application(mode="client"), {"demo-executor": {"demo-executor": (3, 3)}}),
        (volcano_job(), {}),
        (deployment(), {"demo": {"demo": (3, 3)}}),
        (stateful_set(podManagementPolicy="Parallel"), {"demo": {"demo": (3, 3)}}),
    ],
)
def test_gangs(manifest: Manifest, gangs: dict[str, Any]) -> None:
    assert _gangs(manifest) == gangs


def test_a_submitter_and_a_launcher_are_outside_the_gang() -> None:
    (submitter,) = view(ray_job(submitterPodTemplate=template())).outside_parts
    assert (submitter.name, submitter.pods, str(submitter.place)) == ("submitter", 1, "spec.submitterPodTemplate")
    assert [part.name for part in view(ray_job()).outside_parts] == ["submitter"], "of the operator's own template"
    assert not view(ray_job(submitterPodTemplate=template(), submissionMode="HTTPMode")).outside_parts
    assert [part.name for part in view(mpi_job()).outside_parts] == ["launcher"]


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (ray_job(), "its controller makes a RayCluster, which has the gang"),
        (
            ray_job(clusterSelector={"ray.io/cluster": "other"}),
            "its pods are those of a RayCluster that exists already",
        ),
        (
            spark_application(batchScheduler="volcano"),
            "Spark's operator makes a PodGroup, because batchScheduler is set",
        ),
        (volcano_job(), "Volcano's controller makes its PodGroup"),
        (
            ray_cluster(managedBy="kueue.x-k8s.io/multikueue"),
            'spec.managedBy says that "kueue.x-k8s.io/multikueue" ...',
        ),
        (
            pytorch_job(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}),
            'spec.runPolicy.managedBy says that "kueue.x-k8s.io/multikueue" ...',
        ),
    ],
)
def test_something_else_makes_the_gang(manifest: Manifest, why: str) -> None:
    found = no_gang(view(manifest))
    assert found is not None
    assert is_like(found.why, why)
    assert found.hindrance is None


@pytest.mark.parametrize(
    ("manifest", "at"),
    [
        (spark_application(dynamicAllocation={"enabled": True}), "spec.dynamicAllocation.enabled"),
        (mpi_job(runLauncherAsWorker=True), "spec.runLauncherAsWorker"),
        (
            mpi_job(launcherCreationPolicy="WaitForWorkersReady", runPolicy={"schedulingPolicy": {"queue": "a"}}),
            "spec.launcherCreationPolicy",
        ),
        (stateful_set(), "spec.podManagementPolicy"),
        (disaggregated_set(startupPolicy="LeaderReady"), "spec.roles[0].spec.startupPolicy"),
        (
            volcano_job(tasks=[{"name": "a", "replicas": 1, "template": template(), "dependsOn": {"name": ["b"]}}]),
            "spec.tasks[0].dependsOn",
        ),
        (
            volcano_job(
                tasks=[
                    {"name": "a", "replicas": 1, "template": template()},
                    {"name": "b", "replicas": 1, "template": {"spec": {"schedulerName": "default-scheduler"}}},
                ]
            ),
            "spec.tasks[1].template.spec.schedulerName",
        ),
    ],
)
def test_what_never_is_complete(manifest: Manifest, at: str) -> None:
    found = next(iter(view(manifest).hindrances))
    assert (found.rule, str(found.at)) == ("owner/incomplete", at)
    assert found.remedy


@pytest.mark.parametrize(
    ("manifest", "at", "why"),
    [
        (
            pytorch_job(
                master=None, elasticPolicy={"minReplicas": 1}, runPolicy={"schedulingPolicy": {"minAvailable": 5}}
            ),
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "the minimum is 5 pods, but only 3 are created; the gang is made with 3",
        ),
        (
            dynamo_deployment(replicas=2, minAvailable=3, multinode={"nodeCount": 2}),
            "spec.components[0].minAvailable",
            "the minimum is 6 pods, but only 4 are created",
        ),
        (
            ray_cluster() | {"metadata": {"labels": {"ray.io/gang-scheduling-enabled": "false"}}},
            "metadata.labels[ray.io/gang-scheduling-enabled]",
            "with --batch-scheduler=scheduler-plugins KubeRay makes a PodGroup of its own because of the label, "
            "whatever its value, and the minimum does not follow the number of workers",
        ),
        (
            pytorch_job(elasticPolicy={"minReplicas": 2}, runPolicy={"schedulingPolicy": {"queue": "a"}}),
            "spec.runPolicy.schedulingPolicy",
            "the training operator's own gang needs all replicas, and not the minReplicas of the elastic policy",
        ),
        (
            pytorch_job(
                master=None,
                worker=4,
                elasticPolicy={"minReplicas": 2},
                runPolicy={"schedulingPolicy": {"minAvailable": 4}},
            ),
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "...with 2 of these pods, ... needs 4: ...",
        ),
        (
            pytorch_job(worker=4, elasticPolicy={"minReplicas": 2}),
            "spec.elasticPolicy.minReplicas",
            "...with 2 of these pods, ... needs 4: ...",
        ),
        (
            mpi_job(runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
            "spec.runPolicy.schedulingPolicy",
            "mpi-operator makes a PodGroup of its own if it runs with --gang-scheduling, and overwrites the "
            "schedulerName of all pods",
        ),
    ],
)
def test_what_works_against_the_gang(manifest: Manifest, at: str, why: str) -> None:
    workload = view(manifest)
    findings = (*workload.warnings(), *workload.unreachable(makes_gang=workload.has_gangs), *workload.shrinks())
    of_place = [finding for finding in findings if (finding.rule, str(finding.at)) == ("owner/operator", at)]
    assert any(is_like(finding.why, why) and finding.remedy for finding in of_place)


@pytest.mark.parametrize(
    "manifest",
    [
        pytorch_job(master=None, worker=4, elasticPolicy={"minReplicas": 2}),
        pytorch_job(
            master=None,
            worker=4,
            elasticPolicy={"minReplicas": 2},
            runPolicy={"schedulingPolicy": {"minAvailable": 2}},
        ),
        pytorch_job(worker=2, elasticPolicy={"minReplicas": 2}),
        pytorch_job(worker=4, elasticPolicy={}),
        # The autoscaler lowers a group to minReplicas, and the gang needs no more.
        ray_cluster(worker_group(replicas=4, minReplicas=1), **AUTOSCALED),
        # Without it nothing does.
        ray_cluster(worker_group(replicas=4, minReplicas=1)),
    ],
)
def test_a_gang_that_needs_no_more_pods_than_its_workload_may_be_lowered_to(manifest: Manifest) -> None:
    assert not [one for one in view(manifest).warnings() if "may run with" in one.why]


@pytest.mark.parametrize(
    "manifest",
    [
        spark_application(dynamicAllocation={"enabled": False}),
        mpi_job(launcherCreationPolicy="WaitForWorkersReady"),
        stateful_set(podManagementPolicy="Parallel"),
        stateful_set(replicas=1),
        disaggregated_set(startupPolicy="LeaderCreated"),
        volcano_job(minAvailable=1, tasks=[{"name": "a", "template": template(), "dependsOn": {"name": ["b"]}}]),
        volcano_job(tasks=[{"name": "a", "template": {"spec": {"schedulerName": "volcano"}}}]),
        volcano_job(
            schedulerName="default-scheduler",
            tasks=[{"name": "a", "template": {"spec": {"schedulerName": "default-scheduler"}}}],
        ),
        dynamo_service(replicas=1),
    ],
)
def test_what_can_be_complete(manifest: Manifest) -> None:
    assert not list(view(manifest).hindrances)


@pytest.mark.parametrize(
    "manifest",
    [
        ray_cluster(suspend=True),
        ray_job(suspend=True),
        pytorch_job(runPolicy={"suspend": True}),
        mpi_job(runPolicy={"suspend": True}),
        spark_application(suspend=True),
    ],
)
def test_suspended(manifest: Manifest) -> None:
    assert view(manifest).suspended


@pytest.mark.parametrize(
    ("manifest", "alone"),
    [
        (ray_cluster(), False),
        (ray_cluster(worker_group(replicas=0, minReplicas=0)), True),
        (spark_application(executor={"instances": 1}), True),
        (spark_application(), False),
        (volcano_job(), True),
        (ray_job(), False),
        (deployment(replicas=1), True),
    ],
)
def test_whether_a_workload_has_a_gang_of_several_pods(manifest: Manifest, *, alone: bool) -> None:
    assert starts_alone(view(manifest)) is alone


def test_the_kind_of_a_gang_s_key_has_a_group_only_where_two_kinds_have_one_name() -> None:
    kinds = built_in_kinds()
    assert kinds.views["batch.volcano.sh", "Job"].kind == "Job.batch.volcano.sh"
    assert kinds.views["ray.io", "RayCluster"].kind == "RayCluster"
    assert kinds.views["batch", "Job"].kind == "Job"


def test_every_built_in_shape_names_its_source() -> None:
    assert all(shape.source for shape in built_in_shapes().values())


def test_the_other_version_of_a_kind_is_referred_to_as_it_is_written() -> None:
    old = {**ray_cluster(), "apiVersion": "ray.io/v1alpha1"}
    assert view(old).reference.api_version == "ray.io/v1alpha1"
    assert view(workload("", "RayCluster", {}) | {"apiVersion": "ray.io/v1"}).reference.api_version == "ray.io/v1"


@pytest.mark.skipif(SAMPLES is None, reason="no samples")
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_field_of_the_samples_can_be_read(folder: str) -> None:
    kinds = built_in_kinds()
    seen = 0
    for file in sorted(Path(SAMPLES or "", folder).glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            group, _, _ = str((manifest or {}).get("apiVersion")).rpartition("/")
            found = kinds.views.get((group, str((manifest or {}).get("kind"))))
            if found is not None and found.crd:
                found(manifest).read()
                seen += 1
    assert seen


@pytest.mark.skipif("ROLLCALL_CRDS" not in os.environ, reason="no CRDs")
def test_every_path_is_in_the_schema_of_its_kind() -> None:
    schemas: dict[tuple[str, str], Any] = {}
    for file in Path(os.environ["ROLLCALL_CRDS"]).rglob("*.yaml"):
        for crd in yaml.load_all(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if (crd or {}).get("kind") == "CustomResourceDefinition":
                for version in crd["spec"]["versions"]:
                    key = crd["metadata"]["name"], version["name"]
                    schemas[key] = version["schema"]["openAPIV3Schema"]
    checked = set()
    for shape in built_in_shapes().values():
        for version in shape.versions[:1]:
            schema = schemas.get((shape.crd, version))
            for path in () if schema is None else shape.paths:
                checked.add(shape.name)
                starts = [each.steps for each in shape.lists] if path.of_entry else [()]
                assert any(_has(schema, (*start, *path.steps)) for start in starts), f"{shape.name} {version}: {path}"
    assert checked >= {"raycluster", "rayjob", "rayservice", "pytorchjob", "mpijob", "sparkapplication", "volcano-job"}


def _has(schema: Any, steps: tuple[Any, ...]) -> bool:
    for step in steps:
        if schema.get("x-kubernetes-preserve-unknown-fields") and "properties" not in schema:
            return True
        if not isinstance(step, str):
            schema = schema.get("items") or schema.get("additionalProperties")
        elif isinstance(schema.get("additionalProperties"), dict):
            schema = schema["additionalProperties"]
        else:
            schema = (schema.get("properties") or {}).get(step)
            if step == "metadata":
                return True
        if schema is None:
            return False
    return True
