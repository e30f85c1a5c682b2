"""The preparation of pods of declared kinds, and their gang objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.admission.opted_in.worlds import EVERY, mutate
from tests.unit.workloads.workloads import (
    deployment,
    known_shaped,
    mpi_job,
    pod_of,
    pytorch_job,
    ray_cluster,
    spark_application,
    view,
    worker_group,
)
from tests.unit.worlds import request
from webhook.admission.decision import required_facts
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS
from webhook.model.grove import NEWEST
from webhook.model.keys import Needed, Record
from webhook.model.reading import Manifest
from webhook.offline.translation import expected_gangs, gang_objects

GANG, MEMBER = "rollcall.dev/gang", "rollcall.dev/gang-member"
GROUP = "pod-group.scheduling.sigs.k8s.io"
WORKER = {"ray.io/cluster": "demo", "ray.io/group": "gpu"}


@pytest.mark.parametrize(
    ("manifest", "labels", "controller", "gang", "member"),
    [
        (ray_cluster(), WORKER, None, "demo", "demo-gpu"),
        (ray_cluster(), {"ray.io/group": "headgroup"}, None, "demo", "demo-headgroup"),
        (pytorch_job(), {"training.kubeflow.org/replica-type": "master"}, None, "demo", "demo-master"),
        (mpi_job(), {"training.kubeflow.org/job-role": "worker"}, None, "demo", "demo-worker"),
        (spark_application(), {"spark-role": "driver"}, None, "demo-driver", "demo-driver"),
        (
            spark_application(),
            {"spark-role": "executor"},
            {"apiVersion": "v1", "kind": "Pod", "name": "demo-driver"},
            "demo-executor",
            "demo-executor",
        ),
        (
            deployment(),
            {"pod-template-hash": "7d9"},
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "demo-7d9"},
            "demo",
            "demo",
        ),
    ],
)
def test_a_pod_names_its_gang(
    manifest: Manifest, labels: dict[str, str], controller: Any, gang: str, member: str
) -> None:
    found, _ = mutate(pod_of(manifest, labels, controller), facts=known_shaped(manifest))
    named = found["metadata"]["labels"]
    assert (named[GANG], named[MEMBER], named[GROUP]) == (gang, member, member)
    assert found["spec"]["schedulerName"] == "koord-scheduler"


def test_a_pod_that_no_gang_needs_gets_its_scheduler_alone() -> None:
    """An autoscaler may lower the group to nothing, so it has no gang object that its pods could wait for."""
    manifest = ray_cluster(worker_group(minReplicas=0), enableInTreeAutoscaling=True)
    pod = pod_of(manifest, WORKER)
    found, verdict = mutate(pod, facts=known_shaped(manifest))
    assert found["spec"]["schedulerName"] == "koord-scheduler"
    assert found["metadata"] == pod["metadata"] | {"annotations": {"rollcall.dev/stamp": "koord-scheduler/alone"}}
    assert len(verdict.patch) == 3


@pytest.mark.parametrize(
    ("manifest", "note"),
    [
        (
            spark_application(batchScheduler="volcano"),
            "pod left as it is: Spark's operator makes a PodGroup, because batchScheduler is set",
        ),
        (
            ray_cluster(managedBy="kueue.x-k8s.io/multikueue"),
            'pod left as it is: spec.managedBy says that "kueue.x-k8s.io/multikueue" ...',
        ),
    ],
)
def test_a_pod_whose_gang_is_made_by_another_is_left(manifest: Manifest, note: str) -> None:
    labels = {"spark-role": "driver", **WORKER}
    pod = pod_of(manifest, labels)
    found, verdict = mutate(pod, facts=known_shaped(manifest))
    assert found == pod
    require_like(verdict.notes, [note])


def test_a_pod_of_an_unknown_workload_is_left_and_read_for_before() -> None:
    pod = pod_of(ray_cluster(), WORKER)
    _, verdict = mutate(pod, facts=known_shaped())
    assert verdict.notes == ("pod left as it is: its rayclusters.ray.io default/demo was not found",)
    needed = required_facts(request(pod), known_shaped(), kinds=EVERY.kinds)
    assert needed == (Needed("shaped_workloads", ("rayclusters.ray.io", "default", "demo")),)
    assert (needed[0].name, str(needed[0])) == ("demo", "rayclusters.ray.io default/demo")


def test_a_workload_that_could_not_be_read_is_an_error_and_not_a_verdict() -> None:
    with pytest.raises(FactsUnavailable):
        mutate(pod_of(ray_cluster(), WORKER), facts=NO_FACTS)


def _minimums(manifest: Manifest, scheduler: str) -> dict[str, int]:
    """The minimum of each gang object, by its name."""
    profile = EVERY.profiles[scheduler]
    found = {}
    for gang in expected_gangs(view(manifest), NO_FACTS, NEWEST):
        for made in gang_objects(gang, Record(scheduler), profile, NO_FACTS):
            assert made["metadata"]["labels"][GANG] == gang.name
            found[made["metadata"]["name"]] = made["spec"]["minMember"]
    return found


@pytest.mark.parametrize(
    ("manifest", "koordinator", "volcano"),
    [
        (ray_cluster(), {"demo-headgroup": 1, "demo-gpu": 2}, {"demo": 3}),
        (ray_cluster(enableInTreeAutoscaling=True), {"demo-headgroup": 1, "demo-gpu": 1}, {"demo": 2}),
        (
            ray_cluster(worker_group(minReplicas=0), enableInTreeAutoscaling=True),
            {"demo-headgroup": 1},
            {"demo": 1},
        ),
        (spark_application(), {"demo-driver": 1, "demo-executor": 3}, {"demo-driver": 1, "demo-executor": 3}),
    ],
)
def test_the_minimums_of_gang_objects(manifest: Manifest, koordinator: dict[str, int], volcano: dict[str, int]) -> None:
    assert _minimums(manifest, "koord-scheduler") == koordinator
    assert _minimums(manifest, "volcano") == volcano
