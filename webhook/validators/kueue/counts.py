"""Rules about Jobs that Kueue may start with fewer pods than they state, or with their pods in parts.

Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/job/job_controller.go (`RunWithPodSetsInfo`),
pkg/controller/elasticjobs.
"""

from __future__ import annotations

from typing import Any

from webhook.model.fields import ANNOTATIONS, SPEC
from webhook.model.findings import Action, Finding
from webhook.model.kueue.holding import HeldBy, held, least_parallelism
from webhook.model.kueue.keys import ELASTIC_JOB, MIN_PARALLELISM, QUEUE_NAME
from webhook.model.reading import integer, mapping
from webhook.model.workloads.job import Job
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.held_gangs import held_gang
from webhook.validators.kueue.readiness import QUEUED
from webhook.validators.opted_in_examples import job
from webhook.validators.registry import Context, Example, Results, Subject, rule

_MINIMUM = SPEC / "scheduling" / "schedulingPolicy" / "gang" / "minCount"


def _native(least: int, minimum: int) -> Example:
    return Example(
        job(
            labels=QUEUED,
            annotations={MIN_PARALLELISM: str(least)},
            parallelism=4,
            completions=None,
            scheduling={"schedulingPolicy": {"gang": {"minCount": minimum}}},
        )
    )


@rule(
    "kueue/native-minimum",
    looks_at=(QUEUE_NAME,),
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
        yield Finding(
            at=_MINIMUM,
            found=minimum,
            why=f"Kueue may resume the Job with {least} pods, and the API server refuses fewer pods than minCount",
            remedy=f"leave minCount out, or set the annotation {MIN_PARALLELISM} to {minimum}",
        )


@rule(
    "kueue/elastic-job",
    looks_at=(QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(job(labels=QUEUED)),
    fails=Example(job(labels=QUEUED, annotations={ELASTIC_JOB: "true"})),
)
def elastic_job(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """Kueue never suspends an elastic Job. It frees as many pods as it has quota for, and more of them later. A gang
    that is freed in part never starts, and holds the quota of the freed pods until then.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/elasticjobs, pkg/controller/jobframework/validation.go.
    """
    found = held_gang(workload, context)
    if found is not None and found.held.by is HeldBy.ELASTIC:
        yield Finding(
            at=ANNOTATIONS / ELASTIC_JOB,
            found="true",
            why="Kueue frees the pods of an elastic Job in parts, and a gang starts only with all of them",
            remedy="remove the annotation",
        )
