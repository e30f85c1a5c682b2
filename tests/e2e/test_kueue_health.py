"""Gangs that the real Kueue holds, admits and takes back, and what Rollcall says of them: `rollcall gangs`, `rollcall
explain` and the events.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.e2e.command import run_here
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import (
    QUEUE_NAME,
    cluster_queue,
    local_queue,
    one_queue,
    queues,
    resource_flavor,
    until_condition,
    until_workloads,
)
from tests.e2e.opted_in_cluster import LABEL
from tests.e2e.opted_in_workloads import job_set, leader_worker_set, pod_template, replicated_job
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workload_objects import MERGE, created, until_pods
from webhook.cli.output import CLEAN, REFUSED

GATED_BY = "kueue.x-k8s.io/admission-gated-by"
# Kueue's configuration, and the block `kueue` of Rollcall's: the same text.
SHORT: Manifest = {
    "waitForPodsReady": {"timeout": "5s", "requeuingStrategy": {"backoffBaseSeconds": 40, "backoffMaxSeconds": 40}}
}

pytestmark = [pytest.mark.long, pytest.mark.beside]


class QueuedGangs:
    """A namespace that is opted in, with Kueue and Rollcall, and what Rollcall says of its gangs."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, namespace: str) -> None:
        self.plane, self.namespace, self._server = plane, namespace, server
        body = {"metadata": {"labels": {LABEL: "koord-scheduler"}}}
        plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
        eventually(self._is_opted_in, "workloads of the namespace are recorded")

    def job_set(self, name: str, queue: str = "queue", *, cpu: str = "1", **metadata: Any) -> None:
        """A JobSet of a driver and two workers in a LocalQueue."""
        parts = replicated_job("driver", cpu=cpu), replicated_job("worker", 2, cpu=cpu)
        created(self.plane, job_set(name, self.namespace, *parts, labels={QUEUE_NAME: queue}, **metadata))

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """The command, as a user with the right to read everything."""
        return run_here(*arguments, f"--config={self._server.config}", f"--kubeconfig={self.plane.kubeconfig}")

    def gang_of(self, workload: str) -> str:
        """The name of its gang, once `rollcall gangs` knows it."""

        def gang() -> str | None:
            return next((name for name in self.health() if name.startswith(f"{workload}-")), None)

        return eventually(gang, f"the gang of {workload} is known", timeout=60)

    def health(self) -> dict[str, Manifest]:
        """What `rollcall gangs` says of each gang."""
        done = self.run("gangs", "-n", self.namespace, "-o", "json")
        assert done.returncode == CLEAN, done.stderr
        return {one["name"]: one for one in json.loads(done.stdout)["gangs"]}

    def until(self, name: str, state: str, *starts: str) -> Manifest:
        """The health of a gang once it has this state, and reasons that start so."""

        def has_it() -> Manifest:
            found = self.health()[name]
            said = [f"{one['reason']}: {one['why']}" for one in found["reasons"]]
            assert found["state"] == state, f"{found['state']}: {said}"
            assert len(said) == len(starts), str(said)
            assert all(one.startswith(start) for one, start in zip(said, starts, strict=True)), str(said)
            return found

        return eventually(has_it, f"gang {name} is {state}", timeout=60, pause=0.5)

    def events(self) -> dict[str, str]:
        """The note of each Warning event of Rollcall's, by its object and reason."""
        found = self.plane.items(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return {
            f"{one['regarding']['kind']} {one['regarding']['name']} {one['reason']}": one["note"]
            for one in found
            if one.get("reportingController") == "rollcall.dev/reconciler"
        }

    def _is_opted_in(self) -> bool:
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self.namespace}/jobsets"
        probe = job_set("probe", self.namespace, replicated_job("driver", 2))
        answer = self.plane.http.post(path, params={"dryRun": "All"}, json=probe)
        assert answer.is_success, answer.text
        return LABEL in answer.json()["metadata"].get("labels", {})


Made = Callable[..., QueuedGangs]


@pytest.fixture
def gangs(
    plane: ControlPlane,
    controllers: Controllers,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
) -> Made:
    """Have Kueue run with these settings, and Rollcall know them."""

    def made(*names: str, **settings: Any) -> QueuedGangs:
        controllers(plane, "jobset", "kueue", *names, kueue=settings)
        scheduler(plane, "koordinator")
        config = {**gated(), "kueue": settings}
        server = rollcall(plane, config)
        reconciler(config).until_leading()
        return QueuedGangs(plane, server, namespace)

    return made


