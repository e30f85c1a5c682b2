"""How Kueue holds a workload: by which queue, by which means, and as which pod sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.keys import Api
from webhook.model.known_objects import Namespace
from webhook.model.kueue import INSTALLED, KueueSettings
from webhook.model.kueue_objects import LocalQueue
from webhook.model.reading import Manifest
from webhook.workloads.known_workloads import VIEWS
from webhook.workloads.kueue_integration import (
    Held,
    HeldBy,
    Unit,
    held,
    held_clique,
    runs_elsewhere,
    workload_with_pods,
)
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet
from webhook.workloads.trainjob import Runtime, TrainJob

QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
KUEUE_SERVED = frozenset({Api("kueue.x-k8s.io", "v1beta2", "LocalQueue")})
PODS: Manifest = {"spec": {"containers": [{"name": "main"}]}}


def workload(kind: str, spec: Manifest, labels: Any = None, annotations: Any = None, **more: Any) -> OptedInWorkload:
    groups = {
        "Job": "batch",
        "JobSet": "jobset.x-k8s.io",
        "TrainJob": "trainer.kubeflow.org",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    }
    metadata = {"name": "demo", "namespace": "team-a", "labels": labels, "annotations": annotations, **more}
    return VIEWS[groups[kind], kind]({"kind": kind, "metadata": metadata, "spec": spec})


def job(labels: Any = None, annotations: Any = None, **more: Any) -> OptedInWorkload:
    return workload("Job", {"parallelism": 8, "completions": 8, "template": PODS}, labels, annotations, **more)


def pod_sets(found: Held | None) -> list[tuple[str, int, int | None]]:
    assert found is not None
    return [(one.name, one.count, one.min_count) for one in found.pod_sets]


def test_a_job_with_a_queue_name_is_held_by_suspension() -> None:
    found = held(job(QUEUED), NO_FACTS, INSTALLED)
    assert found is not None
    assert (found.queue, found.by, found.unit) == ("research", HeldBy.SUSPEND, Unit.WORKLOAD)
    assert str(found.path) == "metadata.labels[kueue.x-k8s.io/queue-name]"
    assert pod_sets(found) == [("main", 8, None)]


@pytest.mark.parametrize(
    ("least", "count"),
    [("3", 3), ("8", None), ("0", None), ("-1", None), ("many", None), ("9" * 5000, None), ("٣", None)],
)
def test_a_least_parallelism_counts_only_between_zero_and_the_parallelism(least: str, count: int | None) -> None:
    found = held(job(QUEUED, {"kueue.x-k8s.io/job-min-parallelism": least}), NO_FACTS, INSTALLED)
    assert pod_sets(found) == [("main", 8, count)]


def test_an_elastic_job_gets_its_pods_in_parts() -> None:
    found = held(job(QUEUED, {"kueue.x-k8s.io/elastic-job": "true"}), NO_FACTS, INSTALLED)
    assert found is not None
    assert found.by is HeldBy.ELASTIC


def test_each_replicated_job_is_a_pod_set() -> None:
    replicated = [
        {"name": "driver", "template": {"spec": {"template": PODS}}},
        {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3, "template": PODS}}},
    ]
    found = held(workload("JobSet", {"replicatedJobs": replicated}, QUEUED), NO_FACTS, INSTALLED)
    assert pod_sets(found) == [("driver", 1, None), ("worker", 6, None)]


@pytest.mark.parametrize(
    ("templates", "sets"),
    [
        ({"size": 4, "workerTemplate": PODS}, [("main", 4, None)]),
        ({"size": 4, "leaderTemplate": PODS, "workerTemplate": PODS}, [("leader", 1, None), ("worker", 3, None)]),
        ({"size": 1, "leaderTemplate": PODS, "workerTemplate": PODS}, [("leader", 1, None)]),
    ],
)
def test_each_group_of_a_leader_worker_set_is_a_workload_of_gated_pods(
    templates: Manifest, sets: list[tuple[str, int, int | None]]
) -> None:
    found = held(
        workload("LeaderWorkerSet", {"replicas": 3, "leaderWorkerTemplate": templates}, QUEUED),
        NO_FACTS,
        INSTALLED,
    )
    assert found is not None
    assert (found.by, found.unit) == (HeldBy.GATES, Unit.GROUP)
    assert pod_sets(found) == sets


def test_the_job_set_of_a_train_job_is_held_through_the_train_job() -> None:
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "demo", "controller": True}
    job_set = workload("JobSet", {"replicatedJobs": []}, QUEUED, ownerReferences=[owner])
    train_job = workload("TrainJob", {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 5}}, QUEUED)
    assert isinstance(train_job, TrainJob)
    node = {"name": "node", "template": {"spec": {"template": PODS}}}
    node["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}  # type: ignore[index]
    runtime = Runtime({"spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}}})
    assert held(job_set, NO_FACTS, INSTALLED) is None
    assert pod_sets(held(train_job, NO_FACTS, INSTALLED)) == []
    made = held(train_job.job_set(runtime), NO_FACTS, INSTALLED)
    assert made is not None
    assert made.queue == "research"
    assert pod_sets(made) == [("node", 5, None)]


def test_the_job_set_of_a_train_job_is_made_once_for_all_rules() -> None:
    train_job = TrainJob({"metadata": {"name": "demo"}, "spec": {"runtimeRef": {"name": "torch"}}})
    first, second = ({"metadata": {"name": "torch"}, "spec": {}} for _ in range(2))
    facts, changed = (ClusterFacts(cluster_training_runtimes={"torch": one}) for one in (first, second))
    made = workload_with_pods(train_job, facts)
    assert made is not None
    assert workload_with_pods(train_job, facts) is made
    assert workload_with_pods(train_job, changed) is not made


@pytest.mark.parametrize(
    ("version", "kind"),
    [("ray.io/v1", "RayJob"), ("workload.codeflare.dev/v1beta2", "AppWrapper"), ("kubeflow.org/v2beta1", "MPIJob")],
)
def test_a_job_that_kueue_starts_with_its_owner_is_not_held_by_itself(version: str, kind: str) -> None:
    # Its namespace has a LocalQueue `default`, and its template already has the keys that Kueue gave to the owner.
    facts = ClusterFacts(local_queues={("team-a", "default"): LocalQueue("research")})
    owner = {"apiVersion": version, "kind": kind, "name": "demo", "controller": True}
    assert held(job(ownerReferences=[owner]), facts, INSTALLED) is None
    by_user = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "demo", "controller": True}
    assert held(job(ownerReferences=[by_user]), facts, INSTALLED) is not None


def test_a_job_of_a_job_set_is_held_through_the_job_set() -> None:
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "demo", "controller": True}
    assert held(job(QUEUED, ownerReferences=[owner]), NO_FACTS, INSTALLED) is None


def facts(**parts: Any) -> ClusterFacts:
    return replace(NO_FACTS, **parts)


NAME = "kubernetes.io/metadata.name"
OTHER_API = frozenset({Api("batch", "v1", "Job")})
DEFAULT_QUEUE = {("team-a", "default"): LocalQueue("all")}
WITHOUT_NAMES = replace(INSTALLED, manage_without_queue_name=True)
ONLY_ML = replace(INSTALLED, managed_namespaces={"matchLabels": {"team": "ml"}})


@pytest.mark.parametrize(
    ("labels", "known", "settings", "queue"),
    [
        (QUEUED, facts(apis=OTHER_API), INSTALLED, "-"),
        (QUEUED, facts(apis=KUEUE_SERVED), INSTALLED, "research"),
        ({}, facts(apis=KUEUE_SERVED), INSTALLED, "-"),
        ({}, facts(apis=KUEUE_SERVED, local_queues=DEFAULT_QUEUE), INSTALLED, "default"),
        ({}, facts(local_queues={("team-b", "default"): LocalQueue("all")}), INSTALLED, "-"),
        ({}, facts(apis=KUEUE_SERVED), WITHOUT_NAMES, None),
        ({}, NO_FACTS, WITHOUT_NAMES, "-"),
        (QUEUED, NO_FACTS, replace(INSTALLED, frameworks=frozenset({"pod"})), "-"),
        (QUEUED, facts(namespaces={"team-a": Namespace({"team": "web"})}), ONLY_ML, "-"),
        (QUEUED, facts(namespaces={"team-a": Namespace({"team": "ml"})}), ONLY_ML, "research"),
        (QUEUED, NO_FACTS, ONLY_ML, "research"),
    ],
    ids=[
        "the cluster has no Kueue",
        "a queue name",
        "no queue name",
        "the namespace has a default queue",
        "another namespace has a default queue",
        "all workloads are managed",
        "all workloads are managed, but nothing says that there is a Kueue",
        "the kind is not integrated",
        "the namespace is not managed",
        "the namespace is managed",
        "it is not known whether the namespace is managed",
    ],
)
def test_what_makes_kueue_hold_a_job(
    labels: Any, known: ClusterFacts, settings: KueueSettings, queue: str | None
) -> None:
    found = held(job(labels), known, settings)
    assert (found is None) == (queue == "-")
    assert found is None or found.queue == queue
    assert found is None or (found.path is None) == (not labels)


@pytest.mark.parametrize(
    ("selector", "labels", "managed"),
    [
        ({}, None, True),
        ({"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["team-a"]}]}, None, False),
        ({"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["team-b"]}]}, None, True),
        ({"matchExpressions": [{"key": NAME, "operator": "In", "values": ["team-a"]}]}, None, True),
        ({"matchLabels": {NAME: "team-b"}}, None, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["ml"]}]}, None, None),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["ml"]}]}, {"team": "ml"}, False),
        (
            {
                "matchLabels": {"team": "ml"},
                "matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["team-b"]}],
            },
            {"team": "web"},
            False,
        ),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {}, False),
    ],
)
def test_the_selector_of_namespaces_is_evaluated_as_kueue_does(
    selector: Manifest, labels: dict[str, str] | None, managed: bool | None
) -> None:
    assert replace(INSTALLED, managed_namespaces=selector).manages_namespace("team-a", labels) is managed


def test_kueues_own_namespace_is_not_managed() -> None:
    assert INSTALLED.manages_namespace("kueue-system", {}) is False


@pytest.mark.parametrize(
    ("annotations", "unit", "group", "total", "count"),
    [
        ({}, Unit.POD, None, None, 1),
        (
            {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-total-count": "4"},
            Unit.POD_GROUP,
            "g",
            "4",
            4,
        ),
    ],
)
def test_the_pods_of_a_clique_are_plain_pods_to_kueue(
    annotations: Any, unit: Unit, group: str | None, total: str | None, count: int
) -> None:
    raw = {"name": "worker", "labels": QUEUED, "annotations": annotations, "spec": {"replicas": 4, "podSpec": {}}}
    found_set = PodCliqueSet({"metadata": {"name": "demo"}, "spec": {"template": {"cliques": [raw]}}}, "team-a")
    found = held_clique(found_set.cliques[0], found_set, NO_FACTS, INSTALLED)
    assert found is not None
    assert (found.by, found.unit, found.group, found.total) == (HeldBy.GATES, unit, group, total)
    assert found.path == FieldPath((*found_set.cliques[0].path.parts, "labels", "kueue.x-k8s.io/queue-name"))
    assert [one.count for one in found.pod_sets] == [count]


def test_multikueue_runs_the_pods_in_another_cluster() -> None:
    assert runs_elsewhere(workload("Job", {"managedBy": "kueue.x-k8s.io/multikueue", "template": PODS}))
    assert not runs_elsewhere(job(QUEUED))
