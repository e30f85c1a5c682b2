"""What chooses the scheduler is named truly, and nothing that was not judged, or makes no gang, looks fine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import FINE
from tests.unit.cli.conftest import Run, without_prose
from tests.unit.cli.opted_in_manifests import TRAIN_JOB
from tests.unit.worlds import request
from webhook import admission
from webhook.config.defaults import default_settings
from webhook.model.facts import NO_FACTS
from webhook.offline.manifests import NO_MANIFEST
from webhook.validators.examples import pod_clique_set

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node, image: example.com/node}]}}}}
"""
ALONE = f"""\
{RUNTIME}---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: train, namespace: team-a, labels: {{rollcall.dev/scheduler: koord-scheduler}}}}
spec: {{runtimeRef: {{name: torch}}, trainer: {{numNodes: 2}}}}
"""
NAMESPACE = (
    "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {rollcall.dev/scheduler: volcano}}\n"
)
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: demo, labels: {rollcall.dev/scheduler: volcano}}
spec:
  parallelism: 2
  completions: 2
  template: {spec: {restartPolicy: Never, schedulerName: volcano, containers: [{name: main, image: example.com/main}]}}
"""
KAI = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: kai-scheduler, profiles: [{name: kai-scheduler}]}
"""


def test_a_train_job_whose_namespace_is_unknown_is_not_judged(rollcall: Run) -> None:
    ran = rollcall("check", "--strict", "-", stdin=ALONE)
    assert ran.code == 1
    assert "`kubectl get Namespace team-a -o yaml` with --facts\n" in ran.out
    assert without_prose(ran.out) == [
        "<stdin>:13:53: not judged owner/train-job-alone: the labels of Namespace team-a unknown",
        "    field  metadata.labels[rollcall.dev/scheduler]",
        "1 TrainJob judged for koord-scheduler (metadata.labels[rollcall.dev/scheduler]): 0 errors, 1 check not "
        "judged, 1 ignored",
    ]
    explained = json.loads(rollcall("explain", "-o", "json", "-", stdin=ALONE).out)["workloads"][0]
    assert explained["answer"] == "unknown"
    rendered = rollcall("render", "-", stdin=ALONE)
    assert "owner/train-job-alone at metadata.labels[rollcall.dev/scheduler]: " in rendered.err
    assert "[rollcall.dev/scheduler]: not judged: " in rendered.err


def test_a_train_job_in_a_labelled_namespace_is_judged(rollcall: Run) -> None:
    ran = rollcall("check", "--strict", "-", stdin=ALONE + NAMESPACE)
    by = "metadata.labels[rollcall.dev/scheduler]"
    assert (ran.code, ran.out) == (0, f"1 TrainJob judged for koord-scheduler ({by}): 0 errors, 2 ignored\n")


def test_a_train_job_that_is_judged_as_if_it_were_opted_in_needs_no_namespace(rollcall: Run) -> None:
    ran = rollcall("check", "--strict", "--scheduler", "koord-scheduler", "-", stdin=ALONE)
    assert (ran.code, ran.out) == (0, "1 TrainJob judged for koord-scheduler (--scheduler): 0 errors, 1 ignored\n")


def test_default_scheduler_without_gangs_is_a_warning_in_every_command(rollcall: Run) -> None:
    ran = rollcall("check", "-", stdin=FINE)
    assert ran.code == 0
    assert without_prose(ran.out) == [
        "<stdin>:6:1: warning kube/no-gang",
        "    object PodCliqueSet default/demo",
        "    field  spec",
        '    found  "default-scheduler"',
        "1 PodCliqueSet judged for default-scheduler (default): 0 errors, 1 warning",
    ]
    why = next(line.removeprefix("    why    ") for line in ran.out.splitlines() if line.startswith("    why "))
    assert why.startswith("gangScheduling is off in ")
    assert f"            why  {why}\n" in rollcall("explain", "-", stdin=FINE).out
    assert "# no gangs for default-scheduler: " in rollcall("render", "-", stdin=FINE).out


def test_the_webhook_warns_of_a_missing_gang_only_at_creation() -> None:
    settings, manifest = default_settings(), pod_clique_set(labels={"rollcall.dev/scheduler": "default-scheduler"})
    created = admission.validate(request(manifest), NO_FACTS, settings)
    assert [(warning.rule, str(warning.at), warning.value) for warning in created.warnings] == [
        ("kube/no-gang", "metadata.labels[rollcall.dev/scheduler]", "default-scheduler")
    ]
    assert created.warnings[0].why.startswith("gangScheduling is off in ")
    assert len(str(created.warnings[0]).encode()) < 256
    assert admission.validate(request(manifest, manifest), NO_FACTS, settings).warnings == ()


