"""Jobs as gangs with the real components of a cluster: a real Job controller, Rollcall's server and reconciler, and a
real scheduler. Only the label of the namespace opts them in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from tests.e2e.bound_pods import FORGOTTEN_SECONDS, QUIET_SECONDS
from tests.e2e.conftest import gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, LABEL
from tests.e2e.programs import eventually
from tests.e2e.test_reconciler_rights import without

pytestmark = pytest.mark.soak
_MERGE = {"Content-Type": "application/merge-patch+json"}


class Case(NamedTuple):
    """A scheduler, its name among profiles, how it is configured, and the objects of a Job, by path below `/apis`."""

    scheduler: str
    name: str
    config: Manifest
    objects: Mapping[str, str]


TREE = {
    "scheduling.k8s.io/v1beta1/workloads": "train",
    "scheduling.k8s.io/v1alpha3/compositepodgroups": "train.composite",
    "scheduling.k8s.io/v1beta1/podgroups": "train",
}
KOORD = Case(*KOORDINATOR, {"scheduling.sigs.k8s.io/v1alpha1/podgroups": "train"})
CASES: dict[str, dict[str, Case]] = {
    "1.35": {},
    "1.36": {},
    "1.37": {
        "kube": Case(*KUBE, TREE),
        "koordinator": KOORD,
    },
}


class Jobs:
    """A namespace that is opted in, in a cluster with everything; what is in it."""

    def __init__(self, plane: ControlPlane, namespace: str, case: Case) -> None:
        self.plane, self.namespace, self._case = plane, namespace, case
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"

    def opt_in(self) -> None:
        """Label the namespace, and wait until Jobs are recorded there."""
        labels = {"metadata": {"labels": {LABEL: self._case.name}}}
        self.plane.http.patch(f"/api/v1/namespaces/{self.namespace}", json=labels, headers=_MERGE).raise_for_status()

        def recorded() -> bool:
            answer = self.plane.http.post(self._jobs, params={"dryRun": "All"}, json=job(self.namespace, 1))
            assert answer.is_success, answer.text
            return LABEL in answer.json()["metadata"].get("labels", {})

        eventually(recorded, "Jobs of the namespace are recorded")

    def change(self, **spec: object) -> None:
        """Change the Job."""
        self.plane.http.patch(f"{self._jobs}/train", json={"spec": spec}, headers=_MERGE).raise_for_status()

    def delete(self) -> None:
        """Delete the Job, and its pods with it."""
        self.plane.http.delete(f"{self._jobs}/train", params={"propagationPolicy": "Background"}).raise_for_status()

    @property
    def pods(self) -> list[Manifest]:
        """Its pods."""
        return self.plane.items(f"/api/v1/namespaces/{self.namespace}/pods")

    @property
    def bound(self) -> int:
        """How many of them are on nodes."""
        return sum("nodeName" in pod["spec"] for pod in self.pods)

    def objects(self) -> dict[str, list[Manifest]]:
        """Its gang objects, by path."""
        every = {path: self._items(path) for path in self._case.objects}
        return {path: found for path, found in every.items() if found}

    def _items(self, path: str) -> list[Manifest]:
        version, _, plural = path.rpartition("/")
        return self.plane.items(f"/apis/{version}/namespaces/{self.namespace}/{plural}")

    def until_written(self) -> None:
        """Wait until its gang objects are there, each owned by it."""

        def written() -> bool:
            found = {path: [one["metadata"]["name"] for one in every] for path, every in self.objects().items()}
            assert found == {path: [name] for path, name in self._case.objects.items()}, found
            return True

        eventually(written, "the Job's gang objects are there")
        uid = self.plane.get("jobs", "train", self.namespace)["metadata"]["uid"]
        for (one,) in self.objects().values():
            (owner,) = one["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }

    def until_gone(self) -> None:
        """Wait until it has no gang objects."""

        def gone() -> bool:
            assert self.objects() == {}
            return True

        eventually(gone, "the Job's gang objects are gone")

    def stays_unbound(self) -> None:
        """No pod is bound, now and for as long as it would take."""
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            assert self.bound == 0
            time.sleep(0.25)

    def is_bound(self, pods: int) -> None:
        """All are on nodes. A gang that its scheduler forgets (koord-scheduler 1.8 may for minutes) is recreated."""
        deadline = time.monotonic() + FORGOTTEN_SECONDS

        def whole() -> bool:
            nonlocal deadline
            found = self.bound
            if not found and time.monotonic() > deadline:
                deadline = time.monotonic() + FORGOTTEN_SECONDS
                # A pod that is deleted counts as a failure, and the Job waits longer each time; this costs nothing.
                self.change(suspend=True)
                eventually(lambda: self.pods == [], "the Job controller deleted the pods")
                self.change(suspend=False)
            assert found == pods, f"{found} of {pods} pods are bound"
            return True

        eventually(whole, "the whole Job is bound", timeout=90)


def job(namespace: str, pods: int) -> Manifest:
    """A Job whose pods all run at the same time, one CPU each."""
    container = {"name": "main", "image": "example.com/main", "resources": {"requests": {"cpu": "1"}}}
    # There is no kubelet that would end a pod.
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 100,
            "template": {"spec": spec},
        },
    }


@pytest.fixture
def jobs(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    namespace: str,
    case: Case,
) -> Iterator[Jobs]:
    scheduler(plane, case.scheduler)
    rollcall(plane, case.config)
    reconciler(case.config).until_leading()
    found = Jobs(plane, namespace, case)
    found.opt_in()
    yield found
    plane.http.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs", params={"propagationPolicy": "Background"})


@pytest.mark.cases(CASES)
def test_a_job_starts_whole_or_not_at_all_and_its_objects_are_deleted_with_it(jobs: Jobs, nodes: Nodes) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    jobs.plane.apply(job(jobs.namespace, 3), check=True)
    jobs.until_written()
    eventually(lambda: len(jobs.pods) == 3, "the Job controller made the pods")
    for pod in jobs.pods:
        assert (
            pod["spec"]["schedulerName"] == jobs.plane.get("jobs", "train", jobs.namespace)["metadata"]["labels"][LABEL]
        )
        assert pod["metadata"]["annotations"]["rollcall.dev/stamp"]
        labels = pod["metadata"]["labels"]
        assert (labels["rollcall.dev/gang"], labels["rollcall.dev/gang-member"]) == ("train", "train")
    eventually(lambda: not any("schedulingGates" in pod["spec"] for pod in jobs.pods), "the gate comes off")
    jobs.stays_unbound()
    nodes(1, cpu=2)
    jobs.is_bound(3)
    jobs.delete()
    jobs.until_gone()


@pytest.mark.cases(CASES)
def test_a_suspended_job_has_no_objects_and_can_be_resumed_with_another_size(jobs: Jobs, nodes: Nodes) -> None:
    suspended = job(jobs.namespace, 3)
    suspended["spec"]["suspend"] = True
    jobs.plane.apply(suspended, check=True)
    # As Kueue admits a Job in part.
    jobs.change(suspend=False, parallelism=2, completions=2)
    jobs.until_written()
    eventually(lambda: len(jobs.pods) == 2, "the Job controller made the pods")
    jobs.change(suspend=True)
    eventually(lambda: jobs.pods == [], "the Job controller deleted the pods")
    jobs.until_gone()
    nodes(1, cpu=2)
    jobs.change(suspend=False)
    jobs.until_written()
    jobs.is_bound(2)


@pytest.mark.cases(CASES)
def test_a_running_job_grows_and_shrinks(jobs: Jobs, nodes: Nodes) -> None:
    """An elastic Job changes both numbers at once; its last pods are the first to go."""
    nodes(1, cpu=3)
    jobs.plane.apply(job(jobs.namespace, 2), check=True)
    jobs.is_bound(2)
    jobs.change(parallelism=3, completions=3)
    jobs.is_bound(3)
    jobs.change(parallelism=1, completions=1)
    eventually(lambda: len(jobs.pods) == 1, "the Job controller deleted two pods")
    jobs.is_bound(1)


def test_without_the_right_to_finalize_jobs_nothing_is_written_and_the_job_gets_an_event(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    namespace: str,
) -> None:
    rollcall(plane, gated())
    reconciler(gated(), narrowed=without("jobs/finalizers", "update")).until_leading()
    found = Jobs(plane, namespace, KOORD)
    found.opt_in()
    plane.apply(job(namespace, 1), check=True)

    def told() -> list[Manifest]:
        events = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        return [event for event in events if event["reason"] == "GangObjectRefused"]

    (event,) = eventually(lambda: told() or None, "the Job is told")
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Job", "train")
    assert "cannot set blockOwnerDeletion" in event["note"]
    assert found.objects() == {}
