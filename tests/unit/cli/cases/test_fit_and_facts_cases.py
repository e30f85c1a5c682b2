"""Published bug reports about what a gang can never fit, and about facts among the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.cli.cases.published_cases import FOLDER, Case, findings, needs_cases, report
from tests.unit.cli.conftest import Run

LABEL = "metadata.labels"
CASES = (
    Case("aks-1449-gpu-taint", "--facts nodes-dedicated.yaml job.yaml", frozenset({("fit/node", "spec.template")})),
    Case("volcano-2814-two-gpus", "--facts nodes.yaml job.yaml", frozenset({("fit/node", "spec.tasks[0].template")})),
    Case("volcano-2814-two-gpus", "nodes.yaml job.yaml", frozenset({("fit/node", "spec.tasks[0].template")})),
    Case(
        "trainer-2980-resources-per-node",
        "--facts nodes.yaml ns.yaml tj.yaml",
        frozenset({("fit/total", "spec.runtimeRef.name")}),
    ),
    Case(
        "kai-1369-non-preemptible",
        "--facts q2.yaml build.yaml",
        frozenset({("fit/queue", f"{LABEL}[kai.scheduler/queue]")}),
    ),
    Case(
        "kai-1369-non-preemptible",
        "--facts q.yaml job.yaml",
        frozenset({("fit/queue", f"{LABEL}[kai.scheduler/queue]")}),
    ),
    *(
        Case(
            "kueue-2796-quota-too-small",
            f"--facts facts.yaml {name}",
            frozenset({("fit/queue", f"{LABEL}[kueue.x-k8s.io/queue-name]")}),
        )
        for name in ("job.yaml", "pytorchjob.yaml")
    ),
    *(
        Case(
            "koord-1100-parent-quota",
            f"--config config.yaml {arguments}",
            frozenset({("koordinator/namespace-quota", f"{LABEL}[quota.scheduling.koordinator.sh/name]")}),
        )
        for arguments in ("--facts all.yaml all.yaml", "all.yaml")
    ),
    Case(
        "koord-1100-parent-quota",
        "named.yaml",
        frozenset({("koordinator/owner-quota", f"{LABEL}[quota.scheduling.koordinator.sh/name]")}),
    ),
)


@needs_cases
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_published_case_is_found(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    assert case.findings <= findings(report(rollcall, monkeypatch, case))


@needs_cases
def test_objects_of_two_folders_are_judged_with_those_of_their_own_in_any_order(
    rollcall: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = [report(rollcall, monkeypatch, Case("dup-objects", order)) for order in ("a b", "b a")]
    alone = report(rollcall, monkeypatch, Case("dup-objects", "a"))
    assert [findings(one) for one in reports] == [findings(alone)] * 2
    for one in reports:
        said = " ".join(note["message"] for note in one["notes"])
        assert "a/q.yaml:6:1" in said
        assert "b/q.yaml:6:1" in said


class Fit(NamedTuple):
    """Arguments of `rollcall fit`, run in a folder of the published cases, and what it should say of the first gang."""

    folder: str
    arguments: str
    verdict: str
    """The verdict, or `none` for a workload of which no gang is judged."""
    says: tuple[str, ...] = ()
    """What the proof, the assumptions or the note must have: names and amounts."""


FITS = (
    Fit("aks-1449-gpu-taint", "--facts nodes.yaml job.yaml", "fits", ("ExtendedResourceToleration", "nvidia.com/gpu")),
    Fit("aks-1449-gpu-taint", "--facts nodes-dedicated.yaml job.yaml", "never", ("dedicated=gpu:NoSchedule",)),
    Fit("volcano-2814-two-gpus", "--facts nodes.yaml job.yaml", "never", ("2 nvidia.com/gpu",)),
    Fit("volcano-2814-two-gpus", "--facts nodes.yaml plain-job.yaml", "never", ("2 nvidia.com/gpu",)),
    Fit("trainer-2980-resources-per-node", "--facts nodes.yaml ns.yaml tj.yaml", "never", ("8 nvidia.com/gpu",)),
    Fit("kai-1369-non-preemptible", "--facts q.yaml job.yaml", "never", ("2 nvidia.com/gpu", "1 nvidia.com/gpu")),
    Fit("kai-1369-non-preemptible", "--facts q2.yaml build.yaml", "never", ("2 nvidia.com/gpu", "1 nvidia.com/gpu")),
    Fit("kueue-2796-quota-too-small", "--facts facts.yaml job.yaml", "never", ("32 nvidia.com/gpu", "16")),
    Fit("kueue-2796-quota-too-small", "--facts facts.yaml pytorchjob.yaml", "never", ("24 nvidia.com/gpu", "16")),
    Fit("volcano-3910-spark-autoscaler", "--facts facts.yaml spark.yaml", "unknown", ()),
)


@needs_cases
@pytest.mark.parametrize("case", FITS, ids=lambda case: f"{case.folder} {case.arguments}")
def test_the_fit_of_a_published_case(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Fit) -> None:
    monkeypatch.chdir(Path(FOLDER or "", case.folder))
    found: dict[str, Any] = json.loads(rollcall("fit", "-o", "json", *case.arguments.split()).out)
    gangs, notes = found["gangs"], [note["message"] for note in found["notes"]]
    assert (gangs[0]["verdict"] if gangs else "none") == case.verdict
    said = [*notes, *(f"{one['witness'] and one['witness']['why']} {one['assumptions']}" for one in gangs)]
    assert all(word in " ".join(said) for word in case.says), said


def test_the_cluster_of_the_readme_among_the_files_counts_and_not_the_facts(rollcall: Run) -> None:
    cluster, gang = "manifests/fit/cluster.yaml", "manifests/fit/large.yaml"
    for order in ((cluster, gang), (gang, cluster)):
        ran = rollcall("fit", "--facts", "manifests/facts", "-o", "json", *order)
        found = json.loads(ran.out)
        assert (ran.code, found["gangs"][0]["verdict"]) == (1, "never")
        assert any("manifests/facts/cluster.yaml" in note["message"] for note in found["notes"])
    judged = json.loads(rollcall("check", "--facts", "manifests/facts", "-o", "json", cluster, gang).out)
    assert ("fit/topology", "spec.template") in findings(judged)
