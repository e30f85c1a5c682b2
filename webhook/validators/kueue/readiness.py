"""Rules about waitForPodsReady, by which Kueue takes a workload back whose pods are not all ready some time after its
admission. It is on by default, for 30 minutes, and it does not know which pods a scheduler still holds.

A gang that simply waits for room longer than that is no mistake of its author: Kueue then gives its quota to others.
So these rules speak only if the values of the workload, the profile and Kueue contradict each other.

Source: kubernetes-sigs/kueue v0.19, apis/config/v1beta2/defaults.go, pkg/controller/core/workload_controller.go
(`reconcileNotReadyTimeout`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.model.fields import FieldPath
from webhook.model.findings import Action, Finding, shown
from webhook.model.kueue.holding import Unit, held
from webhook.model.kueue.keys import POD_GROUP_NAME, POD_GROUP_TOTAL_COUNT, QUEUE_NAME
from webhook.model.kueue.settings import INSTALLED
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.kueue.held_cliques import held_cliques
from webhook.validators.kueue.held_gangs import duration, gangs_in_turn, held_gang
from webhook.validators.opted_in_examples import job, job_set, replicated
from webhook.validators.registry import Context, Example, Results, Subject, rule

QUEUED = {QUEUE_NAME: "research"}
_IN_ORDER: dict[str, Any] = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
_THREE_STEPS = tuple(replicated(name) for name in ("download", "tune", "train"))
_DEPENDS = ({"name": "download", "status": "Complete"},)


def _with(**fields: Any) -> dict[str, Any]:
    return {"waitForPodsReady": fields}


@rule(
    "kueue/ready-timeout",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job_set(*_THREE_STEPS, labels=QUEUED)),
    fails=Example(job_set(*_THREE_STEPS, labels=QUEUED, **_IN_ORDER), config={"scheduleTimeoutSeconds": 600}),
)
def ready_timeout(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue takes a workload back whose pods are not all ready waitForPodsReady.timeout after its admission. If the
    scheduler may need longer than that for its next attempt, one failed attempt is enough to lose the place. Gangs that
    start in turn add their times.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go; kubernetes,
    pkg/scheduler/framework/runtime (Permit waits 15 minutes at most), pkg/scheduler/backend/queue (unschedulable pods
    are tried again after 5 minutes).
    """
    timeout, found = context.kueue.pods_ready_seconds, held_gang(workload, context)
    if timeout is None or found is None:
        return
    steps = gangs_in_turn(found.pods)
    needed = steps * context.gang_scheduler.retry_seconds
    if timeout < needed:
        of_steps = f" for its {steps} gangs in turn" if steps > 1 else ""
        yield Finding(
            at=found.path,
            found=found.held.queue,
            why=f"Kueue takes it back {duration(timeout)} after its admission unless all pods are ready, and "
            f"{context.choice.scheduler} may need {duration(needed)} for a second attempt{of_steps}",
            remedy=f"set Kueue's waitForPodsReady.timeout to more than {duration(needed)}, or lower "
            "scheduleTimeoutSeconds",
            once=True,
        )


