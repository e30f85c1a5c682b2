"""Jobs that Kueue holds: their Workloads as Kueue writes them, and the health of their gangs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.unit.gangs.judged_gangs import FACTS
from tests.unit.worlds import koordinator
from webhook.gangs.health import GangHealth, Observed, judge
from webhook.gangs.kueue_queue import QueuePlaces
from webhook.gangs.members import Roster
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.known_objects import Namespace
from webhook.model.kueue_objects import WORKLOADS, ClusterQueue, KueueWorkload, KueueWorkloads, LocalQueue
from webhook.model.reading import Manifest
from webhook.workloads.job import Job
from webhook.workloads.opted_in_gang import gangs_of

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
QUEUE = LocalQueue("research")


def condition(
    type_: str, reason: str = "", message: str = "", *, status: bool = False, at: str = "11:50:00"
) -> Manifest:
    return {
        "type": type_,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastTransitionTime": f"2026-01-01T{at}Z",
    }


# Stands in a message for an object of a namespace that the reader may not know.
ELSEWHERE = "an object of another namespace"


def lacks(amount: str, resource: str, flavor: str) -> str:
    """What Kueue writes of a resource whose quota other workloads use."""
    return f"insufficient unused quota for {resource} in flavor {flavor}, {amount} more needed"


def exceeds(amount: int, most: int, resource: str, flavor: str) -> str:
    """What Kueue writes of a resource of which no quota is large enough."""
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests (0) + current "
        f"podset request ({amount}) > maximum capacity ({most})"
    )


def workload(
    name: str = "job-train-1a2b3",
    *conditions: Manifest,
    namespace: str = "team-a",
    owner: str = "train",
    created: str = "11:00:00",
    spec: Manifest | None = None,
    **status: Any,
) -> tuple[ObjectKey, KueueWorkload]:
    """A Workload of Kueue that is made for the Job `owner`."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"job-{owner}", "controller": True}
    metadata = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": f"2026-01-01T{created}Z",
        "labels": {"kueue.x-k8s.io/job-uid": f"job-{owner}"},
        "ownerReferences": [reference],
    }
    pods = {"podSets": [{"name": "main", "count": 8}], "queueName": "main"}
    found = WORKLOADS.read(
        {"metadata": metadata, "spec": {**pods, **(spec or {})}, "status": {"conditions": list(conditions), **status}}
    )
    assert found is not None
    return found


def queued_facts(*workloads: tuple[ObjectKey, KueueWorkload], **parts: Any) -> ClusterFacts:
    """The facts with these Workloads, in LocalQueues of the ClusterQueue `research`."""
    queues = {("team-a", "main"): QUEUE, ("team-b", "main"): QUEUE}
    known = {
        "local_queues": queues,
        "cluster_queues": {"research": ClusterQueue()},
        "namespaces": {"team-a": Namespace({}), "team-b": Namespace({})},
        "kueue_workloads": KueueWorkloads(dict(workloads)),
        **parts,
    }
    return replace(FACTS, **known)


def job(*, suspend: bool = True, labels: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    marks = {"rollcall.dev/scheduler": "koord-scheduler", "kueue.x-k8s.io/queue-name": "main"}
    found = {"name": "train", "namespace": "team-a", "uid": "job-train", "labels": marks if labels is None else labels}
    template = {"metadata": {}, "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}
    spec = {"parallelism": 8, "completions": 8, "suspend": suspend, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**found, **metadata}, "spec": spec}


def health(facts: ClusterFacts, raw: Manifest | None = None, roster: Roster | None = None) -> GangHealth:
    """The health of the gang of a Job."""
    (gang,) = gangs_of(Job(raw or job()))
    known = QueuePlaces(facts.kueue_workloads)
    return judge(
        Observed(
            gang,
            roster or Roster(),
            lambda _: None,
            [],
            None,
            facts,
            koordinator(standalone=False),
            places=known,
            now=NOW,
        )
    )
