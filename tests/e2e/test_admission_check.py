"""Rollcall as an AdmissionCheck controller of the real Kueue: what it answers, when, and what Kueue makes of it.

Rollcall's webhook is not registered here, as if the workloads were older than it: what it refuses would not get so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import (
    QUEUE_NAME,
    admission_check,
    change,
    conditions,
    one_queue,
    path,
    resume,
    until_condition,
    until_workloads,
    workloads,
)
from tests.e2e.opted_in_workloads import job, job_set, leader_worker_set, pod_template, replicated_job
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import forget_lease
from tests.e2e.workload_objects import created, deleted, listed, read, until_pods
from webhook.workloads.kueue_integration import answered

pytestmark = pytest.mark.beside

KUBE = {"name": "default-scheduler", "config": {"gangScheduling": True}}
CONTROLLER = "rollcall.dev/gang"
LABELS = {QUEUE_NAME: "queue", "rollcall.dev/scheduler": "default-scheduler"}
REPLACING = "owner/completions at spec.completions: 5: "
ANSWERED = "rollcall_admission_checks_answered_total"


def config(mode: str = "on") -> Manifest:
    return configuration_of(KUBE, kueue={"admissionCheck": mode})


@pytest.fixture(autouse=True)
def ready(plane: ControlPlane, controllers: Controllers, scheduler: Scheduler, nodes: Nodes) -> None:
    """Kueue and what it starts."""
    controllers(plane, "jobset", "lws", "kueue")
    scheduler(plane, "kube")
    nodes(2)
    forget_lease(plane)


@contextmanager
def checked_queue(plane: ControlPlane, namespace: str, **spec: Any) -> Iterator[str]:
    """A LocalQueue `queue` whose ClusterQueue asks Rollcall; the name of the ClusterQueue and of the check."""
    strategy = {"admissionChecks": [{"name": namespace}]}
    check = admission_check(namespace, CONTROLLER)
    with one_queue(plane, namespace, {"cpu": 8}, check, admissionChecksStrategy=strategy, **spec) as queue:
        yield queue
        # A ClusterQueue is only gone with what it has admitted.
        for kind in ("batch/v1/Job", "jobset.x-k8s.io/v1alpha2/JobSet", "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"):
            api, _, name = kind.rpartition("/")
            for one in listed(plane, api, name, namespace):
                deleted(plane, one, "Background")


def faulty(name: str, namespace: str) -> Manifest:
    """A Job whose last pods would wait for others that are never created."""
    return job(name, namespace, 2, completions=5, labels=LABELS)


def entry(workload: Manifest) -> Manifest:
    """Its only admission check."""
    (found,) = workload["status"]["admissionChecks"]
    return dict(found)


def until_state(plane: ControlPlane, namespace: str, state: str) -> Manifest:
    """The only Workload of a namespace once its check is in that state."""

    def there() -> Manifest:
        every = workloads(plane, namespace)
        assert len(every) == 1, f"{len(every)} Workloads"
        found = every[0]
        told = [(one["state"], one["message"]) for one in found.get("status", {}).get("admissionChecks", ())]
        assert [one for one, _ in told] == [state], told
        return found

    return eventually(there, f"the check is {state}")


def events(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """What Rollcall told of Workloads, by reason."""
    found = listed(plane, "events.k8s.io/v1", "Event", namespace)
    ours = [one for one in found if one.get("reportingController") == "rollcall.dev/reconciler"]
    return {one["reason"]: one["note"] for one in ours if one["regarding"]["kind"] == "Workload"}


def test_a_gang_that_no_rule_denies_is_admitted_and_runs(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    rollcall = reconciler(config())
    rollcall.until_leading()
    with checked_queue(plane, namespace) as queue:
        told = until_condition(plane, "AdmissionCheck", queue, "Active")["status"]["conditions"]
        assert [(one["reason"], one["message"]) for one in told] == [
            ("Served", "Rollcall's reconciler answers this check")
        ]
        created(plane, job("train", namespace, 2, labels=LABELS))
        (workload,) = until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        assert (entry(workload)["state"], entry(workload)["message"]) == (
            "Ready",
            "no rule of default-scheduler denies it",
        )
        assert len(until_pods(plane, namespace, "", 2)) == 2
        assert events(plane, namespace) == {}
        assert rollcall.metric("rollcall_admission_checks_pending") == 0


def test_a_gang_that_can_never_start_is_deactivated_with_the_text_of_the_finding(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers
) -> None:
    rollcall = reconciler(config())
    rollcall.until_leading()
    with checked_queue(plane, namespace):
        stored = created(plane, faulty("train", namespace))
        (workload,) = until_workloads(plane, namespace, 1, Evicted="True", QuotaReserved="False")
        assert workload["spec"]["active"] is False
        assert conditions(workload)["Evicted"] == ("True", "DeactivatedDueToAdmissionCheck")
        (evicted,) = [one for one in workload["status"]["conditions"] if one["type"] == "Evicted"]
        assert REPLACING in evicted["message"]
        # Kueue has reset the check with the eviction; what it is now is not answered again.
        assert entry(workload)["message"] == "Reset to Pending after eviction. Previously: Rejected"
        assert read(plane, "batch/v1", "Job", namespace, "train")["spec"]["suspend"] is True
        assert until_pods(plane, namespace, "", 0) == []
        # Told after the answer, which Kueue may act on first.
        told = eventually(lambda: events(plane, namespace).get("GangRejected"), "it is told")
        assert told.startswith(REPLACING)
        # The quota is free for a Job without the fault.
        deleted(plane, stored, "Background")
        created(plane, job("train-again", namespace, 2, labels=LABELS))
        until_state(plane, namespace, "Ready")
        assert rollcall.metric(ANSWERED, outcome="rejected") == 1


def test_a_gang_that_only_other_nodes_would_start_is_ready_and_told(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers
) -> None:
    reconciler(config()).until_leading()
    with checked_queue(plane, namespace):
        created(plane, job("train", namespace, 2, labels=LABELS, nodeSelector={"example.com/rack": "r7"}))
        message = entry(until_state(plane, namespace, "Ready"))["message"]
        assert message.startswith("not rejected, because other objects may cure it: fit/node at spec.template: ")
        eventually(lambda: events(plane, namespace).get("GangMayNotStart") == message, "an event tells")


@pytest.mark.soak
def test_an_audit_lets_it_run_and_tells(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    reconciler(config("audit")).until_leading()
    with checked_queue(plane, namespace):
        created(plane, faulty("train", namespace))
        (workload,) = until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        assert entry(workload)["state"] == "Ready"
        assert entry(workload)["message"].startswith(f"would be rejected: {REPLACING}")
        eventually(lambda: "GangWouldBeRejected" in events(plane, namespace), "an event tells")


@pytest.mark.soak
def test_each_kind_of_workload_is_answered(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    reconciler(config()).until_leading()
    with checked_queue(plane, namespace):
        created(plane, job_set("run", namespace, replicated_job("a"), replicated_job("b", 2), labels=LABELS))
        created(plane, leader_worker_set("serve", namespace, size=2, labels=LABELS))
        for name in ("p0", "p1"):
            created(plane, _member(name, namespace))
        admitted = until_workloads(plane, namespace, 3, Admitted="True", PodsReady="True")
        told = {one["metadata"]["name"].split("-")[0]: entry(one)["message"] for one in admitted}
        assert told == {
            "group": "no rule of default-scheduler denies it",
            "jobset": "no rule of default-scheduler denies it",
            "leaderworkerset": "no rule of default-scheduler denies it",
        }


def _member(name: str, namespace: str) -> Manifest:
    """A pod of a pod group of two, which no workload made."""
    labels = {QUEUE_NAME: "queue", "kueue.x-k8s.io/pod-group-name": "group"}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_template()["spec"]}


def test_a_check_that_was_reset_by_an_eviction_is_answered_again(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    rollcall = reconciler(config())
    rollcall.until_leading()
    with checked_queue(plane, namespace) as queue:
        created(plane, job("train", namespace, 2, labels=LABELS))
        until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        change(plane, "ClusterQueue", queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
        (evicted,) = until_workloads(plane, namespace, 1, Evicted="True", QuotaReserved="False")
        assert entry(evicted)["message"] == "Reset to Pending after eviction. Previously: Ready"
        resume(plane, queue)
        (again,) = until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        assert entry(again)["state"] == "Ready"
        assert rollcall.metric(ANSWERED, outcome="ready") == 2


@pytest.mark.soak
def test_a_check_that_waits_while_the_reconciler_is_away_is_answered_by_the_next(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    first = reconciler(config())
    first.until_leading()
    with checked_queue(plane, namespace):
        first.program.stop()
        created(plane, job("train", namespace, 2, labels=LABELS))
        (held,) = until_workloads(plane, namespace, 1, QuotaReserved="True")
        assert entry(held)["state"] == "Pending"
        assert until_pods(plane, namespace, "", 0) == []
        reconciler(config()).until_leading()
        until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")


@pytest.mark.soak
def test_of_two_reconcilers_one_answers_and_the_other_goes_on(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    first = reconciler(config())
    first.until_leading()
    second = reconciler(config())
    second.until_ready()
    with checked_queue(plane, namespace):
        created(plane, job("train", namespace, 1, labels=LABELS))
        until_workloads(plane, namespace, 1, Admitted="True")
        assert [one.metric(ANSWERED) for one in (first, second)] == [1, 0]
        first.program.stop(kill=True)
        created(plane, job("tune", namespace, 1, labels=LABELS))
        # The one that is left knows of it, and tells for how long it waits.
        eventually(lambda: second.metric("rollcall_admission_checks_pending") == 1, "it is seen to wait")
        eventually(lambda: second.metric("rollcall_leads") == 1, "the other leads", timeout=60)
        until_workloads(plane, namespace, 2, Admitted="True")
        assert second.metric(ANSWERED) == 1


@pytest.mark.soak
def test_an_answer_to_an_older_version_is_a_conflict_and_changes_nothing(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers
) -> None:
    rollcall = reconciler(config())
    rollcall.until_leading()
    with checked_queue(plane, namespace):
        rollcall.program.stop()
        created(plane, job("train", namespace, 2, labels=LABELS))
        (old,) = until_workloads(plane, namespace, 1, QuotaReserved="True")
        name = old["metadata"]["name"]
        change(plane, "Workload", name, {"metadata": {"labels": {"seen": "yes"}}}, namespace)

        def answer(to: Manifest) -> httpx.Response:
            patch = answered(to, {namespace}, "Ready", "fine", "2026-09-01T12:00:00Z")
            kind = {"Content-Type": "application/json-patch+json"}
            return plane.http.patch(f"{path('Workload', name, namespace)}/status", json=patch, headers=kind)

        assert answer(old).status_code == httpx.codes.CONFLICT
        (live,) = workloads(plane, namespace)
        assert entry(live)["state"] == "Pending"
        assert answer(live).status_code == httpx.codes.OK
        until_workloads(plane, namespace, 1, Admitted="True")


@pytest.mark.soak
def test_a_check_that_a_queue_no_longer_asks_is_gone_from_its_workloads(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, kubelet: Kubelet
) -> None:
    reconciler(config()).until_leading()
    with checked_queue(plane, namespace) as queue:
        created(plane, job("train", namespace, 2, labels=LABELS))
        until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        change(plane, "ClusterQueue", queue, {"spec": {"admissionChecksStrategy": None}})

        def gone() -> bool:
            (found,) = workloads(plane, namespace)
            assert not found["status"].get("admissionChecks"), found["status"]["admissionChecks"]
            assert conditions(found)["Admitted"][0] == "True"
            return True

        eventually(gone, "the entry is gone")


@pytest.mark.soak
def test_with_the_option_off_nothing_is_read_or_written(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers
) -> None:
    on = reconciler(config())
    on.until_leading()
    with checked_queue(plane, namespace):
        on.program.stop()
        off = reconciler(config("off"))
        off.until_leading()
        created(plane, job("train", namespace, 2, labels=LABELS))
        (held,) = until_workloads(plane, namespace, 1, QuotaReserved="True")
        off.until_settled()
        (held,) = workloads(plane, namespace)
        assert entry(held)["state"] == "Pending"
        asked: Mapping[str, set[str]] = {}
        for one in off.asked():
            if one.resource.startswith("kueue.x-k8s.io/"):
                asked = {**asked, one.resource: asked.get(one.resource, set()) | {one.verb}}
        assert {verb for verbs in asked.values() for verb in verbs} <= {"list", "watch"}
        assert not any("/status" in resource for resource in asked)


@pytest.mark.soak
def test_a_check_of_another_controller_is_left_alone(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, for_the_test: Callable[[Manifest], Manifest]
) -> None:
    other = for_the_test(admission_check(f"{namespace}-other", "example.com/other"))
    own = for_the_test(admission_check(f"{namespace}-own", CONTROLLER))
    reconciler(config()).until_leading()
    until_condition(plane, "AdmissionCheck", own["metadata"]["name"], "Active")
    assert conditions(plane.http.get(path("AdmissionCheck", other["metadata"]["name"])).json()) == {}
    # Switched off by another program, it is active again.
    status = {"status": {"conditions": [_inactive()]}}
    merge = {"Content-Type": "application/merge-patch+json"}
    where = f"{path('AdmissionCheck', own['metadata']['name'])}/status"
    plane.http.patch(where, json=status, headers=merge).raise_for_status()
    until_condition(plane, "AdmissionCheck", own["metadata"]["name"], "Active")


def _inactive() -> Manifest:
    return {
        "type": "Active",
        "status": "False",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-09-01T12:00:00Z",
    }
