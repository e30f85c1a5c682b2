"""The rules about a workload that asks to be preempted as a whole, on schedulers that have no such mode of a gang. They
differ in what the scheduler does instead.
"""

from __future__ import annotations

from typing import Any

from webhook.model.disruption import DISRUPTION_LABEL, Disruption, has_spare_pods
from webhook.model.fields import LABELS
from webhook.model.findings import Action, Finding
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, Rule, Subject, rule

Workload = PodCliqueSet | OptedInWorkload
_ALL = {DISRUPTION_LABEL: Disruption.ALL.value}
_SPARE = clique("worker", replicas=4, minimum=2)


def pods_are_taken_singly(id: str, documentation: str, *, why: str, remedy: str) -> Rule:
    """The rule of a scheduler that takes single pods of a running gang."""

    def check(workload: Workload, _: Context[Any]) -> Results:
        yield from _asked(workload, why, remedy)

    declare = rule(
        id,
        looks_at=(DISRUPTION_LABEL,),
        subject=Subject.ANY_WORKLOAD,
        default=Action.WARN,
        passes=Example(pod_clique_set()),
        fails=Example(pod_clique_set(labels=_ALL)),
        documentation=documentation,
    )
    return declare(check)


def spare_pods_are_taken_singly(id: str, documentation: str, *, why: str, **config: Any) -> Rule:
    """The rule of a scheduler that takes single pods as long as the gang keeps its minimum. `config` is for the
    examples.
    """

    def check(workload: Workload, context: Context[Any]) -> Results:
        if has_spare(workload, context):
            yield from _asked(workload, why, "set each minimum to the number of pods, or remove the label")

    declare = rule(
        id,
        looks_at=(DISRUPTION_LABEL,),
        subject=Subject.ANY_WORKLOAD,
        default=Action.WARN,
        passes=Example(pod_clique_set(labels=_ALL), config=config),
        fails=Example(pod_clique_set(_SPARE, labels=_ALL), config=config),
        documentation=documentation,
    )
    return declare(check)


def has_spare(workload: Workload, context: Context[Any]) -> bool:
    """Whether a gang of the workload has, or may get, more pods than its minimum. False if its pods are unknown."""
    if isinstance(workload, PodCliqueSet):
        return any(map(has_spare_pods, workload.cliques))
    whole = with_pods(workload, context.facts)
    return whole is not None and any(0 < part.needed < part.pods or part.elastic for part in whole.parts)


def _asked(workload: Workload, why: str, remedy: str) -> Results:
    """The finding, if the workload asks to be preempted as a whole."""
    if workload.labels.get(DISRUPTION_LABEL) == Disruption.ALL:
        yield Finding(at=LABELS / DISRUPTION_LABEL, found=Disruption.ALL.value, why=why, remedy=remedy)
