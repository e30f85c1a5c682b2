"""Rules about waitForPodsReady, by which Kueue takes a workload back whose pods are not all ready some time after its
admission, and about Jobs that Kueue may start with fewer pods than they state, or in parts.

waitForPodsReady is on by default, for 30 minutes, and does not know which pods a scheduler still holds. A gang that
simply waits for room longer than that is no mistake of its author: Kueue then gives its quota to others. So these
rules speak only if the values of the workload, the profile and Kueue contradict each other.

Source: kubernetes-sigs/kueue v0.19, apis/config/v1beta2/defaults.go, pkg/controller/core/workload_controller.go
(`reconcileNotReadyTimeout`), pkg/controller/jobs/job/job_controller.go (`RunWithPodSetsInfo`),
pkg/controller/elasticjobs; the times of one workload, of 0.20: `KueueSettings.ready_times`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.model import kueue
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.quantity import int32
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.validators.examples import clique, job, job_set, pod_clique_set, replicated
from webhook.validators.kueue_holds import duration, gangs_in_turn, held_cliques, held_gang, ready_times, start_limit
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import HeldBy, Unit, held, least_parallelism
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

QUEUED = {kueue.QUEUE_NAME: "research"}
_IN_ORDER: dict[str, Any] = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
_THREE_STEPS = tuple(replicated(name) for name in ("download", "tune", "train"))
_DEPENDS = ({"name": "download", "status": "Complete"},)


def _pods_ready_block(**fields: Any) -> dict[str, Any]:
    return {"waitForPodsReady": fields}


@rule(
    "kueue/ready-timeout",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job_set(*_THREE_STEPS, labels=QUEUED)),
    fails=Example(job_set(*_THREE_STEPS, labels=QUEUED, **_IN_ORDER), config={"scheduleTimeoutSeconds": 600}),
)
def ready_timeout(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue takes a workload back whose pods are not all ready waitForPodsReady.timeout after its admission. If the
    scheduler may need longer than that for its next attempt, one failed attempt is enough to lose the place. Gangs that
    start in turn add their times. From 0.20 on, a workload may state its own timeout in the annotation
    kueue.x-k8s.io/wait-for-pods-ready, with the gate WorkloadLevelWaitForPodsReady, and
    waitForPodsReady.unscheduledTimeout is a shorter time within which all pods have to be on nodes.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go; of 0.20,
    keps/4803-workload-level-wait-for-pods-ready and keps/13502-unscheduled-pods-timeout; kubernetes,
    pkg/scheduler/framework/runtime (Permit waits 15 minutes at most), pkg/scheduler/backend/queue (unschedulable pods
    are tried again after 5 minutes).
    """
    gang = held_gang(workload, context)
    times = ready_times(workload, context)
    if times.start is None or gang is None:
        return
    goal, setting = start_limit(times)
    steps = gangs_in_turn(gang.pods)
    needed = steps * context.gang_scheduler.retry_seconds
    if times.start < needed:
        of_steps = f" for its {steps} gangs in turn" if steps > 1 else ""
        why = (
            f"Kueue takes it back {duration(times.start)} after its admission unless all pods are {goal}, and "
            f"{context.choice.scheduler} may need {duration(needed)} for a second attempt{of_steps}"
        )
        remedy = f"set {setting} to more than {duration(needed)}, or lower scheduleTimeoutSeconds"
        yield Finding(gang.path, gang.held.queue, why, remedy, once=True)


