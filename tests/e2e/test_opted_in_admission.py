"""TrainJobs, JobSets, LeaderWorkerSets and Jobs through real API servers: opted-in workloads are stamped and others
left unchanged; a workload that can never start is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Rollcall
from tests.e2e.opted_in_workloads import (
    job,
    job_set,
    leader_worker_set,
    replicated_job,
    train_job,
    training_runtime,
    training_step,
)
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import MERGE, created, deleted, found, patched, path_of, read, until_pods

LABEL = "rollcall.dev/scheduler"
QUEUE = "kai.scheduler/queue"
JOBSET, LWS = "jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name"
EVERY = configuration_of(
    # The default, which applies to Grove only: it opts in no other workload.
    {"name": "koord-scheduler", "gate": False},
    "volcano",
    "kai-scheduler",
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
    "scheduler-plugins-scheduler",
)

VOLCANO_QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {},
}


@pytest.fixture
def served(plane: ControlPlane, rollcall: Rollcall, controllers: Controllers) -> None:
    controllers(plane, "jobset", "lws", "trainer")
    rollcall(plane, EVERY)


@pytest.fixture
def opt_in(plane: ControlPlane, served: None, namespace: str) -> Callable[[str], None]:
    """Label the test's namespace, and wait until the API server selects it by that."""
    path = path_of("batch/v1", "Job", namespace)

    def labelled(scheduler: str) -> None:
        body = {"metadata": {"labels": {LABEL: scheduler}}}
        plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
        eventually(asked, "the API server asks Rollcall about the namespace")

    def asked() -> bool:
        answer = plane.http.post(path, params={"dryRun": "All"}, json=job("probe", namespace))
        return not answer.is_success or LABEL in answer.json()["metadata"].get("labels", {})

    return labelled


def mine(pod: Manifest) -> dict[str, str]:
    """What Rollcall and a scheduler may have written on a pod."""
    metadata = pod["metadata"]
    ours = ("rollcall.dev/", "pod-group", "kai.scheduler/", "scheduling.")
    found = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    said = {key: value for key, value in found.items() if key.startswith(ours) and key != "rollcall.dev/stamp"}
    return {"schedulerName": pod["spec"]["schedulerName"], **said}


def stamped(scheduler: str, gang: str, member: str) -> dict[str, str]:
    """What a pod for Koordinator has."""
    return {
        "schedulerName": scheduler,
        LABEL: scheduler,
        "rollcall.dev/gang": gang,
        "rollcall.dev/gang-member": member,
        "pod-group.scheduling.sigs.k8s.io": member,
    }


@pytest.mark.soak
@pytest.mark.usefixtures("served")
@pytest.mark.every_version
def test_workloads_in_an_opted_in_namespace_are_stamped(
    plane: ControlPlane,
    namespace: str,
    opt_in: Callable[[str], None],
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    opt_in("koord-scheduler")
    for_the_test(training_runtime(f"{namespace}-torch"))
    stored = [
        created(plane, job("solver", namespace, 2)),
        created(plane, job_set("run", namespace, replicated_job("a"), replicated_job("b", 2))),
        created(plane, leader_worker_set("serve", namespace, groups=2, size=2)),
        created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=2)),
    ]
    assert [one["metadata"]["labels"][LABEL] for one in stored] == ["koord-scheduler"] * 4
    solver = until_pods(plane, namespace, "batch.kubernetes.io/job-name=solver", 2)
    assert [mine(pod) for pod in solver] == [stamped("koord-scheduler", "solver", "solver")] * 2
    assert [mine(pod) for pod in until_pods(plane, namespace, f"{JOBSET}=run", 3)] == [
        stamped("koord-scheduler", "run", "run-a"),
        *[stamped("koord-scheduler", "run", "run-b")] * 2,
    ]
    for pod in until_pods(plane, namespace, f"{LWS}=serve", 4):
        labels = pod["metadata"]["labels"]
        prefix = "leaderworkerset.sigs.k8s.io"
        gang = f"serve-{labels[f'{prefix}/group-index']}-{labels[f'{prefix}/template-revision-hash']}"
        assert mine(pod) == stamped("koord-scheduler", gang, gang)
    pods = until_pods(plane, namespace, f"{JOBSET}=tune", 2)
    assert [mine(pod) for pod in pods] == [stamped("koord-scheduler", "tune", "tune-node")] * 2
    made = read(plane, "jobset.x-k8s.io/v1alpha2", "JobSet", namespace, "tune")
    assert made["metadata"]["labels"][LABEL] == "koord-scheduler"


