"""Rules about the scheduler of an opted-in workload and about its record. They cannot be softened."""

from __future__ import annotations

from typing import Any

from webhook.model.claims import claims_on
from webhook.model.fields import LABELS, FieldPath
from webhook.model.findings import Finding
from webhook.model.reading import text
from webhook.model.record import OPTED_OUT, SCHEDULER_LABEL
from webhook.model.workloads.gang import template_record
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.choice import no_profile
from webhook.validators.opted_in_examples import job, job_set, pod_template
from webhook.validators.registry import Context, Example, OptedInChange, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER


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
    if choice.scheduler == OPTED_OUT and OPTED_OUT not in choice.available:
        yield Finding(
            at=choice.path,
            found=choice.scheduler,
            why="the configuration does not permit workloads of this namespace to opt out of gangs",
            remedy=f"choose one of {', '.join(choice.available)}, or set optOut of the namespace in Rollcall's "
            "configuration",
        )
    elif choice.scheduler not in choice.available:
        yield no_profile(choice)


@rule(
    "owner/opted-out",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job(scheduler=OPTED_OUT)),
    fails=Example(job(scheduler=OPTED_OUT, template=pod_template({"schedulerName": "koord-scheduler"}))),
)
def opted_out(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Rollcall leaves the pods of a workload that opted out as they are. If they name a gang scheduler or a gang, they
    would be in a gang that Rollcall has not judged.

    Source: Rollcall's own label; the names and marks by which each scheduler knows the pods of a gang.
    """
    choice = context.choice
    if choice.scheduler != OPTED_OUT:
        return
    schedulers = {*choice.available} - {OPTED_OUT, DEFAULT_SCHEDULER}
    for part in workload.distinct_parts:
        template = part.template
        named = [(template.spec_path / "schedulerName", text(template.spec.get("schedulerName")))]
        named.append((template.labels_path / SCHEDULER_LABEL, text(template.labels.get(SCHEDULER_LABEL))))
        wrong: list[tuple[FieldPath, object]] = [(path, name) for path, name in named if name in schedulers]
        wrong += [(claim.path, claim.value) for claim in claims_on(template)]
        for path, value in wrong:
            yield Finding(
                at=path,
                found=value,
                why=f"the workload says that it is no gang ({choice.path}), and its pods would be in one",
                remedy=f"remove it from the template, or choose a scheduler in {SCHEDULER_LABEL}",
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
    were prepared for the recorded scheduler, and the pod templates give later pods the same record. A record that was
    removed while Rollcall did not answer may be set again: the pod templates still say which it was.

    Source: kubernetes, pkg/apis/batch/validation (a Job's pod template is immutable); jobset, pkg/webhooks (v0.12.0).
    """
    before, now = change.old.scheduler, change.new.scheduler
    if before is None and now == template_record(change.old):
        return
    if before != now and now is not None:
        yield Finding(
            at=LABELS / SCHEDULER_LABEL,
            found=now,
            why=f"its pods were prepared for {before or 'no gang scheduler'}",
            remedy=f"delete the {change.new.kind} and recreate it with the other scheduler",
            forbidden=True,
        )
