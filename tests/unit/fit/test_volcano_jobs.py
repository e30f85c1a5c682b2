"""The gang of a Volcano Job: what Volcano's controller makes of its tasks."""

from __future__ import annotations

import pytest

from tests.unit.fit.workload_fits import NO_LIMITS, entry, node, verdict
from webhook.fit.verdict import FitAnswer

NEVER, FITS, UNKNOWN = FitAnswer.NEVER, FitAnswer.FITS, FitAnswer.UNKNOWN
# Two nodes of one GPU each.
NODES = "".join(node("cpu: '8', memory: 64Gi, pods: '110', nvidia.com/gpu: '1'", name) for name in ("n1", "n2"))
QUEUES = """\
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: small}, spec: {capability: {nvidia.com/gpu: '1'}}, status: {state: Open}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: large}, status: {state: Open}}
---
"""  # noqa: E501 - a line each


def task(name: str, replicas: int, gpus: int = 1, more: str = "", pod: str = "") -> str:
    limits = f"resources: {{limits: {{nvidia.com/gpu: '{gpus}'}}}}"
    return (
        f"{{name: {name}, replicas: {replicas}, {more} "
        f"template: {{spec: {{{pod} containers: [{{name: c, {limits}}}]}}}}}}"
    )


def job(*tasks: str, spec: str = "minAvailable: 2, queue: large") -> str:
    named = "".join(f"  - {one}\n" for one in tasks)
    fields = "".join(f"  {one.strip()}\n" for one in spec.split(","))
    return (
        f"{QUEUES}{NODES}{NO_LIMITS}apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: j}}\n"
        f"spec:\n{fields}  tasks:\n{named}"
    )


JOBS: dict[str, tuple[str, FitAnswer]] = {
    "all pods have a node": (job(task("a", 2)), FITS),
    "a pod is too large": (job(task("a", 2, gpus=2)), NEVER),
    "too many pods": (job(task("a", 3), spec="minAvailable: 3, queue: large"), NEVER),
    "all pods, where the Job states no minimum": (job(task("a", 3), spec="queue: large"), NEVER),
    "the minimum of one task, below its replicas": (job(task("a", 9)), FITS),
    "the minimum of a task": (job(task("a", 9, more="minAvailable: 2,"), spec="queue: large"), FITS),
    "two tasks": (job(task("a", 1), task("b", 1)), FITS),
    "a task of which no pod has to be there": (job(task("a", 2), task("b", 2, gpus=9, more="minAvailable: 0,")), FITS),
    "minimums of tasks that are more than that of the Job do not count": (
        job(task("a", 3, more="minAvailable: 3,"), task("b", 3, more="minAvailable: 3,")),
        UNKNOWN,
    ),
    "any of two tasks": (job(task("a", 2), task("b", 2), spec="minAvailable: 3, queue: large"), UNKNOWN),
    "its own queue is too small": (job(task("a", 2), spec="minAvailable: 2, queue: small"), NEVER),
    "the default queue, which may be that of the namespace": (job(task("a", 2), spec="minAvailable: 2"), FITS),
    "a topology": (job(task("a", 2), spec="minAvailable: 2, queue: large, networkTopology: {mode: hard}"), UNKNOWN),
}


@pytest.mark.parametrize(("text", "expected"), JOBS.values(), ids=JOBS)
def test_the_gang_of_a_volcano_job(text: str, expected: FitAnswer) -> None:
    # The profile's queue is nothing to a group that Rollcall does not make.
    found = verdict(text, "volcano", {"defaultQueue": "small", "enableHierarchy": False})
    assert found.answer is expected, found


def test_the_queue_is_named_where_the_job_names_it() -> None:
    found = verdict(job(task("a", 2), spec="minAvailable: 2, queue: small"), "volcano").witness
    assert found is not None
    assert str(found.at) == "spec.queue"


NOT_JUDGED: dict[str, tuple[str, str]] = {
    "under another scheduler": (job(task("a", 2)), "coscheduling"),
    "that names another scheduler": (
        job(task("a", 2), spec="schedulerName: default-scheduler"),
        "volcano",
    ),
    "of which a task does": (job(task("a", 2, pod="schedulerName: x,")), "volcano"),
    "whose tasks start one after another": (job(task("a", 1), task("b", 1, more="dependsOn: {name: [a]},")), "volcano"),
}


@pytest.mark.parametrize(("text", "scheduler"), NOT_JUDGED.values(), ids=NOT_JUDGED)
def test_no_gang_is_judged_of_a_volcano_job(text: str, scheduler: str) -> None:
    assert entry(text, scheduler) is None
