"""Workloads that are written in another version of their kind than the webhooks name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

import httpx
import pytest

from tests.configurations import configuration_of
from tests.e2e.command import run_here
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.opted_in_workloads import job_set, replicated_job
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workload_objects import path_of

GROUP, FOLLOWED, OTHER = "jobset.x-k8s.io", "v1alpha2", "v1beta1"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.{GROUP}"
LABEL = "rollcall.dev/scheduler"
SCHEDULER = "koord-scheduler"
CONFIG = configuration_of({"name": SCHEDULER, "gate": False})


def serve(plane: ControlPlane, *versions: str) -> None:
    """Have JobSets served in these versions; one of the API server's controllers may write the definition meanwhile."""

    def written() -> bool:
        definition = plane.http.get(DEFINITION).raise_for_status().json()
        listed = definition["spec"]["versions"]
        if OTHER not in {one["name"] for one in listed}:
            listed.append({**deepcopy(listed[0]), "name": OTHER, "storage": False})
        for one in listed:
            one["served"] = one["name"] in versions
        answer = plane.http.put(DEFINITION, json=definition)
        assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text
        return answer.is_success

    def served() -> bool:
        answer = plane.http.get(f"/apis/{GROUP}")
        return answer.is_success and {one["version"] for one in answer.json()["versions"]} == set(versions)

    eventually(written, "the definition is written")
    eventually(served, f"JobSets are served in {versions}")


@pytest.fixture
def server(plane: ControlPlane, rollcall: Rollcall, workload_kinds: Callable[..., None]) -> Iterator[RollcallServer]:
    """A server, in a cluster whose JobSets have two versions."""
    workload_kinds(plane, "jobset")
    yield rollcall(plane, CONFIG)
    serve(plane, FOLLOWED)


def posted(plane: ControlPlane, namespace: str, version: str, scheduler: str) -> httpx.Response:
    """The answer to a JobSet in that version; the API server may be a moment late with a version that it lists."""
    made = job_set("demo", namespace, replicated_job("a", 2), labels={LABEL: scheduler})
    path = path_of(f"{GROUP}/{version}", "JobSet", namespace)
    body = {**made, "apiVersion": f"{GROUP}/{version}"}
    answers: list[httpx.Response] = []

    def answered() -> bool:
        answers.append(plane.http.post(path, params={"dryRun": "All"}, json=body))
        return answers[-1].status_code != httpx.codes.NOT_FOUND

    eventually(answered, f"{version} is served")
    return answers[-1]


def prepared(workload: Manifest) -> str | None:
    """The scheduler that the pods of a JobSet are marked for."""
    (replicated,) = workload["spec"]["replicatedJobs"]
    labels = replicated["template"]["spec"]["template"].get("metadata", {}).get("labels", {})
    found: str | None = labels.get(LABEL)
    return found


def test_a_workload_is_judged_and_prepared_in_every_version_that_its_kind_has(
    plane: ControlPlane, server: RollcallServer, namespace: str
) -> None:
    # Also while the version that the webhooks name is no longer served: the API server still converts to it.
    for versions in ((FOLLOWED, OTHER), (OTHER,)):
        serve(plane, *versions)
        for version in versions:
            admitted = posted(plane, namespace, version, SCHEDULER)
            assert admitted.is_success, admitted.text
            assert admitted.json()["apiVersion"] == f"{GROUP}/{version}"
            assert prepared(admitted.json()) == SCHEDULER
            assert "owner/scheduler-unknown" in posted(plane, namespace, version, "nobody").text


def test_a_version_that_nobody_follows_is_reported(plane: ControlPlane, server: RollcallServer) -> None:
    serve(plane, FOLLOWED, OTHER)
    assert "kinds/versions" not in doctor(plane, server)
    serve(plane, OTHER)
    said = doctor(plane, server)
    assert "kinds/versions" in said
    assert f"JobSet.{GROUP}" in said


def doctor(plane: ControlPlane, server: RollcallServer) -> str:
    return run_here("doctor", "--config", server.config, "--kubeconfig", plane.kubeconfig).stdout
