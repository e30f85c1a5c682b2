"""Rules about Jobs on KAI that Kueue starts: the annotation kai.scheduler/batch-min-member is a fixed number of pods,
and Kueue has its own idea of how many there are and must be ready.

Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/job (v0.17.0); kubernetes-sigs/kueue v0.19,
pkg/controller/jobs/job/job_controller.go.
"""

from __future__ import annotations

from typing import Any

from webhook.backends.kai.keys import ANNOTATION_MINIMUM
from webhook.backends.kai.settings import RuleContext
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Action, Finding
from webhook.model.kueue.holding import held, least_parallelism
from webhook.model.kueue.keys import COMPLETIONS_IN_STEP, MIN_PARALLELISM, QUEUE_NAME
from webhook.model.reading import text
from webhook.model.workloads.job import Job
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.held_gangs import duration, ready_times
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example, Results, Subject, rule

_MOST_DIGITS = 10


def _minimum(workload: OptedInWorkload, context: RuleContext) -> int | None:
    """The minimum that a Job states, if Kueue holds it and its group is a gang."""
    if not isinstance(workload, Job) or workload.managed_elsewhere is not None:
        return None
    stated = text(workload.annotations.get(ANNOTATION_MINIMUM)) or ""
    if not (stated.isascii() and stated.isdigit() and len(stated) <= _MOST_DIGITS) or int(stated) <= 1:
        return None
    return None if held(workload, context.facts, context.kueue) is None else int(stated)


def _job(minimum: int, **annotations: str) -> Example:
    labels = {QUEUE_NAME: "research"}
    stated = {ANNOTATION_MINIMUM: str(minimum), **annotations}
    counts: dict[str, Any] = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    return Example(job(scheduler="kai-scheduler", labels=labels, annotations=stated, **counts))


_PARTIAL = {MIN_PARALLELISM: "2", COMPLETIONS_IN_STEP: "true"}


@rule(
    "kueue/kai-minimum",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=_job(2, **_PARTIAL),
    fails=_job(4, **_PARTIAL),
)
def minimum_above_partial(workload: OptedInWorkload, context: RuleContext) -> Results:
    """If its queue has too little room, Kueue resumes a Job with a lower parallelism. Podgrouper's minimum does not
    follow, so the gang waits for pods that the Job never creates.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/job (`RunWithPodSetsInfo`); kai-scheduler/KAI-Scheduler,
    pkg/podgrouper/podgrouper/plugins/job (v0.17.0).
    """
    minimum = _minimum(workload, context)
    least = least_parallelism(workload) if isinstance(workload, Job) else None
    if minimum is not None and least is not None and minimum > least:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MINIMUM,
            found=str(minimum),
            why=f"Kueue may start the Job with {least} pods, and KAI then waits for {minimum}",
            remedy=f"set it to at most {least}, as {MIN_PARALLELISM}",
        )


@rule(
    "kueue/kai-ready-minimum",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=_job(4),
    fails=_job(2),
)
def minimum_below_ready(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Kueue calls a Job ready when all pods that it has at a time are ready or have succeeded. A gang that KAI starts
    with its minimum is not ready in that sense, so Kueue stops it while it works.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/job/job_controller.go (`PodsReady`).
    """
    minimum, timeout = _minimum(workload, context), ready_times(workload, context).ready
    if minimum is None or timeout is None or minimum >= (pods := workload.parts[0].pods):
        return
    if isinstance(workload, Job) and least_parallelism(workload) == minimum:
        # The other rule asks for this: Kueue then waits for the pods that it has admitted.
        return
    yield Finding(
        at=ANNOTATIONS / ANNOTATION_MINIMUM,
        found=str(minimum),
        why=f"Kueue wants all {pods} pods ready, and KAI starts the gang with {minimum}: it is stopped "
        f"{duration(timeout)} after its admission although it runs",
        remedy=f'set it to "{pods}"',
    )
