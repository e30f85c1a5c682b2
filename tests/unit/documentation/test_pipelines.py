"""The files for other programs on the page about pipelines: they can be read, and call commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.unit.documentation.command_line import unknown_words
from tests.unit.documentation.pages import ROOT, Block, blocks

PAGE = ROOT / "docs" / "how-to" / "pipelines.md"
FILES = [block for block in blocks(PAGE) if block.language == "text"]


def strings(value: Any) -> Iterator[str]:
    """Yield all strings below a value, and each list of words as a command."""
    if isinstance(value, dict):
        for below in value.values():
            yield from strings(below)
    elif isinstance(value, list):
        yield " ".join(str(one) for one in value)
        for below in value:
            yield from strings(below)
    elif isinstance(value, str):
        yield from value.splitlines()


def called(block: Block) -> list[str]:
    """Return the calls of `rollcall` in a file."""
    found = dict.fromkeys(strings(yaml.safe_load(block.text)))
    return [one for one in found if re.match(r"rollcall (--|\w)", one)]


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.text.partition("\n")[0].removeprefix("# "))
def test_a_file_calls_commands_that_exist_and_names_its_configuration(block: Block) -> None:
    assert block.text.startswith("# ")
    for command in called(block):
        assert unknown_words(command) == []
        assert "--require-config check --config" in command


def test_the_page_has_a_file_for_each_program() -> None:
    assert len(FILES) == 5
    assert [len(called(block)) for block in FILES] == [0, 0, 1, 1, 1]


def test_the_action_and_the_hooks_have_the_inputs_that_the_page_gives() -> None:
    hooks, workflow = (yaml.safe_load(block.text) for block in FILES[:2])
    known = {one["id"] for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {one["id"] for one in hooks["repos"][0]["hooks"]} == known
    (step,) = [one for one in workflow["jobs"]["rollcall"]["steps"] if one["uses"] == "./.rollcall"]
    assert set(step["with"]) <= set(yaml.safe_load((ROOT / "action.yml").read_text())["inputs"])
