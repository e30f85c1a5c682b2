"""Rules about the choice of the scheduler and its record, for PodCliqueSets and for opted-in workloads.

They run before any backend's rules, and cannot be softened. Without exactly one scheduler the rules to run are
unknown. A record that changes while a gang exists splits the gang.
"""

from __future__ import annotations

from typing import Any

from webhook.model.claims import claims_on
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath, meant
from webhook.model.findings import Finding
from webhook.model.grove import WRITERS
from webhook.model.known_objects import PodGangFacts
from webhook.model.reading import text
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.validators.examples import clique, job, job_set, pod_clique_set, pod_template
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, Choice, template_names
from webhook.validators.registry import Context, Example, OptedInChange, PodCliqueSetChange, Results, Subject, rule
from webhook.validators.shared_checks import gangs_of_set
from webhook.workloads.opted_in_gang import template_record
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet


def no_profile(choice: Choice) -> Finding:
    """Returns the finding about a scheduler that no profile has."""
    near = meant(choice.scheduler, choice.available)
    why = "no enabled profile has that name"
    remedy = f"choose one of {', '.join(choice.available)}, or add the profile to Rollcall's configuration{near}"
    return Finding(choice.path, choice.scheduler, why, remedy)


def _labelled(scheduler: str) -> dict[str, str]:
    return {SCHEDULER_LABEL: scheduler}


