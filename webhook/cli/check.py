"""`rollcall check`: judge manifests as the webhook would, with file, line and column of each finding."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.check_options import (
    BaselineFile,
    CheckFormat,
    CheckOutput,
    Exclude,
    FailOns,
    Ignore,
    ListIgnored,
    NoSuppress,
    Quiet,
    Select,
    Statistics,
    Strict,
    WriteBaseline,
    baseline_of,
    failing,
    selection_of,
    without,
    write_baseline,
)
from webhook.cli.options import (
    Configuration,
    Facts,
    Inputs,
    Scheduler,
    SchemaFiles,
    console,
    facts_of,
    inputs_of,
    settings_of,
)
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, as_json_text, printable, tell
from webhook.errors import InputError, ReviewError
from webhook.offline.judgement import judge
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
from webhook.sources.facts import one_world, with_field_names
from webhook.sources.fixes import add_fixes
from webhook.sources.manifests import Document, read_file, read_standard_input

# The formats that say what can be fixed.
_WITH_FIXES = frozenset(
    {CheckFormat.TEXT, CheckFormat.CONCISE, CheckFormat.JSON, CheckFormat.SARIF, CheckFormat.MARKDOWN}
)


def check(  # noqa: PLR0913 - one parameter for each option
    paths: Inputs,
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    schemas: SchemaFiles = None,
    config: Configuration = None,
    fail_on: FailOns = None,
    strict: Strict = False,
    select: Select = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    baseline: BaselineFile = None,
    write_to: WriteBaseline = None,
    no_suppress: NoSuppress = False,
    quiet: Quiet = False,
    statistics: Statistics = False,
    list_ignored: ListIgnored = False,
    output: CheckOutput = CheckFormat.TEXT,
) -> None:
    """Judge manifests as the webhook would, without a cluster.

    Reads YAML, JSON, folders, the output of kustomize build and recorded AdmissionReviews. Judges PodCliqueSets,
    opted-in TrainJobs, JobSets, LeaderWorkerSets and Jobs, gang objects, and pods. All files are judged together: a
    TrainJob finds its runtime in another file.

    A finding is accepted by the comment `# rollcall:ignore RULE: reason` at or above its line, or by the annotation
    `rollcall.dev/ignore: "RULE: reason"` of its object. It stays in the report and does not fail the check. The webhook
    refuses the object all the same, and no rule that fails closed can be suppressed.

    Exit code 0: nothing is refused. 1: something is refused, or something else that --fail-on names. 2: something
    cannot be read. 3: something could not be evaluated.

    **Examples**

    - `rollcall check --scheduler koord-scheduler deploy/`
    - `kustomize build overlays/prod | rollcall check --facts cluster/ -`
    - `rollcall check --config rollcall.yaml --fail-on warning -o sarif deploy/ > rollcall.sarif`
    - `rollcall check --baseline known.json --exclude vendor -o github deploy/`
    """
    settings, known = settings_of(config, scheduler), facts_of(facts)
    selection = selection_of(select, ignore)
    if write_to is not None and baseline is not None:
        raise typer.BadParameter("--baseline and --write-baseline exclude each other")
    accepted = None if no_suppress else baseline_of(baseline)
    documents, unreadable = _read(without(paths, exclude))
    report = Report(selection, suppress=not no_suppress, baseline=accepted, unreadable=unreadable)
    # Files that are applied together are judged together: the labels of a namespace, the parent of a PodGroup.
    known = one_world(with_field_names(known, schemas or ()), documents)
    for document in documents:
        try:
            report.add(document, judge(document.manifest, known, settings))
        except ReviewError as error:
            unreadable.append(InputError(document.source, str(error), document.line, 1))
    if write_to is not None:
        write_baseline(write_to, report)
    if output in _WITH_FIXES:
        add_fixes(report, known, settings)
    options = ReportOptions(failing(fail_on, strict=strict), quiet, statistics, list_ignored)
    _print(report, options, output)
    for reason in unreadable:
        tell(str(reason))
    if unreadable:
        raise typer.Exit(UNREADABLE)
    if write_to is not None:
        left = any(entry.fails(options.fail_on) and entry.finding.fails_closed for entry in report.findings)
        raise typer.Exit(REFUSED if left else CLEAN)
    raise typer.Exit(REFUSED if report.failed(options.fail_on) else CLEAN)


def _read(names: Sequence[str]) -> tuple[list[Document], list[InputError]]:
    """Return every document that can be read, and an error for each file that cannot."""
    documents: list[Document] = []
    unreadable: list[InputError] = []
    for name in names:
        try:
            inputs = list(inputs_of([name]))
        except InputError as error:
            unreadable.append(error)
            continue
        for path in inputs:
            try:
                documents += _documents(path)
            except InputError as error:
                unreadable.append(error)
    return documents, unreadable


def _documents(path: str | Path) -> list[Document]:
    return read_file(path) if isinstance(path, Path) else read_standard_input()


def _print(report: Report, options: ReportOptions, output: CheckFormat) -> None:
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
