"""`rollcall check`: judge manifests as the webhook would, with file, line and column of each finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.cli.options import (
    Configuration,
    Facts,
    Format,
    Inputs,
    Output,
    Scheduler,
    console,
    facts_of,
    inputs_of,
    settings_of,
)
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, as_json_text, tell
from webhook.errors import InputError, ReviewError
from webhook.model.findings import Action, Finding, shown
from webhook.model.plain_text import printable
from webhook.offline.judgement import judge
from webhook.offline.report import Place, Report
from webhook.sources.facts import one_world
from webhook.sources.manifests import Document, read_file, read_standard_input

_STYLES = {Action.DENY: ("error", "bold red"), Action.WARN: ("warning", "yellow"), Action.AUDIT: ("audit", "cyan")}


def check(
    paths: Inputs,
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    config: Configuration = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a rule could not be judged.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Judge manifests as the webhook would, without a cluster.

    Reads YAML, JSON, folders, the output of kustomize build and recorded AdmissionReviews. Judges PodCliqueSets,
    opted-in TrainJobs, JobSets, LeaderWorkerSets and Jobs, gang objects, and pods. All files are judged together: a
    TrainJob finds its runtime in another file.

    Exit code 0: nothing is refused. 1: something is refused. 2: something cannot be read. 3: something could not be
    evaluated.

    **Examples**

    - `rollcall check --scheduler koord-scheduler deploy/`
    - `kustomize build overlays/prod | rollcall check --facts cluster/ -`
    - `rollcall check --config rollcall.yaml --strict -o json set.yaml`
    """
    settings, known = settings_of(config, scheduler), facts_of(facts)
    documents, unreadable = _read(paths)
    # Files that are applied together are judged together: the labels of a namespace, the parent of a PodGroup.
    known = one_world(known, documents)
    report = Report()
    for document in documents:
        try:
            report.add(document, judge(document.manifest, known, settings))
        except ReviewError as error:
            unreadable.append(InputError(document.source, str(error), document.line, 1))
    if output is Format.JSON:
        errors = [str(error) for error in unreadable]
        typer.echo(as_json_text(report.as_json(strict=strict) | {"errors": errors}))
    else:
        _print(report, unreadable, console())
    for reason in unreadable:
        tell(str(reason))
    if unreadable:
        raise typer.Exit(UNREADABLE)
    raise typer.Exit(CLEAN if report.clean(strict=strict) else REFUSED)


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


def _print(report: Report, unreadable: list[InputError], out: Console) -> None:
    for finding, place in sorted(report.findings, key=lambda entry: (entry[1].file, entry[1].line, -entry[0].action)):
        _print_finding(finding, place, out)
    for missing, place in report.unjudged:
        out.print(
            Text.assemble(
                f"{printable(str(place))}: ", ("not judged", "cyan"), f" {missing.rule}: {missing.needs} unknown"
            )
        )
        _print_fields(out, [("field", str(missing.at))])
    for place in report.movable:
        said = place.judgement.verdict.alternatives
        out.print(Text.assemble(f"{printable(str(place))}: ", ("note", "cyan"), f": {_name(place)}: {said}"))
    alike: dict[str, list[Place]] = {}
    for note, place in report.notes:
        alike.setdefault(note, []).append(place)
    for note, (place, *others) in alike.items():
        more = f" (and {_count(len(others), 'other')})" if others else ""
        out.print(Text.assemble(f"{printable(str(place))}: ", ("note", "cyan"), f": {printable(note)}{more}"))
    out.print(Text(", ".join(_summary(report, unreadable))))


def _print_finding(finding: Finding, place: Place, out: Console) -> None:
    word, style = _STYLES[finding.action]
    # Not wrapped: editors and terminals turn the path into a link.
    out.print(Text.assemble(f"{printable(str(place))}: ", (word, style), f" {finding.rule}"), soft_wrap=True)
    _print_fields(
        out,
        [
            ("object", _name(place)),
            ("field", str(finding.at)),
            ("found", shown(finding.found)),
            ("why", finding.why),
            ("do", finding.remedy),
        ],
    )


def _print_fields(out: Console, fields: list[tuple[str, str]]) -> None:
    if not out.is_terminal:
        for name, value in fields:
            out.print(f"    {name:<7}{printable(value)}", markup=False)
        return
    # A grid, so that a long value continues below its own start.
    grid = Table.grid(padding=(0, 1))
    for name, value in fields:
        grid.add_row(Text(name, "dim"), Text(printable(value)))
    out.print(Padding(grid, (0, 0, 0, 4)))


def _name(place: Place) -> str:
    found = place.judgement
    return f"{found.kind} {found.namespace or 'default'}/{found.name}"


def _summary(report: Report, unreadable: list[InputError]) -> Iterator[str]:
    counts = {action: sum(finding.action is action for finding, _ in report.findings) for action in _STYLES}
    yield _count(report.judged, "object") + " judged"
    yield _count(counts[Action.DENY], "error")
    if counts[Action.WARN]:
        yield _count(counts[Action.WARN], "warning")
    if counts[Action.AUDIT]:
        yield f"{counts[Action.AUDIT]} for audit"
    if report.unjudged:
        yield f"{len(report.unjudged)} not judged"
    if report.ignored:
        yield f"{report.ignored} ignored"
    if unreadable:
        yield f"{len(unreadable)} unreadable"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