@rule(
    "rollcall/scheduler-unknown",
    fails_closed=True,
    passes=Example(pod_clique_set(labels=_labelled("koord-scheduler"))),
    fails=Example(pod_clique_set(labels=_labelled("koordinator"))),
)
def scheduler_unknown(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """A pod whose schedulerName belongs to no scheduler stays pending without an event, so the whole gang stays
    pending.

    Source: kube-scheduler (pkg/scheduler/eventhandlers.go) schedules only pods of its own profiles; Grove's operator
    uses its default backend for an unknown name (operator/internal/scheduler/registry, 2026-08).
    """
    choice = context.choice
    if choice.scheduler not in choice.available:
        yield no_profile(choice)


@rule(
    "rollcall/scheduler-disagree",
    looks_at=("schedulerName",),
    fails_closed=True,
    passes=Example(
        pod_clique_set(
            clique("leader", pod={"schedulerName": "koord-scheduler"}),
            clique("worker", pod={"schedulerName": "koord-scheduler"}),
        )
    ),
    fails=Example(
        pod_clique_set(
            clique("leader", pod={"schedulerName": "koord-scheduler"}),
            clique("worker", pod={"schedulerName": "volcano"}),
        )
    ),
)
def scheduler_disagree(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """A gang whose pods name different schedulers never starts: each scheduler holds its own pods until the others are
    there.

    Grove refuses templates that differ (validation of podSpec.schedulerName, operator/internal/webhook/admission/pcs).
    If a template contradicts the label, Rollcall would prepare the pods for one scheduler and Grove for another.
    """
    choice = context.choice
    # Another rule refuses an unknown scheduler, and templates must not be changed to name it.
    unknown = choice.scheduler not in choice.available
    for template in () if choice.overrides or unknown else template_names(workload):
        if template.scheduler != choice.scheduler:
            why = f"all pods of a gang need the same scheduler, and {choice.chooser} says {choice.scheduler}"
            remedy = (
                f"remove schedulerName from all templates and choose {choice.scheduler} by the label "
                f"{SCHEDULER_LABEL}, or set it to {choice.scheduler} in all, if Grove has a profile of that name"
            )
            yield Finding(template.path, template.scheduler, why, remedy)


_ONE_GANG = ClusterFacts(
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")}, bound_gangs=frozenset({("default", "demo-0")})
)
_NO_GANG = ClusterFacts(pod_gangs={}, bound_gangs=frozenset())


@rule(
    "rollcall/scheduler-change",
    subject=Subject.CHANGE,
    fails_closed=True,
    passes=Example(
        pod_clique_set(labels=_labelled("default-scheduler")),
        old=pod_clique_set(labels=_labelled("koord-scheduler")),
        facts=_NO_GANG,
    ),
    fails=Example(
        pod_clique_set(labels=_labelled("default-scheduler")),
        old=pod_clique_set(labels=_labelled("koord-scheduler")),
        facts=_ONE_GANG,
    ),
)
def scheduler_change(change: PodCliqueSetChange, context: Context[Any]) -> Results:
    """If the record changes while a gang exists, replacement pods go to another scheduler than the other pods, and
    neither scheduler ever sees a complete gang. The record says which scheduler the pods were prepared for. The same
    holds for a set without a record as soon as one of its pods is bound that was not prepared for that scheduler.

    Source: design of the record at CREATE; Koordinator and the Workload API hold a pod until its whole group is with
    the same scheduler.
    """
    workload = change.new
    before, now = change.old.labels.get(SCHEDULER_LABEL), workload.labels.get(SCHEDULER_LABEL)
    if before == now or now is None:
        return
    gangs, bound = context.facts.pod_gangs, context.facts.bound_gangs
    is_certain = gangs is not None and (before is not None or bound is not None)
    living = gangs_of_set(workload, gangs or {})
    if is_certain and not any(before is not None or key in (bound or ()) for key in living):
        return
    why = f"its gangs were prepared for {before or 'no recorded scheduler'}" + (
        " and still exist" if is_certain else ", and it is unknown whether any still exists"
    )
    remedy = "delete the PodCliqueSet and recreate it with the other scheduler"
    yield Finding(LABELS / SCHEDULER_LABEL, now, why, remedy, forbidden=True)


_KAI_TEMPLATES = clique("worker", pod={"schedulerName": "kai-scheduler"})


@rule(
    "rollcall/writer-change",
    subject=Subject.CHANGE,
    fails_closed=True,
    passes=Example(
        pod_clique_set(labels=_labelled("kai-scheduler")),
        old=pod_clique_set(_KAI_TEMPLATES, labels=_labelled("kai-scheduler")),
        facts=_NO_GANG,
    ),
    fails=Example(
        pod_clique_set(labels=_labelled("kai-scheduler")),
        old=pod_clique_set(_KAI_TEMPLATES, labels=_labelled("kai-scheduler")),
        facts=_ONE_GANG,
    ),
)
def writer_change(change: PodCliqueSetChange, context: Context[Any]) -> Results:
    """If the pod templates of a set with living gangs start or stop to name volcano or kai-scheduler, Grove's own
    backend starts or stops writing the gangs, and Rollcall stops or starts, under the same scheduler. Replacement pods
    then name the PodGroup of one writer and the other pods that of the other, and no PodGroup ever has all pods.

    Source: ai-dynamo/grove, operator/internal/scheduler (backend by schedulerName), which makes the schedulerName of a
    template immutable (operator/internal/webhook/admission/pcs); webhook/gangs/object_plan.py.
    """
    # The schedulerName of the templates for which Grove's own backend writes the gang objects.
    before, now = (
        next((template for template in template_names(workload) if template.scheduler in WRITERS), None)
        for workload in (change.old, change.new)
    )
    if (before is None) == (now is None):
        return
    gangs = context.facts.pod_gangs
    if gangs is not None and not any(gangs_of_set(change.new, gangs)):
        return
    template = now or before
    at = template.path if template else LABELS / SCHEDULER_LABEL
    when = " while its gangs exist" if gangs is not None else ", and it is unknown whether its gangs still exist"
    why = f"Grove's own backend would {'start' if now else 'stop'} writing its PodGroups{when}"
    remedy = "delete the PodCliqueSet and recreate it with the other schedulerName"
    yield Finding(at, now.scheduler if now else None, why, remedy, forbidden=True)


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
        why = "the configuration does not permit workloads of this namespace to opt out of gangs"
        remedy = (
            f"choose one of {', '.join(choice.available)}, or set optOut of the namespace in Rollcall's configuration"
        )
        yield Finding(choice.path, choice.scheduler, why, remedy)
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
        names = [(template.spec_path / "schedulerName", text(template.spec.get("schedulerName")))]
        names.append((template.labels_path / SCHEDULER_LABEL, text(template.labels.get(SCHEDULER_LABEL))))
        wrong: list[tuple[FieldPath, object]] = [(path, name) for path, name in names if name in schedulers]
        wrong += [(claim.path, claim.value) for claim in claims_on(template)]
        for path, value in wrong:
            why = f"the workload says that it is no gang ({choice.path}), and its pods would be in one"
            yield Finding(path, value, why, f"remove it from the template, or choose a scheduler in {SCHEDULER_LABEL}")


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
        why = f"its pods were prepared for {before or 'no gang scheduler'}"
        remedy = f"delete the {change.new.kind} and recreate it with the other scheduler"
        yield Finding(LABELS / SCHEDULER_LABEL, now, why, remedy, forbidden=True)
