"""Rules about the LocalQueue of a workload, and about what competes with Kueue's queue: quotas and priorities of the
scheduler itself.

Kueue decides when a workload starts, the scheduler where its pods run. Kueue does not know the gang, and the scheduler
does not know the quota. Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2, pkg/cache/queue.
"""

from __future__ import annotations

from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import PriorityClass, Quota
from webhook.model.kueue import DEFAULT_PRIORITY_CLASS, PRIORITY_CLASS, QUEUE_NAME
from webhook.model.kueue_objects import ClusterQueue, LocalQueue
from webhook.model.reading import text
from webhook.validators.examples import job, pod_template
from webhook.validators.kueue_holds import held_cliques, held_gang
from webhook.validators.kueue_readiness import QUEUED
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.kueue_integration import held
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import TrainerJobSet

_QUOTA = {"quota.scheduling.koordinator.sh/name": "team-a"}
_ONE_QUEUE = ClusterFacts(
    local_queues={("default", "research"): LocalQueue("gpus", active=True)},
    cluster_queues={"gpus": ClusterQueue(active=True)},
)


@rule(
    "kueue/local-queue",
    looks_at=(QUEUE_NAME,),
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    independent=True,
    passes=Example(job(labels=QUEUED), facts=_ONE_QUEUE),
    fails=Example(job(labels={QUEUE_NAME: "reserch"}), facts=_ONE_QUEUE),
)
def local_queue(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue keeps a workload suspended, or the pods of a clique gated, without end, if its LocalQueue or the
    ClusterQueue of that does not exist, is stopped, or is inactive. It accepts such a workload, so it is only warned
    of: the queue may come later.

    Source: kubernetes-sigs/kueue v0.19, pkg/cache/queue, pkg/scheduler (condition QuotaReserved, reason Inadmissible).
    """
    local_queues = context.facts.local_queues
    for name, at in _queues_of(workload, context).items():
        needed = Needed("local_queues", (workload.namespace, name))
        if local_queues is None:
            yield Unjudged(at, "the LocalQueues", part=needed.part)
        elif (queue := local_queues.get((workload.namespace, name))) is None:
            why = f"this namespace has no such LocalQueue, so Kueue keeps {_what_waits(workload)}"
            yield Finding(at, name, why, "name a LocalQueue of this namespace, or create it", absent=needed)
        else:
            yield from _queue_faults(queue, name, at, context.facts, _what_waits(workload))


def _queues_of(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> dict[str, FieldPath]:
    """Returns the LocalQueues that a workload or its cliques name, each with its first place."""
    if isinstance(workload, PodCliqueSet):
        holds = [member.held for member in held_cliques(workload, context)]
    else:
        hold = None if isinstance(workload, TrainerJobSet) else held(workload, context.facts, context.kueue)
        holds = [] if hold is None else [hold]
    queues: dict[str, FieldPath] = {}
    for each in holds:
        if each.path is not None and each.queue is not None:
            queues.setdefault(each.queue, each.path)
    return queues


def _what_waits(workload: PodCliqueSet | OptedInWorkload) -> str:
    return "the pods gated" if isinstance(workload, PodCliqueSet) else "the workload suspended"


def _queue_faults(queue: LocalQueue, name: str, at: FieldPath, facts: ClusterFacts, kept: str) -> Results:
    """Yields the reason why a LocalQueue admits nothing now: its own, else that of its ClusterQueue."""
    above, needed = queue.cluster_queue or "", Needed("cluster_queues", queue.cluster_queue)
    cluster_queues = facts.cluster_queues
    state = (cluster_queues or {}).get(above)
    if queue.stopped:
        why, remedy = f"the LocalQueue has stopPolicy {shown(queue.stop_policy)}", "wait until its stopPolicy is None"
    elif cluster_queues is not None and state is None:
        why, remedy = f"its ClusterQueue {shown(above)} does not exist", "create the ClusterQueue"
    elif state is not None and state.stopped:
        why = f"its ClusterQueue {shown(above)} has stopPolicy {shown(state.stop_policy)}"
        remedy = "wait until its stopPolicy is None"
    elif state is not None and state.active is False:
        why = f"its ClusterQueue {shown(above)} is inactive ({state.reason or 'without a reason'})"
        remedy = "see the condition Active of the ClusterQueue"
    elif queue.active is False:
        why = f"Kueue calls the LocalQueue inactive ({queue.reason})"
        remedy = "see the condition Active of the LocalQueue"
    else:
        return
    yield Finding(
        at=at,
        value=name,
        why=f"{why}, so Kueue keeps {kept}",
        remedy=f"{remedy}, or name another LocalQueue",
        # The administrator may have changed the queue a moment ago.
        absent=needed if state is None and not queue.stopped and queue.active is not False else None,
        once=True,
    )


@rule(
    "kueue/two-quotas",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(
        job(labels={**QUEUED, **_QUOTA}), facts=ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False)})
    ),
    fails=Example(
        job(labels={**QUEUED, **_QUOTA}),
        facts=ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False, max={"cpu": 4000})}),
    ),
)
def two_quotas(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue and the scheduler each count the quota of the workload, and neither knows of the other. A gang that Kueue
    has admitted waits for the scheduler's quota, keeps Kueue's, and is taken back after waitForPodsReady.timeout.
    Kueue's maintainers and KAI's recommend one unlimited queue of the scheduler.

    Source: kubeflow/trainer issue 2663; kai-scheduler/KAI-Scheduler issues 68 and 426; the rules of each scheduler
    about its queues.
    """
    if isinstance(workload, TrainerJobSet) or (gang := held_gang(workload, context)) is None:
        return
    for limit in context.gang_scheduler.limits(workload, context.facts):
        above = "" if limit.name == limit.workload_queue else f", which is above {shown(limit.workload_queue)},"
        why = (
            f"Kueue admits by its own quota, and {limit.title} {shown(limit.name)}{above} has a limit, too: what "
            "Kueue has admitted may still wait for it"
        )
        remedy = f"remove the limit, so that only Kueue counts, or use {limit.title} without Kueue"
        yield Finding(gang.path, gang.held.queue, why, remedy)
        return


@rule(
    "kueue/priority",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(
        job(labels={**QUEUED, PRIORITY_CLASS: "urgent"}, template=pod_template({"priorityClassName": "high"})),
        facts=ClusterFacts(priority_classes={"high": PriorityClass(1000, is_default=False)}),
    ),
    fails=Example(
        job(labels={**QUEUED, PRIORITY_CLASS: "urgent"}),
        facts=ClusterFacts(priority_classes={"high": PriorityClass(1000, is_default=False)}),
    ),
)
def priority(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """A WorkloadPriorityClass orders Kueue's queue and Kueue's preemption only. Its value never reaches a pod. If other
    pods of the cluster have a PriorityClass, the scheduler may preempt the workload that Kueue has just admitted as the
    most urgent. In a cluster without PriorityClasses of its own nothing can go wrong. The class `default` is not
    reported: Kueue's webhook writes it on workloads that name none.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/reconciler.go; apis/kueue/v1beta2
    (WorkloadPriorityClass); pkg/controller/jobframework/defaults.go (ApplyDefaultWorkloadPriorityClass, on by default
    from 0.20).
    """
    if isinstance(workload, TrainerJobSet) or (gang := held_gang(workload, context)) is None:
        return
    priority_class = text(workload.labels.get(PRIORITY_CLASS))
    if not priority_class or priority_class == DEFAULT_PRIORITY_CLASS:
        return
    if any(template.spec.get("priorityClassName") for template in gang.pods.templates):
        return
    if any(not name.startswith("system-") for name in context.facts.priority_classes or ()):
        why = (
            f"it orders Kueue's queue only: for {context.choice.scheduler} the pods have the default priority, and "
            "pods with a PriorityClass may preempt them"
        )
        yield Finding(LABELS / PRIORITY_CLASS, priority_class, why, "set priorityClassName in the pod templates, too")