@pytest.mark.soak
@pytest.mark.usefixtures("served")
@pytest.mark.every_version
def test_workloads_that_are_not_opted_in_are_left_unchanged(plane: ControlPlane, namespace: str) -> None:
    stored = created(plane, job("solver", namespace, 2))
    assert LABEL not in stored["metadata"].get("labels", {})
    run = created(plane, job_set("run", namespace, replicated_job("a")))
    assert LABEL not in run["metadata"].get("labels", {})
    created(plane, leader_worker_set("serve", namespace, size=2, leader_ready=True))
    pods = until_pods(plane, namespace, "batch.kubernetes.io/job-name=solver", 2)
    pods += until_pods(plane, namespace, f"{JOBSET}=run", 1)
    pods += until_pods(plane, namespace, f"{LWS}=serve", 1)
    assert [mine(pod) for pod in pods] == [{"schedulerName": "default-scheduler"}] * 4
    assert not any("rollcall.dev/stamp" in pod["metadata"].get("annotations", {}) for pod in pods)


@pytest.mark.usefixtures("served")
def test_a_workload_can_opt_in_and_its_record_survives_a_manifest_without_it(
    plane: ControlPlane, namespace: str
) -> None:
    stored = created(plane, job("solver", namespace, 2, suspend=True, labels={LABEL: "koord-scheduler"}))
    assert stored["spec"]["template"]["metadata"]["labels"][LABEL] == "koord-scheduler"
    body = {**stored, "metadata": {**stored["metadata"], "labels": {}}, "spec": {**stored["spec"], "suspend": False}}
    body["spec"]["template"]["metadata"]["labels"].pop(LABEL)
    # Whatever its controller has written since.
    body["metadata"].pop("resourceVersion")
    path = path_of("batch/v1", "Job", namespace, "solver")
    answer = plane.http.put(path, json=body)
    assert answer.is_success, answer.text
    assert answer.json()["metadata"]["labels"][LABEL] == "koord-scheduler"
    pods = until_pods(plane, namespace, "batch.kubernetes.io/job-name=solver", 2)
    assert [mine(pod) for pod in pods] == [stamped("koord-scheduler", "solver", "solver")] * 2
    refused = plane.http.patch(path, json={"metadata": {"labels": {LABEL: "default-scheduler"}}}, headers=MERGE)
    assert refused.status_code == httpx.codes.FORBIDDEN
    assert "owner/scheduler-change at metadata.labels[rollcall.dev/scheduler]" in refused.json()["message"]


@pytest.mark.usefixtures("served")
def test_for_kai_only_scheduler_and_queue_are_set_and_kai_creates_the_groups(
    plane: ControlPlane,
    namespace: str,
    opt_in: Callable[[str], None],
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    parent = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": f"{namespace}-all"},
        "spec": {},
    }
    leaf = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": f"{namespace}-research"},
        "spec": {"parentQueue": f"{namespace}-all"},
    }
    for queue in (parent, leaf):
        for_the_test(queue)
    opt_in("kai-scheduler")
    for_the_test(training_runtime(f"{namespace}-torch"))
    minimum = {"kai.scheduler/batch-min-member": "1"}
    queued = {QUEUE: f"{namespace}-research"}
    created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=2, labels=queued, annotations=minimum))
    told = {"schedulerName": "kai-scheduler", LABEL: "kai-scheduler", QUEUE: f"{namespace}-research"}
    for pod in until_pods(plane, namespace, f"{JOBSET}=tune", 2):
        assert mine(pod) == told
        assert "rollcall.dev/stamp" not in pod["metadata"].get("annotations", {})


