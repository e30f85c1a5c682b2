"""JobSets, LeaderWorkerSets and TrainJobs on real schedulers: a gang starts whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.opted_in_workloads import job_set, leader_worker_set, replicated_job, train_job, training_runtime
from tests.e2e.programs import eventually
from tests.e2e.test_coscheduling_gangs import CONFIG as COSCHEDULING
from tests.e2e.test_gang_starts import FORGOTTEN_SECONDS, QUIET_SECONDS
from tests.e2e.test_opted_in_gangs import CASES, LABEL, Case
from tests.e2e.workload_objects import MERGE, created, listed, read, until_pods

pytestmark = pytest.mark.soak
REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"


class Ready(NamedTuple):
    """A cluster with all that gangs need, and a namespace that is opted in."""

    plane: ControlPlane
    namespace: str

    @property
    def pods(self) -> list[Manifest]:
        """The pods of the namespace."""
        return listed(self.plane, "v1", "Pod", self.namespace)

    def bound(self, key: str = LABEL) -> Mapping[str, int]:
        """How many pods are on nodes, by the value of a label."""
        found: dict[str, int] = {}
        for pod in self.pods:
            value = pod["metadata"]["labels"][key]
            found[value] = found.get(value, 0) + ("nodeName" in pod["spec"])
        return found

    def stays(self, expected: Callable[[], bool], what: str) -> None:
        """That holds now, and for as long as a scheduler would need to change it."""
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            assert expected(), f"{what}: {self.bound()}"
            time.sleep(0.25)

    def all_bound(self, count: int, again: Callable[[], None]) -> None:
        """All pods are on nodes; a gang that its scheduler forgets is helped now and then, by `again`."""
        deadline = time.monotonic() + FORGOTTEN_SECONDS

        def whole() -> bool:
            nonlocal deadline
            bound = sum(self.bound().values())
            if bound < count and time.monotonic() > deadline:
                deadline = time.monotonic() + FORGOTTEN_SECONDS
                again()
            assert bound == count, f"{bound} of {count} pods are bound"
            return True

        eventually(whole, "all pods are bound", timeout=120, pause=0.5)

    def replace_unbound(self) -> None:
        """Delete the pods that wait: koord-scheduler 1.8 forgets a rejected gang for minutes."""
        for pod in self.pods:
            if "nodeName" not in pod["spec"]:
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                self.plane.http.delete(path, params={"gracePeriodSeconds": "0"})


def _opted_in(plane: ControlPlane, namespace: str, scheduler: str) -> Ready:
    body = {"metadata": {"labels": {LABEL: scheduler}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    return Ready(plane, namespace)


@pytest.fixture
def ready(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    controllers: Controllers,
    namespace: str,
    case: Case,
) -> Ready:
    controllers(plane, "jobset", "lws")
    scheduler(plane, case.scheduler)
    rollcall(plane, case.config)
    reconciler(case.config).until_leading()
    return _opted_in(plane, namespace, case.name)


@pytest.mark.cases(CASES)
def test_a_job_set_starts_whole_or_not_at_all(ready: Ready, nodes: Nodes) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    # A pod that is replaced counts as a failure.
    driver, workers = replicated_job("driver", backoff_limit=100), replicated_job("worker", 2, backoff_limit=100)
    created(ready.plane, job_set("run", ready.namespace, driver, workers))
    until_pods(ready.plane, ready.namespace, "jobset.sigs.k8s.io/jobset-name=run", 3)
    eventually(lambda: not any("schedulingGates" in pod["spec"] for pod in ready.pods), "the gate comes off")
    ready.stays(lambda: sum(ready.bound().values()) == 0, "no pod starts")
    nodes(1, cpu=2)
    ready.all_bound(3, ready.replace_unbound)


@pytest.mark.cases(CASES)
def test_each_group_of_a_leader_worker_set_starts_whole_or_not_at_all(ready: Ready, nodes: Nodes) -> None:
    # Room for one group of two and half of the other.
    nodes(1, cpu=3)
    created(ready.plane, leader_worker_set("serve", ready.namespace, groups=2, size=2))
    until_pods(ready.plane, ready.namespace, "leaderworkerset.sigs.k8s.io/name=serve", 4)
    eventually(lambda: not any("schedulingGates" in pod["spec"] for pod in ready.pods), "the gates come off")
    eventually(lambda: 2 in ready.bound(GROUP).values(), "one group starts", timeout=60)
    ready.stays(lambda: sorted(ready.bound(GROUP).values()) == [0, 2], "the other group waits whole")
    nodes(1, cpu=2)
    ready.all_bound(4, ready.replace_unbound)


def test_a_train_job_of_the_coscheduling_plugin_gets_its_scheduler_and_starts(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    controllers: Controllers,
    namespace: str,
    nodes: Nodes,
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    """Trainer makes the PodGroup and marks the pods, and leaves them to default-scheduler, which knows of no group."""
    controllers(plane, "jobset", "trainer")
    rollcall(plane, COSCHEDULING)
    scheduler(plane, "scheduler-plugins")
    ready = _opted_in(plane, namespace, "scheduler-plugins-scheduler")
    nodes(1, cpu=2)
    for_the_test(training_runtime(f"{namespace}-torch", pod_groups={"coscheduling": {}}))
    created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=3))
    pods = until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=tune", 3)
    assert [pod["spec"]["schedulerName"] for pod in pods] == ["scheduler-plugins-scheduler"] * 3
    group = read(plane, "scheduling.x-k8s.io/v1alpha1", "PodGroup", namespace, "tune")
    assert [one["kind"] for one in group["metadata"]["ownerReferences"]] == ["TrainJob"]
    ready.stays(lambda: sum(ready.bound().values()) == 0, "no pod starts")
    nodes(1, cpu=2)

    def touch() -> None:
        # A change of a PodGroup takes a rejected gang out of the queue (v0.34.7).
        arguments = ("annotate", "--overwrite", "-n", namespace, "podgroups.scheduling.x-k8s.io", "--all")
        plane.kubectl(*arguments, f"example.com/touched={time.monotonic()}", check=True)

    ready.all_bound(3, touch)