@rule(
    "kueue/ready-in-turn",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job_set(replicated("download", 1), replicated("train"), labels=QUEUED, **_IN_ORDER)),
    fails=Example(job_set(replicated("download", 1), replicated("train", dependsOn=list(_DEPENDS)), labels=QUEUED)),
)
def ready_in_turn(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue calls a JobSet or TrainJob ready when all of its Jobs are ready or have succeeded. If a step starts only
    when another is complete, such as the download of a dataset, the whole time of that step counts. Kueue stops a
    download of 31 minutes with its default, and it starts again from the beginning. A step that waits until another is
    ready adds only the time to start. A timeout above Kueue's default is taken as chosen for this.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/{jobset,trainjob} (`PodsReady`).
    """
    if not isinstance(workload, JobSet):
        return
    times = ready_times(workload, context)
    if times.start is None or times.start > (kueue.INSTALLED.pods_ready_seconds or 0):
        return
    goal, setting = start_limit(times)
    if workload.managed_elsewhere is None and held(workload, context.facts, context.kueue) is not None:
        for at, name, other in _first_step_after_completion(workload):
            why = (
                f"Kueue stops the workload unless all steps are {goal} {duration(times.start)} after its "
                f"admission, and {shown(name)} starts only when {shown(other)} is complete"
            )
            yield Finding(at, other, why, f"set {setting} to more than the earlier steps may take")


def _first_step_after_completion(workload: JobSet) -> Iterator[tuple[FieldPath, str, str]]:
    """Yields the first step that waits until another is complete: its path, its name and that of the other."""
    if workload.starts_in_order:
        return
    for part, raw in zip(workload.parts, sequence(workload.spec.get("replicatedJobs")), strict=True):
        for dependency in map(mapping, sequence(mapping(raw).get("dependsOn"))):
            if text(dependency.get("status")) == "Complete":
                yield part.path / "dependsOn", part.name, text(dependency.get("name")) or ""
                return


def _grouped(minimum: int) -> Manifest:
    marks = {kueue.POD_GROUP_NAME: "demo", kueue.POD_GROUP_TOTAL_COUNT: "4"}
    return clique("worker", replicas=4, minimum=minimum, labels=QUEUED, annotations=marks)


@rule(
    "kueue/ready-minimum",
    looks_at=(kueue.QUEUE_NAME,),
    default=Action.WARN,
    passes=Example(pod_clique_set(_grouped(4))),
    fails=Example(pod_clique_set(_grouped(2))),
)
def ready_minimum(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue calls a pod group ready when all of its pods are ready. A gang that runs with its minimum is never ready in
    that sense, so Kueue deletes its pods while they work. From 0.20 on, with the gate WaitForPodsReadyMaxNotReady, the
    annotation kueue.x-k8s.io/pod-group-max-not-ready-count of the pods says how many may be missing.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`PodsReady`); of 0.20,
    keps/15423 (maximum of pods that are not ready).
    """
    for member, hold in held_cliques(workload, context):
        timeout = context.kueue.ready_times(member.template.annotations.get(kueue.WAIT_FOR_PODS_READY)).ready
        missing = member.replicas - member.min_available
        spared = int32(text(member.template.annotations.get(kueue.POD_GROUP_MAX_NOT_READY_COUNT)) or "") or 0
        if timeout is None or (context.kueue.max_not_ready and missing <= spared):
            continue
        if hold.unit is Unit.POD_GROUP and missing > 0:
            why = (
                f"Kueue wants all {member.replicas} pods ready, and the gang runs with {member.min_available}: it "
                f"is stopped {duration(timeout)} after its admission although it runs"
            )
            remedy = "set minAvailable to replicas, or take the pods out of the Kueue queue"
            yield Finding(member.path / "spec" / "minAvailable", member.min_available, why, remedy)


@rule(
    "kueue/block-admission",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED), kueue=_pods_ready_block(blockAdmission=True)),
)
def block_admission(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With waitForPodsReady.blockAdmission, Kueue admits nothing in the whole cluster while the pods of an admitted
    workload are not ready. A gang that its scheduler holds stops all queues until the timeout.

    Source: kubernetes-sigs/kueue v0.19, pkg/scheduler/scheduler.go; apis/config/v1beta2 (`blockAdmission`).
    """
    settings = context.kueue
    if not settings.block_admission or settings.pods_ready_seconds is None:
        return
    if (gang := held_gang(workload, context)) is not None:
        why = f"while {context.choice.scheduler} holds this gang after its admission, Kueue admits no other workload"
        remedy = "set Kueue's waitForPodsReady.blockAdmission to false"
        yield Finding(gang.path, gang.held.queue, why, remedy, once=True)


@rule(
    "kueue/gives-up",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED), kueue=_pods_ready_block(requeuingStrategy={"backoffLimitCount": 3})),
)
def gives_up(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With waitForPodsReady.requeuingStrategy.backoffLimitCount, Kueue deactivates a workload after that number of
    timeouts. A gang that a busy scheduler holds is then never tried again until someone sets spec.active of its
    Workload to true. With objectRetentionPolicies it is deleted.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go
    (`triggerDeactivationOrBackoffRequeue`), pkg/controller/jobframework/reconciler.go.
    """
    settings = context.kueue
    timeout = ready_times(workload, context).ready
    if settings.backoff_limit is None or timeout is None:
        return
    if (gang := held_gang(workload, context)) is not None:
        then = f"deletes the {workload.kind}" if settings.deletes_deactivated else "deactivates it for good"
        why = (
            f"Kueue {then} at the {settings.backoff_limit + 1}. time that its pods were not all ready after "
            f"{duration(timeout)}, also if {context.choice.scheduler} only holds the gang"
        )
        remedy = "leave Kueue's requeuingStrategy.backoffLimitCount unset"
        yield Finding(gang.path, gang.held.queue, why, remedy, once=True)


_MINIMUM = SPEC / "scheduling" / "schedulingPolicy" / "gang" / "minCount"


def _native(least: int, minimum: int) -> Example:
    return Example(
        job(
            labels=QUEUED,
            annotations={kueue.MIN_PARALLELISM: str(least)},
            parallelism=4,
            completions=None,
            scheduling={"schedulingPolicy": {"gang": {"minCount": minimum}}},
        )
    )


@rule(
    "kueue/native-minimum",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=_native(least=2, minimum=2),
    fails=_native(least=2, minimum=3),
)
def native_minimum(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """If its queue has too little room, Kueue resumes a Job with a lower parallelism. The API server refuses a
    parallelism below the minCount of the Job's own gang, so Kueue repeats the update for ever, and its quota stays
    reserved. Without minCount the gang follows the parallelism.

    Source: kubernetes-sigs/kueue issues 14091 and 14919; kubernetes 1.37, pkg/apis/batch/validation.
    """
    if not isinstance(workload, Job) or held(workload, context.facts, context.kueue) is None:
        return
    policy = mapping(mapping(workload.spec.get("scheduling")).get("schedulingPolicy"))
    minimum, least = integer(mapping(policy.get("gang")).get("minCount")), least_parallelism(workload)
    if minimum is not None and least is not None and minimum > least:
        why = f"Kueue may resume the Job with {least} pods, and the API server refuses fewer pods than minCount"
        remedy = f"leave minCount out, or set the annotation {kueue.MIN_PARALLELISM} to {minimum}"
        yield Finding(_MINIMUM, minimum, why, remedy)


@rule(
    "kueue/elastic-job",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED, annotations={kueue.ELASTIC_JOB: "true"})),
)
def elastic_job(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue never suspends an elastic Job. It frees as many pods as it has quota for, and more of them later. A gang
    that is freed in part never starts, and holds the quota of the freed pods until then.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/elasticjobs, pkg/controller/jobframework/validation.go.
    """
    gang = held_gang(workload, context)
    if gang is not None and gang.held.by is HeldBy.ELASTIC:
        why = "Kueue frees the pods of an elastic Job in parts, and a gang starts only with all of them"
        yield Finding(ANNOTATIONS / kueue.ELASTIC_JOB, "true", why, "remove the annotation")
