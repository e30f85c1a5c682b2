"""Gangs that can never start, on real schedulers: without Rollcall they hang although they fit; with it they are
refused at creation. Their groups are created by hand or by a Trainer plugin, as users do today.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.configurations import configuration_of
from tests.e2e.bound_pods import QUIET_SECONDS
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Rollcall, Scheduler
from tests.e2e.opted_in_workloads import (
    job,
    job_set,
    leader_worker_set,
    pod_template,
    replicated_job,
    train_job,
    training_runtime,
    training_step,
)
from tests.e2e.workload_objects import MERGE, created, listed, until_pods

pytestmark = pytest.mark.soak
LABEL = "rollcall.dev/scheduler"
KOORD_LABEL = "pod-group.scheduling.sigs.k8s.io"
EVERY = configuration_of(
    {"name": "koord-scheduler", "gate": False},
    "scheduler-plugins-scheduler",
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
)


@pytest.fixture
def cluster(
    plane: ControlPlane,
    rollcall: Rollcall,
    controllers: Controllers,
    nodes: Nodes,
) -> ControlPlane:
    """With enough resources for all pods."""
    controllers(plane, "jobset", "lws", "trainer")
    rollcall(plane, EVERY)
    nodes(2, cpu=16)
    return plane


def koordinators(namespace: str, minimum: int, name: str = "mine") -> Manifest:
    """A PodGroup of Koordinator's, as users write it."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum},
    }


def marked(name: str = "mine") -> Manifest:
    """The keys of its pods."""
    return {"labels": {KOORD_LABEL: name}, "schedulerName": "koord-scheduler"}


def marked_job(namespace: str, pods: int, *, suspend: bool = False) -> Manifest:
    """A Job whose pods have these keys; the labels of `job` would be the Job's own."""
    made = job("solver", namespace, pods, suspend=suspend)
    made["spec"]["template"] = pod_template(restartPolicy="Never", **marked())
    return made


def hang(plane: ControlPlane, namespace: str, pods: int) -> None:
    """So many pods are there, none of them without room, and none is ever bound."""
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        found = listed(plane, "v1", "Pod", namespace)
        assert len(found) == pods, f"{len(found)} pods"
        assert not any("nodeName" in pod["spec"] for pod in found), "some are bound"
        time.sleep(0.25)


def opt_in(plane: ControlPlane, namespace: str, scheduler: str) -> None:
    body = {"metadata": {"labels": {LABEL: scheduler}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()


def refused(plane: ControlPlane, manifest: Manifest, name: str, rule: str) -> None:
    """The same under another name is refused by that rule."""
    again = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
    ran = plane.apply(again)
    assert ran.code != 0
    assert rule in ran.err, ran.err


def test_a_group_across_steps_that_start_in_turn_deadlocks(
    cluster: ControlPlane, namespace: str, scheduler: Scheduler
) -> None:
    """The driver waits for the workers of its group, and JobSet creates these when the driver is ready."""
    scheduler(cluster, "koordinator")
    created(cluster, koordinators(namespace, 3))
    driver, workers = replicated_job("driver", **marked()), replicated_job("worker", 2, **marked())
    manifest = job_set("run", namespace, driver, workers, in_order=True)
    created(cluster, manifest)
    until_pods(cluster, namespace, "jobset.sigs.k8s.io/jobset-name=run", 1)
    hang(cluster, namespace, 1)
    opt_in(cluster, namespace, "koord-scheduler")
    refused(cluster, manifest, "again", "owner/membership-in-turn")


def test_a_trainer_plugin_across_steps_that_start_in_turn_deadlocks(
    cluster: ControlPlane, namespace: str, scheduler: Scheduler, for_the_test: Callable[[Manifest], Manifest]
) -> None:
    """Its PodGroup counts the pods of both steps; those of the second are created when the first is done."""
    scheduler(cluster, "scheduler-plugins")
    name = {"schedulerName": "scheduler-plugins-scheduler"}
    data = training_step("data", "dataset-initializer", **name)
    node = training_step("node", depends_on={"data": "Complete"}, **name)
    for_the_test(training_runtime(f"{namespace}-cached", data, node, pod_groups={"coscheduling": {}}))
    manifest = train_job("tune", namespace, f"{namespace}-cached", nodes=2)
    created(cluster, manifest)
    until_pods(cluster, namespace, "jobset.sigs.k8s.io/jobset-name=tune", 1)
    hang(cluster, namespace, 1)
    opt_in(cluster, namespace, "scheduler-plugins-scheduler")
    refused(cluster, manifest, "again", "owner/plugin-in-turn")


EXCLUSIVE = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        pytest.param({"leader_ready": True}, "owner/leader-ready", id="a leader that must be ready first"),
        pytest.param({"annotations": EXCLUSIVE}, "owner/exclusive-topology", id="exclusive topology"),
    ],
)
def test_a_leader_whose_workers_are_created_later_deadlocks(
    cluster: ControlPlane,
    namespace: str,
    scheduler: Scheduler,
    fields: Manifest,
    rule: str,
) -> None:
    """The leader waits for the workers of its group, and these are created when it is ready, or on a node."""
    scheduler(cluster, "koordinator")
    created(cluster, koordinators(namespace, 3))
    manifest = leader_worker_set("serve", namespace, size=3, worker=pod_template(**marked()), **fields)
    created(cluster, manifest)
    until_pods(cluster, namespace, "leaderworkerset.sigs.k8s.io/name=serve", 1)
    hang(cluster, namespace, 1)
    opt_in(cluster, namespace, "koord-scheduler")
    again = leader_worker_set("serve", namespace, size=3, **fields)
    refused(cluster, again, "again", rule)


def test_a_group_that_is_written_while_its_job_is_suspended_deadlocks(
    cluster: ControlPlane, namespace: str, scheduler: Scheduler
) -> None:
    """Kueue may resume a Job with fewer pods than it was written with: a group from before waits for the others for
    ever. Rollcall writes none while a Job is suspended: see test_owner_gangs.
    """
    scheduler(cluster, "koordinator")
    created(cluster, koordinators(namespace, 3))
    created(cluster, marked_job(namespace, 3, suspend=True))
    body = {"spec": {"suspend": False, "parallelism": 2, "completions": 2}}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/solver"
    cluster.http.patch(path, json=body, headers=MERGE).raise_for_status()
    until_pods(cluster, namespace, "batch.kubernetes.io/job-name=solver", 2)
    hang(cluster, namespace, 2)


def test_a_job_whose_last_pods_are_fewer_than_its_gang_minimum_deadlocks(
    cluster: ControlPlane, namespace: str, scheduler: Scheduler
) -> None:
    """The pods that replace those that are done are fewer than the group starts with."""
    scheduler(cluster, "koordinator")
    created(cluster, koordinators(namespace, 2))
    # What is left of three pods, two at a time, when two are done.
    created(cluster, marked_job(namespace, 1))
    until_pods(cluster, namespace, "batch.kubernetes.io/job-name=solver", 1)
    hang(cluster, namespace, 1)
    opt_in(cluster, namespace, "koord-scheduler")
    refused(cluster, job("solver", namespace, 2, completions=3), "again", "owner/completions")
