"""The rule about serving units of several LeaderWorkerSets."""

from __future__ import annotations

from typing import Any

from webhook.model.fields import METADATA
from webhook.model.findings import Action, Finding
from webhook.model.kueue import keys
from webhook.model.kueue.holding import held
from webhook.model.reading import Manifest
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import leader_worker_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

_QUEUED = {keys.QUEUE_NAME: "team"}
_KIND, _GROUP = "DisaggregatedSet", "disaggregatedset.x-k8s.io"


def _role() -> Manifest:
    """The LeaderWorkerSet of a role."""
    found = leader_worker_set(labels=_QUEUED)
    owner = {"apiVersion": f"{_GROUP}/v1", "kind": _KIND, "name": "chat", "uid": "1", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    return found


@rule(
    "kueue/roles-apart",
    looks_at=(keys.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(leader_worker_set(labels=_QUEUED)),
    fails=Example(_role()),
)
def roles_apart(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """A DisaggregatedSet makes a LeaderWorkerSet for each role of a slice. Kueue makes a Workload for each group of
    each role and admits these one by one, so a part of a serving unit may hold quota and wait for the rest.

    Source: kubernetes-sigs/lws v0.9, api/disaggregatedset/v1; kubernetes-sigs/kueue v0.19,
    pkg/controller/jobs/leaderworkerset.
    """
    owner = workload.controller
    if not isinstance(workload, LeaderWorkerSet) or owner is None or (owner.group, owner.kind) != (_GROUP, _KIND):
        return
    if held(workload, context.facts, context.kueue) is not None:
        yield Finding(
            at=METADATA / "ownerReferences",
            found=owner.name,
            why="Kueue admits the roles of a slice one by one, so a part of a serving unit may hold quota",
            remedy="use a LocalQueue with room for whole slices",
        )