@pytest.mark.usefixtures("served")
def test_the_pod_group_of_a_plugin_is_left_unchanged_and_its_pods_get_the_scheduler(
    plane: ControlPlane,
    namespace: str,
    opt_in: Callable[[str], None],
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    """Trainer's Volcano plugin makes the PodGroup, and leaves the pods to kube-scheduler."""
    opt_in("volcano")
    # Its controller does that.
    patched(plane, for_the_test(VOLCANO_QUEUE), {"status": {"state": "Open"}}, "/status")
    for_the_test(training_runtime(f"{namespace}-torch", pod_groups={"volcano": {}}))
    created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=2))
    group = ("scheduling.volcano.sh/v1beta1", "PodGroup", namespace, "tune")
    before = eventually(lambda: found(plane, *group), "Trainer created the PodGroup")
    for pod in until_pods(plane, namespace, f"{JOBSET}=tune", 2):
        mark = {"scheduling.k8s.io/group-name": "tune"}
        assert mine(pod) == {"schedulerName": "volcano", LABEL: "volcano", **mark}
    assert found(plane, *group) == before


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
REFUSED: dict[str, tuple[Callable[[str], Manifest], str]] = {
    "a Job that replaces pods that are done": (
        lambda namespace: job("demo", namespace, 2, completions=5, labels={LABEL: "koord-scheduler"}),
        "spec.completions: owner/completions: 5: only 2 of the pods run at a time",
    ),
    "a JobSet with exclusive topology": (
        lambda namespace: job_set(
            "demo", namespace, replicated_job("a", 4), labels={LABEL: "koord-scheduler"}, annotations=EXCLUSIVE
        ),
        "exclusive-topology]: owner/exclusive-topology: ",
    ),
    "a leader that must be ready first": (
        lambda namespace: leader_worker_set(
            "demo", namespace, size=3, leader_ready=True, labels={LABEL: "koord-scheduler"}
        ),
        'spec.startupPolicy: owner/leader-ready: "LeaderReady"',
    ),
    "an unknown scheduler": (
        lambda namespace: leader_worker_set("demo", namespace, labels={LABEL: "koordinator"}),
        "metadata.labels[rollcall.dev/scheduler]: owner/scheduler-unknown: ",
    ),
}


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(("made", "message"), REFUSED.values(), ids=REFUSED)
def test_a_workload_that_can_never_start_is_refused_with_the_reason(
    plane: ControlPlane, namespace: str, made: Callable[[str], Manifest], message: str
) -> None:
    ran = plane.apply(made(namespace))
    assert ran.code != 0
    assert message in ran.err, ran.err


