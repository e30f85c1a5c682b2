"""The webhooks of JobSet, LeaderWorkerSet, Trainer, Kueue and Rollcall at once, with KubeRay beside them: the same
objects and pods in any order of the webhooks, nobody's field lost, and no two writers that go on for ever.

Mutating webhooks are called in the order of their configurations' names: the systems' own names sort before m-rollcall,
and with the prefix `z-` after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import httpx
import pytest

from tests.e2e.conftest import gated
from tests.e2e.control_plane import ADMIN, ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Rollcall
from tests.e2e.kueue_objects import QUEUE_NAME, hold, one_queue, resume, until_workloads
from tests.e2e.neighbours.kueue import release_pods
from tests.e2e.opted_in_workloads import (
    job,
    job_set,
    leader_worker_set,
    pod_template,
    ray_cluster,
    replicated_job,
    train_job,
    training_runtime,
)
from tests.e2e.webhook_order import Stored, differences, gates_of, stored, until_quiet
from tests.e2e.workload_objects import path_of
from webhook.cluster.access import find_access
from webhook.config.file import settings_from
from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import examine
from webhook.operations.snapshot_reader import read_world

pytestmark = pytest.mark.beside
SYSTEMS = ("jobset", "lws", "trainer", "kuberay", "kueue")
WITH_WEBHOOKS = ("jobset", "lws", "trainer", "kueue")
LABEL, SCHEDULER = "rollcall.dev/scheduler", "koord-scheduler"
QUEUED = {QUEUE_NAME: "queue"}
GROUP = {**QUEUED, LABEL: SCHEDULER, "kueue.x-k8s.io/pod-group-name": "group"}
RUNTIME = "order-torch"
AFTER, AGAIN = "z-", "IfNeeded"
# Kueue's two gates, and Rollcall's.
KUEUES = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
OURS = "rollcall.dev/gang-sync"
TWICE = 'spec.runtimePatches[1]: Duplicate value: {\\"manager\\":\\"kueue.x-k8s.io/manager\\"}'


OTHERS = {"webhooks/order", "webhooks/unknown-neighbour", "kueue/reinvocation", "kueue/scope"}


class Registered(NamedTuple):
    """How a system's webhooks are registered: what goes before the names, and the reinvocationPolicy."""

    prefix: str = ""
    reinvocation: str = "Never"


class Outcome(NamedTuple):
    """What is stored while Kueue holds the workloads, and once it has admitted them."""

    held: Stored
    admitted: Stored


class World:
    """All systems beside one control plane."""

    def __init__(self, plane: ControlPlane, controllers: Controllers, rollcall: Rollcall) -> None:
        self.plane = plane
        self._running = controllers(plane, *SYSTEMS)
        rollcall(plane, gated())
        self._numbers = iter(range(1, 1000))
        runtime = training_runtime(RUNTIME)
        plane.http.post(path_of(runtime["apiVersion"], runtime["kind"], None), json=runtime).raise_for_status()

    def register(self, systems: Mapping[str, Registered]) -> None:
        """Register the systems in these ways, the others as their own manifests do."""
        for name in WITH_WEBHOOKS:
            self._running[name].register(*systems.get(name, Registered()))

    @contextmanager
    def namespace(self, opted_in: bool = True) -> Iterator[str]:
        """A namespace, by default one that opts in its workloads: Rollcall then changes each of them."""
        name = f"order-{next(self._numbers)}"
        labels = {LABEL: SCHEDULER} if opted_in else {}
        self.plane.http.post("/api/v1/namespaces", json={"metadata": {"name": name, "labels": labels}})
        try:
            yield name
        finally:
            self.plane.http.delete(f"/api/v1/namespaces/{name}")
            self.plane.http.delete(f"/api/v1/namespaces/{name}/pods", params={"gracePeriodSeconds": "0"})
            release_pods(self.plane, name)

    def outcome(self, systems: Mapping[str, Registered], without: str = "") -> Outcome:
        """Create one workload of each kind, all of them queued, and admit them; none of the kind `without`."""
        self.register(systems)
        with self.namespace() as namespace, one_queue(self.plane, namespace, {"cpu": 20}) as queue:
            hold(self.plane, queue)
            wanted = [one for one in workloads(namespace) if one["kind"] != without]
            for workload in wanted:
                self.create(workload).raise_for_status()
            # The two pods are one.
            until_workloads(self.plane, namespace, len(wanted) - 1, QuotaReserved="False")
            until_quiet(self.plane, namespace)
            held = stored(self.plane, namespace)
            resume(self.plane, queue)
            until_workloads(self.plane, namespace, len(wanted) - 1, Admitted="True")
            until_quiet(self.plane, namespace)
            return Outcome(held, stored(self.plane, namespace))

    def create(self, workload: Manifest, **params: str) -> httpx.Response:
        """The API server's answer to the creation of a workload."""
        namespace = workload["metadata"]["namespace"]
        path = path_of(workload["apiVersion"], workload["kind"], namespace)
        return self.plane.http.post(path, json=workload, params=params)

    def diagnosis(self) -> list[tuple[str, str]]:
        """What the doctor says of other webhooks: the check, and the start of what it found."""
        access = find_access(self.plane.write_kubeconfig(ADMIN))
        snapshot = asyncio.run(read_world(settings_from(gated(), "test"), access, ROLLCALL_NAMESPACE))
        every = examine(snapshot, EVERY_CHECK).problems
        # What follows are namespaces, of which those of earlier tests may still be there.
        return [(one.check, one.symptom.observation.partition(";")[0]) for one in every if one.check in OTHERS]


