"""Published bug reports as manifests, where ROLLCALL_CASES says where they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.unit.cli.conftest import Run

FOLDER = os.environ.get("ROLLCALL_CASES")
needs_cases = pytest.mark.skipif(FOLDER is None, reason="ROLLCALL_CASES names no folder of published cases")


class Case(NamedTuple):
    """Arguments of `rollcall check`, run in a folder of the published cases, and what it should say."""

    folder: str
    """The folder, such as `peers`."""
    arguments: str
    """Options and files, separated by spaces."""
    findings: frozenset[tuple[str, str]] = frozenset()
    """Each finding that must be there: the rule's id and the field."""
    unjudged: frozenset[str] = frozenset()
    """The kinds of the objects that must count as not judged."""

    @property
    def name(self) -> str:
        """What pytest shows."""
        return f"{self.folder} {self.arguments}"


def report(rollcall: Run, monkeypatch: pytest.MonkeyPatch, case: Case) -> dict[str, Any]:
    """The JSON report of `rollcall check` on a case."""
    assert FOLDER is not None
    monkeypatch.chdir(Path(FOLDER, case.folder))
    result = rollcall("check", "--output", "json", *case.arguments.split())
    assert result.code in (0, 1), result.err
    parsed: dict[str, Any] = json.loads(result.out)
    return parsed


def findings(parsed: dict[str, Any]) -> set[tuple[str, str]]:
    """The rule's id and the field of each finding of a report."""
    return {(finding["rule"], finding["field"]) for finding in parsed["findings"]}
