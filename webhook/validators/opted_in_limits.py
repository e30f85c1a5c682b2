"""Values of opted-in workloads that the webhook of their own project refuses: a file on the command line has no such
check.
"""

from __future__ import annotations

from typing import Any

from webhook.model.fields import SPEC
from webhook.model.findings import Finding
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job_set, leader_worker_set, replicated
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
