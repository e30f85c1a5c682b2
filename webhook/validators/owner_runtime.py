"""The rule about the runtime of a TrainJob, which has the pod templates that it lacks itself."""

from __future__ import annotations

from typing import Any

from webhook.model.findings import Finding, Unjudged
from webhook.model.owners.trainjob import TrainJob, runtime_of
from webhook.model.owners.workload import OwnedWorkload
from webhook.model.reading import Malformed
from webhook.validators.owner_examples import runtimes, train_job
from webhook.validators.registry import Context, Example, Results, Subject, rule


@rule(
    "owner/runtime",
    subject=Subject.OWNER,
    passes=Example(train_job(runtime="torch"), facts=runtimes(name="torch")),
    fails=Example(train_job(runtime="jax"), facts=runtimes(name="torch")),
)
def runtime(workload: OwnedWorkload, context: Context[Any]) -> Results:
    """The pods of a TrainJob are those of its runtime: without one that is there and can be read there are none, and
    nothing about its gang can be told.

    Source: kubeflow/trainer, pkg/webhooks/trainjob_webhook.go, pkg/runtime/core (v2.3.0).
    """
    if not isinstance(workload, TrainJob):
        return
    needed, at = workload.runtime, workload.runtime_path
    if getattr(context.facts, needed.part) is None:
        yield Unjudged(at, f"the {needed}")
        return
    name = needed.key if isinstance(needed.key, str) else needed.key[1]
    try:
        found = runtime_of(workload, context.facts)
        if found is not None:
            _ = workload.job_set(found).parts
            return
    except Malformed as error:
        why = f"its {workload.runtime_kind} cannot be read: {error}"
        yield Finding(at=at, found=name, why=why, remedy="write the runtime as its CRD has it")
        return
    why = f"there is no {needed}, so Trainer makes no pods of it"
    yield Finding(at=at, found=name, why=why, remedy="create it first, or name another", absent=needed)
