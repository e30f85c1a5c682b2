"""Rules about the controllers of opted-in workloads: actions after which a gang is never complete, and sizes, counts
and dependencies that they, or the schema or webhook of their project, refuse. A file on the command line has no such
check.
"""

from __future__ import annotations

from typing import Any

from webhook.model.fields import ANNOTATIONS, SPEC
from webhook.model.findings import Action, Finding
from webhook.model.place import GROUPS_TOGETHER, entries_of, groups_together
from webhook.model.reading import is_unrendered
from webhook.validators.examples import (
    disaggregated_set,
    job,
    job_set,
    leader_worker_set,
    ray_cluster,
    replicated,
    stateful_set,
)
from webhook.validators.registry import Context, Example, OptedInChange, Results, Subject, rule
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.shaped_workload import INCOMPLETE, ShapedWorkload


def _hindrance(rule_id: str, workload: OptedInWorkload, context: Context[Any]) -> Results:
    # A scheduler without gangs, or one that groups these pods itself, does not wait for a complete gang.
    if not context.makes_gangs or workload.native_path is not None:
        return
    for hindrance in workload.hindrances:
        if hindrance.rule == rule_id:
            yield Finding(at=hindrance.at, value=hindrance.value, why=hindrance.why, remedy=hindrance.remedy)


