"""`rollcall config init`, `config show` and `config schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.cli.test_doctor import Reads, cluster, passes
from webhook.backends.registry import installed_backends

__all__ = ["cluster"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no configuration above it."""
    monkeypatch.delenv("ROLLCALL_CONFIG", raising=False)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_configuration_and_its_schema_are_written(rollcall: Run, folder: Path) -> None:
    ran = rollcall("config", "init", "--scheduler", "kai-scheduler", "--scheduler", "default-scheduler")
    assert ran == (0, "wrote rollcall.yaml\nwrote .rollcall.schema.json\n", "")
    assert (
        (folder / "rollcall.yaml").read_text()
        == """\
# yaml-language-server: $schema=.rollcall.schema.json
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  # The scheduler of a workload that names none, in a namespace that names none.
  defaultProfileName: kai-scheduler
  # The enabled schedulers; default-scheduler is always enabled.
  profiles:
  - name: kai-scheduler
    config:
      # defaultQueue:
      queueLabelKey: kai.scheduler/queue
      nodePoolLabelKey: kai.scheduler/node-pool
  - name: default-scheduler
    config:
      gangScheduling: false
      flat: merge
      apiGeneration: auto
      hierarchical: auto
      # schedulerGates:
      disruptionMode: auto
enforcement:
  # The strictest action that any rule may take: deny, warn, audit or "off".
  mode: deny
  # Single rules by id, such as koordinator/mnnvl: warn.
  rules: {}
"""
    )
    assert (folder / ".rollcall.schema.json").read_text() == rollcall("config", "schema").out


@pytest.mark.parametrize("scheduler", installed_backends())
def test_the_configuration_of_each_scheduler_is_valid_and_found(rollcall: Run, folder: Path, scheduler: str) -> None:
    assert folder.is_dir()
    assert rollcall("config", "init", "--scheduler", scheduler).code == 0
    checked = rollcall("config", "check", "rollcall.yaml")
    assert checked.code == 0
    assert f"profile {scheduler} (default)" in checked.out
    assert rollcall("config", "show") == (0, checked.out, "rollcall: configuration rollcall.yaml\n")


def test_an_existing_file_is_replaced_only_by_force(rollcall: Run, folder: Path) -> None:
    (folder / "rollcall.yaml").write_text("mine\n")
    ran = rollcall("config", "init", "--scheduler", "volcano")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: rollcall.yaml: exists; --force ")
    assert not (folder / ".rollcall.schema.json").exists()
    assert rollcall("config", "init", "--scheduler", "volcano", "--force").code == 0
    assert "volcano" in (folder / "rollcall.yaml").read_text()
    ran = rollcall("config", "init", "--scheduler", "volcano", "--out", "missing/rollcall.yaml")
    assert ran == (2, "", "rollcall: missing/rollcall.yaml: cannot be written: No such file or directory\n")


def test_a_second_configuration_in_a_folder_shares_its_schema(rollcall: Run, folder: Path) -> None:
    assert rollcall("config", "init", "--scheduler", "volcano").code == 0
    assert rollcall("config", "init", "--scheduler", "kai-scheduler", "--out", "kai.yaml").code == 0
    (folder / ".rollcall.schema.json").write_text("{}\n")
    ran = rollcall("config", "init", "--scheduler", "volcano", "--out", "third.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("rollcall: .rollcall.schema.json: exists; --force ")


def test_a_folder_cannot_be_written_as_a_configuration(rollcall: Run, folder: Path) -> None:
    (folder / "conf").mkdir()
    ran = rollcall("config", "init", "--scheduler", "volcano", "--out", "conf")
    assert ran == (2, "", "rollcall: conf: cannot be written: Is a directory\n")


@pytest.mark.usefixtures("folder")
def test_the_kubeconfig_is_for_the_installed_configuration(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    ran = rollcall("config", "show", "--context", "prod")
    assert ran.code == 2
    assert "need --installed" in ran.err


@pytest.mark.usefixtures("folder")
def test_the_beginning_of_a_scheduler_is_enough_to_name_it(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert "); did you mean kai-scheduler?" in rollcall("config", "init", "--scheduler", "kai").err


def test_a_configuration_shows_who_may_opt_out(rollcall: Run, folder: Path) -> None:
    (folder / "rollcall.yaml").write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\nscheduler: {optOut: true}\n"
        "namespaces: {team-a: {optOut: false}}\ngrove: {generation: legacy}\n"
    )
    shown = rollcall("config", "show").out
    assert "namespace team-a: scheduler unset, enforcement unset, optOut false\nscheduler\n  optOut: true\n" in shown
    assert "grove\n  generation: legacy\n" in shown


@pytest.mark.usefixtures("folder")
def test_a_misspelt_scheduler_is_refused_with_the_likely_name(rollcall: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    ran = rollcall("config", "init", "--scheduler", "volcanno")
    assert ran.code == 2
    assert "--scheduler volcanno: is not a scheduler" in ran.err
    assert " (allowed: default-scheduler, " in ran.err
    assert "); did you mean volcano?" in ran.err


@pytest.mark.usefixtures("folder")
def test_without_a_file_the_defaults_are_shown(rollcall: Run) -> None:
    ran = rollcall("config", "show")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("profile default-scheduler (default)\n")


def test_the_installed_configuration_is_shown(rollcall: Run, cluster: Reads) -> None:
    cluster(passes())
    ran = rollcall("config", "show", "--installed")
    assert (ran.code, ran.err) == (0, "")
    assert "profile koord-scheduler" in ran.out
    assert rollcall("config", "show", "--installed", "--config", "none").code == 2


def test_the_schema_has_descriptions_and_the_ids_of_the_rules(rollcall: Run) -> None:
    found = json.loads(rollcall("config", "schema").out)
    assert (found["$schema"], found["title"]) == ("http://json-schema.org/draft-07/schema#", "RollcallConfiguration")
    assert found["required"] == ["apiVersion", "kind"]
    enforcement = found["properties"]["enforcement"]
    assert enforcement["description"].startswith("`mode` is ")
    assert "koordinator/mnnvl" in enforcement["properties"]["rules"]["propertyNames"]["enum"]
    assert found["properties"]["registration"]["properties"]["net"] == {
        "default": "off",
        "enum": ["off", "Audit", "Warn", "Deny", False],
    }
    assert "$ref" not in json.dumps(found).replace("$refs", "")
