"""The queue and the minimums of PodGroups of other authors. Volcano's own webhook checks a PodGroup only at creation,
and only that its queue exists and is Open. It does not check updates, leaves or subgroups.

Topology has its own file. PodGroups that Volcano's controllers make for Volcano Jobs are not judged: the user that
writes them is exempt, and Volcano itself judges the Jobs.
"""

from __future__ import annotations

from functools import partial

from webhook.backends import families
from webhook.backends.volcano.keys import (
    ANNOTATIONS_OTHER_QUEUE,
    DEFAULT_QUEUE,
    OPEN,
    POD_GROUPS,
    PREEMPTABLE,
    ROOT_QUEUE,
)
from webhook.backends.volcano.rules.examples import pod_group, policy
from webhook.backends.volcano.rules.queue import judge_queue
from webhook.backends.volcano.settings import RuleContext
from webhook.backends.volcano.subgroups import policies
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC
from webhook.model.findings import Action, Finding, shown
from webhook.model.known_objects import VolcanoQueue
from webhook.model.reading import integer, mapping, text
from webhook.model.stored_object import StoredObject
from webhook.validators.registry import Example, Results, rule

pod_group_rule = partial(rule, kinds=(POD_GROUPS,))


_QUEUES = ClusterFacts(
    volcano_queues={
        "default": VolcanoQueue(ROOT_QUEUE, OPEN),
        "research": VolcanoQueue(ROOT_QUEUE, OPEN),
        "team-a": VolcanoQueue("research", OPEN),
    }
)


@pod_group_rule(
    "volcano/group-queue",
    passes=Example(pod_group(queue="team-a"), facts=_QUEUES),
    fails=Example(pod_group(queue="research"), facts=_QUEUES),
)
def group_queue(found: StoredObject, context: RuleContext) -> Results:
    """Volcano drops a PodGroup whose queue is missing, with only a log line, and holds one whose queue is not Open.
    Under its capacity plugin, a PodGroup stops every other queue if it is in `root`, in a queue with children, or in a
    queue whose parent is missing, even if it has no pods. Volcano's own webhook checks only the first two faults, and
    only at creation.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}, pkg/webhooks/admission/podgroups; seen with
    vc-scheduler v1.15.1.
    """
    yield from judge_queue(_queue_of(found), SPEC / "queue", "it", context.facts)


def _queue_of(found: StoredObject) -> str:
    return text(found.spec.get("queue")) or DEFAULT_QUEUE


@pod_group_rule(
    "volcano/group-keys",
    default=Action.WARN,
    passes=Example(pod_group(queue="team-a", annotations={ANNOTATIONS_OTHER_QUEUE[0]: "team-a"})),
    fails=Example(pod_group(queue="team-a", annotations={ANNOTATIONS_OTHER_QUEUE[0]: "team-b"})),
)
def group_keys(found: StoredObject, _: RuleContext) -> Results:
    """On a PodGroup the scheduler reads only `spec.queue`. The annotations that name a queue are for pods, namespaces
    and sets. Whether a PodGroup may be preempted is read from the annotation, and from the label only if there is no
    annotation.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go, pkg/controllers/podgroup.
    """
    queue = _queue_of(found)
    for key in (*ANNOTATIONS_OTHER_QUEUE, VOLCANO_QUEUE):
        if (said := text(found.annotations.get(key))) is not None and said.strip() != queue:
            yield Finding(
                at=ANNOTATIONS / key,
                found=said,
                why=f"spec.queue is {shown(queue[:48])}, and volcano reads only spec.queue",
                remedy="name the same queue, or remove the annotation",
            )
    label, annotation = (text(keys.get(PREEMPTABLE)) for keys in (found.labels, found.annotations))
    if label is not None and annotation is not None and label != annotation:
        yield Finding(
            at=LABELS / PREEMPTABLE,
            found=label,
            why=f"the annotation with this key is {shown(annotation[:32])}, so volcano ignores the label",
            remedy="set the same value in both, or remove one",
        )


@pod_group_rule(
    "volcano/group-minimum",
    passes=Example(pod_group(minMember=4)),
    fails=Example(pod_group(minMember=0)),
)
def group_minimum(found: StoredObject, _: RuleContext) -> Results:
    """A PodGroup that needs no pod is complete before it has any pods. Its phase is Completed and its condition
    Scheduled, even while its pods wait for room. A missing minMember is 0.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang; seen with vc-scheduler v1.15.1.
    """
    if not (minimum := integer(found.spec.get("minMember"))):
        yield Finding(
            at=SPEC / "minMember",
            found=minimum,
            why="volcano treats a PodGroup that needs no pod as completed, and its pods not as a gang",
            remedy="set it to the number of pods that must start together",
        )


