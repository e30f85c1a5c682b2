"""What preemption by KAI does to a gang that asks to be preempted as a whole, and the times that a gang may choose: how
long it may stay below its minimum, and how long it waits before others are evicted for it.
"""

from __future__ import annotations

from webhook.backends import disruption_families
from webhook.backends.kai.keys import DURATIONS, POD_GROUPS
from webhook.backends.kai.rules.examples import pod_group, subgroup
from webhook.backends.kai.settings import RuleContext
from webhook.model.fields import ANNOTATIONS, SPEC
from webhook.model.findings import Action, Finding
from webhook.model.go_values import nanoseconds
from webhook.model.reading import text
from webhook.model.stored_object import StoredObject
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import pod_clique_set
from webhook.validators.registry import Example, Results, Subject, rule

_QUEUE = {"defaultQueue": "team-a"}
_STALENESS = "kai.scheduler/staleness-grace-period"

disruption_ignored = disruption_families.spare_pods_are_taken_singly(
    "kai/disruption-ignored",
    """KAI evicts a gang at its minimum as a whole. Pods above the minimum are taken one by one, before that. The label
    kai.scheduler/preemptibility with the value non-preemptible keeps all pods, but then the gang may use only the quota
    of its queue.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/eviction_info.go (`GetTasksToEvict`).
    """,
    why="kai-scheduler takes pods above the minimum one by one, and only the rest as a whole",
    **_QUEUE,
)


@rule(
    "kai/duration",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(annotations={_STALENESS: "5m"}), config=_QUEUE),
    fails=Example(pod_clique_set(annotations={_STALENESS: "5 minutes"}), config=_QUEUE),
)
def duration(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Rollcall writes these two annotations into the PodGroup, from KAI 0.17 on. A value that is not a Go duration is
    left out, because KAI could not read its PodGroups then; a gang below its minimum is evicted after the scheduler's
    own time, 60 seconds by default.

    Source: kai-scheduler/KAI-Scheduler v0.17, pkg/apis/scheduling/v2alpha2/podgroup_types.go (metav1.Duration),
    pkg/scheduler/actions/stalegangeviction.
    """
    for key, field in DURATIONS.items():
        written = text(workload.annotations.get(key))
        if written is None:
            continue
        if nanoseconds(written) is None:
            why, remedy = "it is not a duration of Go, so it is ignored", 'write a duration such as "5m" or "1h30m"'
        elif context.facts.lacks_field(field):
            why, remedy = f"this cluster's PodGroups have no {field.name}", f"use {field.since} or newer, or remove it"
        else:
            continue
        yield Finding(at=ANNOTATIONS / key, found=written, why=why, remedy=remedy)


@rule(
    "kai/group-duration",
    kinds=(POD_GROUPS,),
    passes=Example(pod_group(subgroup("worker", 2), stalenessGracePeriod="-1s")),
    fails=Example(pod_group(subgroup("worker", 2), stalenessGracePeriod="never")),
)
def group_duration(found: StoredObject, _: RuleContext) -> Results:
    """The CRD allows any text in these fields, but kai-scheduler reads them as durations of Go. It fails to read the
    whole list of PodGroups if one of them has another value, and then starts no gang of any namespace.

    Source: kai-scheduler/KAI-Scheduler v0.17, pkg/apis/scheduling/v2alpha2/podgroup_types.go; k8s.io/apimachinery,
    pkg/apis/meta/v1/duration.go (UnmarshalJSON).
    """
    for field in DURATIONS.values():
        written = text(found.spec.get(field.name))
        if written is not None and nanoseconds(written) is None:
            yield Finding(
                at=SPEC / field.name,
                found=written,
                why="it is not a duration of Go, and kai-scheduler then reads no PodGroup of the cluster",
                remedy='write a duration such as "5m", or "-1s" for never',
            )