@pytest.mark.soak
def test_each_gang_that_kueue_holds_has_the_reason_of_its_workload(gangs: Made, namespace: str) -> None:
    found = gangs()
    stopped = f"{namespace}-stopped"
    held = (
        cluster_queue(stopped, namespace, {"cpu": 8}, stopPolicy="Hold"),
        local_queue("stopped", namespace, stopped),
    )
    with one_queue(found.plane, namespace, {"cpu": 4}), queues(found.plane, *held):
        found.job_set("lost", "nothing")
        found.job_set("stopped", "stopped")
        found.job_set("big", cpu="3")
        found.job_set("gated", annotations={GATED_BY: "example.com/budget"})
        # Admitted, and there is no node for it.
        found.job_set("first")
        until_workloads(found.plane, namespace, 5)
        first = found.until("first", "held", "GangNoRoom: koord-scheduler reports for pod first-")
        found.job_set("second")
        found.until("second", "queued", "KueueWaitsForQuota: ")
        found.job_set("third")
        short = f"ClusterQueue {namespace} is short of 2 cpu in flavor {namespace}"
        # It equals the second, and Kueue passes over it without a word.
        third = found.until(
            "third",
            "queued",
            "KueueWaitsForQuota: it waits in LocalQueue queue, and Kueue has said nothing about it yet; about 2 "
            "workloads are ahead of it (JobSet big, JobSet second)",
        )
        found.until("second", "queued", f"KueueWaitsForQuota: {short}; about 1 workload is ahead of it (JobSet big)")
        found.until("lost", "queued", "KueueQueueUnusable: Kueue holds it: LocalQueue nothing doesn't exist")
        found.until(
            "stopped",
            "queued",
            f"KueueQueueUnusable: Kueue holds it: ClusterQueue {stopped} is inactive: Can't admit new workloads: is "
            "stopped",
        )
        found.until(
            "big",
            "queued",
            f"KueueTooBig: ClusterQueue {namespace} has at most 4 cpu in flavor {namespace}, and it asks for ",
        )
        found.until("gated", "queued", "KueueGated: Kueue holds it: Admission is gated by: example.com/budget")

        assert first["deadline"].startswith("Kueue takes it back at ")
        assert first["deadline"].endswith(", unless all 3 pods are ready")
        assert (third["kueue"]["clusterQueue"], third["kueue"]["ahead"]) == (namespace, 2)
        _assert_shown(found)


def _assert_shown(found: QueuedGangs) -> None:
    """What a person sees."""
    table = found.run("gangs", "-n", found.namespace).stdout
    words = {line.split()[1]: line.split()[6] for line in table.splitlines()[1:]}
    assert words == {
        "jobset/big": "KueueTooBig",
        "jobset/first": "GangNoRoom",
        "jobset/gated": "KueueGated",
        "jobset/lost": "KueueQueueUnusable",
        "jobset/second": "queued",
        "jobset/stopped": "KueueQueueUnusable",
        "jobset/third": "queued",
    }
    shown = found.run("explain", "jobset/third", "-n", found.namespace)
    assert f"waits in LocalQueue queue of ClusterQueue {found.namespace}; about 2 ahead, first " in shown.stdout
    assert shown.returncode == CLEAN
    assert found.run("explain", "jobset/big", "-n", found.namespace).returncode == REFUSED

    def told() -> bool:
        events = found.events()
        expected = {"lost KueueQueueUnusable", "stopped KueueQueueUnusable", "big KueueTooBig", "gated KueueGated"}
        assert {f"JobSet {one}" for one in expected} <= events.keys(), str(events)
        assert not any("Quota" in one for one in events), str(events)
        return True

    eventually(told, "what does not pass by itself is told, and what waits for its turn is not")


def test_a_gang_that_kueue_took_back_says_both_halves(gangs: Made, namespace: str) -> None:
    found = gangs(**SHORT)
    with one_queue(found.plane, namespace, {"cpu": 4}):
        # There is no node.
        found.job_set("run")
        loop = (
            "KueueTookBack: Kueue took it back once, because koord-scheduler did not get all of its pods running and "
        )
        found.until("run", "queued", f"{loop}ready within 5s", "KueueBackoff: Kueue queues it again at ")

        def told() -> str:
            events = found.events()
            assert "JobSet run KueueTookBack" in events, str(events)
            return events["JobSet run KueueTookBack"]

        note = eventually(told, "the event comes", timeout=60)
        assert "; it was last held by Gang" in note


def test_a_gang_whose_pods_kueue_gates_is_queued_and_goes_on_when_kueue_admits_it(
    gangs: Made, namespace: str, nodes: Nodes, kubelet: Kubelet
) -> None:
    found = gangs("lws")
    plane = found.plane
    with queues(
        plane,
        resource_flavor(namespace),
        cluster_queue(namespace, namespace, {"cpu": 4}),
        cluster_queue(f"{namespace}-full", namespace, {"cpu": 1}),
        local_queue("full", namespace, f"{namespace}-full"),
        local_queue("queue", namespace, namespace),
    ):
        until_condition(plane, "ClusterQueue", namespace, "Active")
        for name, queue in (("waits", "full"), ("serves", "queue")):
            template = pod_template()
            created(
                plane,
                leader_worker_set(name, namespace, size=2, worker=template, labels={QUEUE_NAME: queue}),
            )
        until_pods(plane, namespace, "leaderworkerset.sigs.k8s.io/name=waits", 2)
        waits = found.gang_of("waits")
        found.until(
            waits,
            "queued",
            f"KueueTooBig: ClusterQueue {namespace}-full has at most 1 cpu in flavor {namespace}, and it asks for 2",
        )
        nodes(2)
        serves = found.gang_of("serves")
        found.until(serves, "started")
