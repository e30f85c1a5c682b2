"""Values of workloads of other kinds that the schema, webhook or controller of their own project refuses: a file on the
command line has no such check.
"""

from __future__ import annotations

from typing import Any

from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.reading import is_unrendered
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set, leader_worker_set, replicated
from webhook.validators.registry import Context, Example, Results, Subject, rule


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
        yield Finding(
            at=SPEC / "leaderWorkerTemplate" / "size",
            found=workload.size,
            why="a group has at least a leader, and LeaderWorkerSet refuses a smaller size",
            remedy="set the number of pods of a group, including its leader",
            instead=(1,),
        )


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
            yield Finding(
                at=at,
                found=count,
                why="a negative number of pods is refused" if refuses else "no pod is made of a negative number",
                remedy="write 0 or more",
                at_most=Action.DENY if refuses else Action.WARN,
                instead=(1,),
            )


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
    if not isinstance(workload, JobSet) or workload.in_order:
        return
    if any(is_unrendered(part.name) for part in workload.parts):
        return
    before: set[str] = set()
    for part in workload.parts:
        for name in part.after:
            if name not in before:
                yield Finding(
                    at=part.path / "dependsOn",
                    found=name,
                    why="JobSet refuses it: no earlier replicated Job has that name",
                    remedy="name a replicated Job that is before this one, or move this one to the end of the list",
                )
        before.add(part.name)
