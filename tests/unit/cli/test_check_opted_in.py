"""`rollcall check` of TrainJob, JobSet, LeaderWorkerSet and Job: expectations by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import FINE
from tests.unit.cli.conftest import Run
from tests.unit.cli.opted_in_manifests import (
    EXCLUSIVE,
    GROUPS,
    JOB,
    JOB_POD,
    JOB_SET,
    KOORD,
    NAMESPACE,
    NOT_OPTED_IN,
    RUNTIME,
    TRAIN_JOB,
)


def test_workloads_that_are_not_opted_in_are_not_judged_and_fail_a_strict_check(rollcall: Run) -> None:
    three = f"{JOB}---\n{JOB_SET}---\n{GROUPS}"
    assert rollcall("check", "-", stdin=three).code == 0
    ran = rollcall("check", "--strict", "-", stdin=three)
    assert (ran.code, ran.err) == (1, "")
    *objects, why, do, judged = ran.out.splitlines()
    assert [line.partition(": not judged: ")[2] for line in objects] == [
        "Job default/demo",
        "JobSet default/demo",
        "LeaderWorkerSet default/demo",
    ]
    assert why.startswith(f"    why    {NOT_OPTED_IN}")
    assert "rollcall.dev/scheduler: NAME" in do
    assert judged == "nothing judged: 0 errors, 3 objects not judged"


def test_a_job_that_opted_out_is_judged_as_no_gang(rollcall: Run, tmp_path: Path) -> None:
    config = tmp_path / "rollcall.yaml"
    config.write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler: {optOut: true, profiles: [{name: koord-scheduler}]}\n"
    )
    label = "metadata.labels[rollcall.dev/scheduler]"
    out = JOB.replace("name: demo", "name: out, labels: {rollcall.dev/scheduler: none}", 1)
    told = rollcall("check", "--config", str(config), "-", stdin=out).out.splitlines()[-1]
    assert told == f"1 Job judged as no gang ({label}): 0 errors"
    chosen = JOB.replace("name: demo", "name: in, labels: {rollcall.dev/scheduler: koord-scheduler}", 1)
    told = rollcall("check", "--config", str(config), "-", stdin=f"{out}---\n{chosen}").out.splitlines()[-1]
    assert told == f"2 Jobs judged for koord-scheduler ({label}): 0 errors"


def test_a_job_with_a_generated_name_is_judged(rollcall: Run) -> None:
    job = JOB.replace("name: demo", "generateName: demo-", 1)
    ran = rollcall("check", *KOORD, "--strict", "-", stdin=job)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "1 Job judged for koord-scheduler (--scheduler): 0 errors")


def test_a_job_that_names_its_gang_gets_no_advice(rollcall: Run) -> None:
    job = JOB.replace("template: {spec: {", "template: {spec: {schedulingGroup: {podGroupName: mine}, ")
    report = json.loads(rollcall("check", "-o", "json", "-", stdin=job).out)
    assert report["reasons"] == {"group-missing": 1}
    # Whether the group is there, the file does not say.
    assert (report["findings"], [one["rule"] for one in report["notJudged"]]) == ([], ["groups/missing"])
    # Nor does it vanish beside what is judged.
    report = json.loads(rollcall("check", "-o", "json", "-", stdin=f"{job}---\n{FINE}").out)
    assert (report["reasons"], report["judged"], report["ignored"]) == ({"group-missing": 1}, 1, 0)


def test_the_label_of_a_namespace_in_another_file_opts_in(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(JOB.replace("completions: 2", "completions: 5"))
    (tmp_path / "b.yaml").write_text(NAMESPACE)
    ran = rollcall("check", str(tmp_path))
    assert ran.code == 1
    assert f"{tmp_path}/a.yaml:7:3: error owner/completions" in ran.out
    assert "field  spec.completions" in ran.out


def test_the_runtime_of_a_train_job_can_be_in_another_file(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TRAIN_JOB)
    (tmp_path / "runtime.yaml").write_text(RUNTIME)
    ran = rollcall("check", *KOORD, "--strict", str(tmp_path))
    told = "1 TrainJob judged for koord-scheduler (--scheduler): 0 errors, 1 ignored"
    assert (ran.code, ran.out.splitlines()[-1]) == (0, told)
    # Trainer copies no label of a TrainJob.
    assert "rollcall.dev/scheduler: koord-scheduler of Namespace default" in ran.out


@pytest.mark.parametrize("others", ["", f"---\n{RUNTIME.replace('name: torch}', 'name: jax}')}"], ids=["none", "other"])
def test_a_runtime_that_is_not_among_the_files_leaves_its_train_job_unjudged(rollcall: Run, others: str) -> None:
    report = rollcall("check", *KOORD, "-", stdin=TRAIN_JOB + others).out
    assert re.search("^<stdin>:5:16: not judged owner/runtime: .* torch unknown$", report, re.MULTILINE)
    assert [rollcall("check", *KOORD, *strict, "-", stdin=TRAIN_JOB).code for strict in ([], ["--strict"])] == [0, 1]


def test_a_runtime_that_the_facts_do_not_have_is_missing(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text(RUNTIME.replace("name: torch}", "name: jax}"))
    ran = rollcall("check", *KOORD, "--facts", str(tmp_path), "-", stdin=TRAIN_JOB)
    assert ran.code == 0
    assert "<stdin>:5:16: warning owner/runtime\n" in ran.out
    assert "why    this ClusterTrainingRuntime does not exist" in ran.out


def test_a_fault_of_a_runtime_is_reported_where_it_is_referenced(rollcall: Run) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{TRAIN_JOB}---\n{EXCLUSIVE}")
    assert ran.code == 1
    assert "<stdin>:5:16: error owner/exclusive-topology\n" in ran.out
    assert "    object TrainJob default/demo\n    field  spec.runtimeRef.name\n" in ran.out
    place = "spec.template.metadata.annotations[alpha.jobset.sigs.k8s.io/exclusive-topology]"
    assert f"why    ClusterTrainingRuntime torch, {place}: JobSet creates the other 2 pods " in ran.out


def test_the_enforcement_of_a_namespace_applies_to_pod_templates(rollcall: Run) -> None:
    # A quota that differs from the record is the rules' about pods.
    faulty = JOB.replace("{spec: {", "{metadata: {labels: {koordinator.sh/qosClass: BEST}}, spec: {")
    assert rollcall("check", *KOORD, "-", stdin=faulty).code == 1
    lenient = NAMESPACE.replace("rollcall.dev/scheduler: koord-scheduler", "rollcall.dev/enforcement: warn")
    ran = rollcall("check", *KOORD, "-", stdin=f"{faulty}---\n{lenient}")
    assert (ran.code, ": warning koordinator/qos-class" in ran.out) == (0, True)


def test_the_job_set_of_a_pod_can_be_in_another_file(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(JOB_POD)
    missing = rollcall("render", *KOORD, str(tmp_path), "-o", "json")
    assert json.loads(missing.out)["items"][0]["spec"].get("schedulerName") is None
    (tmp_path / "b.yaml").write_text(JOB_SET)
    (tmp_path / "c.yaml").write_text(NAMESPACE)
    pod = json.loads(rollcall("render", str(tmp_path), "-o", "json").out)["items"][0]
    assert pod["spec"]["schedulerName"] == "koord-scheduler"
    assert pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] == "demo-worker"


# Each: what is wrong, and where it is found. A TrainJob is broken with and without its runtime in the file.
WRONG = [
    (JOB.replace("parallelism: 2", 'parallelism: "4"'), "6:3", "spec.parallelism"),
    (JOB.replace("template: {spec: {", "template: {metadata: [], spec: {"), "8:14", "spec.template.metadata"),
    (JOB.replace("[{name: main, image: example.com/main}]", "{}"), "8:21", "spec.template.spec.containers"),
    (JOB.replace("  completionMode", '  suspend: "yes"\n  completionMode'), "5:3", "spec.suspend"),
    (JOB.replace("metadata: {name: demo}", "metadata: {name: [demo]}"), "3:12", "metadata.name"),
    ("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: {}}\n", "3:8", "spec.replicatedJobs"),
    ("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: [null]}\n", "3:25", "[0]"),
    (JOB_SET.replace("replicas: 2", "replicas: true"), "9:5", "spec.replicatedJobs[1].replicas"),
    (JOB_SET.replace("replicas: 2", "dependsOn: leader"), "9:5", "spec.replicatedJobs[1].dependsOn"),
    (JOB_SET.replace("spec:\n", "spec:\n  startupPolicy: {startupPolicyOrder: [InOrder]}\n", 1), "5:19", "Order"),
    (GROUPS.replace("size: 4", "size: four"), "6:26", "spec.leaderWorkerTemplate.size"),
    (GROUPS.replace("replicas: 3", "replicas: {}"), "5:3", "spec.replicas"),
    (TRAIN_JOB.replace("{name: torch}", "[torch]"), "5:3", "spec.runtimeRef"),
    (TRAIN_JOB.replace("numNodes: 3", "numNodes: three"), "6:13", "spec.trainer.numNodes"),
    (TRAIN_JOB + "  runtimePatches: {}\n", "7:3", "spec.runtimePatches"),
    (TRAIN_JOB.replace("name: demo", "name: demo, labels: {rollcall.dev/scheduler: 3}"), "3:33", "scheduler]"),
]


@pytest.mark.parametrize(("manifest", "place", "field"), WRONG, ids=[f"{row[2]}-{row[1]}" for row in WRONG])
def test_a_field_of_the_wrong_type_is_reported_with_its_position(
    rollcall: Run, manifest: str, place: str, field: str
) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (ran.code, ran.err) == (1, "")
    assert f"<stdin>:{place}: error owner/shape\n" in ran.out
    (shown,) = [line for line in ran.out.splitlines() if line.startswith("    field  ")]
    assert shown.endswith(field)
    rendered = rollcall("render", *KOORD, "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (rendered.code, rendered.out, "Traceback" in rendered.err) == (1, "", False)
    explained = rollcall("explain", "-", stdin=f"{manifest}---\n{RUNTIME}")
    assert (explained.code, "owner/shape" in explained.out) == (1, True)


@pytest.mark.parametrize(
    "wrong",
    [
        RUNTIME.replace("      replicatedJobs:", "      replicatedJobs: [null]\n      was:"),
        RUNTIME.replace("mlPolicy: {numNodes: 1, torch: {}}", "mlPolicy: []"),
        RUNTIME.replace("mlPolicy: {numNodes: 1, torch: {}}", "podGroupPolicy: volcano"),
        RUNTIME.replace("name: node\n", "name: [node]\n"),
    ],
)
def test_a_malformed_runtime_is_reported_with_its_position(rollcall: Run, wrong: str) -> None:
    for command in ("check", "render", "explain"):
        ran = rollcall(command, *KOORD, "-", stdin=f"{TRAIN_JOB}---\n{wrong}")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("rollcall: <stdin>:8:1: ClusterTrainingRuntime: ")


def test_a_runtime_without_a_spec_is_read(rollcall: Run) -> None:
    ran = rollcall("check", *KOORD, "-", stdin=f"{TRAIN_JOB}---\n{RUNTIME.partition('spec:')[0]}")
    assert (ran.code, ran.err) == (0, "")