@pytest.mark.usefixtures("served")
def test_a_train_job_is_refused_for_a_fault_of_its_runtime(
    plane: ControlPlane,
    namespace: str,
    opt_in: Callable[[str], None],
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    """The user of a TrainJob sees the reason, and not its controller, which could only try again."""
    opt_in("koord-scheduler")
    for_the_test(training_runtime(f"{namespace}-torch", training_step("node"), annotations=EXCLUSIVE))
    ran = plane.apply(train_job("tune", namespace, f"{namespace}-torch", nodes=4))
    assert ran.code != 0
    assert "spec.runtimeRef.name: owner/exclusive-topology: " in ran.err, ran.err


ADMITTED, UNREAD = "", "owner/claim-unread"
# By the plugins of the runtime and the scheduler of the TrainJob: the rule that refuses it or warns about it, if any.
POLICIES: dict[tuple[str, ...], dict[str, str]] = {
    ("coscheduling",): {
        "koord-scheduler": UNREAD,
        "default-scheduler": "owner/claim-unsure",
        "volcano": UNREAD,
        "scheduler-plugins-scheduler": ADMITTED,
    },
    ("volcano",): {
        "koord-scheduler": UNREAD,
        "default-scheduler": UNREAD,
        "volcano": ADMITTED,
        "scheduler-plugins-scheduler": UNREAD,
    },
    # Trainer's own webhook takes it.
    ("coscheduling", "volcano"): {"scheduler-plugins-scheduler": "owner/two-plugins", "volcano": "owner/two-plugins"},
}


@pytest.mark.usefixtures("served")
def test_the_pod_group_policy_of_a_runtime_is_judged_for_the_scheduler_of_the_train_job(
    plane: ControlPlane, namespace: str, opt_in: Callable[[str], None], for_the_test: Callable[[Manifest], Manifest]
) -> None:
    for_the_test(VOLCANO_QUEUE)
    patched(plane, VOLCANO_QUEUE, {"status": {"state": "Open"}}, "/status")
    # The label of the TrainJob comes first.
    opt_in("koord-scheduler")
    for plugins, outcomes in POLICIES.items():
        runtime = "-".join(plugins)
        created(plane, training_runtime(runtime, namespace=namespace, pod_groups={plugin: {} for plugin in plugins}))
        for scheduler, rule in outcomes.items():
            labels = {LABEL: scheduler}
            made = train_job("tune", namespace, runtime, kind="TrainingRuntime", nodes=2, labels=labels)
            ran = plane.apply(made, options=["--dry-run=server"])
            assert (ran.code == 0) == (rule in (ADMITTED, "owner/claim-unsure")), f"{plugins}, {scheduler}: {ran.err}"
            assert rule in ran.err, f"{plugins}, {scheduler}: {ran.err}"


@pytest.mark.usefixtures("served")
def test_a_train_job_whose_label_would_reach_none_of_its_pods_is_refused(plane: ControlPlane, namespace: str) -> None:
    created(plane, training_runtime("torch", namespace=namespace))
    alone: Manifest = {"kind": "TrainingRuntime", "nodes": 2, "labels": {LABEL: "koord-scheduler"}}
    ran = plane.apply(train_job("tune", namespace, "torch", **alone))
    assert ran.code != 0
    assert "metadata.labels[rollcall.dev/scheduler]: owner/train-job-alone: " in ran.err, ran.err
    template = {"metadata": {"labels": {LABEL: "koord-scheduler"}}}
    patch = {"manager": "example.com/tests", "trainingRuntimeSpec": {"template": template}}
    created(plane, train_job("tune", namespace, "torch", runtimePatches=[patch], **alone))
    pods = until_pods(plane, namespace, f"{JOBSET}=tune", 2)
    assert [mine(pod) for pod in pods] == [stamped("koord-scheduler", "tune", "tune-node")] * 2


@pytest.mark.usefixtures("served")
def test_only_jobs_of_an_existing_jobset_are_left_to_the_jobset(
    plane: ControlPlane, namespace: str, opt_in: Callable[[str], None]
) -> None:
    # It is older than the opt-in, so Rollcall does not follow it and must read it live.
    created(plane, job_set("run", namespace, replicated_job("a")))
    part = ("batch/v1", "Job", namespace, "run-a-0")
    first = eventually(lambda: found(plane, *part), "JobSet created the Job")
    opt_in("koord-scheduler")
    forged = deepcopy(first)
    forged["metadata"] = {key: first["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    forged["metadata"] |= {"name": "forged", "namespace": namespace}
    forged["metadata"]["ownerReferences"][0]["uid"] = "00000000-0000-4000-8000-000000000000"
    # What the Job controller has added.
    del forged["spec"]["selector"]
    del forged["spec"]["template"]["metadata"]["labels"]
    refused = plane.http.post(path_of("batch/v1", "Job", namespace), json=forged)
    assert refused.status_code == httpx.codes.UNPROCESSABLE_ENTITY, refused.text
    assert "owner/foreign-job" in refused.json()["message"]
    deleted(plane, first, "Background")

    def again() -> Manifest | None:
        now = found(plane, *part)
        return now if now is not None and now["metadata"]["uid"] != first["metadata"]["uid"] else None

    assert LABEL not in eventually(again, "JobSet created the Job again")["metadata"]["labels"]
