"""`rollcall check`: manifests judged as the webhook would, with file, line and column of each finding, its formats and
its fixes; and `rollcall schema`, the JSON Schemas of what Rollcall prints.

What a format or a fix needs is imported when it is asked for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.options import (
    Facts,
    Inputs,
    JudgingConfiguration,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    Live,
    Scheduler,
    SchemaFiles,
    facts_of_options,
    settings_of,
)
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, as_json_text, change_line, tell
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.model.fields import meant
from webhook.model.findings import printable
from webhook.offline.finding_details import FailOn

if TYPE_CHECKING:
    from rich.console import Console

    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts
    from webhook.offline.report import Baseline, Report, Selection
    from webhook.offline.report_summary import ReportOptions
    from webhook.offline.report_text import Line
    from webhook.offline.worlds import Worlds


class CheckFormat(StrEnum):
    """The formats of `rollcall check`."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    TAP = "tap"


CheckOutput = Annotated[CheckFormat, typer.Option("--output", "-o", help="What to print.")]
FailOns = Annotated[
    list[FailOn] | None,
    typer.Option(
        "--fail-on",
        help="What fails the check besides errors: warnings; rules that lack facts, and objects that no rule judged. "
        "Repeatable.",
        show_default="error",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Short for `--fail-on unjudged`.")]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE,...", help="Report only these rules; `koordinator/*` is a pattern.", show_default="every rule"
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE,...", help="Do not report these rules, unless they fail closed.", show_default=False),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Do not read these files or folders. Repeatable.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what fails the check, and what was not judged.")]
Statistics = Annotated[bool, typer.Option("--statistics", help="Print the number of findings of each rule.")]
ListIgnored = Annotated[bool, typer.Option("--list-ignored", help="List the documents that have no rules.")]
BaselineFile = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="FILE", help="Findings that do not fail the check.", show_default=False),
]
WriteBaseline = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        help="Write all findings to a baseline, and pass unless a rule fails closed.",
        show_default=False,
    ),
]
NoSuppress = Annotated[
    bool, typer.Option("--no-suppress", help="Ignore suppressions in comments, annotations and the baseline.")
]

WriteFixes = Annotated[
    bool, typer.Option("--fix", help="Write the smallest edit of each refused object into its file, and judge again.")
]
ShowFixes = Annotated[bool, typer.Option("--diff", help="Print what --fix would write, as a diff, and write nothing.")]


def failure_conditions(fail_on: list[FailOn] | None, *, strict: bool) -> frozenset[FailOn]:
    return frozenset({FailOn.ERROR, *(fail_on or ()), *([FailOn.UNJUDGED] if strict else [])})


def selection_of(select: list[str] | None, ignore: list[str] | None) -> Selection:
    """Returns the rules to report. A rule id that does not exist is a usage error, as is a rule that fails closed."""
    from webhook.offline.report import Selection
    from webhook.offline.report_summary import rules_by_id

    chosen, ignored = _rules(select, "--select"), _rules(ignore, "--ignore")
    for rule in ignored:
        if rule in rules_by_id() and rules_by_id()[rule][0].fails_closed:
            raise typer.BadParameter(f"--ignore {rule}: the rule fails closed, so it is always reported")
    return Selection(chosen, ignored)


def _rules(written: list[str] | None, option: str) -> tuple[str, ...]:
    from webhook.offline.report_summary import rules_by_id

    rules = tuple(rule.strip() for part in written or () for rule in part.split(",") if rule.strip())
    for rule in rules:
        if not any(fnmatchcase(rule_id, f"{rule}*" if rule.endswith("/") else rule) for rule_id in rules_by_id()):
            likely = meant(rule, rules_by_id())
            raise typer.BadParameter(f"{option} {rule}: no rule has that id; `rollcall rules` lists them{likely}")
    return rules


