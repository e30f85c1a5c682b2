"""Grove's pods behind the real Kueue, on a real scheduler: one Workload for each pod, or one for a pod group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_client import Refused
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import QUEUE_NAME, change, conditions, one_queue, until_workloads, workloads
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import MERGE
from tests.e2e.workloads import clique, pod_clique_set

pytestmark = pytest.mark.soak
KOORDINATOR, KUBE = (gated(), "koordinator"), (configuration(), "kube")
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"


class Ready(NamedTuple):
    """A cluster with Kueue, koord-scheduler and Rollcall."""

    plane: ControlPlane
    namespace: str

    @contextmanager
    def queue(self, cpu: int) -> Iterator[str]:
        """A LocalQueue `queue` with room for so many pods; the name of its ClusterQueue."""
        with one_queue(self.plane, self.namespace, {"cpu": cpu}) as name:
            yield name

    def resize(self, queue: str, cpu: int) -> None:
        """Give a ClusterQueue another quota."""
        flavor = {"name": queue, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        change(
            self.plane,
            "ClusterQueue",
            queue,
            {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}},
        )

    def admitted(self) -> list[bool]:
        """Whether each Workload is admitted."""
        found = [conditions(one).get("Admitted", ("False", ""))[0] for one in workloads(self.plane, self.namespace)]
        return sorted(status == "True" for status in found)

    def softened(self) -> None:
        """Have Rollcall's rules warn in the namespace, so that what they refuse can be shown."""
        labels = {"metadata": {"labels": {"rollcall.dev/enforcement": "warn"}}}
        self.plane.http.patch(f"/api/v1/namespaces/{self.namespace}", json=labels, headers=MERGE).raise_for_status()

    def reasons(self) -> set[str]:
        """The reasons of the events of the namespace."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return {event["reason"] for event in self.plane.items(path)}


@pytest.fixture(params=[KOORDINATOR], ids=["koordinator"])
def ready(
    request: pytest.FixtureRequest,
    plane: ControlPlane,
    controllers: Controllers,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
    nodes: Nodes,
    kubelet: Kubelet,
) -> Ready:
    config, program = request.param
    controllers(plane, "kueue")
    scheduler(plane, program)
    rollcall(plane, config)
    reconciler(config).until_leading()
    nodes(1, cpu=8)
    return Ready(plane, namespace)


def queued(namespace: str, total: int | None = None, *, group: str | None = None) -> Manifest:
    """A leader and two workers in a queue of Kueue, and in a pod group if `total` states its number of pods, or if
    `group` names it.
    """
    sized = {} if total is None else {TOTAL: str(total)}
    named = {GROUP: group or "demo"} if group or sized else {}
    fields: Manifest = {"labels": {QUEUE_NAME: "queue"}, "annotations": {**named, **sized}}
    return pod_clique_set("demo", namespace, clique("leader", 1, **fields), clique("worker", 2, **fields))


def released(ready: Ready, grove: Grove, workload: Manifest) -> Played:
    """The set with its pods, from which Grove has removed its own gate."""
    played = grove(workload).create()
    played.lift_gates()
    return played


def test_a_part_of_a_gang_holds_quota_if_kueue_admits_its_pods_one_at_a_time(ready: Ready, grove: Grove) -> None:
    with ready.queue(2) as queue:
        answer = ready.plane.apply(queued(ready.namespace), options=["--dry-run=server"])
        assert "kueue/pod-by-pod" in answer.err
        played = released(ready, grove, queued(ready.namespace))
        eventually(lambda: ready.admitted() == [False, True, True], "two of three pods are admitted")
        stays_unbound(played)
        ready.resize(queue, 3)
        eventually(lambda: ready.admitted() == [True] * 3, "all pods are admitted")
        is_bound(played, 3)


def test_a_pod_group_of_all_pods_is_admitted_and_started_whole(ready: Ready, grove: Grove) -> None:
    with ready.queue(2) as queue:
        played = released(ready, grove, queued(ready.namespace, 3))
        until_workloads(ready.plane, ready.namespace, 1, QuotaReserved="False")
        stays_unbound(played)
        ready.resize(queue, 3)
        until_workloads(ready.plane, ready.namespace, 1, Admitted="True")
        is_bound(played, 3)


def test_a_pod_group_that_waits_for_more_pods_never_gets_a_workload(ready: Ready, grove: Grove) -> None:
    refused = ready.plane.apply(queued(ready.namespace, 4), options=["--dry-run=server"])
    assert "kueue/pod-group-size" in refused.err
    ready.softened()
    with ready.queue(8):
        played = released(ready, grove, queued(ready.namespace, 4))
        eventually(lambda: "ErrWorkloadCompose" in ready.reasons(), "Kueue reports that pods are missing")
        stays_unbound(played)
        assert workloads(ready.plane, ready.namespace) == []


def test_kueue_deletes_the_pods_above_the_size_of_a_group(ready: Ready, grove: Grove) -> None:
    refused = ready.plane.apply(queued(ready.namespace, 2), options=["--dry-run=server"])
    assert "kueue/pod-group-size" in refused.err
    ready.softened()
    with ready.queue(8):
        played = grove(queued(ready.namespace, 2)).create()
        eventually(lambda: len(played.pods()) == 2, "Kueue deleted a pod")
        assert "ExcessPodDeleted" in ready.reasons()


def test_kueue_refuses_a_pod_of_a_group_without_a_size(ready: Ready, grove: Grove) -> None:
    workload = queued(ready.namespace, group="demo")
    assert "kueue/pod-group-size" in ready.plane.apply(workload, options=["--dry-run=server"]).err
    ready.softened()
    played = grove(workload).create_podgangs()
    with pytest.raises(Refused, match="pod-group-total-count"):
        played.create_pods()


@pytest.mark.parametrize("ready", [KUBE], ids=["kube"], indirect=True)
def test_a_priority_that_rollcall_sets_does_not_divide_a_pod_group(ready: Ready, grove: Grove) -> None:
    """Kueue divides a pod group by what its pods have, and a priority is part of that."""
    plane, namespace = ready
    named = {"metadata": {"name": f"{namespace}-high"}, "value": 1000}
    plane.http.post("/apis/scheduling.k8s.io/v1/priorityclasses", json=named).raise_for_status()
    workload = queued(namespace, 3)
    workload["spec"]["template"]["priorityClassName"] = f"{namespace}-high"
    with ready.queue(2) as queue:
        played = released(ready, grove, workload)
        (found,) = until_workloads(plane, namespace, 1, QuotaReserved="False")
        assert [pods["count"] for pods in found["spec"]["podSets"]] == [3]
        ready.resize(queue, 3)
        is_bound(played, 3)
        assert {pod["spec"]["priority"] for pod in played.pods()} == {1000}
