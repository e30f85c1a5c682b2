"""The label with the disruption mode that a workload chooses: its values, and where it has no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.backends.kube.generation import GROUP, PREEMPTION_GATE, Generation, generation, workload_apis
from webhook.backends.kube.rules.examples import ON, TREES
from webhook.backends.kube.settings import RuleContext
from webhook.model.disruption import CHOICES, DISRUPTION_LABEL, Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import Action, Finding
from webhook.model.keys import Api
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import pod_clique_set
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

_ALL, _UNKNOWN = {DISRUPTION_LABEL: "all"}, {DISRUPTION_LABEL: "gang"}
_OF_1_35 = ClusterFacts(apis=frozenset({Api(GROUP, "v1alpha1", "Workload")}))
_AT = LABELS / DISRUPTION_LABEL


@rule(
    "kube/disruption-mode",
    passes=Example(pod_clique_set(labels=_ALL), config=ON, facts=TREES),
    fails=Example(pod_clique_set(labels=_UNKNOWN), config=ON, facts=TREES),
)
def disruption_mode(workload: PodCliqueSet, _: RuleContext) -> Results:
    """An unknown disruption mode would silently count as none, and the mode of a gang never changes after its creation.

    Source: k8s.io/api scheduling/v1beta1: disruptionMode is immutable, and has the members single and all.
    """
    yield from _unknown(workload.labels)


@rule(
    "kube/owner-disruption-mode",
    subject=Subject.OPTED_IN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_UNKNOWN), config=ON, facts=TREES),
)
def owner_disruption_mode(workload: OptedInWorkload, _: RuleContext) -> Results:
    """An unknown disruption mode would silently count as none, and the mode of a gang never changes after its creation.

    Source: as for kube/disruption-mode.
    """
    yield from _unknown(workload.labels)


@rule(
    "kube/disruption-ignored",
    default=Action.WARN,
    passes=Example(pod_clique_set(labels=_ALL), config=ON, facts=TREES),
    fails=Example(pod_clique_set(labels=_ALL), config=ON, facts=_OF_1_35),
)
def disruption_ignored(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Without gangs, in Kubernetes 1.35, and in 1.36 without its feature gate, preemption takes single pods of a gang.
    With the gate, 1.36 respects the mode when a gang preempts, but not when a pod does that is in no gang.

    Source: k8s.io/api scheduling/v1alpha1 has no disruptionMode; kubernetes/enhancements, KEP-5710; kubernetes v1.36.3,
    pkg/scheduler/framework/plugins/defaultpreemption (`SelectVictimsOnNode`); seen with v1.36.3.
    """
    yield from _ignored(workload.labels, context)


@rule(
    "kube/owner-disruption-ignored",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER, labels=_ALL), config=ON, facts=_OF_1_35),
)
def owner_disruption_ignored(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Without gangs, in Kubernetes 1.35, and in 1.36 without its feature gate, preemption takes single pods of a gang.
    With the gate, 1.36 respects the mode when a gang preempts, but not when a pod does that is in no gang.

    Source: as for kube/disruption-ignored.
    """
    yield from _ignored(workload.labels, context)


def _unknown(labels: Mapping[str, Any]) -> Results:
    choice = labels.get(DISRUPTION_LABEL)
    if choice is not None and choice not in CHOICES:
        yield Finding(
            at=_AT,
            found=choice,
            why="there is no such disruption mode, so preemption might take single pods of a gang that needs them all",
            remedy=f"set the label to one of {', '.join(CHOICES)}, or remove it",
            instead=CHOICES,
        )


def _ignored(labels: Mapping[str, Any], context: RuleContext) -> Results:
    if labels.get(DISRUPTION_LABEL) != Disruption.ALL:
        return
    settings = context.settings
    spoken = generation(settings, workload_apis(context.settings, context.facts))
    if not settings.gangScheduling:
        why, remedy = "gangScheduling is off, so there is no gang", "set the profile's gangScheduling to true"
    elif spoken is Generation.V1ALPHA1:
        why, remedy = "Kubernetes 1.35 has no disruption mode", "use Kubernetes 1.36 or newer"
    elif (
        spoken is Generation.V1ALPHA2
        and settings.schedulerGates is not None
        and PREEMPTION_GATE not in settings.schedulerGates
    ):
        why = f"schedulerGates lacks {PREEMPTION_GATE}, so the scheduler ignores the mode"
        remedy = "enable the gate and add it to schedulerGates"
    elif spoken is Generation.V1ALPHA2:
        why = "in Kubernetes 1.36 a pod of no gang ignores the mode"
        remedy = "use Kubernetes 1.37 or newer, or give only gangs a higher priority"
    else:
        return
    yield Finding(
        at=_AT,
        found=Disruption.ALL.value,
        why=f"{why}, and preemption may take single pods",
        remedy=f"{remedy}, or remove the label",
    )
