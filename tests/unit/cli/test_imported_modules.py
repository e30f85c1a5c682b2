"""What commands import, counted and not timed: one import at the top of a module can slow down every command."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT_SECONDS
from webhook.cli.commands import COMMANDS, Commands

ROOT = Path(__file__).parents[3]
KEPT: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests/kept/modules.toml").read_text())
_SCRIPT = """
import os, sys
# What measures the coverage is there before.
before = {name.partition(".")[0] for name in sys.modules}
from webhook.cli import run
with open(os.devnull, "w") as sys.stdout:
    run(sys.argv[1:])
print(*(name for name in sys.modules if name.partition(".")[0] not in before), file=sys.__stdout__)
"""


def imported_by(arguments: str) -> tuple[int, list[str]]:
    """The number of our own modules that a command imports in a new process, and the packages of others."""
    command = [sys.executable, "-c", _SCRIPT, *arguments.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_SECONDS, cwd=ROOT)
    modules = ran.stdout.split()
    own = [name for name in modules if name.partition(".")[0] == "webhook"]
    packages = {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"webhook"}
    # Extensions register parts of themselves under such names.
    return len(own), sorted(name for name in packages if not name.startswith(("_", "cython")))


@pytest.mark.parametrize("command", KEPT)
def test_a_command_imports_no_more_than_is_kept(command: str) -> None:
    own, others = imported_by(command)
    kept = KEPT[command]
    assert kept["reason"]
    assert others == kept["packages"]
    assert own <= kept["modules"], "or raise the figure in tests/kept/modules.toml, with the reason"
    # A figure far above would keep nothing.
    assert own >= kept["modules"] - 10, "lower the figure in tests/kept/modules.toml"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_of_a_command_what_the_command_says(name: str) -> None:
    command, entry = Commands(COMMANDS)[name], COMMANDS[name]
    assert " ".join(command.help.partition("\n\n")[0].split()) == entry.help
    assert (command.name, command.rich_help_panel) == (name, entry.panel)
