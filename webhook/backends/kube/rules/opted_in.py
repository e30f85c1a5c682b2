"""Rules for TrainJobs, JobSets, LeaderWorkerSets and Jobs: what the Workload API cannot express, and what
kube-scheduler would hold for ever. They apply only if gangScheduling is on and Rollcall makes the gang.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from webhook.backends import families
from webhook.backends.kube.capabilities import ONE_BY_ONE
from webhook.backends.kube.gangs import gang_objects
from webhook.backends.kube.rules.examples import NO_WORKLOADS, ON, TREES
from webhook.backends.kube.settings import RuleContext
from webhook.errors import Inexpressible
from webhook.model.capabilities import Capability
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, shown
from webhook.model.keys import Needed
from webhook.model.reading import text
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.gang import gangs_of, no_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.trainjob import TrainJob
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set, pod_template, replicated
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.selection import DEFAULT_SCHEDULER

_ALONE = ONE_BY_ONE[Capability.GANG]
opted_in_alone = families.opted_in_alone(
    "kube/owner-no-gang",
    """Without gangScheduling in the profile Rollcall makes no gang, and kube-scheduler binds each pod as soon as it
    fits. A part of the pods may hold their nodes while the others wait for ever.

    Source: kubernetes, pkg/scheduler/schedule_one.go; kubernetes/enhancements, KEP-4671.""",
    alone=lambda settings: not settings.gangScheduling,
    why=_ALONE.why,
    remedy=_ALONE.remedy,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER)),
)

_REMEDIES = {
    "kube/workload-api": "enable the API and its feature gates, or choose another scheduler",
    "kube/priority-class": "name a PriorityClass that exists and is not one of the system's own",
}
_REMEDY = "use fewer templates, Kubernetes 1.37 or newer with CompositePodGroup, or another scheduler"


@rule(
    "kube/owner-gang",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=TREES),
    fails=Example(job(scheduler=DEFAULT_SCHEDULER), config=ON, facts=NO_WORKLOADS),
)
def inexpressible_gang(workload: OptedInWorkload, context: RuleContext) -> Results:
    """A gang gets no objects if the cluster's generation of the Workload API cannot express the whole gang. Without the
    API a pod's membership is dropped without a message. Without CompositePodGroups several templates are merged into
    one group, or refused. A list of templates has at most eight entries. The PriorityClass of a group must exist.

    Source: kubernetes/enhancements, KEP-4671 and KEP-6012; k8s.io/api scheduling (WorkloadMaxPodGroups); kubernetes,
    plugin/pkg/admission/priority.
    """
    whole = with_pods(workload, context.facts)
    if not context.settings.gangScheduling or whole is None or no_gang(whole) is not None:
        return
    record = whole.record
    # All groups of a LeaderWorkerSet are alike, and there may be two billion. The steps of a JobSet may differ.
    for gang in islice(gangs_of(whole), 1 if isinstance(whole, LeaderWorkerSet) else None):
        try:
            gang_objects(gang, record, context.settings, context.facts)
        except Inexpressible as error:
            for missing in error.unjudged:
                yield replace(missing, at=context.choice.path)
            for found in error.findings:
                yield _at_authors_field(found, whole, workload, context)
            return


def _at_authors_field(
    found: Finding, whole: OptedInWorkload, workload: OptedInWorkload, context: RuleContext
) -> Finding:
    """The error of the translation, at the field that the workload's author knows."""
    remedy, absent = _REMEDIES.get(found.rule, _REMEDY), None
    at, value = context.choice.path, found.found
    if found.rule == "kube/priority-class" and whole.priority_class is not None:
        at = workload.runtime_path if isinstance(workload, TrainJob) else _class_path(whole)
        absent = Needed("priority_classes", whole.priority_class)
    elif found.rule == "kube/workload-api":
        value, absent = context.choice.scheduler, Needed("apis")
    return Finding(at=at, found=value, why=found.why, remedy=remedy, absent=absent)


def _class_path(workload: OptedInWorkload) -> FieldPath:
    return workload.templates[0].spec_path / "priorityClassName"


@rule(
    "kube/owner-priority",
    subject=Subject.OPTED_IN,
    passes=Example(
        job_set(
            replicated("leader", template=pod_template({"priorityClassName": "high"})),
            replicated("worker", template=pod_template({"priorityClassName": "high"})),
            scheduler=DEFAULT_SCHEDULER,
        ),
        config=ON,
        facts=replace(TREES, priority_classes={}),
    ),
    fails=Example(
        job_set(
            replicated("leader", template=pod_template({"priorityClassName": "high"})),
            replicated("worker"),
            scheduler=DEFAULT_SCHEDULER,
        ),
        config=ON,
        facts=TREES,
    ),
)
def priorities_differ(workload: OptedInWorkload, context: RuleContext) -> Results:
    """kube-scheduler 1.37 rejects a whole group if the priority of one pod differs from the group's priority. It
    rejects a whole tree if the priorities of its groups differ. The groups of a workload have the class that all its
    templates name.

    Source: kubernetes, pkg/scheduler (podgroup cycle, v1.37.0): "all pods in a single pod group should have the same
    priority as the pod group's priority"; LWS KEP-666 refuses it too.
    """
    if not context.makes_gangs or no_gang(workload) is not None:
        return
    parts = list({part.place: part for part in workload.parts if part.pods > 0}.values())
    for part in parts[1:]:
        first, own = (text(one.template.spec.get("priorityClassName")) for one in (parts[0], part))
        if own != first:
            other = parts[0].template.spec_path / "priorityClassName"
            yield Finding(
                at=part.template.spec_path / "priorityClassName",
                found=own,
                why=f"{other} is {shown(first)}, and kube-scheduler rejects a gang with two priorities",
                remedy="name the same class in all pod templates",
            )
