"""Published cases: groups that pods do not name, retired versions, wrong amounts, and what a peer's webhook refuses."""

from __future__ import annotations

import pytest

from tests.unit.cli.cases.published_cases import Case, findings, needs_cases, report
from tests.unit.cli.conftest import Run

pytestmark = needs_cases

_LABEL = "metadata.labels[kai.scheduler/pod-group]"
_KOORD_LABEL = "spec.template.metadata.labels[pod-group.scheduling.sigs.k8s.io]"
_CONTAINER = "spec.template.spec.containers[0].resources"
_LAUNCHER = "spec.mpiReplicaSpecs.Launcher.template.spec.resources"
_WORKER = "spec.mpiReplicaSpecs.Worker.template.spec"
_ANNOTATIONS = "spec.template.metadata.annotations"

CASES = (
    Case(
        "kai-918-pods-without-group",
        "--facts queues.yaml all.yaml",
        frozenset({("groups/no-pods", "metadata.name"), ("keys/unknown", _LABEL)}),
    ),
    Case(
        "schedplugins-358-deployment",
        "all.yaml",
        frozenset({("groups/no-pods", "metadata.name"), ("groups/unread-key", _KOORD_LABEL)}),
    ),
    Case("schedplugins-358-deployment", "newlabel.yaml", frozenset({("coscheduling/group-pods", "spec.minMember")})),
    Case(
        "mpi-468-unknown-fields",
        "job.yaml",
        frozenset(
            {
                ("fields/unknown", "spec.template.spec.resources.cpu"),
                ("fields/unknown", "spec.template.spec.resources.memory"),
                ("resources/quantity", f"{_CONTAINER}.requests.cpu"),
                ("resources/quantity", f"{_CONTAINER}.requests.memory"),
                ("resources/request", f"{_CONTAINER}.limits[nvidia.com/gpu]"),
            }
        ),
    ),
    Case(
        "mpi-468-unknown-fields",
        "--facts q.yaml mpijob.yaml",
        frozenset(
            {
                ("fields/unknown", f"{_LAUNCHER}.cpu"),
                ("fields/unknown", f"{_LAUNCHER}.memory"),
                ("resources/request", f"{_WORKER}.resources.limits[nvidia.com/gpu]"),
                ("resources/quantity", f"{_WORKER}.containers[0].resources.requests.cpu"),
            }
        ),
    ),
    Case(
        "kueue-9361-required-and-preferred",
        "--facts facts.yaml job.yaml",
        frozenset(
            {
                ("kueue/topology-keys", f"{_ANNOTATIONS}[kueue.x-k8s.io/podset-preferred-topology]"),
                ("kueue/topology-keys", f"{_ANNOTATIONS}[kueue.x-k8s.io/podset-slice-size]"),
            }
        ),
    ),
    Case(
        "peers",
        "--config config-volcano.yaml --facts vq.yaml volcano-podgroup-two-tiers.yaml",
        frozenset({("volcano/group-two-tiers", "spec.networkTopology.highestTierName")}),
    ),
    Case(
        "peers",
        "--config config-kai.yaml --facts facts.yaml kai-jobset-as-podgroup.yaml",
        frozenset({("kai/group-optional", "spec.minSubGroup")}),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_published_case_has_its_findings(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    parsed = report(rollcall, monkeypatch, case)
    assert case.findings <= findings(parsed)


def test_each_object_that_no_release_serves_is_said(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = report(rollcall, monkeypatch, Case("mpi-284-old-versions", "--facts queue.yaml all.yaml"))
    said = {one["object"]["name"]: one["rule"] for one in parsed["findings"] if one["rule"].startswith("kinds/")}
    assert said.pop("ptj") == "kinds/unknown"
    assert set(said.values()) == {"kinds/version"}
    # KubeRay still serves the one, and the training operator the other.
    assert said.keys() == {
        "mpi-old", "lws-old", "js-old", "pgs", "pg-old", "pg-v1a1", "q-old", "tj-old", "spark-old", "koord-v1", "vj"
    }  # fmt: skip
