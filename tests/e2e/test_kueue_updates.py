"""What Kueue changes of workloads that it holds, while Rollcall's rules deny them: a refused update would hold quota.

The workloads are older than the webhook. A rule denies each of them from the moment when the webhook is registered.
"""

from __future__ import annotations

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Rollcall, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import QUEUE_NAME, change, hold, one_queue, resume, until_workloads
from tests.e2e.opted_in_workloads import job, job_set, pod_template, replicated_job
from tests.e2e.workload_objects import created, deleted, listed, path_of, read, until_pods

CONFIG = configuration_of({"name": "default-scheduler", "config": {"gangScheduling": True}})
LABELS = {QUEUE_NAME: "queue", "rollcall.dev/scheduler": "default-scheduler"}
OF_JOB, OF_JOB_SET = "batch.kubernetes.io/job-name=train", "jobset.sigs.k8s.io/jobset-name=run"


def grouped(name: str, namespace: str) -> Manifest:
    """A pod of a pod group of two."""
    labels = {QUEUE_NAME: "queue", "kueue.x-k8s.io/pod-group-name": "group"}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_template()["spec"]}


def refused(plane: ControlPlane, manifest: Manifest) -> str:
    """The answer to its creation, which is refused."""
    metadata = manifest["metadata"]
    where = path_of(manifest["apiVersion"], manifest["kind"], metadata["namespace"])
    again = {**manifest, "metadata": {**metadata, "name": f"{metadata['name']}-again"}}
    answer = plane.http.post(where, params={"dryRun": "All"}, json=again)
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY, answer.text
    return answer.text


@pytest.mark.beside
def test_kueue_resumes_evicts_and_readmits_what_a_rule_has_come_to_deny(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
    rollcall: Rollcall,
) -> None:
    controllers(plane, "jobset", "kueue")
    scheduler(plane, "kube")
    nodes(2)
    train = job("train", namespace, 2, completions=5, labels=LABELS)
    run = job_set("run", namespace, replicated_job("a", 2, completions=5), labels=LABELS)
    with one_queue(plane, namespace, {"cpu": 8}) as queue:
        hold(plane, queue)
        for one in (train, run):
            created(plane, one)
        for name in ("p0", "p1"):
            created(plane, grouped(name, namespace))
        until_workloads(plane, namespace, 3, QuotaReserved="False")
        rollcall(plane, CONFIG)
        assert "owner/completions" in refused(plane, train)
        assert "owner/completions" in refused(plane, run)
        resume(plane, queue)
        until_workloads(plane, namespace, 3, Admitted="True", PodsReady="True")
        until_pods(plane, namespace, OF_JOB, 2)
        until_pods(plane, namespace, OF_JOB_SET, 2)
        # Pods of a group are deleted with their eviction, and nobody creates them again.
        change(plane, "ClusterQueue", queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
        until_pods(plane, namespace, OF_JOB, 0)
        until_pods(plane, namespace, OF_JOB_SET, 0)
        assert read(plane, "batch/v1", "Job", namespace, "train")["spec"]["suspend"] is True
        resume(plane, queue)
        until_pods(plane, namespace, OF_JOB, 2)
        until_pods(plane, namespace, OF_JOB_SET, 2)
        for kind in (("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")):
            for one in listed(plane, *kind, namespace):
                deleted(plane, one, "Background")
