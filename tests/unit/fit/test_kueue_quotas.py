"""What Kueue's ClusterQueues can never give."""

from __future__ import annotations

import pytest

from tests.unit.fit.workload_fits import NO_LIMITS, job, node, verdict
from webhook.fit.verdict import FitAnswer

GPU = "nvidia.com/gpu"
QUEUED = "kueue.x-k8s.io/queue-name: q"


def queues(*flavors: str, cohort: str = "", covered: str = f"[cpu, {GPU}]", cq: str = "cq") -> str:
    """A LocalQueue and its ClusterQueue; of each flavor the quotas, such as `cpu: 4`."""
    named = "".join(f"\n    - name: f{index}\n      resources: [{one}]" for index, one in enumerate(flavors))
    return (
        f"{{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {{name: q, namespace: team}}, "
        f"spec: {{clusterQueue: cq}}}}\n---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\n"
        f"metadata: {{name: {cq}}}\nspec:\n  namespaceSelector: {{}}\n  {cohort}\n  resourceGroups:\n"
        f"  - coveredResources: {covered}\n    flavors:{named}\n---\n"
    )


def of(resource: str, nominal: str, borrowing: str = "") -> str:
    more = f", borrowingLimit: {borrowing}" if borrowing else ""
    return f"{{name: {resource}, nominalQuota: {nominal}{more}}}"


BIG = node(f"cpu: '64', memory: 64Gi, pods: '110', {GPU}: '64'") + NO_LIMITS
ASKS = f"cpu: '1', {GPU}: '8'"
PLENTY = of("cpu", "100")
NEVER, FITS, UNKNOWN = FitAnswer.NEVER, FitAnswer.FITS, FitAnswer.UNKNOWN
QUOTAS: dict[str, tuple[str, FitAnswer]] = {
    "enough": (queues(f"{PLENTY}, {of(GPU, '16')}"), FITS),
    "too little": (queues(f"{PLENTY}, {of(GPU, '15')}"), NEVER),
    "two flavors are one sum for two pod sets, and one pod set has one": (
        queues(f"{PLENTY}, {of(GPU, '8')}", f"{PLENTY}, {of(GPU, '8')}"),
        NEVER,
    ),
    "one of two flavors is enough": (queues(f"{PLENTY}, {of(GPU, '8')}", f"{PLENTY}, {of(GPU, '16')}"), FITS),
    "a cohort lends without a limit": (queues(f"{PLENTY}, {of(GPU, '1')}", cohort="cohortName: all"), FITS),
    "a cohort lends up to a limit": (
        queues(f"{of('cpu', '100', '1')}, {of(GPU, '8', '8')}", cohort="cohortName: all"),
        FITS,
    ),
    "a cohort lends too little": (
        queues(f"{of('cpu', '100', '1')}, {of(GPU, '8', '7')}", cohort="cohortName: all"),
        NEVER,
    ),
    "a borrowing limit without a cohort is none": (queues(f"{PLENTY}, {of(GPU, '8', '8')}"), NEVER),
    "cpu counts in cores": (queues(f"{of('cpu', '1999m')}, {of(GPU, '16')}"), NEVER),
    "a negative quota proves nothing": (queues(f"{PLENTY}, {of(GPU, '-1')}"), FITS),
    "a quota that overflows proves nothing": (queues(f"{PLENTY}, {of(GPU, '99E')}"), FITS),
    "a resource that it does not cover may be left out by the configuration": (queues(PLENTY, covered="[cpu]"), FITS),
}


@pytest.mark.parametrize(
    ("objects", "expected"), list(QUOTAS.items())[:-1] and list(QUOTAS.values())[:-1], ids=list(QUOTAS)[:-1]
)
def test_a_job_is_held_by_what_its_queue_can_give(objects: str, expected: FitAnswer) -> None:
    found = verdict(f"{objects}{BIG}{job(ASKS, labels=QUEUED)}")
    assert found.answer is expected
    if expected is NEVER:
        assert found.witness is not None
        assert str(found.witness.at) == "metadata.labels[kueue.x-k8s.io/queue-name]"
        assert any("Kueue" in one for one in found.assumptions)


def test_without_its_queue_the_quota_is_not_known() -> None:
    found = verdict(f"{queues(PLENTY, cq='other')}{BIG}{job(ASKS, labels=QUEUED)}")
    assert (found.answer, any("ClusterQueue" in cause for cause in found.causes)) == (FITS, True)


def test_a_job_that_may_start_with_fewer_pods_counts_with_these() -> None:
    objects = queues(f"{PLENTY}, {of(GPU, '8')}") + BIG
    least = "kueue.x-k8s.io/job-min-parallelism: '1', kueue.x-k8s.io/job-completions-equal-parallelism: 'true'"
    assert verdict(objects + job(ASKS, labels=QUEUED, annotations=least)).answer is not NEVER
    elastic = "kueue.x-k8s.io/elastic-job: 'true'"
    assert verdict(objects + job(ASKS, labels=QUEUED, annotations=elastic)).answer is not NEVER
    assert verdict(objects + job(ASKS)).answer is FITS


OPERATORS = {
    "a PyTorchJob, which Kueue may not be set up to hold": (
        "kubeflow.org/v1",
        "PyTorchJob",
        "pytorchReplicaSpecs",
        True,
    ),
    "an MPIJob, which it holds": ("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs", False),
}


@pytest.mark.parametrize(("api", "kind", "field", "assumed"), OPERATORS.values(), ids=OPERATORS)
def test_the_workloads_of_operators_are_held_too(api: str, kind: str, field: str, assumed: bool) -> None:
    pod = f"{{spec: {{containers: [{{name: c, resources: {{limits: {{{GPU}: 8}}}}}}]}}}}"
    workload = (
        f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: x, namespace: team, labels: {{{QUEUED}}}}}\nspec:\n"
        f"  {field}:\n    Worker: {{replicas: 3, template: {pod}}}\n"
    )
    too_small, enough = (queues(f"{PLENTY}, {of(GPU, amount)}") + BIG + workload for amount in ("23", "24"))
    found = verdict(too_small)
    assert found.answer is NEVER
    assert any(kind in one for one in found.assumptions) is assumed
    assert verdict(enough).answer is not NEVER
