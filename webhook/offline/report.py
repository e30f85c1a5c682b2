"""The report of the findings in files, as data: what `rollcall check` and `POST /check` report.

A report has every finding, also those that are suppressed or in a baseline: these only do not fail the check. A
finding of a baseline is recognised by object, rule, field and value, but not by file and line: a file may be moved and
edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from webhook.errors import InputError
from webhook.model.admission_request import Verdict, value_at
from webhook.model.fields import ANNOTATIONS, ROOT, FieldPath, meant
from webhook.model.findings import Action, Finding, Omission, OmissionReason, Unjudged, shown
from webhook.model.reading import Manifest
from webhook.offline import finding_details
from webhook.offline.judgement import Judgement, kind_of
from webhook.offline.positions import Fix

VERSION = 1
_Key = tuple[str, str, str, str, str, str]
_FIELDS = ("kind", "namespace", "name", "rule", "field", "found")


class Baseline:
    """The findings of a baseline. Each is taken as often as it is listed."""

    def __init__(self, keys: Iterable[_Key]) -> None:
        self._left = Counter(keys)

    def takes(self, judgement: Judgement, finding: Finding) -> bool:
        key = key_of(judgement, finding)
        if not self._left[key]:
            return False
        self._left[key] -= 1
        return True


def key_of(judgement: Judgement, finding: Finding) -> _Key:
    return (judgement.kind, judgement.namespace, judgement.name, *finding.identity)


def baseline_as_json(findings: Iterable[tuple[Judgement, Finding]]) -> dict[str, Any]:
    """Returns a baseline of these findings as plain JSON values, in an order that does not depend on the files."""
    keys = sorted(key_of(judgement, finding) for judgement, finding in findings if not finding.fails_closed)
    return {"version": VERSION, "findings": [dict(zip(_FIELDS, key, strict=True)) for key in keys]}


def baseline_from(written: Any) -> Baseline:
    """Returns the baseline in plain JSON values. Raises `ValueError` with the reason if it is none."""
    if not isinstance(written, dict) or written.get("version") != VERSION:
        raise ValueError(f"is not a baseline of version {VERSION}; write one with --write-baseline")
    entries = written.get("findings")
    if not isinstance(entries, list):
        raise ValueError("has no list of findings")
    return Baseline(_key(entry, index) for index, entry in enumerate(entries))


def _key(entry: Any, index: int) -> _Key:
    values = [entry.get(name) for name in _FIELDS] if isinstance(entry, dict) else []
    match values:
        case [str(kind), str(namespace), str(name), str(rule), str(field), str(value)]:
            return (kind, namespace, name, rule, field, value)
    raise ValueError(f"findings[{index}] must have these texts: {', '.join(_FIELDS)}")


class Source(Protocol):
    """A document that knows the positions of its fields."""

    @property
    def source(self) -> str:
        """The file, as the user named it."""

    @property
    def manifest(self) -> Manifest:
        """The document."""

    @property
    def line(self) -> int:
        """The line on which it begins."""

    @property
    def comments(self) -> Sequence[finding_details.Directive]:
        """The suppressions in comments of its file."""

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Returns line and column of a field."""

    def end(self, path: FieldPath) -> tuple[int, int]:
        """Returns line and column behind the key of a field."""


