"""Rules for the groups that KAI's podgrouper makes for workloads of declared kinds.

Podgrouper knows kinds by a table. The pods of a kind that is not in it get a group with a minimum of one pod, each pod
of a Deployment a group of its own. Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/hub/hub.go and
plugins/{defaultgrouper,deployment,kubeflow,ray,podjob} (v0.17.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.backends.kai.keys import GROUPED_KINDS
from webhook.backends.kai.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.claims import claims_on
from webhook.model.fields import Item
from webhook.model.findings import Action, Finding
from webhook.model.reading import Manifest, integer, mapping
from webhook.model.workloads.gang import starts_alone
from webhook.model.workloads.workload import OptedInWorkload, Part
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
    if any(any(claims_on(template)) for template in workload.templates):
        return
    if any(not left.is_made for left in workload.leaves()):
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
        least = integer(_entry(workload.raw, part).get("minReplicas"))
        if least and part.needed == part.pods and least < _replicas(workload.raw, part):
            yield Finding(
                at=part.path / "minReplicas",
                found=least,
                why=f"KAI's group needs only {least} of the {_replicas(workload.raw, part)} replicas of {part.name}",
                remedy="set minReplicas to replicas, or enable the autoscaler",
            )


def _replicas(raw: Manifest, part: Part) -> int:
    return integer(_entry(raw, part).get("replicas")) or 0


def _entry(raw: Manifest, part: Part) -> Mapping[str, Any]:
    """The worker group of a part."""
    found: Any = raw
    for step in part.path.parts:
        found = found[step.index] if isinstance(step, Item) else mapping(found).get(step)
    return mapping(found)
