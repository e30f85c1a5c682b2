"""What `rollcall fit` prints."""

from __future__ import annotations

from typing import Any, NamedTuple

import typer

from webhook.cli.explain import Picture
from webhook.cli.explain_text import print_head, say
from webhook.cli.fit_text import print_entry
from webhook.cli.options import (
    console,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.config.settings import Settings
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.fit.verdict import Answer
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.kubernetes_kinds import POD
from webhook.offline.fit import Found, fits_in, pods_of_gangs
from webhook.offline.judgement import kind_of, objects_in
from webhook.offline.position import Position, position_in
from webhook.pictures.fit import fit_picture
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.reports.fit_schema import FIT_VERSION
from webhook.sources.facts import Remark
from webhook.sources.manifests import Document
from webhook.sources.worlds import Worlds


class Judged(NamedTuple):
    """What was found in one document."""

    document: Document
    found: Found

    @property
    def place(self) -> Position:
        """The position of the workload."""
        return position_in(self.document, self.found.at)


def print_fits(
    documents: list[Document],
    known: ClusterFacts,
    settings: Settings,
    effort: int,
    output: Picture,
    *,
    strict: bool,
) -> int:
    """Print whether the gangs in the documents can start, and return the exit code. Raises `InputError`."""
    worlds = Worlds(known, documents, settings.kinds)
    found = judged(documents, worlds, settings, effort)
    _print(found, worlds.remarks, output)
    if not found:
        tell("nothing to judge: no workload")
        return UNREADABLE
    return _code_of([one.found for one in found], strict=strict)


def _code_of(found: list[Found], *, strict: bool) -> int:
    """Return the exit code: a gang that never fits counts before nothing that was judged, and that before something
    that is not known. Workloads that have begun, or that ask for no gang, do not count.
    """
    verdicts = [one.entry.verdict for one in found if one.entry is not None]
    left_out = any(one.left_out for one in found)
    if any(verdict.answer is Answer.NEVER for verdict in verdicts):
        return REFUSED
    if left_out and not verdicts:
        return NOT_EVALUATED
    unknown = left_out or any(verdict.answer is Answer.UNKNOWN or verdict.causes for verdict in verdicts)
    return REFUSED if strict and unknown else CLEAN


def judged(documents: list[Document], worlds: Worlds, settings: Settings, effort: int) -> list[Judged]:
    """Return what is found in each document. Raises `InputError`."""
    found: list[Judged] = []
    every = (raw for document in documents for raw, _ in objects_in(document.manifest))
    pods = pods_of_gangs(raw for raw in every if kind_of(raw)[::2] == POD)
    for document in documents:
        try:
            for one in fits_in(document.manifest, worlds.of(document), settings, effort, pods):
                if one.broken is not None:
                    path, why = one.broken
                    place = document.position(FieldPath((*one.at.parts, *path.parts)))
                    raise InputError(document.source, f"{path}: {why}", *place)
                found.append(Judged(document, one))
        except (ReviewError, TooLarge) as error:
            raise InputError(document.source, str(error), document.line, 1) from None
    return found


def _print(found: list[Judged], remarks: list[Remark], output: Picture) -> None:
    entries = [one.found.entry for one in found if one.found.entry is not None]
    if output is not Picture.JSON:
        for remark in remarks:
            tell(str(remark))
    if output in {Picture.MERMAID, Picture.SVG}:
        # A picture shows gangs alone.
        for one in found:
            if one.found.note:
                tell(f"{one.place}: {one.found.note}")
    match output:
        case Picture.JSON:
            gangs = [one.found.entry.as_json() | one.place.as_json() for one in found if one.found.entry is not None]
            notes = [
                position_in(remark.document, remark.at).as_json() | {"message": remark.message} for remark in remarks
            ]
            notes += [one.place.as_json() | {"message": one.found.note} for one in found if one.found.note]
            left_out = [_left_out(one) for one in found if one.found.left_out]
            typer.echo(as_json_text({"fitVersion": FIT_VERSION, "gangs": gangs, "notJudged": left_out, "notes": notes}))
        case Picture.MERMAID:
            typer.echo(flowchart([fit_picture(one) for one in entries]), nl=False)
        case Picture.SVG:
            typer.echo(drawing([fit_picture(one) for one in entries]), nl=False)
        case Picture.TEXT:
            _print_text(found)


def _left_out(one: Judged) -> dict[str, Any]:
    """Return a workload of which no gang is judged as plain JSON values."""
    kind, namespace, name = one.found.workload
    return {"kind": kind, "namespace": namespace, "name": name, **one.place.as_json(), "why": one.found.note}


def _print_text(found: list[Judged]) -> None:
    out = console()
    before: object = None
    for one in found:
        if (head := (one.document, one.found.at)) != before:
            before = head
            kind, namespace, name = one.found.workload
            print_head(one.place, f"{kind} {namespace}/{name}", out)
        if one.found.note:
            say(out, 1, one.found.note)
            out.print()
        if one.found.entry is not None:
            print_entry(one.found.entry, out)
