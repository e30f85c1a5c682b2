"""Rules for workloads of declared kinds on KAI.

Podgrouper knows kinds by a table and makes their groups. The pods of a kind that is not in it would get a group with a
minimum of one pod, each pod of a Deployment a group of its own. Rollcall makes the gangs of these kinds. Source:
kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/hub/hub.go and
plugins/{defaultgrouper,deployment,kubeflow,ray,podjob} (v0.17.0).
"""

from __future__ import annotations

from webhook.backends.kai.gangs import named_queue
from webhook.backends.kai.keys import LABEL_QUEUE
from webhook.backends.kai.settings import RuleContext
from webhook.backends.queue_tree import leaves, offered
from webhook.model.changes import value_at
from webhook.model.fields import LABELS
from webhook.model.findings import Action, Finding
from webhook.model.reading import integer, mapping
from webhook.model.workloads.gang import no_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import disaggregated_set, ray_cluster
from webhook.validators.registry import Example, Results, Subject, rule

_KAI = "kai-scheduler"
_RAY = "ray.io"


@rule(
    "kai/owner-no-queue",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(disaggregated_set(scheduler=_KAI, labels={LABEL_QUEUE: "team-a"})),
    fails=Example(disaggregated_set(scheduler=_KAI)),
)
def no_queue(workload: OptedInWorkload, context: RuleContext) -> Results:
    """kai-scheduler does not start a gang without a queue. Podgrouper puts a workload without one into `default-queue`,
    but it does not know workloads of this kind, so Rollcall makes their PodGroups.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/podgrouper/podgrouper/hub/hub.go
    (v0.17.0); a PodGroup without a queue was seen with v0.16.8.
    """
    # A LeaderWorkerSet may have the queue of the workload that made it, which was judged.
    if not context.makes_gangs or isinstance(workload, LeaderWorkerSet) or no_gang(workload) is not None:
        return
    key = context.settings.queueLabelKey
    named = named_queue(workload, context.settings) or context.settings.defaultQueue
    if workload.has_gangs and named is None:
        yield Finding(
            at=LABELS / key,
            found=None,
            why="the workload names no queue and the profile has no defaultQueue, so its gang never starts",
            remedy=f"name a leaf Queue in the label {key}, or in the profile's defaultQueue",
            instead=offered(leaves(context.facts.kai_queues or {})),
        )


@rule(
    "kai/ray-minimum",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(ray_cluster(scheduler=_KAI, minReplicas=2)),
    fails=Example(ray_cluster(scheduler=_KAI, minReplicas=1)),
)
def ray_minimum(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Podgrouper takes the minimum of a worker group from minReplicas if that is above 0, whether an autoscaler is
    enabled or not. With fewer than `replicas` the cluster starts without some of its workers.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/ray (v0.17.0), issue 500.
    """
    if workload.resource.api.group != _RAY:
        return
    for part in workload.parts:
        entry = mapping(value_at(workload.raw, part.path)[1])
        least, replicas = integer(entry.get("minReplicas")), integer(entry.get("replicas")) or 0
        if least and part.needed == part.pods and least < replicas:
            yield Finding(
                at=part.path / "minReplicas",
                found=least,
                why=f"KAI's group needs only {least} of the {replicas} replicas of {part.name}",
                remedy="set minReplicas to replicas, or enable the autoscaler",
            )
