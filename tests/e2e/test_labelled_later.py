"""Namespaces whose labels change when workloads are there: what a workload records at its creation decides."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.opted_in_workloads import job, job_set, replicated_job
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import MERGE, controller_reference, created, patched, path_of
from tests.e2e.workloads import two_cliques

LABEL, EXEMPT = "rollcall.dev/scheduler", "rollcall.dev/exempt"
SCHEDULER = "koord-scheduler"
CONFIG = configuration_of({"name": SCHEDULER, "gate": False})
Labelled = Callable[[str, str | None], None]


@pytest.fixture
def labelled(plane: ControlPlane, rollcall: Rollcall, workload_kinds: Callable[..., None], namespace: str) -> Labelled:
    """Set or remove a label of the test's namespace, and wait until the API server and the server go by it."""
    workload_kinds(plane, "jobset")
    rollcall(plane, CONFIG)

    def probed(path: str, probe: Manifest) -> bool:
        answer = plane.http.post(path, params={"dryRun": "All"}, json=probe).raise_for_status()
        return LABEL in answer.json()["metadata"].get("labels", {})

    def label(key: str, value: str | None) -> None:
        body = {"metadata": {"labels": {key: value}}}
        plane.http.patch(f"/api/v1/namespaces/{namespace}", json=body, headers=MERGE).raise_for_status()
        if key == EXEMPT:
            path, probe = path_of("grove.io/v1alpha1", "PodCliqueSet", namespace), two_cliques("probe", namespace)
            expected = value is None
        else:
            path, probe = path_of("batch/v1", "Job", namespace), job("probe", namespace)
            expected = value is not None
        eventually(lambda: probed(path, probe) is expected, f"{key}={value} has an effect")

    return label


def labels_of(workload: Manifest) -> Manifest:
    found: Manifest = workload["metadata"].get("labels", {})
    return found


def relabelled(plane: ControlPlane, workload: Manifest, scheduler: str | None) -> httpx.Response:
    """The answer to an update of the label of a workload."""
    path = path_of(
        workload["apiVersion"], workload["kind"], workload["metadata"]["namespace"], workload["metadata"]["name"]
    )
    return plane.http.patch(path, json={"metadata": {"labels": {LABEL: scheduler}}}, headers=MERGE)


def test_a_workload_keeps_what_it_recorded_when_its_namespace_opts_in_and_out(
    plane: ControlPlane, labelled: Labelled, namespace: str
) -> None:
    old_job = created(plane, job("old", namespace, 2))
    old_set = created(plane, job_set("set", namespace, replicated_job("a", 2)))
    labelled(LABEL, SCHEDULER)
    for old in (old_job, old_set):
        # Its pods are there, so it is no gang, and an update is not refused for that.
        assert LABEL not in labels_of(patched(plane, old, {"metadata": {"annotations": {"a": "b"}}}))
        assert "owner/scheduler-change" in relabelled(plane, old, SCHEDULER).text
    # A Job that the controller makes later is like the ones that it made before.
    part = job("set-a-0", namespace, 2)
    part["metadata"]["ownerReferences"] = [controller_reference(old_set)]
    assert LABEL not in created(plane, part)["spec"]["template"]["metadata"]["labels"]

    new = created(plane, job("new", namespace, 2))
    assert labels_of(new)[LABEL] == new["spec"]["template"]["metadata"]["labels"][LABEL] == SCHEDULER
    labelled(LABEL, None)
    # Its pods are members of a gang, so the record is written again.
    assert labels_of(relabelled(plane, new, None).raise_for_status().json())[LABEL] == SCHEDULER
    assert LABEL not in labels_of(created(plane, job("last", namespace, 2)))


def test_what_was_stored_in_an_exempt_namespace_is_judged_once_it_is_exempt_no_longer(
    plane: ControlPlane, labelled: Labelled, namespace: str
) -> None:
    labelled(EXEMPT, "")
    free = created(plane, two_cliques("free", namespace, labels={LABEL: "nobody"}))
    bare = created(plane, two_cliques("bare", namespace))
    labelled(EXEMPT, None)
    # Stored faults refuse no update, and nobody records a scheduler for pods that may be there already.
    for stored in (free, bare):
        patched(plane, stored, {"metadata": {"annotations": {"a": "b"}}})
    assert LABEL not in labels_of(patched(plane, bare, {"spec": {"replicas": 2}}))
    assert "rollcall/scheduler-unknown" in relabelled(plane, bare, "nobody").text
