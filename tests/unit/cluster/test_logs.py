"""The documentation of the log: its page has every line that the code can write, and every field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
# What is put into a line under another name: by unpacking, or by a processor.
UNPACKED = {"exc_info": "exception"}


@cache
def nodes() -> dict[Path, tuple[ast.Call | ast.Import, ...]]:
    """The calls and imports in each file of the code."""
    sources = {file: file.read_text() for file in (CHECKOUT / "webhook").rglob("*.py")}
    return {
        file: tuple(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call | ast.Import))
        for file, source in sources.items()
        # The others can have nothing that is looked for here, and parsing all takes seconds.
        if re.search(r"\blog\b|\bprint\b|\blogging\b", source)
    }


def calls() -> Iterator[ast.Call]:
    """Every call of a method of `log` in the code."""
    for node in chain.from_iterable(nodes().values()):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "log":
                yield node


def documented(column: str) -> set[str]:
    """The words in the first column of the table that begins with that."""
    page = (CHECKOUT / "docs" / "how-to" / "observability.md").read_text()
    table = page.partition(f"| {column} |")[2].partition("\n\n")[0]
    return {word for row in table.splitlines()[2:] for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_log_line_is_documented() -> None:
    events = {
        constant.value
        for call in calls()
        for constant in ast.walk(call.args[0])
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
    assert events - documented("event") == set(), "say in docs/how-to/observability.md when these are written"


def test_every_log_field_is_documented() -> None:
    fields = {UNPACKED.get(keyword.arg, keyword.arg) for call in calls() for keyword in call.keywords if keyword.arg}
    assert fields - documented("field") == set(), "say in docs/how-to/observability.md what these are"


def test_all_logging_goes_through_the_log_module() -> None:
    for file, found in nodes().items():
        if file.parent.name not in {"cli", "operations"} and "cli" not in file.parts:
            assert [node for node in found if isinstance(node, ast.Call) and _is_print(node.func)] == [], file
            imported = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
            assert "logging" not in imported or file.parts[-2:] in {
                ("cluster", "logs.py"),
                ("cluster", "span_export.py"),
            }, file


def _is_print(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id == "print"
