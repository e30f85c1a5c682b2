"""Rules about the choice of the scheduler and its record. They run before any backend's rules, and cannot be softened.
Without exactly one scheduler no rules can be chosen, and a record that changes under a living gang splits it.
"""

from __future__ import annotations

from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import Finding
from webhook.model.known_objects import PodGangFacts
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import gangs_of_set
from webhook.validators.registry import Change, Context, Example, Results, Subject, rule
from webhook.validators.selection import template_names


def _labelled(scheduler: str) -> dict[str, str]:
    return {SCHEDULER_LABEL: scheduler}


@rule(
    "rollcall/scheduler-unknown",
    fails_closed=True,
    passes=Example(pod_clique_set(labels=_labelled("koord-scheduler"))),
    fails=Example(pod_clique_set(labels=_labelled("koordinator"))),
)
def scheduler_unknown(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """A schedulerName that no scheduler answers to leaves every pod of the gang pending, without an event.

    Source: kube-scheduler (pkg/scheduler/eventhandlers.go) takes only pods of its own profiles; Grove's operator
    falls back on its default backend for a name it does not know (operator/internal/scheduler/registry, 2026-08).
    """
    choice = context.choice
    if choice.scheduler not in choice.available:
        yield Finding(
            at=choice.path,
            found=choice.scheduler,
            why="no profile of that name is enabled here",
            remedy=f"choose one of {', '.join(choice.available)}, or have the profile added to the configuration",
        )


@rule(
    "rollcall/scheduler-disagree",
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
    """A gang whose pods wait for different schedulers never starts: each of them holds its own part for the other's.

    Grove refuses templates that differ (validation of podSpec.schedulerName,
    operator/internal/webhook/admission/pcs); a template that contradicts the label would be stamped for one scheduler
    and prepared by Grove for another.
    """
    choice = context.choice
    for named in template_names(workload):
        if named.scheduler != choice.scheduler:
            yield Finding(
                at=named.path,
                found=named.scheduler,
                why=f"the pods of one gang need one scheduler, and {choice.path} says {choice.scheduler}",
                remedy=f"remove the schedulerName from the template, or write {choice.scheduler} in all of them",
            )


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
def scheduler_change(change: Change, context: Context[Any]) -> Results:
    """The record says which scheduler a gang's pods were prepared for. Changed while a gang lives, replacement pods
    would go to another scheduler than the rest, and neither would ever see its gang complete. The same holds for a
    set that is older than Rollcall, from the moment that one of its pods is bound.

    Source: design of the record at CREATE; Koordinator and the Workload API hold a pod until its whole group is theirs.
    """
    workload = change.new
    before, now = change.old.labels.get(SCHEDULER_LABEL), workload.labels.get(SCHEDULER_LABEL)
    if before == now or now is None:
        return
    gangs, bound = context.facts.pod_gangs, context.facts.bound_gangs
    known = gangs is not None and (before is not None or bound is not None)
    living = gangs_of_set(workload, gangs or {})
    if known and not any(before is not None or key in (bound or ()) for key in living):
        return
    yield Finding(
        at=LABELS / SCHEDULER_LABEL,
        found=now,
        why=f"its gangs were prepared for {before or 'no recorded scheduler'}"
        + (" and still exist" if known else ", and whether any still exists is unknown"),
        remedy="delete the PodCliqueSet and create it anew with the other scheduler",
        forbidden=True,
    )
