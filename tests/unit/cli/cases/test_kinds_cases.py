"""Published cases about gangs that KAI's podgrouper, Volcano or the operators of workloads make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.cases.published_cases import FOLDER, Case, findings, needs_cases, report
from tests.unit.cli.conftest import Run

pytestmark = needs_cases

KAI, VOLCANO = "--config config-kai.yaml --facts facts.yaml ", "--config config-volcano.yaml --facts vq.yaml "
MINIMUM = "metadata.annotations[kai.scheduler/batch-min-member]"
TEMPLATE = "template.metadata.annotations"
REQUIRED = "kai.scheduler/topology-required-placement"
CASES = [
    Case(
        "kai-ray-worker-topology",
        "--facts facts.yaml ray.yaml",
        frozenset(
            {
                ("kai/owner-ungrouped", f"spec.workerGroupSpecs[0].{TEMPLATE}[{REQUIRED}]"),
                ("kai/owner-topology", f"spec.workerGroupSpecs[1].{TEMPLATE}[kai.scheduler/topology]"),
            }
        ),
    ),
    Case(
        "kuberay-1580-rayjob-volcano",
        "--scheduler volcano --facts q.yaml rayjob.yaml",
        frozenset({("fit/queue", "metadata.labels[volcano.sh/queue-name]")}),
    ),
    Case(
        "spark-1343-partial-gang",
        "--facts node.yaml spark.yaml",
        frozenset({("owner/operator", "spec.batchScheduler")}),
    ),
    Case(
        "spark-1343-partial-gang",
        "--facts node.yaml spark.yaml group.yaml",
        frozenset({("owner/operator", "spec.batchScheduler")}),
    ),
    Case(
        "volcano-3910-spark-autoscaler",
        "--facts facts-noqueue.yaml spark.yaml",
        frozenset({("volcano/owner-queue", "spec.batchSchedulerOptions.queue")}),
    ),
    Case(
        "volcano-3910-spark-autoscaler",
        "--facts facts.yaml spark.yaml",
        frozenset({("volcano/owner-spark-queue", "spec.batchSchedulerOptions.queue")}),
    ),
    Case(
        "volcano-3872-queue-missing",
        "--scheduler volcano --facts queues.yaml job.yaml",
        frozenset({("volcano/owner-queue", "spec.queue")}),
    ),
    Case(
        "volcano-3872-queue-missing",
        "--scheduler volcano --facts nodes.yaml big.yaml",
        frozenset({("fit/queue", "spec.queue")}),
    ),
    Case(
        "volcano-2944-depends-on",
        "--facts queue.yaml job.yaml all.yaml none.yaml",
        frozenset(
            {
                ("volcano/job-in-turn", "spec.tasks[1].minAvailable"),
                ("volcano/job-in-turn", "spec.minAvailable"),
                ("owner/incomplete", "spec.tasks[1].dependsOn"),
            }
        ),
    ),
    Case(
        "volcano-1542-deployment-over-queue",
        "all.yaml",
        frozenset({("fit/queue", "metadata.annotations[scheduling.volcano.sh/queue-name]")}),
    ),
    Case(
        "volcano-1542-deployment-over-queue",
        "job.yaml",
        frozenset({("fit/queue", "metadata.annotations[scheduling.volcano.sh/queue-name]")}),
    ),
    Case(
        "volcano-4739-deployment-rollout",
        "--facts queue.yaml not-opted.yaml",
        frozenset({("owner/group-rollout", "metadata.annotations[scheduling.volcano.sh/group-min-member]")}),
    ),
    Case(
        "claims-on-koordinator",
        "jobset.yaml",
        frozenset(
            {("koordinator/owner-resource-claims", "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims")}
        ),
    ),
    Case(
        "claims-on-koordinator",
        "--scheduler volcano --facts queue.yaml jobset.yaml",
        frozenset(
            {("volcano/owner-resource-claims", "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims")}
        ),
    ),
    Case("peers", f"{KAI}kai-job-min-0.yaml", frozenset({("kai/owner-ungrouped", MINIMUM)})),
    Case("peers", f"{KAI}kai-job-min-unreadable.yaml", frozenset({("kai/owner-ungrouped", MINIMUM)})),
    Case("peers", f"{KAI}kai-jobset-as-podgroup.yaml", frozenset({("kai/group-optional", "spec.minSubGroup")})),
    Case("peers", f"{KAI}kai-jobset-dependson.yaml", frozenset({("kai/owner-stale", MINIMUM)})),
    Case(
        "peers",
        f"{KAI}kai-jobset-inorder.yaml",
        frozenset({("kai/owner-stale", "spec.startupPolicy.startupPolicyOrder")}),
    ),
    Case(
        "peers",
        f"{KAI}kai-jobset-template-min.yaml",
        frozenset({("kai/owner-minimum", f"spec.replicatedJobs[0].{TEMPLATE}[kai.scheduler/batch-min-member]")}),
    ),
    Case(
        "peers",
        f"{KAI}kai-pcs-gpu-fraction.yaml",
        frozenset({("kai/gpu-sharing", "spec.template.cliques[0].annotations.gpu-fraction")}),
    ),
    Case("peers", f"{KAI}kai-pytorch-min.yaml", frozenset({("kai/owner-minimum", "spec.elasticPolicy.minReplicas")})),
    Case(
        "peers",
        f"{KAI}kai-ray-topology-unnamed.yaml",
        frozenset({("kai/owner-ungrouped", f"spec.workerGroupSpecs[0].{TEMPLATE}[{REQUIRED}]")}),
    ),
    Case(
        "peers",
        f"{VOLCANO}ray-queue.yaml",
        frozenset({("volcano/owner-queue", "metadata.labels[volcano.sh/queue-name]")}),
    ),
    Case(
        "peers",
        f"{VOLCANO}pytorch-queue.yaml",
        frozenset(
            {
                ("volcano/owner-queue", "spec.runPolicy.schedulingPolicy.queue"),
                ("owner/operator", "spec.runPolicy.schedulingPolicy.minAvailable"),
            }
        ),
    ),
    Case(
        "peers",
        f"{VOLCANO}spark-queue.yaml",
        frozenset({("volcano/owner-queue", "spec.batchSchedulerOptions.queue")}),
    ),
    *(
        Case(
            "peers",
            f"{VOLCANO}{name}.yaml",
            frozenset({("volcano/owner-queue", "spec.queue"), ("volcano/job-minimum", "spec.minAvailable")}),
        )
        for name in ("volcano-job-queue", "volcano-job-closed")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_wrong_is_said_at_its_field(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    assert findings(report(rollcall, monkeypatch, case)) >= case.findings


@pytest.mark.parametrize(
    "case",
    [
        Case("peers", f"{KAI}kai-ray-topology.yaml"),
        Case("peers", f"{KAI}kai-rayjob-topology.yaml"),
        Case("volcano-4739-deployment-rollout", "--facts queue.yaml deploy.yaml"),
        Case("volcano-4739-deployment-rollout", "koord.yaml"),
    ],
    ids=lambda case: case.name,
)
def test_what_is_right_has_no_finding(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    assert findings(report(rollcall, monkeypatch, case)) == set()


def _fits(rollcall: Run, monkeypatch: pytest.MonkeyPatch, folder: str, arguments: str) -> list[dict[str, Any]]:
    """The gangs that `rollcall fit` judges in a folder of the published cases."""
    assert FOLDER is not None
    monkeypatch.chdir(Path(FOLDER, folder))
    result = rollcall("fit", "--output", "json", *arguments.split())
    assert result.code in (0, 1), result.err
    gangs: list[dict[str, Any]] = json.loads(result.out)["gangs"]
    return gangs


@pytest.mark.parametrize(
    ("folder", "arguments", "verdict", "pods"),
    [
        ("kai-924-ray-unsatisfiable", "--facts facts.yaml ray2.yaml", "fits", {"headgroup": 1, "small": 1}),
        ("kai-924-ray-unsatisfiable", "--facts facts.yaml ray.yaml", "never", {"headgroup": 1, "small": 1, "large": 1}),
        (
            "kuberay-1580-rayjob-volcano",
            "--scheduler volcano --facts q.yaml rayjob.yaml",
            "never",
            {"headgroup": 1, "w": 3},
        ),
        ("volcano-3872-queue-missing", "--scheduler volcano --facts nodes.yaml big.yaml", "never", {"web": 6}),
        ("volcano-1542-deployment-over-queue", "all.yaml", "never", {"big": 1}),
    ],
)
def test_fit_judges_the_minimum_and_the_queue_of_the_gang(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch, folder: str, arguments: str, verdict: str, pods: dict[str, int]
) -> None:
    (gang,) = _fits(rollcall, monkeypatch, folder, arguments)
    assert (gang["verdict"], gang["pods"]) == (verdict, pods)