def workloads(namespace: str) -> list[Manifest]:
    """One workload of each kind, and a pod group of two pods."""
    replicated = replicated_job("driver"), replicated_job("worker", 2)
    return [
        job("solve", namespace, 2, labels=QUEUED),
        job_set("sweep", namespace, *replicated, labels=QUEUED),
        leader_worker_set("serve", namespace, size=3, labels=QUEUED),
        train_job("tune", namespace, RUNTIME, nodes=2, labels=QUEUED),
        ray_cluster("ray", namespace, 1, labels=QUEUED),
        *(grouped_pod(name, namespace) for name in ("one", "two")),
    ]


def grouped_pod(name: str, namespace: str) -> Manifest:
    """A pod of Kueue's pod group; it has Rollcall's label and no workload above it."""
    template = pod_template(labels=GROUP, annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})
    metadata = {"name": name, "namespace": namespace, **template["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.fixture(scope="module")
def world(
    version: str,
    control_plane: Callable[[str], ControlPlane],
    workload_kinds: Callable[..., None],
    controllers: Controllers,
    rollcall: Rollcall,
) -> Iterator[World]:
    plane = control_plane(version)
    # One after the other: together they take a busy machine longer than kubectl is given.
    for system in SYSTEMS:
        workload_kinds(plane, system)
    made = World(plane, controllers, rollcall)
    yield made
    plane.http.delete(path_of("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", None, RUNTIME))


@pytest.fixture(scope="module")
def as_installed(world: World) -> Outcome:
    """What is stored with the names and policies of the systems' own manifests."""
    return world.outcome({})


def keys(said: Manifest, prefix: str) -> list[str]:
    """The labels and annotations with a prefix."""
    metadata = said["metadata"]
    every = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    return sorted(key.removeprefix(prefix) for key in every if key.startswith(prefix))


def test_each_webhook_leaves_its_fields_on_a_workload_that_kueue_holds(as_installed: Outcome) -> None:
    held = as_installed.held
    suspended = {name: said["spec"]["suspend"] for name, said in held.items() if "suspend" in said["spec"]}
    assert suspended == dict.fromkeys(
        (
            "Job solve",
            "Job sweep-driver-0",
            "Job sweep-worker-0",
            "Job tune-node-0",
            "JobSet sweep",
            "JobSet tune",
            "RayCluster ray",
            "TrainJob tune",
        ),
        True,
    )
    recorded = {name for name, said in held.items() if said["metadata"].get("labels", {}).get(LABEL) == SCHEDULER}
    # A pod group is no workload of Rollcall's; its pods have the label that they were given.
    pods = {"Pod one", "Pod two", "Pod serve-*", "Pod serve-0-*", "Pod serve-0-*'"}
    workloads = {"Job solve", "JobSet sweep", "JobSet tune", "LeaderWorkerSet serve", "RayCluster ray", "TrainJob tune"}
    assert recorded == workloads | pods
    assert {name: gates_of(held[name]) for name in pods} == {
        "Pod one": KUEUES,
        "Pod two": KUEUES,
        **{name: [*KUEUES, OURS] for name in pods - {"Pod one", "Pod two"}},
    }
    assert "role-hash" in keys(held["Pod one"], "kueue.x-k8s.io/")
    worker = held["Pod serve-0-*"]["metadata"]
    assert worker["annotations"]["kueue.x-k8s.io/role-hash"] == "main"
    assert worker["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "1"
    (patch,) = held["TrainJob tune"]["spec"]["runtimePatches"]
    assert patch["manager"] == "kueue.x-k8s.io/manager"


def test_pods_that_kueue_admits_keep_the_fields_of_all_webhooks(as_installed: Outcome) -> None:
    prepared = {
        name: said
        for name, said in as_installed.admitted.items()
        if name.startswith("Pod ") and "rollcall.dev/stamp" in said["metadata"].get("annotations", {})
    }
    assert sorted(prepared) == [
        "Pod ray-head-*",
        "Pod ray-workers-worker-*",
        "Pod serve-*",
        "Pod serve-0-*",
        "Pod serve-0-*'",
        "Pod solve-0-*",
        "Pod solve-1-*",
        "Pod sweep-driver-0-0-*",
        "Pod sweep-worker-0-0-*",
        "Pod sweep-worker-0-1-*",
        "Pod tune-node-0-0-*",
        "Pod tune-node-0-1-*",
    ]
    for name, said in prepared.items():
        assert (said["spec"]["schedulerName"], gates_of(said)) == (SCHEDULER, [OURS]), name
        assert keys(said, "rollcall.dev/") == ["gang", "gang-member", "scheduler", "stamp"], name
        written = {"cluster-queue-name", "local-queue-name", "podset", "workload"}
        assert written <= set(keys(said, "kueue.x-k8s.io/")), name


@pytest.mark.soak
def test_the_same_is_stored_if_every_other_webhook_runs_after_rollcall(world: World, as_installed: Outcome) -> None:
    after = world.outcome(dict.fromkeys(WITH_WEBHOOKS, Registered(AFTER)))
    assert differences(as_installed.held, after.held) == []
    assert differences(as_installed.admitted, after.admitted) == []


# Kueue's webhook adds an entry to a TrainJob each time it is called (kueue#15210). It is called again if its policy is
# IfNeeded and a later webhook changes the TrainJob: Rollcall does, unless the TrainJob has the label already.
TRAIN_JOBS = {
    "as its manifests have it": (Registered(), {}, ""),
    "called again": (Registered("", AGAIN), {}, TWICE),
    "called again, for a TrainJob with the label": (Registered("", AGAIN), {LABEL: SCHEDULER}, ""),
    "called again, but last": (Registered(AFTER, AGAIN), {}, ""),
}


@pytest.mark.parametrize(("kueue", "labels", "refused"), TRAIN_JOBS.values(), ids=TRAIN_JOBS)
def test_a_train_job_is_refused_only_if_kueue_is_called_again_after_rollcall(
    world: World, kueue: Registered, labels: dict[str, str], refused: str
) -> None:
    world.register({"kueue": kueue})
    with world.namespace() as namespace:
        train = train_job("tune", namespace, RUNTIME, nodes=2, labels={**QUEUED, **labels})
        answer = world.create(train, dryRun="All")
    assert (answer.is_success, refused in answer.text) == (not refused, True), answer.text


def test_the_doctor_knows_the_webhooks_of_each_system_under_any_name(world: World) -> None:
    world.register({})
    scope = ("kueue/scope", "it covers the namespace rollcall-system, and its failurePolicy is Fail")
    assert world.diagnosis() == [scope]
    world.register({**dict.fromkeys(WITH_WEBHOOKS, Registered(AFTER)), "kueue": Registered("queueing-", AGAIN)})
    assert world.diagnosis() == [
        ("webhooks/order", "Kueue's webhook runs after m-rollcall"),
        ("webhooks/order", "JobSet's webhook runs after m-rollcall"),
        ("webhooks/order", "LeaderWorkerSet's webhook runs after m-rollcall"),
        ("kueue/reinvocation", "its reinvocationPolicy is IfNeeded"),
        scope,
    ]


@pytest.mark.soak
@pytest.mark.parametrize("prefix", ["", AFTER], ids=["before", "after"])
def test_the_same_is_stored_of_all_but_train_jobs_if_kueue_is_called_again(
    world: World, as_installed: Outcome, prefix: str
) -> None:
    again = world.outcome({"kueue": Registered(prefix, AGAIN)}, without="TrainJob")
    assert differences(but_train_jobs(as_installed.held), again.held) == []
    assert differences(but_train_jobs(as_installed.admitted), again.admitted) == []


def but_train_jobs(found: Stored) -> Stored:
    """What is stored of the other workloads."""
    return {name: said for name, said in found.items() if "tune" not in name}


@pytest.mark.soak
@pytest.mark.parametrize("after", list(product((False, True), repeat=len(WITH_WEBHOOKS))), ids=str)
def test_the_same_is_stored_whichever_webhooks_run_after_rollcall(
    world: World, as_installed: Outcome, after: tuple[bool, ...]
) -> None:
    late = {name: Registered(AFTER) for name, is_late in zip(WITH_WEBHOOKS, after, strict=True) if is_late}
    found = world.outcome(late)
    assert differences(as_installed.held, found.held) == []
    assert differences(as_installed.admitted, found.admitted) == []
