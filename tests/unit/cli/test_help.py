"""The help of all commands: by task, with examples, and as narrow as a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.unit.cli.conftest import Run
from webhook.cli.commands import app


def commands(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command."""
    for name, one in group.commands.items():
        if getattr(one, "commands", {}):
            yield from commands(one, *path, name)
        if not getattr(one, "commands", {}) or one.invoke_without_command:
            yield (*path, name)


EVERY = sorted(commands(typer.main.get_command(app)))


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eighty columns."""
    monkeypatch.setenv("COLUMNS", "80")


def test_the_commands_are_listed_by_task(rollcall: Run) -> None:
    ran = rollcall("-h")
    assert (ran.code, ran.err) == (0, "")
    panels = [line.strip("╭─╮ ") for line in ran.out.splitlines() if line.startswith("╭")]
    assert [panel.partition(":")[0] for panel in panels] == ["Options", "Author", "Operate", "Run", "Install"]


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_help_of_a_command_has_examples_and_shows_flags_without_a_type(
    rollcall: Run, words: tuple[str, ...]
) -> None:
    ran = rollcall(*words, "-h")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == rollcall(*words, "--help").out
    assert f"• rollcall {' '.join(words)}" in ran.out or f"| rollcall {' '.join(words)}" in ran.out
    assert "<bool>" not in ran.out
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["render", "--grove", "legcy", "-"],
            "Invalid value for '--grove': 'legcy' is not one of podgangmap, legacy; did you mean legacy?",
        ),
        (["render", "--grove", "old", "-"], "Invalid value for '--grove': 'old' is not one of podgangmap, legacy"),
        (["doctor", "-o", "jsn"], "'jsn' is not one of text, json, markdown; did you mean json?"),
        (["rules", "kai/noqueue"], "lists them; did you mean kai/no-queue"),
        (["chek"], "No such command 'chek'. Did you mean 'check'"),
    ],
)
def test_a_wrong_value_is_answered_with_the_likely_one(
    rollcall: Run, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    ran = rollcall(*words)
    assert ran.code == 2
    assert said in ran.err
    assert "Value error" not in ran.err


def test_a_misspelt_scheduler_is_answered_with_the_likely_one(rollcall: Run) -> None:
    ran = rollcall("check", "--scheduler", "koord-schedular", "-")
    assert (ran.code, ran.out) == (2, "")
    assert "is not a scheduler" in ran.err
    assert "; did you mean koord-scheduler" in ran.err