def remaining_inputs(names: list[str], excluded: list[str] | None) -> list[str]:
    """Returns the inputs without the excluded files: a folder that has some becomes its other files."""
    if not excluded:
        return names
    from webhook.offline.manifests import files_of

    kept: list[str] = []
    for name in names:
        if name and Path(name).is_dir():
            kept += [str(path) for path in files_of([Path(name)]) if not _excluded(str(path), excluded)]
        elif not _excluded(name, excluded):
            kept.append(name)
    if names and not kept:
        # A check of nothing must not end green.
        raise typer.BadParameter("--exclude leaves no file to check")
    return kept


def _excluded(name: str, patterns: list[str]) -> bool:
    path = Path(name)
    # The file itself and each folder above, as named from here and by its last parts.
    candidates = [part.as_posix() for part in (path, *path.parents)]
    return any(
        fnmatchcase(candidate, tail)
        for pattern in patterns
        for tail in (pattern.rstrip("/"), f"*/{pattern.rstrip('/')}")
        for candidate in candidates
    )


def baseline_of(path: Path | None) -> Baseline | None:
    """Returns the baseline in a file. Raises `InputError`."""
    if path is None:
        return None
    from webhook.offline.report import baseline_from
    from webhook.offline.whole_files import content_of

    no_baseline = "so it is no baseline; write one with --write-baseline"
    try:
        return baseline_from(json.loads(content_of(path).decode()))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise InputError(str(path), f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise InputError(str(path), f"is nested too deeply, {no_baseline}") from None
    except UnicodeDecodeError:
        raise InputError(str(path), f"is not UTF-8, {no_baseline}") from None
    except ValueError as error:
        raise InputError(str(path), str(error)) from None


def write_baseline(path: Path, report: Report) -> None:
    """Writes all findings of a report that no comment suppresses. Raises `InputError`."""
    from webhook.fit.verdict import count_text
    from webhook.offline.report import baseline_as_json
    from webhook.offline.whole_files import replace_file, require_replaceable

    findings = [(entry.place.judgement, entry.finding) for entry in report.findings if entry.suppression is None]
    written = baseline_as_json(findings)
    content = f"{as_json_text(written)}\n".encode()
    try:
        if path.is_symlink() or path.exists():
            # A link stays a link, and a file that may not be written stays as it is.
            target = path.resolve()
            require_replaceable(target)
            replace_file(target, content, like=target)
        else:
            replace_file(path, content)
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}") from None
    left = sum(finding.fails_closed for _, finding in findings)
    closed = f"; rules that fail closed found {left} more, which no baseline accepts" if left else ""
    tell(f"wrote {path}: {count_text(len(written['findings']), 'finding')}{closed}")


# The formats that say what can be fixed.
WITH_FIXES = frozenset(CheckFormat) - {CheckFormat.JUNIT, CheckFormat.TAP}


def print_report(report: Report, options: ReportOptions, output: CheckFormat) -> None:
    if output in {CheckFormat.JSON, CheckFormat.SARIF}:
        from webhook.offline.report_json import report_as_json, sarif

        as_json = report_as_json if output is CheckFormat.JSON else sarif
        typer.echo(as_json_text(as_json(report, options)))
        return
    from webhook.offline.report_text import concise, github, junit, markdown, tap, text_lines

    if output is CheckFormat.TEXT:
        _print_text(text_lines(report, options))
    elif output is CheckFormat.JUNIT:
        typer.echo(junit(report, options), nl=False)
    else:
        lines = {
            CheckFormat.CONCISE: concise,
            CheckFormat.GITHUB: github,
            CheckFormat.MARKDOWN: markdown,
            CheckFormat.TAP: tap,
        }
        _print_lines(lines[output](report, options))


def _print_lines(lines: Iterable[object]) -> None:
    """Prints plain lines, all at once: a write for each line takes longer than the judging."""
    sys.stdout.write("".join(f"{printable(str(line))}\n" for line in lines))
    sys.stdout.flush()