@rule(
    "owner/completions",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job(parallelism=2, completions=2)),
    fails=Example(job(parallelism=2, completions=5)),
)
def completions(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """A Job that replaces finished pods creates fewer pods at its end than its gang needs to start, so these pods wait
    for others that are never created.

    Source: kubernetes, pkg/controller/job; KAI-Scheduler issue 1347; kubernetes issue 136334.
    """
    yield from _hindrance("owner/completions", workload, context)


@rule(
    "owner/partial-admission",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(
        job(
            annotations={
                "kueue.x-k8s.io/job-min-parallelism": "1",
                "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
            }
        )
    ),
    fails=Example(job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})),
)
def partial_admission(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue resumes such a Job with a lower parallelism and the same completions if its queue has no room for all pods.
    The Job then replaces finished pods, and its last pods are fewer than its gang needs to start.

    Source: kueue, pkg/controller/jobs/job/job_controller.go (`RunWithPodSetsInfo`), partial admission.
    """
    yield from _hindrance("owner/partial-admission", workload, context)


_EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.provider.com/topology"}


@rule(
    "owner/exclusive-topology",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(job_set(replicated("node", 1, replicas=2), annotations=_EXCLUSIVE)),
    fails=Example(job_set(replicated("node", 4), annotations=_EXCLUSIVE)),
)
def exclusive_topology(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With exclusive topology the controller creates the other pods only when the first pod is on a node, but a gang
    scheduler puts no pod on a node before all pods exist: the two wait for each other.

    Source: jobset, pkg/webhooks/pod_admission_webhook.go (v0.12.0); lws, pkg/controllers/pod_controller.go (v0.9),
    KEP-666.
    """
    yield from _hindrance("owner/exclusive-topology", workload, context)


@rule(
    "owner/incomplete",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(stateful_set(podManagementPolicy="Parallel")),
    fails=Example(stateful_set()),
)
def incomplete(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The WorkloadShape of its kind says that its controller does not create all pods before some of them run, or may
    never create them all. Each of them waits for the others for ever.

    Source: the declared shape (`rollcall shapes show`), which names the source of its facts.
    """
    yield from _hindrance(INCOMPLETE, workload, context)


@rule(
    "owner/operator",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(ray_cluster()),
    fails=Example(ray_cluster(labels={"ray.io/gang-scheduling-enabled": "true"})),
)
def operator(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """The WorkloadShape of its kind warns of a switch by which the workload's own operator works against the gang, such
    as a second gang of the same pods. It also says with how few pods the workload may run: a gang that needs more holds
    back pods that are created again.

    Source: the declared shape (`rollcall shapes show`), which names the source of its facts; kubeflow/trainer issues
    1515 and 1571 (the minimum of an elastic PyTorchJob is its minReplicas).
    """
    if isinstance(workload, ShapedWorkload):
        # Where Rollcall makes no gang, it waits for no pod, and the operator's own gang is the only one.
        warnings = workload.warnings() if context.opted_in else ()
        makes_gang = workload.has_gangs and context.makes_gangs and context.opted_in
        scheduler = context.gang_scheduler
        # The scheduler's own rules judge minimums that it reads itself.
        is_read = scheduler.groups(workload.resource.api.group_kind) and bool(scheduler.own_minimums(workload))
        unreachable = () if is_read else workload.unreachable(makes_gang=makes_gang)
        for finding in (*warnings, *unreachable, *(workload.shrinks() if context.makes_gangs else ())):
            yield Finding(at=finding.at, value=finding.value, why=finding.why, remedy=finding.remedy)


@rule(
    "owner/groups-together",
    subject=Subject.OPTED_IN,
    passes=Example(disaggregated_set(annotations={GROUPS_TOGETHER: "prefill=2,decode=1"})),
    fails=Example(disaggregated_set(annotations={GROUPS_TOGETHER: "prefill=2,encode=1"})),
)
def stated_groups(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """Of a workload that makes a LeaderWorkerSet for each role, the annotation rollcall.dev/groups-together says how
    many groups of which role start together. An entry that is not understood would count as one group.

    Source: `webhook.model.place`; the annotation is Rollcall's own.
    """
    if workload.together is None:
        return
    roles = {role.part.name: role for role in workload.roles}
    at = ANNOTATIONS / GROUPS_TOGETHER
    for entry in entries_of(workload.annotations):
        role = roles.get(entry.role)
        if entry.groups is None:
            remedy = 'write it as "prefill=2,decode=1"'
            yield Finding(at=at, value=entry.entry, why=entry.why, remedy=remedy)
        elif role is None:
            remedy = f"name one of {', '.join(sorted(roles)[:16])}"
            yield Finding(at=at, value=entry.entry, why="there is no role of that name", remedy=remedy)
        elif role.is_stated and 0 < role.groups < entry.groups:
            why = f"the gang would never be complete, because the replicas of {entry.role} are {role.groups}"
            remedy = "raise the replicas of the role. The number can be changed while all roles have 0 replicas"
            yield Finding(at=at, value=entry.entry, why=why, remedy=remedy)


@rule(
    "owner/groups-changed",
    subject=Subject.OPTED_IN_CHANGE,
    passes=Example(disaggregated_set(), old=disaggregated_set()),
    fails=Example(disaggregated_set(annotations={GROUPS_TOGETHER: "prefill=2"}), old=disaggregated_set()),
)
def groups_changed(change: OptedInChange, _: Context[Any]) -> Results:
    """Schedulers do not let the members of a running gang change. If another number of groups started together, a group
    that is made again would wait for groups that are in gangs of their own.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (v1.8.0); k8s.io/api
    scheduling (a Workload's templates are immutable).
    """
    names = {role.part.name for role in (*change.old.roles, *change.new.roles)}
    before, now = (
        {name: groups_together(name, state.together or {}) for name in names} for state in (change.old, change.new)
    )
    if before != now and any(role.groups for role in change.old.roles):
        stated = change.new.annotations.get(GROUPS_TOGETHER)
        why = "the groups that exist were prepared for another number"
        remedy = "undo it, or scale all roles to 0 before"
        yield Finding(ANNOTATIONS / GROUPS_TOGETHER, stated, why, remedy, forbidden=True)


@rule(
    "owner/groups-rollout",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(disaggregated_set()),
    fails=Example(disaggregated_set(annotations={GROUPS_TOGETHER: "prefill=2"})),
)
def groups_rollout(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A rollout makes some groups of each role of the new revision, and no more before these are ready. If a gang needs
    more groups than that, the rollout never ends.

    Source: kubernetes-sigs/lws, pkg/controllers/disaggregatedset/planner.go (v0.9.0, computeNextNewReplicas).
    """
    together = workload.together
    roles = [role for role in workload.roles if role.groups > 0 and role.is_stated]
    if not together or not roles:
        return
    steps = max(-(-role.groups // role.surge) for role in roles)
    for role in roles:
        first, needed = -(-role.groups // steps), groups_together(role.part.name, together)
        if first < needed <= role.groups:
            why = f"a rollout first makes {first} of the groups to {role.part.name} and waits until they are ready"
            remedy = "raise maxSurge in the rolloutStrategy of all roles, or lower the number"
            yield Finding(ANNOTATIONS / GROUPS_TOGETHER, f"{role.part.name}={needed}", why, remedy)


@rule(
    "owner/leader-ready",
    subject=Subject.OPTED_IN,
    fails_closed=True,
    passes=Example(leader_worker_set(startupPolicy="LeaderCreated")),
    fails=Example(leader_worker_set(startupPolicy="LeaderReady")),
)
def leader_ready(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With LeaderReady the controller creates the workers only when the leader is ready, but a gang scheduler puts the
    leader on a node only when its workers exist: the two wait for each other.

    Source: lws, pkg/controllers/pod_controller.go, pkg/schedulerprovider (minMember 1 for LeaderReady; v0.9), KEP-666.
    """
    yield from _hindrance("owner/leader-ready", workload, context)


@rule(
    "owner/group-size",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(leader_worker_set(size=1)),
    fails=Example(leader_worker_set(size=0)),
)
def group_size(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A group of a LeaderWorkerSet has at least its leader. LeaderWorkerSet's webhook refuses a smaller size.

    Source: lws, pkg/webhooks/leaderworkerset_webhook.go; the CRD (`size`: "The minimum is 1", v0.9).
    """
    if isinstance(workload, LeaderWorkerSet) and workload.size < 1:
        why = "a group has at least a leader, and LeaderWorkerSet refuses a smaller size"
        remedy = "set the number of pods of a group, including its leader"
        yield Finding(SPEC / "leaderWorkerTemplate" / "size", workload.size, why, remedy, instead=(1,))


# The groups and kinds whose schema, webhook or controller refuses a negative number. Others make no pod of it.
_REFUSING = frozenset(
    {
        "apps",
        "batch",
        "batch.volcano.sh",
        "jobset.x-k8s.io",
        "leaderworkerset.x-k8s.io",
        "trainer.kubeflow.org",
        "MPIJob",
        "SparkApplication",
    }
)


@rule(
    "owner/negative-pods",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(parallelism=0)),
    fails=Example(job(parallelism=-2)),
)
def negative_pods(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A number of pods is never negative. The API server refuses it, or the controller makes no pod.

    Source: kubernetes, pkg/apis/batch/validation, pkg/apis/apps/validation (v1.36); the CRDs of jobset, lws,
    spark-operator and kubeflow/trainer; volcano, pkg/webhooks/admission/jobs/validate; mpi-operator,
    pkg/apis/kubeflow/validation. The CRDs of KubeRay and of the training operator have no minimum.
    """
    api = workload.resource.api
    refuses = not _REFUSING.isdisjoint((api.group, api.kind))
    for at, count in workload.counts():
        if count is not None and count < 0:
            why = "a negative number of pods is refused" if refuses else "no pod is made of a negative number"
            remedy = "write 0 or more"
            yield Finding(at, count, why, remedy, at_most=Action.DENY if refuses else Action.WARN, instead=(1,))


_NODE = {"name": "node", "status": "Complete"}


@rule(
    "owner/depends-on",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job_set(replicated("node"), replicated("report", 1, dependsOn=[_NODE]))),
    fails=Example(job_set(replicated("report", 1, dependsOn=[_NODE]), replicated("node"))),
)
def depends_on(workload: OptedInWorkload, _: Context[Any]) -> Results:
    """A replicated Job of a JobSet can wait only for replicated Jobs that are before it in the list. JobSet refuses any
    other name.

    Source: jobset, pkg/webhooks/jobset_webhook.go (v0.12.0): `dependsOn` names only earlier entries.
    """
    if not isinstance(workload, JobSet) or workload.starts_in_order:
        return
    if any(is_unrendered(part.name) for part in workload.parts):
        return
    before: set[str] = set()
    for part in workload.parts:
        for name in part.after:
            if name not in before:
                why = "JobSet refuses it: no earlier replicated Job has that name"
                remedy = "name a replicated Job that is before this one, or move this one to the end of the list"
                yield Finding(part.path / "dependsOn", name, why, remedy)
        before.add(part.name)
