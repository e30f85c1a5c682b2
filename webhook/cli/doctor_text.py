"""A diagnosis on a terminal: the worst problems first, then what is unknown, then the number of checks."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.doctor.checking import Diagnosis, Found, Level
from webhook.model.plain_text import printable

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def print_diagnosis(diagnosis: Diagnosis, out: Console) -> None:
    """Print the whole diagnosis."""
    for level in Level:
        for found in diagnosis.of(level):
            _print(found, out)
    for one in diagnosis.not_known:
        out.print(Text.assemble(("not known", "cyan"), f" {one.check}"))
        _fields(out, [("why", one.why)])
    out.print(Text(summary(diagnosis)))


def summary(diagnosis: Diagnosis) -> str:
    """Return one line: how many checks ran, and their results."""
    counted = [_count(len(diagnosis.of(level)), level.value) for level in Level if diagnosis.of(level)]
    if diagnosis.not_known:
        counted.append(f"{len({one.check for one in diagnosis.not_known})} not known")
    return ", ".join([_count(len(diagnosis.checks), "check"), *(counted or ["no problems found"])])


def _print(found: Found, out: Console) -> None:
    told = found.symptom
    out.print(Text.assemble((found.level.value, _STYLES[found.level]), f" {found.check}"))
    _fields(out, [("where", told.where), ("found", told.found), ("why", told.why), ("do", told.remedy)])


def _fields(out: Console, fields: list[tuple[str, str]]) -> None:
    if not out.is_terminal:
        for name, value in fields:
            out.print(Text(f"    {name:<7}{printable(value)}"))
        return
    # A grid, so that a long value continues below its own start.
    grid = Table.grid(padding=(0, 1))
    for name, value in fields:
        grid.add_row(Text(name, "dim"), Text(printable(value)))
    out.print(Padding(grid, (0, 0, 0, 4)))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
