"""Rules for the groups that KAI's podgrouper makes for workloads of declared kinds.

Podgrouper knows kinds by a table. The pods of a kind that is not in it get a group with a minimum of one pod, each pod
of a Deployment a group of its own. Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/hub/hub.go and
plugins/{defaultgrouper,deployment,kubeflow,ray,podjob} (v0.17.0).
"""

from __future__ import annotations

from webhook.backends.kai.keys import GROUPED_KINDS
from webhook.backends.kai.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.changes import value_at
from webhook.model.findings import Action, Finding
from webhook.model.reading import integer, mapping
from webhook.model.workloads.gang import is_claimed, made_elsewhere, starts_alone
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import ray_cluster, stateful_set
from webhook.validators.registry import Example, Results, Subject, rule

_KAI = "kai-scheduler"
_RAY = "ray.io"


@rule(
    "kai/declared-alone",
    subject=Subject.OPTED_IN,
    capability=Capability.GANG,
    default=Action.WARN,
    passes=Example(ray_cluster(scheduler=_KAI)),
    fails=Example(stateful_set(scheduler=_KAI, podManagementPolicy="Parallel")),
)
def declared_alone(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper groups the pods of kinds that it knows. The pods of another kind start one by one.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/hub/hub.go, plugins/defaultgrouper (v0.17.0).
    """
    api = workload.resource.api
    if not workload.crd or (api.group, api.kind) in GROUPED_KINDS or starts_alone(workload):
        return
    if is_claimed(workload) or made_elsewhere(workload):
        return
    yield Finding(
        at=context.choice.path,
        found=context.choice.scheduler,
        why=f"its podgrouper does not know the kind {api.kind}, so the pods start one by one",
        remedy="choose another scheduler, or write the pods as a JobSet",
        once=True,
    )


@rule(
    "kai/ray-minimum",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
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