@rule(
    "kueue/ready-in-turn",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job_set(replicated("download", 1), replicated("train"), labels=QUEUED, **_IN_ORDER)),
    fails=Example(
        job_set(replicated("download", 1), replicated("train", dependsOn=list(_DEPENDS)), labels=QUEUED),
    ),
)
def ready_in_turn(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue calls a JobSet or TrainJob ready when all of its Jobs are ready or have succeeded. If a step starts only
    when another is complete, such as the download of a dataset, the whole time of that step counts. Kueue stops a
    download of 31 minutes with its default, and it starts again from the beginning. A step that waits until another is
    ready adds only the time to start. A timeout above Kueue's default is taken as chosen for this.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/{jobset,trainjob} (`PodsReady`).
    """
    timeout = context.kueue.pods_ready_seconds
    if timeout is None or timeout > (INSTALLED.pods_ready_seconds or 0) or not isinstance(workload, JobSet):
        return
    if workload.managed_elsewhere is None and held(workload, context.facts, context.kueue) is not None:
        for at, name, other in _after_completion(workload):
            yield Finding(
                at=at,
                found=other,
                why=f"Kueue stops the workload unless all steps are ready {duration(timeout)} after its admission, and "
                f"{shown(name)} starts only when {shown(other)} is complete",
                remedy="set Kueue's waitForPodsReady.timeout to more than the earlier steps may take",
            )


def _after_completion(workload: JobSet) -> Iterator[tuple[FieldPath, str, str]]:
    """The first step that waits until another is complete: its path, its name and that of the other."""
    if workload.in_order:
        return
    for part, raw in zip(workload.parts, sequence(workload.spec.get("replicatedJobs")), strict=True):
        for one in map(mapping, sequence(mapping(raw).get("dependsOn"))):
            if text(one.get("status")) == "Complete":
                yield part.path / "dependsOn", part.name, text(one.get("name")) or ""
                return


def _grouped(minimum: int) -> Manifest:
    marks = {POD_GROUP_NAME: "demo", POD_GROUP_TOTAL_COUNT: "4"}
    return clique("worker", replicas=4, minimum=minimum, labels=QUEUED, annotations=marks)


@rule(
    "kueue/ready-minimum",
    looks_at=(QUEUE_NAME,),
    default=Action.WARN,
    passes=Example(pod_clique_set(_grouped(4))),
    fails=Example(pod_clique_set(_grouped(2))),
)
def ready_minimum(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue calls a pod group ready when all of its pods are ready. A gang that runs with its minimum is never ready in
    that sense, so Kueue deletes its pods while they work.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`PodsReady`).
    """
    timeout = context.kueue.pods_ready_seconds
    if timeout is None:
        return
    for member, found in held_cliques(workload, context):
        if found.unit is Unit.POD_GROUP and member.min_available < member.replicas:
            yield Finding(
                at=member.path / "spec" / "minAvailable",
                found=member.min_available,
                why=f"Kueue wants all {member.replicas} pods ready, and the gang runs with {member.min_available}: it "
                f"is stopped {duration(timeout)} after its admission although it runs",
                remedy="set minAvailable to replicas, or take the pods out of the Kueue queue",
            )


@rule(
    "kueue/block-admission",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED), kueue=_with(blockAdmission=True)),
)
def block_admission(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With waitForPodsReady.blockAdmission, Kueue admits nothing in the whole cluster while the pods of an admitted
    workload are not ready. A gang that its scheduler holds stops all queues until the timeout.

    Source: kubernetes-sigs/kueue v0.19, pkg/scheduler/scheduler.go; apis/config/v1beta2 (`blockAdmission`).
    """
    settings = context.kueue
    if not settings.block_admission or settings.pods_ready_seconds is None:
        return
    if (found := held_gang(workload, context)) is not None:
        yield Finding(
            at=found.path,
            found=found.held.queue,
            why=f"while {context.choice.scheduler} holds this gang after its admission, Kueue admits no other workload",
            remedy="set Kueue's waitForPodsReady.blockAdmission to false",
            once=True,
        )


@rule(
    "kueue/gives-up",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED), kueue=_with(requeuingStrategy={"backoffLimitCount": 3})),
)
def gives_up(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """With waitForPodsReady.requeuingStrategy.backoffLimitCount, Kueue deactivates a workload after that number of
    timeouts. A gang that a busy scheduler holds is then never tried again until someone sets spec.active of its
    Workload to true. With objectRetentionPolicies it is deleted.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go
    (`triggerDeactivationOrBackoffRequeue`), pkg/controller/jobframework/reconciler.go.
    """
    settings = context.kueue
    if settings.backoff_limit is None or settings.pods_ready_seconds is None:
        return
    if (found := held_gang(workload, context)) is not None:
        then = f"deletes the {workload.kind}" if settings.deletes_deactivated else "deactivates it for good"
        yield Finding(
            at=found.path,
            found=found.held.queue,
            why=f"Kueue {then} at the {settings.backoff_limit + 1}. time that its pods were not all ready after "
            f"{duration(settings.pods_ready_seconds)}, also if {context.choice.scheduler} only holds the gang",
            remedy="leave Kueue's requeuingStrategy.backoffLimitCount unset",
            once=True,
        )