def _print_text(lines: Iterable[Line]) -> None:
    # Rich takes these variables for a terminal, too. Without one it is not imported.
    if sys.stdout.isatty() or {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys():
        from webhook.cli.options import console

        out = console()
        if out.is_terminal:
            for line in lines:
                _print_line(line, out)
            return
    _print_lines(lines)


def _print_line(line: Line, out: Console) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from webhook.offline.report_text import Field, Head

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


def require_fixable(paths: list[str], output: CheckFormat, *, fix: bool, diff: bool) -> None:
    if fix and diff:
        raise typer.BadParameter("--fix and --diff exclude each other")
    if fix and "-" in paths:
        raise typer.BadParameter("--fix needs files: standard input cannot be written; use --diff")
    if diff and output is not CheckFormat.TEXT:
        raise typer.BadParameter("--diff prints a diff, so it does not go with --output")


def print_diff(report: Report) -> None:
    """Prints what `write_fixes` would write, and on standard error what it would leave."""
    from webhook.offline.fixed_files import fixed_files
    from webhook.offline.report_summary import last_line

    sys.stdout.write("".join(_shown(line) for file in fixed_files(report) for line in file.diff()))
    sys.stdout.flush()
    tell(last_line(report))


def _shown(line: str) -> str:
    """Returns a line of a diff. Tabs and the line end stay, so that `git apply` and `patch` take the diff."""
    text = line.removesuffix("\n")
    content = text.removesuffix("\r")
    return "\t".join(map(printable, content.split("\t"))) + text[len(content) :] + "\n"


def write_fixes(report: Report) -> bool:
    """Writes the edits of a report, tells which, and returns whether there were any. Raises `InputError`."""
    from webhook.fit.verdict import count_text
    from webhook.offline.fixed_files import fixed_files

    files = fixed_files(report)
    for file in files:
        file.require_writable()
    for file in files:
        others = file.write()
        for place, fix in file.fixes:
            tell(f"{place}: fixed {place.object}")
            for change in fix.changes:
                print(f"    {printable(change_line(change, 'was'))}", file=sys.stderr)
        if others:
            links = f"{count_text(others, 'other name')} of this file (hard link{'' if others == 1 else 's'})"
            tell(f"{file.name}: {links} kept the old content")
    return bool(files)


def check(  # noqa: PLR0913 - one parameter for each option
    paths: Inputs,
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    schemas: SchemaFiles = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    config: JudgingConfiguration = None,
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
    fix: WriteFixes = False,
    diff: ShowFixes = False,
    output: CheckOutput = CheckFormat.TEXT,
) -> None:
    """Judge manifests as the webhook would, without a cluster, or with the facts of one.

    Reads YAML, JSON, folders, the output of kustomize build and recorded AdmissionReviews. Judges PodCliqueSets,
    opted-in TrainJobs, JobSets, LeaderWorkerSets and Jobs, gang objects, and pods. All files are judged together: a
    TrainJob finds its runtime in another file.

    What is known of the cluster comes from `--facts`, for which `rollcall facts` writes a folder, or with `--live` from
    the cluster itself. A rule that lacks a fact is *not judged*, and the line says how to supply the fact. An object
    that no rule judged is *not judged* either, such as a workload that is not opted in; the line says what changes
    that.

    A finding is accepted by the comment `# rollcall:ignore RULE: reason` at or above its line, or by the annotation
    `rollcall.dev/ignore: "RULE: reason"` of its object. It stays in the report and does not fail the check. The webhook
    refuses the object all the same, and no rule that fails closed can be suppressed.

    `--fix` writes the smallest edit of each refused PodCliqueSet into its file, and leaves comments, order and quoting
    as they are. An object with a suppressed error is not edited. The report is about what is left.

    Exit code 0: nothing is refused. 1: something is refused, or something else that --fail-on names. 2: something
    cannot be read. 3: something could not be evaluated.

    **Examples**

    - `rollcall check --scheduler koord-scheduler deploy/`
    - `kustomize build overlays/prod | rollcall check --facts cluster/ -`
    - `rollcall check --live --context prod set.yaml`
    - `rollcall check --config rollcall.yaml --fail-on warning -o sarif deploy/ > rollcall.sarif`
    - `rollcall check --baseline known.json --exclude vendor -o github deploy/`
    - `rollcall check --config rollcall.yaml --diff deploy/`
    """
    from webhook.offline.fact_files import add_field_names
    from webhook.offline.fixed_files import add_fixes
    from webhook.offline.report import Report
    from webhook.offline.report_summary import ReportOptions, rules_by_id

    if fix or diff:
        require_fixable(paths, output, fix=fix, diff=diff)
    settings = settings_of(config, scheduler)
    cluster_facts = facts_of_options(facts, settings, kubeconfig, context, kubernetes, live=live)
    selection = selection_of(select, ignore)
    if write_to is not None and baseline is not None:
        raise typer.BadParameter("--baseline and --write-baseline exclude each other")
    accepted = None if no_suppress else baseline_of(baseline)
    cluster_facts = add_field_names(cluster_facts, schemas or ())
    inputs = remaining_inputs(paths, exclude)

    def judged() -> tuple[Report, Worlds]:
        report = Report(selection, suppress=not no_suppress, baseline=accepted, rules=rules_by_id())
        return report, judge_inputs(inputs, report, cluster_facts, settings)

    report, worlds = judged()
    options = ReportOptions(failure_conditions(fail_on, strict=strict), quiet, statistics, list_ignored)
    if diff:
        add_fixes(report, worlds.facts_for, settings, most=None)
        print_diff(report)
    elif fix and not report.unreadable:
        add_fixes(report, worlds.facts_for, settings, most=None)
        if write_fixes(report):
            report, worlds = judged()
    if write_to is not None:
        write_baseline(write_to, report)
    if not diff:
        if output in WITH_FIXES:
            add_fixes(report, worlds.facts_for, settings)
        print_report(report, options, output)
    for reason in report.unreadable:
        tell(str(reason))
    if report.unreadable:
        raise typer.Exit(UNREADABLE)
    failed = report.failed(options.fail_on)
    if write_to is not None:
        failed = any(entry.fails(options.fail_on) and entry.finding.fails_closed for entry in report.findings)
    raise typer.Exit(REFUSED if failed else CLEAN)


def judge_inputs(inputs: list[str], report: Report, cluster_facts: ClusterFacts, settings: Settings) -> Worlds:
    """Judges the inputs into `report`, and returns the facts with those of the inputs. Raises `InputError`."""
    from webhook.cli.options import read_inputs
    from webhook.cluster.clock import MACHINE_CLOCK
    from webhook.offline.judgement import judge
    from webhook.offline.worlds import Worlds

    documents, report.unreadable = read_inputs(inputs)
    # Files that are applied together are judged together: the labels of a namespace, the parent of a PodGroup.
    worlds = Worlds(cluster_facts, documents, settings.kinds)
    report.add_remarks(worlds.remarks)
    now = MACHINE_CLOCK.now()
    for document in documents:
        try:
            report.add(document, judge(document.manifest, worlds.facts_for(document), settings, now))
        except (ReviewError, TooLarge) as error:
            report.unreadable.append(InputError(document.source, str(error), document.line, 1))
    return worlds


schema_app = typer.Typer(no_args_is_help=True, help="Print the JSON Schemas of what Rollcall prints.")


@schema_app.command()
def report() -> None:
    """Print the JSON Schema of the report of `rollcall check -o json` and `POST /check`.

    **Examples**

    - `rollcall schema report > report.schema.json`
    """
    from webhook.offline.report_schemas import report_schema

    typer.echo(as_json_text(report_schema()))


@schema_app.command()
def fit() -> None:
    """Print the JSON Schema of what `rollcall fit -o json` prints.

    **Examples**

    - `rollcall schema fit > fit.schema.json`
    """
    from webhook.offline.report_schemas import fit_schema

    typer.echo(as_json_text(fit_schema()))


@schema_app.callback()
def schema() -> None:
    """Print the JSON Schemas of what Rollcall prints."""
