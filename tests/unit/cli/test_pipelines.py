"""The action for GitHub and the hooks for pre-commit: their steps are run as their runners would run them."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.unit.cli.conftest import Run, unframed
from tests.unit.documentation.command_line import unknown_words
from webhook.cli import main

ROOT = Path(__file__).parents[3]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler}]}
"""
# scripts/test-action sets it: installing needs minutes, and the package index.
WHOLE = os.environ.get("ROLLCALL_ACTION") == "whole"


class Job(NamedTuple):
    """What a job left: the exit code of its last step, what its steps printed, and its outputs."""

    code: int
    printed: str
    outputs: dict[str, str]


def runner(folder: Path, **inputs: str) -> Job:
    """Run the steps in `folder` until one fails."""
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    program = folder / "bin" / "rollcall"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m webhook "$@"\n')
    program.chmod(0o755)
    files = {"GITHUB_PATH": folder / "path", "GITHUB_OUTPUT": folder / "output"}
    for file in files.values():
        file.touch()
    outputs: dict[str, str] = {}
    printed, code = "", 0
    for step in STEPS:
        if "run" not in step or (step["name"] == "Install Rollcall" and not WHOLE):
            continue
        found = (folder / "path").read_text().splitlines() or [str(program.parent)]
        environment = os.environ | {name: str(file) for name, file in files.items()}
        environment |= {"GITHUB_ACTION_PATH": str(ROOT), "PATH": os.pathsep.join([*found, os.environ["PATH"]])}
        environment |= {name: _evaluated(value, given, outputs) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        printed, code = printed + done.stdout + done.stderr, done.returncode
        outputs = dict(line.split("=", 1) for line in (folder / "output").read_text().splitlines())
        if code:
            break
    return Job(code, printed, outputs)


def _evaluated(expression: str, inputs: dict[str, str], outputs: dict[str, str]) -> str:
    found = re.fullmatch(r"\$\{\{ (?:inputs|steps\.check\.outputs)\.([\w-]+) \}\}", expression)
    assert found, expression
    return inputs[found[1]] if "inputs." in expression else outputs[found[1]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose pull request adds a configuration that would turn everything off."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "rollcall.yaml").write_text(CONFIG + "enforcement: {mode: 'off'}\n")
    (tmp_path / "my deploy").mkdir()
    for name in ("disaggregated.yaml", "refused.yaml"):
        (tmp_path / "my deploy" / name).write_text((ROOT / "manifests" / "samples" / name).read_text())
    return tmp_path


@pytest.mark.exhaustive
@pytest.mark.parametrize(("file", "code"), [("disaggregated.yaml", 0), ("refused.yaml", 1)])
def test_the_report_is_written_and_the_job_fails_last(project: Path, file: str, code: int) -> None:
    facts = f"--facts={ROOT / 'manifests' / 'facts'}"
    job = runner(project, config="config.yaml", paths=f"my deploy/{file}\n", arguments=facts)
    assert (job.code, job.outputs) == (code, {"exit-code": str(code)}), job.printed
    assert json.loads((project / "rollcall.sarif").read_text())["version"] == "2.1.0"
    assert ("error koordinator/mnnvl" in job.printed) is bool(code)


@pytest.mark.exhaustive
def test_what_is_printed_of_the_manifests_is_no_command_to_the_runner(project: Path) -> None:
    (project / "##[set-output name=exit-code]0.yaml").write_text("a: [")
    (project / "my deploy" / "refused.yaml").rename(project / "::set-output name=exit-code::0.yaml")
    job = runner(project, config="config.yaml", paths=".")
    # It fails last, after the report is written.
    assert (job.code, job.outputs) == (2, {"exit-code": "2"}), job.printed
    assert json.loads((project / "rollcall.sarif").read_text())["version"] == "2.1.0"
    assert "error koordinator/mnnvl" in job.printed
    lines = job.printed.splitlines()
    begin = next(
        index for index, line in enumerate(lines) if re.fullmatch("::stop-commands::rollcall-[0-9a-f]{32}", line)
    )
    end = lines.index(f"::{lines[begin].removeprefix('::stop-commands::')}::")
    assert any(line.startswith("::set-output name=exit-code::0.yaml:") for line in lines[begin:end])
    assert any("##[set-output name=exit-code]0.yaml:" in line for line in lines[begin:end])
    assert not any("set-output" in line for line in lines[:begin] + lines[end:])


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", "name a configuration in the input config"),
        pytest.param("no.yaml", "no.yaml: no such file", marks=pytest.mark.exhaustive),
    ],
)
def test_without_its_configuration_the_job_fails(project: Path, config: str, said: str) -> None:
    job = runner(project, config=config, paths="my deploy")
    assert job.code != 0
    assert said in job.printed


def test_no_input_is_part_of_a_script() -> None:
    assert [step["name"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_the_configuration_is_required() -> None:
    assert [name for name, one in ACTION["inputs"].items() if one.get("required")] == ["config"]
    hook = next(one for one in hooks() if one["id"] == "rollcall-check")
    assert hook["entry"] == "rollcall --require-config check"


def hooks() -> list[dict[str, Any]]:
    """The hooks for pre-commit."""
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return found


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: str(hook["id"]))
def test_a_hook_calls_a_command_that_exists(hook: dict[str, Any]) -> None:
    assert unknown_words(hook["entry"]) == []


def test_the_hooks_judge_the_files_that_they_are_given(rollcall: Run, project: Path) -> None:
    entries = {hook["id"]: shlex.split(hook["entry"])[1:] for hook in hooks()}
    refused = str(project / "my deploy" / "refused.yaml")
    config = str(project / "config.yaml")
    assert rollcall(*entries["rollcall-check"], refused).code == 2
    assert rollcall(*entries["rollcall-check"], "--config", config, refused).code == 1
    assert rollcall(*entries["rollcall-config"], config).code == 0


@pytest.mark.parametrize("option", ["--config=mine.yaml", "--write-baseline=x.yaml", "-qomarkdown"])
def test_a_hook_takes_no_file_for_an_option(
    rollcall: Run, project: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(project)
    (project / "mine.yaml").write_text(CONFIG + "enforcement: {mode: 'off'}\n")
    words = ("--require-config", "check", "--config", "config.yaml")
    assert "a file here" not in unframed(rollcall(*words, option, "my deploy/refused.yaml").err)
    (project / option).write_text((project / "mine.yaml").read_text())
    ran = rollcall(*words, option, "my deploy/refused.yaml")
    assert (ran.code, "and a file here" in unframed(ran.err)) == (2, True)
    assert rollcall(*words, "--", option, "my deploy/refused.yaml").code == 1


def test_kubectl_finds_the_plugin_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-rollcall"] == scripts["rollcall"]
    monkeypatch.setattr(sys, "argv", ["/bin/kubectl-rollcall", "check", "-h"])
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "Usage: kubectl rollcall check [OPTIONS]" in capsys.readouterr().out
