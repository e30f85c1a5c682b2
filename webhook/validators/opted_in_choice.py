"""Rules about the scheduler of an opted-in workload and about its record. They cannot be softened."""

from __future__ import annotations

from typing import Any

from webhook.model.fields import LABELS
from webhook.model.findings import Finding
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set
from webhook.validators.registry import Context, Example, OptedInChange, Results, Subject, rule


@rule(
    "owner/scheduler-unknown",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job_set(scheduler="koord-scheduler")),
    fails=Example(job_set(scheduler="koordinator")),
)
def owner_scheduler_unknown(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Rollcall would not prepare the pods of the workload, and they would start one by one under Kubernetes' own
    scheduler.

    Source: Rollcall prepares pods for the profiles of its configuration; kubernetes, pkg/scheduler/eventhandlers.go.
    """
    choice = context.choice
    if choice.scheduler not in choice.available:
        yield Finding(
            at=choice.path,
            found=choice.scheduler,
            why="no enabled profile has that name",
            remedy=f"choose one of {', '.join(choice.available)}, or add the profile to Rollcall's configuration",
        )


@rule(
    "owner/scheduler-change",
    subject=Subject.OPTED_IN_CHANGE,
    fails_closed=True,
    passes=Example(job(suspend=True), old=job()),
    fails=Example(job(scheduler="volcano"), old=job()),
)
def owner_scheduler_change(change: OptedInChange, context: Context[Any]) -> Results:
    """If the record changed, or were added to a workload that predates Rollcall, it would split the gang: existing pods
    were prepared for the recorded scheduler, and the pod templates give later pods the same record.

    Source: kubernetes, pkg/apis/batch/validation (a Job's pod template is immutable); jobset, pkg/webhooks (v0.12.0).
    """
    before, now = change.old.scheduler, change.new.scheduler
    if before != now and now is not None:
        yield Finding(
            at=LABELS / SCHEDULER_LABEL,
            found=now,
            why=f"its pods were prepared for {before or 'no gang scheduler'}",
            remedy=f"delete the {change.new.kind} and recreate it with the other scheduler",
            forbidden=True,
        )
