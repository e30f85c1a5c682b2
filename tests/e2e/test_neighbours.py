"""JobSet, LeaderWorkerSet, Trainer, KubeRay and Kueue beside a control plane: that they work, with nothing of ours."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Controllers, Nodes, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import QUEUE_NAME, hold, one_queue, resume, until_workloads
from tests.e2e.opted_in_workloads import job, job_set, replicated_job
from tests.e2e.workload_objects import created, owner_chain, until_pods


@pytest.mark.every_version
def test_a_job_set_starts_once_kueue_admits_it(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
) -> None:
    controllers(plane, "jobset", "kueue")
    scheduler(plane, "kube")
    nodes(1)
    queued = {QUEUE_NAME: "queue"}
    with one_queue(plane, namespace, {"cpu": 8}) as queue:
        hold(plane, queue)
        created(plane, job_set("run", namespace, replicated_job("driver"), replicated_job("worker", 2), labels=queued))
        created(plane, job("solver", namespace, 2, labels=queued))
        until_workloads(plane, namespace, 2, QuotaReserved="False")
        assert until_pods(plane, namespace, "", 0) == []
        resume(plane, queue)
        until_workloads(plane, namespace, 2, Admitted="True", PodsReady="True")
        pods = until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=run", 3)
        assert owner_chain(plane, pods[0]) == ["Job run-driver-0", "JobSet run"]