@pytest.mark.parametrize("command", ["check", "explain", "render"])
@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n---\n"])
def test_standard_input_without_a_manifest_is_an_error(rollcall: Run, command: str, text: str) -> None:
    ran = rollcall(command, "-", stdin=text)
    assert (ran.code, ran.err) == (2, f"rollcall: <stdin>: {NO_MANIFEST}\n")


def test_a_file_or_folder_without_a_manifest_is_an_error(rollcall: Run, tmp_path: Path) -> None:
    folder, empty, comment, fine = (tmp_path / name for name in ("folder", "empty.yaml", "comment.yaml", "fine.yaml"))
    folder.mkdir()
    (folder / "values.yaml").write_text("# nothing\n")
    empty.write_text("")
    comment.write_text("# nothing here today\n")
    fine.write_text(FINE)
    err = rollcall("check", str(folder), str(fine)).err
    assert err.startswith(f"rollcall: {folder}: has no manifest: ")
    assert ": its files " in err
    assert rollcall("check", str(empty), str(fine)).code == 2
    assert rollcall("check", str(comment)).code == 2
    # A template may produce only comments.
    assert rollcall("check", str(comment), str(fine)).code == 0


def test_the_scheduler_of_the_caller_must_be_a_profile_of_the_configuration(rollcall: Run, tmp_path: Path) -> None:
    (tmp_path / "kai.yaml").write_text(KAI)
    for command in ("check", "explain", "render"):
        arguments = ("--config", str(tmp_path / "kai.yaml"), "--scheduler", "koord-scheduler", "-")
        ran = rollcall(command, *arguments, stdin=FINE)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith('rollcall: command line: --scheduler: "koord-scheduler": ')
        assert ran.err.endswith(" (allowed: kai-scheduler, default-scheduler)\n")


def test_the_scheduler_of_the_caller_stands_for_the_label_and_overrides_it_with_a_note(rollcall: Run) -> None:
    option = ("--scheduler", "koord-scheduler")
    label = "metadata.labels[rollcall.dev/scheduler]"
    stands = "--scheduler koord-scheduler stands for the label rollcall.dev/scheduler: koord-scheduler of the Job"
    alone = JOB.replace("schedulerName: volcano, ", "")
    note = f'{stands}, and overrides {label}, which says "volcano"'
    ran = rollcall("check", *option, "-", stdin=alone)
    told = "1 Job judged for koord-scheduler (--scheduler): 0 errors"
    assert (ran.code, ran.out) == (0, f"<stdin>:1:1: note: {note}\n{told}\n")
    explained = rollcall("explain", *option, "-", stdin=alone)
    assert explained.out.splitlines()[1:3] == ["    scheduler koord-scheduler, by --scheduler", f"    {note}"]
    rendered = rollcall("render", *option, "-", stdin=alone)
    assert rendered.err == f"rollcall: <stdin>:1:1: {note}\n"
    assert "schedulerName: koord-scheduler" in rendered.out
    assert "volcano" not in rendered.out


def test_what_the_pods_name_counts_as_it_would_beside_the_label(rollcall: Run) -> None:
    ran = rollcall("check", "--scheduler", "koord-scheduler", "-o", "json", "-", stdin=JOB)
    labelled = rollcall(
        "check", "-o", "json", "-", stdin=JOB.replace("dev/scheduler: volcano", "dev/scheduler: koord-scheduler")
    )
    assert (
        _rules(ran.out)
        == _rules(labelled.out)
        == [("owner/scheduler-name", "spec.template.spec.schedulerName", "deny")]
    )
    assert rollcall("render", "--scheduler", "koord-scheduler", "-", stdin=JOB).code == 1


def _rules(report: str) -> list[tuple[str, str, str]]:
    return [(one["rule"], one["field"], one["action"]) for one in json.loads(report)["findings"]]


def test_a_finding_names_the_field_that_chose_the_scheduler(rollcall: Run) -> None:
    named = FINE.replace("        podSpec:\n", "        podSpec:\n          schedulerName: slurm\n", 1)
    (found,) = json.loads(rollcall("check", "-o", "json", "-", stdin=named).out)["findings"]
    assert (found["rule"], found["field"]) == (
        "rollcall/scheduler-unknown",
        "spec.template.cliques[0].spec.podSpec.schedulerName",
    )
    assert "did you mean" not in found["remedy"]
    near = named.replace("slurm", "koordscheduler")
    (found,) = json.loads(rollcall("check", "-o", "json", "-", stdin=near).out)["findings"]
    assert "; did you mean koord-scheduler or " in found["remedy"]
    explained = json.loads(rollcall("explain", "-o", "json", "-", stdin=TRAIN_JOB).out)["workloads"][0]
    assert explained["chosenBy"] is None
