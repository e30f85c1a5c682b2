"""`rollcall check --fix` and `--diff`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from webhook.cli.check_options import CheckFormat
from webhook.cli.output import change_line, tell
from webhook.model.plain_text import printable
from webhook.reports.summary import counted, last_line
from webhook.sources.fixed_files import fixed_files

if TYPE_CHECKING:
    from webhook.offline.report import Report


def require_fixable(paths: Sequence[str], output: CheckFormat, *, fix: bool, diff: bool) -> None:
    """Refuse options and inputs that do not go with --fix or --diff."""
    if fix and diff:
        raise typer.BadParameter("--fix and --diff exclude each other")
    if fix and "-" in paths:
        raise typer.BadParameter("--fix needs files: standard input cannot be written; use --diff")
    if diff and output is not CheckFormat.TEXT:
        raise typer.BadParameter("--diff prints a diff, so it does not go with --output")


def print_diff(report: Report) -> None:
    """Print what `write_fixes` would write, and on standard error what it would leave."""
    for file in fixed_files(report):
        sys.stdout.write("".join(map(_shown, file.diff())))
    sys.stdout.flush()
    tell(last_line(report))


def _shown(line: str) -> str:
    """Return a line of a diff. Tabs and the line end stay, so that `git apply` and `patch` take the diff."""
    text = line.removesuffix("\n")
    content = text.removesuffix("\r")
    return "\t".join(map(printable, content.split("\t"))) + text[len(content) :] + "\n"


def write_fixes(report: Report) -> bool:
    """Write the edits of a report, and say so on standard error. Return whether there were any. Raises `InputError`."""
    found = fixed_files(report)
    for file in found:
        file.require_writable()
    for file in found:
        others = file.write()
        for place, fix in file.fixes:
            tell(f"{place}: fixed {place.object}")
            for change in fix.changes:
                print(f"    {printable(change_line(change, 'was'))}", file=sys.stderr)
        if others:
            links = "hard link" if others == 1 else "hard links"
            tell(f"{file.name}: {counted(others, 'other name')} of this file ({links}) kept the old content")
    return bool(found)
