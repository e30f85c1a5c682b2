"""The README's commands print what it shows. What needs a server or a cluster is for the tests of those."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What follows needs a file that the reader has, a server, or a cluster.
NOT_HERE = ("rollcall.yaml", "kubectl", "serve", "podgang NAME")


def commands() -> dict[str, list[str]]:
    """Each `$ rollcall ...` in the README, with the lines that it shows."""
    found: dict[str, list[str]] = {}
    for block in re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        shown: list[str] | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                wanted = line.startswith("$ rollcall ") and not any(word in line for word in NOT_HERE)
                shown = found.setdefault(line[2:], []) if wanted else None
            elif shown is not None and line:
                shown.append(line)
    return found


@pytest.mark.parametrize(("command", "shown"), commands().items(), ids=list(commands()))
def test_a_command_of_the_readme_prints_what_it_shows(command: str, shown: list[str]) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", command.replace("rollcall", f'"{sys.executable}" -m webhook', 1)],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    printed = ran.stdout.splitlines()
    assert [line for line in shown if line not in printed] == []
    assert shown
