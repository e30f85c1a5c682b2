"""The PodGroups of podgrouper as trees: every subgroup, and all pods that count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.test_kai_podgrouper import KAI, MINIMUM, in_order, segmented, steps
from tests.unit.workloads.workloads import deployment, mpi_job, pytorch_job, ray_cluster, template, view, worker_group
from webhook.backends.kai.podgrouper import grouping_of, pod_groups_of
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, replicated
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload, SchedulerGroup

TREES, BEFORE = Version(0, 17), Version(0, 15, 2)
SEGMENT = "kai.scheduler/segment-size"


def drawn(group: SchedulerGroup) -> Any:
    """A group as text: name, pods and minimum, and what is below it."""
    counts = f"{group.pods}" if group.minimum == group.pods else f"{group.minimum} of {group.pods}"
    needed = "" if group.needed is None else f", needs {group.needed}"
    more = f" to {group.last}" if group.more else ""
    line = f"{group.name}{more}: {counts}{needed}"
    return (line, *map(drawn, group.below)) if group.below else line


def trees_of(workload: OptedInWorkload, version: Version = TREES) -> list[Any]:
    groups = pod_groups_of(workload, version)
    assert groups is not None
    return [drawn(group) for group in groups.groups]


def test_a_job_needs_one_pod_or_as_many_as_its_annotation_says() -> None:
    assert trees_of(Job(job(scheduler=KAI, parallelism=4, completions=4))) == ["demo: 1 of 4"]
    annotated = job(scheduler=KAI, annotations={MINIMUM: "3"}, parallelism=4, completions=4)
    assert trees_of(Job(annotated)) == ["demo: 3 of 4"]


def test_a_jobset_has_a_subgroup_for_each_replicated_job_and_a_leaf_for_each_job() -> None:
    workload = JobSet(job_set(replicated("driver", 1), replicated("node", 2, replicas=3), scheduler=KAI))
    assert trees_of(workload) == [
        ("demo: 7", ("driver: 1", "driver-replica-0: 1"), ("node: 6", "node-replica-0 to node-replica-2: 2"))
    ]


@pytest.mark.parametrize(
    ("manifest", "root"),
    [
        (in_order(), "demo: 1 of 3, needs 1"),
        (in_order({MINIMUM: "2"}), "demo: 3"),
        (steps(), "demo: 3"),
        (steps({MINIMUM: "1"}), "demo: 1 of 3, needs 1"),
    ],
)
def test_the_root_of_steps_says_how_many_of_them_it_needs(manifest: Manifest, root: str) -> None:
    (tree,) = trees_of(JobSet(manifest))
    assert tree == (root, ("first: 1", "first-replica-0: 1"), ("second: 2", "second-replica-0: 2"))
    groups = pod_groups_of(JobSet(manifest), TREES)
    assert groups is not None
    assert [step.waits_for for step in groups.groups[0].below] == [None, "first"]


def test_a_jobset_is_flat_before_there_were_trees() -> None:
    assert trees_of(JobSet(steps()), BEFORE) == [("demo: 1 of 3", "first: 1", "second: 2")]
    assert trees_of(JobSet(in_order()), BEFORE) == ["demo-first: 1", "demo-second: 1 of 2"]


def test_a_tree_of_a_jobset_names_the_version_that_it_assumes() -> None:
    groups = pod_groups_of(JobSet(steps()), None)
    assert groups is not None
    assert groups.why == "if kai-scheduler is 0.16.0 or newer"


@pytest.mark.parametrize(
    ("manifest", "below"),
    [
        (leader_worker_set(size=1, scheduler=KAI), ["leader: 1"]),
        (leader_worker_set(size=4, scheduler=KAI), ["leader: 1", "workers: 3"]),
        (segmented(5, 2), [("segment-0: 3", "leader: 1", "workers: 2"), "segment-1: 2"]),
        (segmented(4, 2), [("segment-0: 2", "leader: 1", "workers: 1"), "segment-1: 2"]),
        (segmented(5, 3), [("segment-0: 3", "leader: 1", "workers: 2"), "segment-1: 2"]),
        (segmented(4, 4), [("segment-0: 4", "leader: 1", "workers: 3")]),
        (segmented(9, 2), [("segment-0: 3", "leader: 1", "workers: 2"), "segment-1 to segment-3: 2"]),
        (segmented(5, 2, subGroupPolicyType="LeaderExcluded"), ["leader: 1", "segment-0: 2", "segment-1: 2"]),
        (segmented(5, 4), [("segment-0: 6 of 5", "leader: 1", "workers: 5 of 4")]),
        (segmented(5, 4, subGroupPolicyType="LeaderExcluded"), ["leader: 1", "segment-0: 5 of 4"]),
    ],
)
def test_each_group_of_a_leaderworkerset_has_leaves_for_its_leader_and_workers_or_segments(
    manifest: Manifest, below: list[Any]
) -> None:
    first, second = trees_of(LeaderWorkerSet(manifest))
    assert list(first[1:]) == below == list(second[1:])
    assert first[0].startswith("demo-0: ") and second[0].startswith("demo-1: ")


def test_a_leader_that_starts_first_is_enough_at_first() -> None:
    manifest = leader_worker_set(size=3, scheduler=KAI, startupPolicy="LeaderReady")
    manifest["spec"]["replicas"] = 5
    assert trees_of(LeaderWorkerSet(manifest)) == [("demo-0 to demo-4: 1 of 3", "leader: 1", "workers: 2")]


def test_a_raycluster_has_a_leaf_for_each_group_with_the_pods_that_it_must_have() -> None:
    cluster = view(ray_cluster(worker_group(replicas=3, minReplicas=1)))
    assert trees_of(cluster) == [("demo: 2 of 4", "headgroup: 1", "gpu: 1 of 3")]


def test_the_launcher_of_an_mpijob_counts_until_it_is_created_later() -> None:
    assert trees_of(view(mpi_job())) == [("demo: 3", "launcher: 1", "worker: 2")]
    later = mpi_job(launcherCreationPolicy="WaitForWorkersReady")
    assert trees_of(view(later)) == [("demo: 2 of 3", "launcher-later: 1", "worker: 2")]


def test_the_workers_of_a_pytorchjob_may_be_in_segments() -> None:
    def of(segment: str, **spec: Any) -> OptedInWorkload:
        worker = {"replicas": 5, "template": template(annotations={SEGMENT: segment})}
        specs = {"Master": {"replicas": 1, "template": template()}, "Worker": worker}
        return view(pytorch_job(pytorchReplicaSpecs=specs, **spec))

    whole = ("worker: 5", "worker-0: 2", "worker-1: 2", "worker-2: 1")
    assert trees_of(of("2")) == [("demo: 6", "master: 1", whole)]
    assert trees_of(of("9")) == [("demo: 6", "master: 1", ("worker: 5", "worker-0: 5"))]
    part = ("worker: 4 of 5", "worker-0: 2", "worker-1: 2", "worker-2: 0 of 1")
    elastic = of("2", runPolicy={"schedulingPolicy": {"minAvailable": 4}})
    assert trees_of(elastic) == [("demo: 5 of 6", "master: 1", part)]


def test_why_there_is_no_group() -> None:
    groups = pod_groups_of(LeaderWorkerSet(segmented(3, 9)), TREES)
    assert groups is not None
    assert not groups.groups
    assert groups.why.startswith(
        "podgrouper makes no PodGroup: spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: "
    )
    assert pod_groups_of(view(deployment()), TREES) is None, "podgrouper makes one for each pod"


def test_fit_is_told_that_the_level_of_segments_is_not_judged() -> None:
    manifest = segmented(5, 2)
    level = {"kai.scheduler/segment-topology-required-placement": "rack", "kai.scheduler/topology": "dc"}
    manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {"annotations": level}
    grouping = grouping_of(LeaderWorkerSet(manifest))
    assert grouping is not None
    assert grouping.unsure == ["the level that each segment requires is not judged"]
    groups = pod_groups_of(LeaderWorkerSet(manifest), TREES)
    assert groups is not None
    assert [segment.required for segment in groups.groups[0].below] == ["rack", "rack"]
