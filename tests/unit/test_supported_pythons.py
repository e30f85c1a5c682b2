"""The supported Python versions are the same in all files, and the scripts find the installed ones."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def scripted(command: str, path: str = "/usr/bin:/bin", **environment: str) -> subprocess.CompletedProcess[str]:
    """A command after `scripts/environment.sh`, as the scripts have it."""
    return subprocess.run(
        ["/usr/bin/env", "bash", "-c", f". {ROOT}/scripts/environment.sh; {command}"],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def supported() -> list[str]:
    return scripted('printf "%s\\n" "${supported[@]}"').stdout.split()


def test_the_classifiers_match_the_python_versions_of_the_scripts() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [str(line).rpartition(" ")[2] for line in PROJECT["classifiers"] if str(line).startswith(prefix)]
    assert named == supported()
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_image_uses_one_supported_python_in_both_stages() -> None:
    releases = set(re.findall(r"python:?(3\.\d+)", (ROOT / "Dockerfile").read_text()))
    assert len(releases) == 1
    assert releases <= set(supported())


def executable(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{content}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("shim", ["exit 127", "exit 1"])
def test_a_python_that_does_not_run_is_skipped(tmp_path: Path, shim: str) -> None:
    path = f"{executable(tmp_path / 'bin' / 'python3.14', shim).parent}:/usr/bin:/bin"
    assert scripted("python_of 3.14", path, PYENV_ROOT=str(tmp_path)).returncode == 1
    real = executable(tmp_path / "versions" / "3.14.2" / "bin" / "python3.14", "exit 0")
    assert scripted("python_of 3.14", path, PYENV_ROOT=str(tmp_path)).stdout == f"{real}\n"


def test_a_requested_python_has_its_own_environments(tmp_path: Path) -> None:
    asked = executable(tmp_path / "python", 'case "$*" in *executable*) echo "$0" ;; *print*) echo 3.12 ;; esac')
    command = 'find_python; echo "$python $suffix"'
    assert scripted(command, PYTHON=str(asked)).stdout == f"{asked} -3.12\n"
