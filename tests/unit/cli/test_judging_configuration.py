"""Which configuration judges manifests: the given file, $ROLLCALL_CONFIG, or a rollcall.yaml above."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

WITH_KOORDINATOR = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler}]}
enforcement: {rules: {koordinator/mnnvl: warn}}
"""
WITH_VOLCANO = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: volcano, profiles: [{name: volcano}]}
"""
POD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": []}}'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a configuration; the working directory is two folders below it."""
    monkeypatch.delenv("ROLLCALL_CONFIG", raising=False)
    found = tmp_path / "project"
    (found / ".git").mkdir(parents=True)
    (found / "rollcall.yaml").write_text(WITH_KOORDINATOR)
    (found / "deploy" / "prod").mkdir(parents=True)
    monkeypatch.chdir(found / "deploy" / "prod")
    return found


@pytest.mark.parametrize("command", ["check", "explain", "render", "rules"])
def test_the_nearest_file_above_is_used_and_named(rollcall: Run, project: Path, command: str) -> None:
    said = rollcall(command, *([] if command == "rules" else ["-"]), stdin=POD).err
    assert said.splitlines()[0] == "rollcall: configuration ../../rollcall.yaml"
    (project / "deploy" / "rollcall.yaml").write_text(WITH_VOLCANO)
    said = rollcall(command, *([] if command == "rules" else ["-"]), stdin=POD).err
    assert said.splitlines()[0] == "rollcall: configuration ../rollcall.yaml"


def test_the_search_ends_at_the_top_of_the_repository(rollcall: Run, project: Path) -> None:
    (project / "rollcall.yaml").rename(project.parent / "rollcall.yaml")
    assert rollcall("check", "-", stdin=POD).err == ""


def test_a_user_without_a_home_folder_can_check(rollcall: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "rollcall.yaml").unlink()
    monkeypatch.delenv("HOME")
    # No user has this number.
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_001)
    assert rollcall("check", "-", stdin=POD)[::2] == (0, "")


def test_the_variable_has_precedence_over_a_file_above(
    rollcall: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLCALL_CONFIG", str(project / "other.yaml"))
    (project / "other.yaml").write_text(WITH_VOLCANO)
    ran = rollcall("rules", "-o", "json", "volcano/queue")
    assert ran.err == f"rollcall: configuration {project}/other.yaml, from $ROLLCALL_CONFIG\n"
    assert json.loads(ran.out)[0]["actions"] == {"volcano": "deny"}


def test_a_given_file_has_precedence_and_is_not_named_again(
    rollcall: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLCALL_CONFIG", "/missing.yaml")
    (project / "other.yaml").write_text(WITH_VOLCANO)
    assert rollcall("check", "--config", str(project / "other.yaml"), "-", stdin=POD).err == ""


@pytest.mark.usefixtures("project")
def test_none_is_no_file(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rollcall("check", "--config", "none", "-", stdin=POD).err == ""
    monkeypatch.setenv("ROLLCALL_CONFIG", "none")
    assert rollcall("check", "-", stdin=POD).err == "rollcall: configuration none, from $ROLLCALL_CONFIG\n"


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("command", [["check", "-"], ["explain", "-"], ["render", "-"], ["rules"]])
def test_a_pull_request_cannot_choose_the_configuration_where_it_is_required(
    rollcall: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLCALL_CONFIG", "rollcall.yaml")
    monkeypatch.setenv("COLUMNS", "200")
    ran = rollcall("--require-config", *command, stdin=POD)
    assert ran.code == 2
    assert "or --config none" in ran.err
    assert rollcall("--require-config", "check", "--config", "none", "-", stdin=POD).code == 0


@pytest.mark.usefixtures("project")
def test_a_command_that_writes_an_installation_searches_nothing(rollcall: Run) -> None:
    ran = rollcall("manifests", "rbac")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.usefixtures("project")
def test_rules_are_listed_with_their_actions_in_the_configuration(rollcall: Run) -> None:
    found = {line.split()[0]: line.split()[1] for line in rollcall("rules").out.splitlines()}
    assert found["koordinator/mnnvl"] == "warn"
    assert found["grove/shape"] == "deny"
    # What Volcano refuses of its own Jobs is so under every scheduler.
    of_volcano = {rule for rule in found if rule.startswith("volcano/")}
    assert of_volcano == {"volcano/job-minimum", "volcano/job-shape"}
    assert rollcall("rules", "volcano/queue").out.splitlines()[1].endswith(" is not enabled")


@pytest.mark.usefixtures("project")
def test_the_reference_of_the_rules_reads_no_configuration(rollcall: Run) -> None:
    ran = rollcall("rules", "-o", "markdown", "volcano/queue")
    assert ran.err == ""
    assert "## volcano/queue" in ran.out


@pytest.mark.usefixtures("project")
def test_an_explanation_as_json_names_the_configuration(rollcall: Run) -> None:
    manifest = json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "one", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}},
            "spec": {"template": {"spec": {"containers": [], "restartPolicy": "Never"}}},
        }
    )
    assert json.loads(rollcall("explain", "-o", "json", "-", stdin=manifest).out)["configuration"] == (
        "../../rollcall.yaml"
    )
