"""The options of `rollcall check` about what is reported, and what fails."""

from __future__ import annotations

import json
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.output import as_json_text, tell
from webhook.errors import InputError
from webhook.model.near_names import meant
from webhook.offline.levels import FailOn

if TYPE_CHECKING:
    from webhook.offline.baseline import Baseline
    from webhook.offline.report import Report, Selection


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
    bool,
    typer.Option("--fix", help="Write the smallest edit of each refused object into its file, and judge again."),
]
ShowFixes = Annotated[bool, typer.Option("--diff", help="Print what --fix would write, as a diff, and write nothing.")]


def failing(named: list[FailOn] | None, *, strict: bool) -> frozenset[FailOn]:
    """Return what fails a check: errors always do."""
    return frozenset({FailOn.ERROR, *(named or ()), *([FailOn.UNJUDGED] if strict else [])})


def selection_of(select: list[str] | None, ignore: list[str] | None) -> Selection:
    """Return the rules to report. A rule id that does not exist is a usage error, as is a rule that fails closed."""
    from webhook.offline.report import Selection
    from webhook.reports.rule_pages import rules_by_id

    chosen, ignored = _rules(select, "--select"), _rules(ignore, "--ignore")
    for rule in ignored:
        if rule in rules_by_id() and rules_by_id()[rule][0].fails_closed:
            raise typer.BadParameter(f"--ignore {rule}: the rule fails closed, so it is always reported")
    return Selection(chosen, ignored)


def _rules(written: list[str] | None, option: str) -> tuple[str, ...]:
    from webhook.reports.rule_pages import rules_by_id

    found = tuple(rule.strip() for part in written or () for rule in part.split(",") if rule.strip())
    for rule in found:
        if not any(fnmatchcase(known, f"{rule}*" if rule.endswith("/") else rule) for known in rules_by_id()):
            likely = meant(rule, rules_by_id())
            raise typer.BadParameter(f"{option} {rule}: no rule has that id; `rollcall rules` lists them{likely}")
    return found


def without(names: list[str], excluded: list[str] | None) -> list[str]:
    """Return the inputs without the excluded files: a folder that has some becomes its other files."""
    if not excluded:
        return names
    from webhook.sources.manifests import files_of

    found: list[str] = []
    for name in names:
        if name and Path(name).is_dir():
            found += [str(path) for path in files_of([Path(name)]) if not _excluded(str(path), excluded)]
        elif not _excluded(name, excluded):
            found.append(name)
    if names and not found:
        # A check of nothing must not end green.
        raise typer.BadParameter("--exclude leaves no file to check")
    return found


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
    """Return the baseline in a file. Raises `InputError`."""
    if path is None:
        return None
    from webhook.offline.baseline import baseline_from
    from webhook.sources.whole_files import content_of

    try:
        return baseline_from(json.loads(content_of(path).decode()))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise InputError(str(path), f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise InputError(
            str(path), "is nested too deeply, so it is no baseline; write one with --write-baseline"
        ) from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8, so it is no baseline; write one with --write-baseline") from None
    except ValueError as error:
        raise InputError(str(path), str(error)) from None


def write_baseline(path: Path, report: Report) -> None:
    """Write all findings of a report that no comment suppresses. Raises `InputError`."""
    from webhook.offline.baseline import baseline_as_json
    from webhook.reports.summary import counted
    from webhook.sources.whole_files import replace_file, require_replaceable

    found = [(entry.place.judgement, entry.finding) for entry in report.findings if entry.suppression is None]
    written = baseline_as_json(found)
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
    left = sum(finding.fails_closed for _, finding in found)
    closed = f"; rules that fail closed found {left} more, which no baseline accepts" if left else ""
    tell(f"wrote {path}: {counted(len(written['findings']), 'finding')}{closed}")
