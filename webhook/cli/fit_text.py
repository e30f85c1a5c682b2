"""What `rollcall fit` reads of a cluster and prints: the verdict with its proof, the estimate of now, the domains, and
the picture.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from webhook.cli.author_commands import Picture
from webhook.cli.explanation_text import print_head, say
from webhook.cli.options import console
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, InputError, NotFound, RequestFailed, ReviewError, TooLarge
from webhook.fit.feasibility import RoomAnswer
from webhook.fit.verdict import FitAnswer
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.findings import printable, shown
from webhook.model.known_kinds import JOB_SETS, JOBS, LEADER_WORKER_SETS, POD, PODS, TRAIN_JOBS
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, Resource
from webhook.offline import fit_report
from webhook.offline.fact_files import FactRemark
from webhook.offline.judgement import kind_of, objects_in
from webhook.offline.manifests import Document, document_of
from webhook.offline.pictures import drawing, fit_picture, flowchart, tree_lines
from webhook.offline.report import Position, position_in
from webhook.offline.report_schemas import FIT_VERSION
from webhook.offline.worlds import Worlds

if TYPE_CHECKING:
    from webhook.cluster.access import Access

# The kinds that have gangs, by their kubectl names.
KINDS = {
    **dict.fromkeys(("podgang", "podgangs"), POD_GANGS.resource),
    **dict.fromkeys(("pcs", "podcliqueset", "podcliquesets"), POD_CLIQUE_SETS.resource),
    **dict.fromkeys(("job", "jobs"), JOBS),
    **dict.fromkeys(("jobset", "jobsets"), JOB_SETS),
    **dict.fromkeys(("lws", "leaderworkerset", "leaderworkersets"), LEADER_WORKER_SETS),
    **dict.fromkeys(("trainjob", "trainjobs"), TRAIN_JOBS),
}
_SHOWN = ("podgang", "pcs", "job", "jobset", "lws", "trainjob")
# With or without the API group, as `kubectl -o name` prints it.
_NAMED = re.compile(r"(?P<kind>[a-zA-Z]+)(\.[a-z0-9.-]+)?/(?P<name>[a-z0-9]([a-z0-9.-]*[a-z0-9])?)")
_IS_FILE = (".yaml", ".yml", ".json")


class ObjectReference(NamedTuple):
    """An object of a cluster, as it was named."""

    argument: str
    resource: Resource
    name: str


def object_references(arguments: Sequence[str]) -> list[ObjectReference] | None:
    """Returns the arguments as objects that have gangs; None if they are files. Raises `typer.BadParameter`."""
    references = [_reference(argument) for argument in arguments]
    if not any(references):
        return None
    if not all(references):
        raise typer.BadParameter("KIND/NAME is in a cluster, and a file is not: judge them one after another")
    return [reference for reference in references if reference is not None]


def _reference(argument: str) -> ObjectReference | None:
    matched = _NAMED.fullmatch(argument)
    paths = (Path(argument), Path(argument.partition("/")[0]))
    if matched is None or argument.endswith(_IS_FILE) or any(path.exists() for path in paths):
        return None
    resource = KINDS.get(matched["kind"].lower())
    if resource is None:
        raise typer.BadParameter(
            f"{argument}: there is no such file, and the KIND of KIND/NAME must be one of {', '.join(_SHOWN)}"
        )
    return ObjectReference(argument, resource, matched["name"])


def read_documents(references: Sequence[ObjectReference], namespace: str | None, access: Access) -> list[Document]:
    """Returns the objects as documents. Raises `InputError` for one that does not exist, `FactsUnavailable`."""
    return asyncio.run(_documents(references, namespace or access.namespace or "default", access))


async def _documents(references: Sequence[ObjectReference], namespace: str, access: Access) -> list[Document]:
    from webhook.cluster.client import Client
    from webhook.cluster.requests import read

    client, documents = Client(access), []
    try:
        for reference in references:
            raw = (await client.get(read(reference.resource, reference.name, namespace))).content
            api = reference.resource.api
            typed = {"apiVersion": f"{api.group}/{api.version}".lstrip("/"), "kind": api.kind, **raw}
            documents.append(document_of(typed, reference.argument))
            if reference.resource == POD_GANGS.resource:
                selector = {"labelSelector": f"{grove.LABEL_PODGANG}={reference.name}"}
                async for raw in client.items(PODS, namespace=namespace, selector=selector):
                    pod = {"apiVersion": "v1", "kind": PODS.api.kind, **raw}
                    documents.append(document_of(pod, reference.argument))
    except NotFound:
        raise InputError(
            reference.argument, f"there is no {reference.resource.api.kind} {namespace}/{reference.name}"
        ) from None
    except RequestFailed as error:
        raise FactsUnavailable(f"{reference.argument} cannot be read: {error}") from None
    finally:
        await client.close()
    return documents


def add_occupied_room(facts: ClusterFacts, access: Access) -> ClusterFacts:
    """Returns the facts with what holds room on the nodes of a cluster. Standard error says if that cannot be read."""
    from webhook.operations.cluster_facts import read_occupied

    try:
        occupied = asyncio.run(read_occupied(access))
    except RequestFailed as error:
        tell(f"pods could not be read: {error}; so it is not known what is free now")
        return facts
    return replace(facts, node_pods=occupied.pods, node_reservations=occupied.reservations)


_STYLES = {FitAnswer.NEVER: "bold red", FitAnswer.FITS: "green", FitAnswer.UNKNOWN: "cyan"}
# More domains do not fit on a screen; `-o json` has all.
_MOST_ROWS = 10
_GAP = 2


def print_entry(entry: fit_report.FitEntry, out: Console) -> None:
    verdict = entry.verdict
    lead = Text.assemble("    ", (f"gang {printable(entry.gang)}", "bold"), f" ({entry.scheduler})")
    more = f" and {entry.more:,} more like it" if entry.more else ""
    out.print(Text.assemble(lead, f"{more}: ", (fit_report.verdict_words(verdict), _STYLES[verdict.answer])))
    for name, value in _fields(entry):
        say(out, 2, f"{name:<4} {value}")
    rows = fit_report.table_of(entry.domains)
    if rows:
        out.print()
        _print_table(rows, out)
    if len(entry.domains) > 1 or verdict.placement:
        out.print()
        for line in tree_lines(fit_picture(entry)):
            say(out, 2, line)
    out.print()


def _fields(entry: fit_report.FitEntry) -> Iterator[tuple[str, str]]:
    verdict, witness, now = entry.verdict, entry.verdict.witness, entry.now
    if witness is not None:
        yield "at", f"{witness.at}: {shown(witness.value)}"
        yield "why", witness.why
        yield "do", witness.remedy
    for cause in verdict.causes:
        yield ("but", f"not judged: {cause}") if verdict.answer is FitAnswer.FITS else ("why", cause)
    if entry.surplus is not None and not entry.never:
        yield "but", fit_report.surplus_words(entry.surplus, entry.scheduler)
    for assumption in verdict.assumptions if witness is not None else entry.relies_on:
        yield "if", assumption
    if entry.without_growth is not None:
        yield "now", f"does not fit the nodes that there are: {entry.without_growth.why}; the cluster may grow"
    elif now is not None and not entry.never:
        yield "now", f"{fit_report.now_words(now)} (an estimate)"
        if now.answer is RoomAnswer.SHORT:
            for words in fit_report.leaving_words(now):
                yield "evict", words


def _print_table(rows: list[tuple[str, ...]], out: Console) -> None:
    shown_rows = rows[: _MOST_ROWS + 1]
    widths = [max(len(printable(row[index])) for row in shown_rows) for index in range(len(rows[0]))]
    for index, row in enumerate(shown_rows):
        cells = (printable(cell).ljust(width + _GAP) for cell, width in zip(row, widths, strict=True))
        line = Text(" " * 8 + "".join(cells), "dim" if index == 0 else "")
        line.rstrip()
        out.print(line, soft_wrap=True)
    if len(rows) > len(shown_rows):
        out.print(Text(f"{' ' * 8}and {len(rows) - len(shown_rows):,} more", "dim"))


class JudgedDocument(NamedTuple):
    """One gang, or what is said of a workload, and the document of the workload."""

    document: Document
    fit: fit_report.DocumentFit

    @property
    def place(self) -> Position:
        """The position of the workload."""
        return position_in(self.document, self.fit.at)


def print_fits(
    documents: list[Document],
    cluster_facts: ClusterFacts,
    settings: Settings,
    effort: int,
    output: Picture,
    *,
    strict: bool,
) -> int:
    """Prints whether the gangs in the documents can start, and returns the exit code. Raises `InputError`."""
    worlds = Worlds(cluster_facts, documents, settings.kinds)
    judged_documents = judge_documents(documents, worlds, settings, effort)
    _print(judged_documents, worlds.remarks, output)
    if not judged_documents:
        tell("nothing to judge: no workload")
        return UNREADABLE
    return _code_of([document.fit for document in judged_documents], strict=strict)


def _code_of(fits: list[fit_report.DocumentFit], *, strict: bool) -> int:
    """Returns the exit code: a gang that never fits counts before nothing that was judged, and that before something
    that is not known. Workloads that have begun, or that ask for no gang, do not count.
    """
    verdicts = [fit.entry.verdict for fit in fits if fit.entry is not None]
    left_out = any(fit.left_out for fit in fits)
    if any(verdict.answer is FitAnswer.NEVER for verdict in verdicts):
        return REFUSED
    if left_out and not verdicts:
        return NOT_EVALUATED
    unknown = left_out or any(verdict.answer is FitAnswer.UNKNOWN or verdict.causes for verdict in verdicts)
    return REFUSED if strict and unknown else CLEAN


def judge_documents(documents: list[Document], worlds: Worlds, settings: Settings, effort: int) -> list[JudgedDocument]:
    judged_documents: list[JudgedDocument] = []
    every = (raw for document in documents for raw, _ in objects_in(document.manifest))
    pods = fit_report.pods_of_gangs(raw for raw in every if kind_of(raw)[::2] == POD)
    for document in documents:
        try:
            for fit in fit_report.fits_in(document.manifest, worlds.facts_for(document), settings, effort, pods):
                if fit.broken is not None:
                    path, why = fit.broken
                    place = document.position(FieldPath((*fit.at.parts, *path.parts)))
                    raise InputError(document.source, f"{path}: {why}", *place)
                judged_documents.append(JudgedDocument(document, fit))
        except (ReviewError, TooLarge) as error:
            raise InputError(document.source, str(error), document.line, 1) from None
    return judged_documents


def _print(judged_documents: list[JudgedDocument], remarks: list[FactRemark], output: Picture) -> None:
    entries = [document.fit.entry for document in judged_documents if document.fit.entry is not None]
    if output is not Picture.JSON:
        for remark in remarks:
            tell(str(remark))
    if output in {Picture.MERMAID, Picture.SVG}:
        # A picture shows gangs alone.
        for document in judged_documents:
            if document.fit.note:
                tell(f"{document.place}: {document.fit.note}")
    match output:
        case Picture.JSON:
            gangs = [
                document.fit.entry.as_json() | document.place._asdict()
                for document in judged_documents
                if document.fit.entry is not None
            ]
            notes = [
                position_in(remark.document, remark.at)._asdict() | {"message": remark.message} for remark in remarks
            ]
            notes += [
                document.place._asdict() | {"message": document.fit.note}
                for document in judged_documents
                if document.fit.note
            ]
            left_out = [_left_out(document) for document in judged_documents if document.fit.left_out]
            typer.echo(as_json_text({"fitVersion": FIT_VERSION, "gangs": gangs, "notJudged": left_out, "notes": notes}))
        case Picture.MERMAID:
            typer.echo(flowchart([fit_picture(entry) for entry in entries]), nl=False)
        case Picture.SVG:
            typer.echo(drawing([fit_picture(entry) for entry in entries]), nl=False)
        case Picture.TEXT:
            _print_text(judged_documents)


def _left_out(document: JudgedDocument) -> dict[str, Any]:
    kind, namespace, name = document.fit.workload
    return {"kind": kind, "namespace": namespace, "name": name, **document.place._asdict(), "why": document.fit.note}


def _print_text(judged_documents: list[JudgedDocument]) -> None:
    out = console()
    before: object = None
    for document in judged_documents:
        # Objects that were read from a cluster have one position.
        if (head := (document.document, document.fit.at)) != before:
            before = head
            kind, namespace, name = document.fit.workload
            print_head(document.place, f"{kind} {namespace}/{name}", out)
        if document.fit.note:
            say(out, 1, document.fit.note)
            out.print()
        if document.fit.entry is not None:
            print_entry(document.fit.entry, out)