@pod_group_rule(
    "volcano/task-minimums",
    passes=Example(pod_group(minMember=4, minTaskMember={"leader": 1, "worker": 3})),
    fails=Example(pod_group(minMember=3, minTaskMember={"leader": 1, "worker": 3})),
)
def task_minimums(found: StoredObject, _: RuleContext) -> Results:
    """If the sum of the tasks' minimums is above the PodGroup's own minimum, Volcano ignores all of them: three workers
    start without their leader.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinAvailable < TaskMinAvailableTotal`).
    """
    total = sum(integer(count) or 0 for count in mapping(found.spec.get("minTaskMember")).values())
    minimum = integer(found.spec.get("minMember")) or 0
    if total > minimum:
        yield Finding(
            at=SPEC / "minTaskMember",
            found=total,
            why=f"their sum is above minMember ({minimum}), so volcano ignores them all",
            remedy=f"set minMember to {total}",
        )


@pod_group_rule(
    "volcano/subgroup-keys",
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("leader", matchLabelKeys=None), policy("worker"))),
)
def subgroup_keys(found: StoredObject, _: RuleContext) -> Results:
    """A policy without matchLabelKeys gets no pods, regardless of its labelSelector. With minSubGroups, the PodGroup
    waits for ever for the subgroups. Without minSubGroups, the policy has no effect.

    Source: volcano-sh/volcano, pkg/scheduler/api/sub_job_info.go; seen with vc-scheduler v1.15.1.
    """
    for found_policy in policies(found):
        if not found_policy.keys:
            effect = "the PodGroup never starts" if found_policy.wanted else "the policy has no effect"
            yield Finding(
                at=found_policy.path / "matchLabelKeys",
                found=found_policy.raw.get("matchLabelKeys"),
                why=f"volcano puts no pod into a subgroup of a policy without these keys, so {effect}",
                remedy="name a label key that the pods of the subgroup share",
            )


@pod_group_rule(
    "volcano/subgroup-minimum",
    default=Action.WARN,
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("leader"), policy("worker", minSubGroups=0))),
)
def subgroup_minimum(found: StoredObject, _: RuleContext) -> Results:
    """A policy with minSubGroups 0 (the default) requires no subgroup. With two roles of two pods each, three pods of
    one role start without the other role. subGroupSize then decides only how many pods are placed together.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinSubJobs`); seen with vc-scheduler v1.15.1.
    """
    for found_policy in policies(found):
        if found_policy.keys and not found_policy.wanted and found_policy.size > 1:
            yield Finding(
                at=found_policy.path / "minSubGroups",
                found=found_policy.raw.get("minSubGroups"),
                why=f"the policy requires none of its subgroups of {found_policy.size}, "
                "so other pods start without them",
                remedy="set it to 1 or more",
            )


@pod_group_rule(
    "volcano/subgroup-twins",
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("worker"), policy("worker"))),
)
def subgroup_twins(found: StoredObject, _: RuleContext) -> Results:
    """The scheduler treats two policies with one name, or without a name, as one: the minSubGroups of the last policy
    counts for both.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinSubJobs` goes by name); the CRD requires no name.
    """
    seen: set[str] = set()
    for found_policy in policies(found):
        if found_policy.name in seen:
            yield Finding(
                at=found_policy.path / "name",
                found=found_policy.name,
                why="another policy has this name, so volcano counts the subgroups of both as those of the last one",
                remedy="give each policy its own name",
            )
        seen.add(found_policy.name)


@pod_group_rule(
    "volcano/group-sum",
    default=Action.WARN,
    passes=Example(pod_group(policy("leader"), policy("worker"), minMember=4)),
    fails=Example(pod_group(policy("leader"), policy("worker"), minMember=3)),
)
def group_sum(found: StoredObject, _: RuleContext) -> Results:
    """Volcano enforces the subgroups regardless of minMember, but preemption and the PodGroup's conditions use only
    minMember. If it is below the sum of the subgroups, a role can be preempted below its size.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang (victims by the job's minimum; conditions).
    """
    minimum = integer(found.spec.get("minMember"))
    total = sum(one.size * one.wanted for one in policies(found) if one.keys)
    if minimum and minimum < total:
        yield Finding(
            at=SPEC / "minMember",
            found=minimum,
            why=f"its subgroups need {total} pods, and preemption stops only at this number",
            remedy=f"set it to {total}",
            instead=(total,),
        )


group_pods = families.group_pods(
    "volcano/group-pods",
    """Volcano holds a PodGroup that has fewer pods than its minMember. The rule counts the pods in the same files:
    pods, and the templates of their controllers.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang (valid pods), v1.15.1.
    """,
    system="Volcano",
    kind=POD_GROUPS,
    version="v1beta1",
)
