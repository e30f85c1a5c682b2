"""Gangs behind the real Kueue, on real schedulers: what Kueue admits starts whole, also where it chooses the nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.e2e.bound_pods import FORGOTTEN_SECONDS, QUIET_SECONDS
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import (
    QUEUE_NAME,
    change,
    cluster_queue,
    local_queue,
    one_queue,
    queues,
    resource_flavor,
    topology,
    until_condition,
    until_workloads,
)
from tests.e2e.opted_in_cluster import LABEL
from tests.e2e.opted_in_workloads import job, leader_worker_set, pod_template
from tests.e2e.programs import eventually
from tests.e2e.test_coscheduling_gangs import CONFIG as COSCHEDULING
from tests.e2e.test_opted_in_gangs import CASES as OPTED_IN
from tests.e2e.test_opted_in_gangs import KOORD, Case
from tests.e2e.workload_objects import MERGE, created, deleted, listed, path_of

pytestmark = pytest.mark.soak
QUEUED = {QUEUE_NAME: "queue"}
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
RACK, HOST, POOL = "example.com/rack", "kubernetes.io/hostname", "example.com/pool"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
COSCHEDULED = Case("scheduler-plugins", "scheduler-plugins-scheduler", COSCHEDULING, {})
KOORDINATOR = {"1.37": {"koordinator": KOORD}}
CASES = {version: {**cases, "scheduler-plugins": COSCHEDULED} for version, cases in OPTED_IN.items()}
OURS = "rollcall.dev/gang-sync"


class Ready(NamedTuple):
    """A cluster with Kueue and all that gangs need, and a namespace that is opted in."""

    plane: ControlPlane
    namespace: str

    @property
    def pods(self) -> list[Manifest]:
        """The pods of its gangs."""
        return listed(self.plane, "v1", "Pod", self.namespace, "app!=alone")

    @property
    def gates(self) -> list[list[str]]:
        """The gates of each pod."""
        return [[gate["name"] for gate in pod["spec"].get("schedulingGates", ())] for pod in self.pods]

    @property
    def bound(self) -> list[Manifest]:
        """The pods that are on nodes."""
        return [pod for pod in self.pods if "nodeName" in pod["spec"]]

    def groups(self) -> Mapping[str, int]:
        """How many pods are on nodes, by the group of their LeaderWorkerSet."""
        found: dict[str, int] = {}
        for pod in self.pods:
            value = pod["metadata"]["labels"][GROUP]
            found[value] = found.get(value, 0) + ("nodeName" in pod["spec"])
        return found

    def stays(self, expected: Callable[[], bool], what: str) -> None:
        """That holds now, and for as long as a scheduler would need to change it."""
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            assert expected(), f"{what}: {len(self.bound)} of {len(self.pods)} pods are on nodes, {self.gates}"
            time.sleep(0.25)

    def whole(self, count: int) -> list[Manifest]:
        """The pods once all of them are on nodes. A scheduler that has forgotten a gang is reminded of it."""
        deadline = time.monotonic() + FORGOTTEN_SECONDS

        def all_bound() -> list[Manifest]:
            nonlocal deadline
            found = self.bound
            if len(found) < count and time.monotonic() > deadline:
                deadline = time.monotonic() + FORGOTTEN_SECONDS
                self.touch()
            assert len(found) == count, f"{len(found)} of {count} pods are on nodes, gates {self.gates}"
            return found

        return eventually(all_bound, f"{count} pods are on nodes", timeout=120, pause=0.5)

    def touch(self) -> None:
        """Change what the scheduler has forgotten: the waiting pods, and the PodGroups of Coscheduling, of whose pods
        no node event reminds it.
        """
        body = {"metadata": {"annotations": {"example.com/touched": str(time.monotonic())}}}
        for pod in self.pods:
            if "nodeName" not in pod["spec"]:
                self._change(path_of("v1", "Pod", self.namespace, pod["metadata"]["name"]), body)
        groups = path_of("scheduling.x-k8s.io/v1alpha1", "PodGroup", self.namespace)
        for group in self.plane.items(groups):
            self._change(f"{groups}/{group['metadata']['name']}", body)

    def _change(self, path: str, body: Manifest) -> None:
        self.plane.http.patch(path, json=body, headers=MERGE)


@pytest.fixture
def ready(
    plane: ControlPlane,
    controllers: Controllers,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
    case: Case,
    kubelet: Kubelet,
) -> Ready:
    controllers(plane, "jobset", "lws", "kueue")
    scheduler(plane, case.scheduler)
    rollcall(plane, case.config)
    reconciler(case.config).until_leading()
    body = {"metadata": {"labels": {LABEL: case.name}}}
    plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
    return Ready(plane, namespace)


@pytest.mark.cases(KOORDINATOR)
def test_each_group_of_a_leader_worker_set_is_admitted_and_started_whole(ready: Ready, nodes: Nodes) -> None:
    nodes(1, cpu=8)
    with one_queue(ready.plane, ready.namespace, {"cpu": 3}) as queue:
        created(ready.plane, leader_worker_set("serve", ready.namespace, groups=2, size=2, labels=QUEUED))
        ready.whole(2)
        eventually(lambda: len(ready.pods) == 4, "the pods of both groups exist")
        ready.stays(lambda: sorted(ready.groups().values()) == [0, 2], "the second group waits whole")
        # Kueue's two gates and ours.
        waiting = [sorted(gates) for gates in ready.gates if gates]
        assert waiting == [["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology", OURS]] * 2
        quota = {"name": "cpu", "nominalQuota": 4}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": queue, "resources": [quota]}]}
        change(ready.plane, "ClusterQueue", queue, {"spec": {"resourceGroups": [group]}})
        ready.whole(4)


@contextmanager
def placed_queue(ready: Ready) -> Iterator[None]:
    """A LocalQueue `queue` whose only flavor has a Topology of racks and hosts."""
    name = ready.namespace
    objects = (
        topology(name, RACK, HOST),
        resource_flavor(name, topology=name, labels={POOL: name}),
        cluster_queue(name, name, {"cpu": 64}),
        local_queue("queue", name, name),
    )
    with queues(ready.plane, *objects):
        until_condition(ready.plane, "ClusterQueue", name, "Active")
        yield


def in_one_rack(workload: Manifest) -> Manifest:
    """A Job whose pods Kueue shall place in one rack."""
    workload["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: RACK}}
    return workload


@pytest.mark.cases(CASES)
def test_a_gang_starts_whole_on_the_hosts_that_kueue_chooses(ready: Ready, nodes: Nodes) -> None:
    for rack in ("a", "b"):
        nodes(2, cpu=2, labels={RACK: rack, POOL: ready.namespace}, prefix=f"{ready.namespace}-{rack}")
    with placed_queue(ready):
        created(ready.plane, in_one_rack(job("train", ready.namespace, 4, labels=QUEUED)))
        pods = ready.whole(4)
    assert len({pod["spec"]["nodeName"].rpartition("-")[0] for pod in pods}) == 1
    assert [pod["spec"]["nodeSelector"][HOST] for pod in pods] == [pod["spec"]["nodeName"] for pod in pods]


@pytest.mark.cases(CASES)
def test_a_gang_does_not_start_in_part_if_one_of_its_hosts_is_not_to_be_had(ready: Ready, nodes: Nodes) -> None:
    """Kueue does not see the affinity of pods, and has no way to see what a scheduler reserves."""
    first, second = nodes(2, cpu=2, labels={RACK: "a", POOL: ready.namespace}, prefix=ready.namespace)
    taken = created(ready.plane, keeping_away(ready.namespace, second))
    with placed_queue(ready):
        created(ready.plane, in_one_rack(job("train", ready.namespace, 4, labels=QUEUED)))
        eventually(lambda: len(ready.pods) == 4, "the pods exist")
        until_workloads(ready.plane, ready.namespace, 1, Admitted="True")
        eventually(lambda: ready.gates == [[]] * 4, "no gate is left")
        hosts = sorted(pod["spec"]["nodeSelector"][HOST] for pod in ready.pods)
        assert hosts == sorted([first, first, second, second])
        ready.stays(lambda: ready.bound == [], "no pod starts")
        deleted(ready.plane, {**taken, "apiVersion": "v1", "kind": "Pod"})
        ready.whole(4)


def keeping_away(namespace: str, node: str) -> Manifest:
    """A pod on a node that wants no pod of a Job beside it."""
    selector = {"matchExpressions": [{"key": "batch.kubernetes.io/job-name", "operator": "Exists"}]}
    terms = [{"labelSelector": selector, "topologyKey": HOST}]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    containers = [{"name": "main", "image": "registry.example.com/main:1.0"}]
    metadata = {"name": "alone", "namespace": namespace, "labels": {"app": "alone"}}
    spec = {"nodeName": node, "affinity": affinity, "containers": containers, "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.cases(CASES)
def test_gates_that_kueue_removes_pod_by_pod_do_not_start_a_gang_in_part(ready: Ready, nodes: Nodes) -> None:
    """The pods of a LeaderWorkerSet exist before Kueue has chosen their hosts."""
    nodes(4, cpu=2, labels={RACK: "a", POOL: ready.namespace}, prefix=ready.namespace)
    with placed_queue(ready):
        worker = pod_template(annotations={REQUIRED: RACK})
        created(ready.plane, leader_worker_set("serve", ready.namespace, size=8, worker=worker, labels=QUEUED))
        seen: set[int] = set()

        def whole() -> bool:
            seen.add(len(ready.bound))
            return len(ready.bound) == 8

        eventually(whole, "the group is on nodes", timeout=60, pause=0.05)
    # A scheduler binds the pods of a gang one after another, once it has places for all.
    assert ready.gates == [[]] * 8
    hosts = {pod["spec"]["nodeSelector"][HOST] for pod in ready.bound}
    assert len(hosts) == 4
