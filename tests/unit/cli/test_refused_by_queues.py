"""What Kueue, Koordinator's quotas and Trainer's runtimes refuse at creation, as `check` says it of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Run
from tests.unit.cli.test_check_files import item

Objects = tuple[dict[str, Any], ...]
KUEUE = "kueue.x-k8s.io/"
QUEUED = {f"{KUEUE}queue-name": "team"}
MAIN = {"name": "main", "image": "busybox"}
PODS = {"spec": {"restartPolicy": "Never", "containers": [MAIN]}}
TESTED = ("kueue/refused", "kueue/pod-sets", "kueue/topology-keys", "owner/runtime", "resources/quota-tree")


def keyed(kind: str = "Job", *, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    """A Job of two pods, or a Pod, with these labels and annotations of Kueue."""
    metadata = {
        "labels": labels or {},
        "annotations": {f"{KUEUE}{name.replace('_', '-')}": value for name, value in annotations.items()},
    }
    if kind == "Pod":
        return item("v1", kind, metadata=metadata, spec=PODS["spec"])
    return item("batch/v1", kind, metadata=metadata, spec={"parallelism": 2, "template": PODS})


def steps(*groups: tuple[int, str]) -> dict[str, Any]:
    """A JobSet whose replicated Jobs, of so many pods, are in one pod set group, each with a topology."""
    jobs = []
    for index, (pods, topology) in enumerate(groups):
        asked = {f"{KUEUE}podset-required-topology": topology, f"{KUEUE}podset-group-name": "all"}
        template = {"metadata": {"annotations": asked}, **PODS}
        job = {"parallelism": pods, "completions": pods, "template": template}
        jobs.append({"name": f"job-{index}", "template": {"spec": job}})
    return item("jobset.x-k8s.io/v1alpha2", "JobSet", spec={"replicatedJobs": jobs})


def ray(kind: str = "RayJob", *, groups: int = 1, annotations: dict[str, str] | None = None, **cluster: Any) -> Any:
    """A RayJob in a queue, or a RayCluster."""
    template = {"spec": {"containers": [MAIN]}}
    workers = [{"groupName": f"group-{index}", "replicas": 1, "template": template} for index in range(groups)]
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers, **cluster}
    if kind == "RayJob":
        spec = {"shutdownAfterJobFinishes": True, "rayClusterSpec": spec}
    return item("ray.io/v1", kind, metadata={"labels": QUEUED, "annotations": annotations or {}}, spec=spec)


def quota(name: str, least: int, parent: str = "", **labels: str) -> dict[str, Any]:
    """A quota of Koordinator of 8 cores, with labels of its tree."""
    key = "quota.scheduling.koordinator.sh/"
    stated = {f"{key}{label.replace('_', '-')}": value for label, value in labels.items()}
    if parent:
        stated[f"{key}parent"] = parent
    spec = {"max": {"cpu": 8}, "min": {"cpu": least}}
    return item("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", name, metadata={"labels": stated}, spec=spec)


def runtime(*names: str, replicas: int = 1, container: str = "node", **spec: Any) -> dict[str, Any]:
    """A runtime of Trainer with replicated Jobs of these names, of which the one called node trains."""
    jobs = []
    for name in names:
        metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}} if name == "node" else {}
        template = {"metadata": metadata, "spec": {"template": {"spec": {"containers": [{**MAIN, "name": container}]}}}}
        jobs.append({"name": name, "replicas": replicas, "template": template})
    template = {"spec": {"replicatedJobs": jobs}, **spec.pop("template", {})}
    api = "trainer.kubeflow.org/v1alpha1"
    found = item(api, "ClusterTrainingRuntime", "torch", spec={"template": template, **spec})
    del found["metadata"]["namespace"]
    return found


def training(kind: str = "ClusterTrainingRuntime", **spec: Any) -> dict[str, Any]:
    """A TrainJob of that runtime."""
    return item(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", spec={"runtimeRef": {"name": "torch", "kind": kind}, **spec}
    )


_LABEL, _ANNOTATION = f"metadata.labels[{KUEUE}", f"metadata.annotations[{KUEUE}"
_MPI: dict[str, Any] = {"mlPolicy": {"mpi": {"runLauncherAsNode": True}}}
_SECRET = {"name": "node", "env": [{"name": "A", "value": "b"}]}
_PATCH = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [_SECRET]}}}}}
_STEP = "spec.template.spec.replicatedJobs[0]"
FILES: dict[str, tuple[Objects, set[tuple[str, str, Any]]]] = {
    "a queue that can have no name": (
        (keyed(labels={f"{KUEUE}queue-name": "team_a"}),),
        {("kueue/refused", f"{_LABEL}queue-name]", "team_a")},
    ),
    "a least parallelism that is no part": (
        (keyed(job_min_parallelism="2"),),
        {("kueue/refused", f"{_ANNOTATION}job-min-parallelism]", "2")},
    ),
    "keys that Kueue reads": (
        (keyed(labels=QUEUED, job_min_parallelism="1", admission_gated_by="example.com/a,example.com/b"),),
        set(),
    ),
    "one gate twice": (
        (keyed(admission_gated_by="example.com/a,example.com/a"),),
        {("kueue/refused", f"{_ANNOTATION}admission-gated-by]", "example.com/a,example.com/a")},
    ),
    "a pod of a group without its number": (
        (keyed("Pod", pod_group_name="team-a"),),
        {("kueue/refused", f"{_ANNOTATION}pod-group-total-count]", None)},
    ),
    "a number of pods without a group": (
        (keyed("Pod", pod_group_total_count="2"),),
        {("kueue/refused", f"{_ANNOTATION}pod-group-total-count]", "2")},
    ),
    "a pod of a group": ((keyed("Pod", pod_group_name="team-a", pod_group_total_count="2"),), set()),
    "a pod set group of a leader and its workers": ((steps((1, "rack"), (4, "rack")),), set()),
    "a pod set group without a leader": (
        (steps((2, "rack"), (4, "rack")),),
        {
            (
                "kueue/pod-sets",
                f"spec.replicatedJobs[1].template.spec.template.{_ANNOTATION}podset-group-name]",
                "all",
            )
        },
    ),
    "a pod set group of two topologies": (
        (steps((1, "rack"), (4, "block")),),
        {
            (
                "kueue/pod-sets",
                f"spec.replicatedJobs[1].template.spec.template.{_ANNOTATION}podset-group-name]",
                "all",
            )
        },
    ),
    "a Ray cluster that changes its size": (
        (ray(enableInTreeAutoscaling=True),),
        {("kueue/refused", "spec.rayClusterSpec.enableInTreeAutoscaling", True)},
    ),
    "an elastic Ray cluster": (
        (ray("RayCluster", enableInTreeAutoscaling=True, annotations={f"{KUEUE}elastic-job": "true"}),),
        set(),
    ),
    "more groups of Ray than a Workload has pod sets": (
        (ray("RayCluster", groups=18),),
        {("kueue/refused", "spec.workerGroupSpecs", 18)},
    ),
    "quotas below one with their minimum": (
        (quota("all", 8, is_parent="true"), quota("a", 4, "all"), quota("b", 4, "all")),
        set(),
    ),
    "quotas below one with a smaller minimum": (
        (quota("all", 6, is_parent="true"), quota("a", 4, "all"), quota("b", 4, "all")),
        {
            ("resources/quota-tree", "spec.min.cpu", 6),
            ("resources/quota-tree", "spec.min.cpu", 4),
        },
    ),
    "a quota below a leaf": (
        (quota("all", 8), quota("a", 4, "all")),
        {("resources/quota-tree", "metadata.labels[quota.scheduling.koordinator.sh/parent]", "all")},
    ),
    "a quota of another tree": (
        (quota("all", 8, is_parent="true", tree_id="one"), quota("a", 4, "all", tree_id="two"), quota("b", 4, "all")),
        {("resources/quota-tree", "metadata.labels[quota.scheduling.koordinator.sh/tree-id]", "two")},
    ),
    "a runtime of an unknown kind": (
        (training("Runtime"),),
        {("owner/runtime", "spec.runtimeRef.kind", "Runtime")},
    ),
    "a launcher that is no part of its runtime": (
        (training(trainer={"numNodes": 2}), runtime("node", **_MPI)),
        {("owner/runtime-parts", "spec.trainer.numNodes", 2)},
    ),
    "a launcher that is one of the nodes": (
        (training(trainer={"numNodes": 2}), runtime("launcher", "node", **_MPI)),
        set(),
    ),
    "variables of the trainer in a patch": (
        (
            training(
                runtimePatches=[{"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [_PATCH]}}}}],
            ),
            runtime("node"),
        ),
        {
            (
                "owner/runtime-parts",
                "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
                ".containers[0].env",
                "A",
            )
        },
    ),
    "several replicas of a step, without its container": (
        (runtime("node", replicas=2, container="main"),),
        {
            ("owner/runtime-steps", f"{_STEP}.replicas", 2),
            ("owner/runtime-steps", f"{_STEP}.template.spec.template.spec.containers", "main"),
        },
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_what_a_peer_refuses_at_creation_is_said_of_a_file(rollcall: Run, tmp_path: Path, case: str) -> None:
    objects, expected = FILES[case]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    ran = rollcall("check", "--config", "none", "-o", "json", str(tmp_path / "objects.yaml"))
    report = json.loads(ran.out)
    said = {(one["rule"], one["field"], one["found"]) for one in report["findings"] if one["rule"].startswith(TESTED)}
    assert said == expected
