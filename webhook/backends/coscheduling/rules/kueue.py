"""The rule about gangs whose pods Kueue frees one after another, on an old Coscheduling."""

from __future__ import annotations

from webhook.backends.coscheduling.keys import NAME
from webhook.backends.coscheduling.settings import RuleContext
from webhook.model.findings import Action, Finding
from webhook.model.kueue.keys import QUEUE_NAME, REQUIRED_TOPOLOGY
from webhook.model.version import Version
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.placement import gangs_of, places_all
from webhook.validators.opted_in_examples import job, pod_template
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import NAMESPACE

# v0.33.5 counts gated pods, v0.34.7 does not.
_COUNTS_STARTABLE = Version(0, 34)
_PLACED = job(
    scheduler=NAME,
    labels={QUEUE_NAME: "team"},
    template=pod_template(annotations={REQUIRED_TOPOLOGY: "example.com/rack"}),
)


@rule(
    "kueue/gated-pods",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_PLACED, version="0.34.7"),
    fails=Example(_PLACED, version="0.33.5"),
)
def gated_pods(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Kueue's topology-aware scheduling frees the pods of a gang one after another. An old Coscheduling counts the pods
    that are still gated, so the first pods get nodes and keep them while they wait for the others.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`PreFilter`), v0.33.5 and v0.34.7; pull
    request 952.
    """
    version = context.scheduler_version
    if version is None or version >= _COUNTS_STARTABLE or (gangs := gangs_of(workload, context)) is None:
        return
    if any(one.request is not None for one in gangs.pods) or places_all(
        gangs.held.queue, workload.namespace, context.facts
    ):
        yield Finding(
            at=gangs.held.path or NAMESPACE,
            found=gangs.held.queue,
            why=f"Kueue frees its pods one after another, and scheduler-plugins {version} counts those still gated",
            remedy="use scheduler-plugins 0.34.7 or newer",
        )
