"""Print the report of `rollcall check` in one of its formats."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.check_options import CheckFormat
from webhook.cli.options import console
from webhook.cli.output import as_json_text
from webhook.model.plain_text import printable
from webhook.offline.report import Report
from webhook.reports.concise import concise
from webhook.reports.github import github
from webhook.reports.json_report import report_as_json
from webhook.reports.junit import junit
from webhook.reports.markdown import markdown
from webhook.reports.options import ReportOptions
from webhook.reports.sarif import sarif
from webhook.reports.tap import tap
from webhook.reports.text import Field, Head, Line, text_lines

# The formats that say what can be fixed.
WITH_FIXES = frozenset(CheckFormat) - {CheckFormat.JUNIT, CheckFormat.TAP}


def print_report(report: Report, options: ReportOptions, output: CheckFormat) -> None:
    """Print a report on standard output."""
    match output:
        case CheckFormat.TEXT:
            _print_text(text_lines(report, options))
        case CheckFormat.JSON:
            typer.echo(as_json_text(report_as_json(report, options)))
        case CheckFormat.SARIF:
            typer.echo(as_json_text(sarif(report, options)))
        case CheckFormat.JUNIT:
            typer.echo(junit(report, options), nl=False)
        case CheckFormat.CONCISE:
            _print_lines(concise(report, options))
        case CheckFormat.GITHUB:
            _print_lines(github(report, options))
        case CheckFormat.MARKDOWN:
            _print_lines(markdown(report, options))
        case CheckFormat.TAP:
            _print_lines(tap(report, options))


def _print_lines(lines: Iterable[object]) -> None:
    """Print plain lines, all at once: a write for each line takes longer than the judging."""
    sys.stdout.write("".join(f"{printable(str(line))}\n" for line in lines))
    sys.stdout.flush()


def _print_text(lines: Iterable[Line]) -> None:
    out = console()
    if not out.is_terminal:
        _print_lines(lines)
        return
    for line in lines:
        _print_line(line, out)


def _print_line(line: Line, out: Console) -> None:
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