class Remark(Protocol):
    """What is to be said of an object that counts as a fact."""

    @property
    def message(self) -> str:
        """What is to be said."""

    @property
    def document(self) -> Source:
        """The document that has the object."""

    @property
    def at(self) -> FieldPath:
        """The place of the object in the document."""

    @property
    def subject(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""


_REASONS = list(OmissionReason)
_EMPTY = Omission(ROOT, OmissionReason.NO_OBJECT, "it has no object", "give the manifests of a workload")
_LEVELS = {
    Action.DENY: finding_details.Level.ERROR,
    Action.WARN: finding_details.Level.WARNING,
    Action.AUDIT: finding_details.Level.AUDIT,
}


@dataclass(frozen=True)
class FindingPlace:
    """The place of a finding, in the file and in the object. Line and column are found when they are asked for."""

    document: Source
    judgement: Judgement
    path: FieldPath = ROOT

    @property
    def file(self) -> str:
        return self.document.source

    @property
    def line(self) -> int:
        return self._start[0]

    @property
    def column(self) -> int:
        return self._start[1]

    @cached_property
    def end(self) -> tuple[int, int]:
        """Line and column behind the key of the field."""
        return self.document.end(self._whole)

    @cached_property
    def _start(self) -> tuple[int, int]:
        return self.document.position(self._whole)

    @property
    def _whole(self) -> FieldPath:
        return FieldPath((*self.judgement.at.parts, *self.path.parts))

    @property
    def object(self) -> str:
        """Kind, namespace and name; of a cluster-scoped object kind and name."""
        kind, namespace, name = self.judgement.kind, self.judgement.namespace, self.judgement.name
        return f"{kind or 'document'} {f'{namespace}/' if namespace else ''}{name}".rstrip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ReportedFinding(NamedTuple):
    """A finding at its place, with the reason why it is accepted, and the edit that removes it."""

    finding: Finding
    place: FindingPlace
    suppression: finding_details.Suppression | None = None
    fix: Fix | None = None

    @property
    def level(self) -> finding_details.Level:
        return _LEVELS[self.finding.action]

    @property
    def refuses(self) -> bool:
        return self.finding.action is Action.DENY and not self.place.judgement.verdict.allowed

    @property
    def order(self) -> tuple[str, int, int, str]:
        """The order in a report: by place, errors first."""
        return (self.place.file, self.place.line, -self.finding.action, self.finding.rule)

    def fails(self, on: frozenset[finding_details.FailOn]) -> bool:
        return self.suppression is None and (
            self.refuses or (finding_details.FailOn.WARNING in on and self.level is finding_details.Level.WARNING)
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules that are reported: ids, or patterns such as `koordinator/*`. Rules that fail closed always are: what
    they refuse cannot be translated for any scheduler.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def takes(self, rule: str, *, fails_closed: bool = False) -> bool:
        chosen = not self.select or _matches(rule, self.select)
        return fails_closed or (chosen and not _matches(rule, self.ignore))


def _matches(rule: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)


@dataclass(slots=True)
class Report:
    """Everything that was found in some documents. `suppress`: whether suppressions count."""

    selection: Selection = Selection()
    suppress: bool = False
    baseline: Baseline | None = None
    # The ids that a suppression may name. A suppression of another rule has no effect, and a note says so.
    rules: Collection[str] = ()
    findings: list[ReportedFinding] = field(default_factory=list)
    unjudged: list[tuple[Unjudged, FindingPlace]] = field(default_factory=list)
    # Objects that no rule judged, and those that matter only if nothing was.
    _omitted: list[tuple[Omission, FindingPlace]] = field(default_factory=list)
    _ordinary: list[tuple[Omission, FindingPlace]] = field(default_factory=list)
    notes: list[tuple[str, FindingPlace]] = field(default_factory=list)
    # Refused objects that other schedulers could run.
    movable: list[FindingPlace] = field(default_factory=list)
    # Every judged object.
    judged: list[FindingPlace] = field(default_factory=list)
    # Those of them of which a part was not judged, with the reason.
    partial: list[tuple[Omission, FindingPlace]] = field(default_factory=list)
    # Documents of kinds that have no rules.
    ignored: list[Source] = field(default_factory=list)
    unreadable: list[InputError] = field(default_factory=list)
    # False if so many objects are refused that edits were not searched for all of them.
    all_searched: bool = True
    # The files whose comments were compared with `rules`.
    _compared: set[str] = field(default_factory=set)

    def add(self, document: Source, judgements: Iterable[Judgement]) -> None:
        """Adds the findings of one document. A document without judged objects counts as ignored."""
        is_ignored = is_empty = True
        for judgement in judgements:
            is_empty = False
            whole = FindingPlace(document, judgement)
            verdict = judgement.verdict
            if judgement.judged:
                self.judged.append(whole)
            if (omission := verdict.omission) is not None:
                entry = (omission, FindingPlace(document, judgement, omission.at))
                if not judgement.judged:
                    (self._ordinary if omission.reason.is_ordinary else self._omitted).append(entry)
                elif not omission.reason.is_ordinary:
                    self.partial.append(entry)
            left = verdict.omission is None or verdict.omission.reason.is_ignored
            is_ignored &= left and not judgement.judged and not verdict.findings
            if self.suppress and self.rules and (judgement.has_rules or verdict.findings):
                self._note_unknown_rules(whole)
            suppresses = self.suppress and verdict.findings
            directives = (*document.comments, *_annotated(document, judgement)) if suppresses else ()
            for finding in verdict.findings:
                if self.selection.takes(finding.rule, fails_closed=finding.fails_closed):
                    place = FindingPlace(document, judgement, finding.at)
                    suppression = self._suppression(finding, place, directives)
                    self.findings.append(ReportedFinding(finding, place, suppression))
            self.unjudged += [
                (missing, FindingPlace(document, judgement, missing.at))
                for missing in verdict.unjudged
                if self.selection.takes(missing.rule)
            ]
            if verdict.could_run:
                self.movable.append(whole)
            self.notes += [(note, whole) for note in verdict.notes]
        if is_empty:
            nothing = Judgement(kind_of(document.manifest).kind, "", "", ROOT, Verdict(), has_rules=False)
            self._ordinary.append((_EMPTY, FindingPlace(document, nothing)))
        if is_ignored:
            self.ignored.append(document)

    def add_remarks(self, remarks: Iterable[Remark]) -> None:
        for remark in remarks:
            judgement = Judgement(*remark.subject, remark.at, Verdict(), has_rules=False)
            self.notes.append((remark.message, FindingPlace(remark.document, judgement)))

    def _note_unknown_rules(self, whole: FindingPlace) -> None:
        document = whole.document
        comments = () if document.source in self._compared else document.comments
        self._compared.add(document.source)
        for directive in (*comments, *_annotated(document, whole.judgement)):
            for name in directive.rules:
                if name not in self.rules:
                    note = f"{finding_details.COMMENT} {shown(name)}: no rule has that id, so it suppresses nothing"
                    self.notes.append((f"{note}{meant(name, self.rules)}", whole))

    def _suppression(
        self, finding: Finding, place: FindingPlace, directives: Sequence[finding_details.Directive]
    ) -> finding_details.Suppression | None:
        if finding.excepted is not None:
            return finding_details.Suppression(finding.excepted.terms, finding_details.Origin.EXCEPTION)
        for directive in directives:
            # A comment above the first line of a document is about the whole document.
            if finding.rule not in directive.rules or directive.line not in {0, place.document.line, place.line}:
                continue
            if directive.reason and not finding.fails_closed:
                return finding_details.Suppression(directive.reason)
            if finding.fails_closed:
                note = f"{finding.rule} fails closed, so {finding_details.COMMENT} does not suppress it"
            else:
                note = f"{finding_details.COMMENT} {finding.rule} has no reason, so it suppresses nothing"
                note += "; write one behind a colon"
            self.notes.append((note, place))
        judgement = place.judgement
        if self.baseline is not None and not finding.fails_closed and self.baseline.takes(judgement, finding):
            return finding_details.Suppression("in the baseline", finding_details.Origin.BASELINE)
        return None

    def failed(self, on: frozenset[finding_details.FailOn]) -> bool:
        """Returns whether the check fails: something is refused, or something else that `on` names."""
        unjudged = finding_details.FailOn.UNJUDGED in on and bool(self.unjudged or self.left_out)
        return unjudged or any(entry.fails(on) for entry in self.findings)

    @property
    def clean(self) -> bool:
        """Whether there is nothing to do: no finding that counts, nothing unjudged and nothing unreadable."""
        counted = any(entry.suppression is None for entry in self.findings)
        return not (counted or self.unjudged or self.left_out or self.unreadable)

    @property
    def omitted(self) -> list[tuple[Omission, FindingPlace]]:
        """The objects that no rule judged, with the reason. If nothing at all was judged, one stands for all."""
        if self._omitted or self.judged or not self._ordinary:
            return self._omitted
        # Of the others something is said.
        silent = [entry for entry in self._ordinary if not entry[1].judgement.verdict.findings] or self._ordinary
        first, place = min(silent, key=lambda entry: _REASONS.index(entry[0].reason))
        more = f" (and {len(silent) - 1} more)" if len(silent) > 1 else ""
        return [(replace(first, why=f"nothing was judged{self.in_part}: {first.why}{more}"), place)]

    @property
    def left_out(self) -> list[tuple[Omission, FindingPlace]]:
        """What was not judged, with the reason: objects, and parts of objects that were."""
        return [*self.omitted, *self.partial]

    @property
    def grouped(self) -> int:
        return sum(omission.reason is OmissionReason.GANG_ELSEWHERE for omission, _ in self._ordinary)

    @property
    def in_part(self) -> str:
        """What is to be added where no object was judged, if some have faults that objects of any kind may have."""
        return " in full" if self.findings else ""


def _annotated(document: Source, judgement: Judgement) -> Iterator[finding_details.Directive]:
    at = FieldPath((*judgement.at.parts, *(ANNOTATIONS / finding_details.ANNOTATION).parts))
    yield from finding_details.annotation_directives(value_at(document.manifest, at)[1])


def single_value(value: Any) -> str | int | float | bool | None:
    """Returns a scalar as it is, and None for a list or a mapping."""
    return value if isinstance(value, str | int | float | bool | None) else None


def finding_as_json(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "action": str(finding.action),
        "field": str(finding.at),
        "found": single_value(finding.value),
        "why": finding.why,
        "remedy": finding.remedy,
        "message": str(finding),
        "exception": None if finding.excepted is None else finding.excepted.as_json(),
    }


def omission_as_json(omission: Omission) -> dict[str, Any]:
    return {
        "reason": str(omission.reason),
        "field": str(omission.at),
        "why": omission.why,
        "remedy": omission.remedy,
        "message": str(omission),
    }


def unjudged_as_json(missing: Unjudged) -> dict[str, Any]:
    return {"rule": missing.rule, "field": str(missing.at), "needs": missing.needs, "remedy": missing.remedy}


class Position(NamedTuple):
    """File, line and column."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def position_in(document: Source, at: FieldPath) -> Position:
    return Position(document.source, *document.position(at))
