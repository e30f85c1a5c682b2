"""`python -m benchmarks.kueue`: one decision in a cluster with many of Kueue's objects, against the same decision in a
cluster without Kueue and in one with few, in turns.

The PodCliqueSet and its pod name no LocalQueue, so each cluster gives the same verdict. The Job names one: rules about
Kueue judge it. Workloads are known, too, which a server does not follow: no rule may become slower if it did.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from benchmarks.decision import best, settings
from benchmarks.reviews import pod_clique_set_review, pod_review
from benchmarks.servers import ONE_PROFILE
from webhook import admission
from webhook.admission.decision import request_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Api, Record
from webhook.model.known_objects import Namespace
from webhook.model.kueue_objects import (
    KUEUE_PROJECTIONS,
    WORKLOADS,
    ClusterQueue,
    Cohort,
    FlavorQuota,
    KueueCondition,
    KueueWorkload,
    KueueWorkloads,
    LocalQueue,
    Owner,
    ResourceFlavor,
    WorkloadPods,
)

_TURNS = 5
_QUEUE = "kueue.x-k8s.io/queue-name"
_SCHEDULER = "rollcall.dev/scheduler"


def without_kueue() -> ClusterFacts:
    """A cluster that serves no kind of Kueue's."""
    return replace(
        NO_FACTS,
        apis=frozenset({Api("batch", "v1", "Job")}),
        namespaces={"default": Namespace({})},
        pod_clique_sets={("default", "bench"): Record("koord-scheduler")},
    )


def with_kueue(queues: int, held: int) -> ClusterFacts:
    """The same with Kueue, so many of its queues, and so many Workloads."""
    names = [f"queue-{number}" for number in range(queues)]
    quotas = tuple(FlavorQuota("flavor", resource, "1000") for resource in ("cpu", "memory", "nvidia.com/gpu"))
    return replace(
        without_kueue(),
        apis=frozenset(found.resource.api for found in (*KUEUE_PROJECTIONS, WORKLOADS)),
        local_queues={("default", name): LocalQueue(name, active=True) for name in names},
        cluster_queues={name: ClusterQueue("all", (name,), quotas, active=True, namespaces=True) for name in names},
        cohorts={"all": Cohort()},
        resource_flavors={name: ResourceFlavor(name, (("pool", name),)) for name in names},
        kueue_topologies=dict.fromkeys(names, ("example.com/rack", "kubernetes.io/hostname")),
        admission_checks={},
        kueue_workloads=_workloads(names, held),
    )


def _workloads(names: list[str], held: int) -> KueueWorkloads:
    found = KueueWorkloads()
    waits = KueueCondition(
        "QuotaReserved", False, "Pending", "insufficient unused quota for cpu", "2026-11-01T10:00:00Z"
    )
    for number in range(held):
        owner = Owner("Job", f"job-{number}", f"u-{number}")
        queue = names[number % len(names)]
        pods = (WorkloadPods("main", 8),)
        found["default", f"job-{number}"] = KueueWorkload(queue, owner=owner, pods=pods, conditions=(waits,))
    return found


def _job_review(body: bytes) -> dict[str, Any]:
    """The review of a Job of eight pods; the rest is taken from the review of a pod."""
    read: dict[str, Any] = orjson.loads(body)
    request = read["request"]
    pod = request["object"]["spec"] | {"restartPolicy": "Never"}
    del pod["schedulingGates"]
    metadata = {"name": "bench", "namespace": "default", "labels": {_QUEUE: "queue-1", _SCHEDULER: "koord-scheduler"}}
    spec = {"parallelism": 8, "completions": 8, "suspend": True, "template": {"spec": pod}}
    request["kind"] = {"group": "batch", "version": "v1", "kind": "Job"}
    request["object"] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return read


def _decide(body: bytes, facts: ClusterFacts, used: Settings) -> Verdict:
    # Mutation changes what it is given, so each call parses anew.
    return admission.validate(request_from(orjson.loads(body)), facts, used)


def main() -> None:
    used = replace(settings(ONE_PROFILE, "koord-scheduler"), standalone=False)
    worlds = {
        "no Kueue": without_kueue(),
        "2 queues": with_kueue(2, 20),
        "200 queues": with_kueue(200, 2000),
    }
    bodies = {
        "PodCliqueSet": pod_clique_set_review(),
        "Pod": pod_review(),
        "queued Job": orjson.dumps(_job_review(pod_review())),
    }
    print(f"{'validate':<14}{''.join(f'{name:>12}' for name in worlds)}   microseconds, and 200 queues as a multiple")
    for title, body in bodies.items():
        figures: dict[str, list[float]] = {name: [] for name in worlds}
        for _ in range(_TURNS):
            for name, facts in worlds.items():
                figures[name].append(best(partial(_decide, body, facts, used))[0])
        none, few, many = map(min, figures.values())
        shown = "".join(f"{found:>12.1f}" for found in (none, few, many))
        print(f"{title:<14}{shown}   {many / none:.2f} of no Kueue, {many / few:.2f} of 2 queues")


if __name__ == "__main__":
    main()
