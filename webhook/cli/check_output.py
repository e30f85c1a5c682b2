"""Print the report of `rollcall check` in one of its formats."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from webhook.cli.check_options import CheckFormat
from webhook.cli.output import as_json_text
from webhook.model.plain_text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.offline.report import Report
    from webhook.reports.options import ReportOptions
    from webhook.reports.text import Line

# The formats that say what can be fixed.
WITH_FIXES = frozenset(CheckFormat) - {CheckFormat.JUNIT, CheckFormat.TAP}


def print_report(report: Report, options: ReportOptions, output: CheckFormat) -> None:
    """Print a report on standard output."""
    match output:
        case CheckFormat.TEXT:
            from webhook.reports.text import text_lines

            _print_text(text_lines(report, options))
        case CheckFormat.JSON:
            from webhook.reports.json_report import report_as_json

            typer.echo(as_json_text(report_as_json(report, options)))
        case CheckFormat.SARIF:
            from webhook.reports.sarif import sarif

            typer.echo(as_json_text(sarif(report, options)))
        case CheckFormat.JUNIT:
            from webhook.reports.junit import junit

            typer.echo(junit(report, options), nl=False)
        case CheckFormat.CONCISE:
            from webhook.reports.concise import concise

            _print_lines(concise(report, options))
        case CheckFormat.GITHUB:
            from webhook.reports.github import github

            _print_lines(github(report, options))
        case CheckFormat.MARKDOWN:
            from webhook.reports.markdown import markdown

            _print_lines(markdown(report, options))
        case CheckFormat.TAP:
            from webhook.reports.tap import tap

            _print_lines(tap(report, options))


def _print_lines(lines: Iterable[object]) -> None:
    """Print plain lines, all at once: a write for each line takes longer than the judging."""
    sys.stdout.write("".join(f"{printable(str(line))}\n" for line in lines))
    sys.stdout.flush()


def _print_text(lines: Iterable[Line]) -> None:
    # Rich takes these variables for a terminal, too. Without one it is not imported.
    if not sys.stdout.isatty() and not {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys():
        _print_lines(lines)
        return
    from webhook.cli.options import console

    out = console()
    if not out.is_terminal:
        _print_lines(lines)
        return
    for line in lines:
        _print_line(line, out)


def _print_line(line: Line, out: Console) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from webhook.reports.text import Field, Head

    if isinstance(line, Field):
        # A grid, so that a long value continues below its own start.
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(f"{line.name:<6}", "dim"), Text(printable(line.value)))
        out.print(Padding(grid, (0, 0, 0, 4)))
    elif isinstance(line, Head):
        # Not wrapped: editors and terminals turn the path into a link.
        parts = Text.assemble(f"{printable(line.place)}: ", (line.word, line.style), printable(line.rest))
        out.print(parts, soft_wrap=True)
    else:
        out.print(Text(printable(str(line))))
