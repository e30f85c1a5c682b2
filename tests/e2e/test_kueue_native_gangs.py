"""Jobs that are gangs by their own field, behind the real Kueue. The Job controller of Kubernetes 1.37 makes the gang
if its feature gate is on, and Kueue may resume the Job with fewer pods.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.bound_pods import QUIET_SECONDS
from tests.e2e.conftest import apply_crds, further_crd_files, wanted_versions
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.kueue_objects import one_queue, until_workloads
from tests.e2e.neighbours.running import Neighbours
from tests.e2e.nodes import add_nodes
from tests.e2e.opted_in_workloads import job
from tests.e2e.programs import eventually
from tests.e2e.schedulers import start_scheduler
from tests.e2e.test_kueue_cells import FEWER, QUEUED
from tests.e2e.workload_objects import created, deleted, read, until_pods

pytestmark = pytest.mark.soak
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture
def with_jobs_of_its_own() -> Iterator[ControlPlane]:
    """A control plane of 1.37 whose Job controller makes gangs, with Kueue and kube-scheduler."""
    if "1.37" not in wanted_versions():
        pytest.skip("it needs Kubernetes 1.37")
    plane = ControlPlane("1.37", "WorkloadWithJob=true")

    def serve(plane: ControlPlane, *systems: str) -> None:
        apply_crds(plane, [path for system in systems for path in further_crd_files(system)])

    neighbours = Neighbours(plane, serve)
    try:
        plane.start_controller_manager()
        neighbours.run("kueue")
        start_scheduler(plane, "kube")
        add_nodes(plane, 1, cpu=8)
        yield plane
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    finally:
        neighbours.close()
        plane.close()


def own_gang(name: str, **gang: int) -> Manifest:
    """A Job of four pods that is a gang of the Job controller's, and may be resumed with two."""
    found = job(name, "default", 4, labels=QUEUED, annotations=FEWER)
    found["spec"]["scheduling"] = {"schedulingPolicy": {"gang": gang}}
    return found


def test_kueue_resumes_a_job_that_is_its_own_gang_with_fewer_pods_unless_it_has_a_minimum(
    with_jobs_of_its_own: ControlPlane,
) -> None:
    plane = with_jobs_of_its_own
    with one_queue(plane, "default", {"cpu": 2}):
        stored = created(plane, own_gang("free"))
        pods = eventually(lambda: on_nodes(plane, "free", 2), "two pods are on nodes", timeout=60)
        groups = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods}
        (group,) = (one for one in plane.items(GROUPS) if one["metadata"]["name"] in groups)
        assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2
        assert read(plane, "batch/v1", "Job", "default", "free")["spec"]["parallelism"] == 2
        deleted(plane, stored, "Background")
        until_workloads(plane, "default", 0)
        created(plane, own_gang("fixed", minCount=3))
        until_workloads(plane, "default", 1, Admitted="True")
        deadline = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < deadline:
            spec = read(plane, "batch/v1", "Job", "default", "fixed")["spec"]
            assert (spec["suspend"], spec["parallelism"]) == (True, 4)
            time.sleep(0.25)


def on_nodes(plane: ControlPlane, name: str, count: int) -> list[Manifest]:
    """The pods of a Job, all of which are on nodes."""
    pods = until_pods(plane, "default", f"job-name={name}", count)
    assert all("nodeName" in pod["spec"] for pod in pods)
    return pods
