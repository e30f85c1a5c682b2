"""`rollcall fit`: whether a gang can ever start, with the proof if it cannot, and whether there is room now."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from webhook.cli.connection import connected, settings_there
from webhook.cli.explain import Picture, PictureOutput
from webhook.cli.explain_text import print_head, say
from webhook.cli.fit_objects import documents_there, objects_named, with_occupied
from webhook.cli.fit_text import print_entry
from webhook.cli.inputs import documents_of
from webhook.cli.judging_configuration import ConfigurationOrInstalled, judging_configuration
from webhook.cli.live import Live, facts_there, known_facts
from webhook.cli.options import (
    Facts,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    NamespaceOfNamed,
    Scheduler,
    assuming,
    console,
    judging_files,
    settings_of,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.config.settings import Settings
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.fit.verdict import Answer
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


def fit(  # noqa: PLR0913 - one parameter for each option
    command: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-|KIND/NAME",
            help="Manifests, `-` is standard input; or a podgang, pcs, job, jobset, lws or trainjob of a cluster.",
            show_default=False,
        ),
    ],
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    live: Live = False,
    config: ConfigurationOrInstalled = None,
    effort: Annotated[
        int,
        typer.Option(min=1, max=10_000, metavar="N", help="Spend N times the work of admission on each gang."),
    ] = 1,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 also if anything about a gang is not known or not judged.")
    ] = False,
    output: PictureOutput = Picture.TEXT,
    namespace: NamespaceOfNamed = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Say whether the gangs of a workload can ever start, and whether there is room for them now.

    *Never* is a proof: with these nodes, quotas and queues the scheduler cannot start the gang, whatever other pods
    come or go. The proof and a remedy are printed. It reaches as far as these nodes, or further: no node cures a quota.
    *Fits an empty cluster* has a placement. In all other cases the answer is *not known*, with the reason. A verdict on
    a template names what it assumes about other webhooks.

    Whether there is room *now* is an estimate: it needs the pods on nodes, which `--live` reads, or
    `kubectl get pods -A -o yaml` in `--facts`. If it is short, the running gangs are named that would have to go. Of
    gangs in other namespaces only the number is shown.

    `--effort` may only turn *not known* into one of the others. In a cluster that may grow, nothing is said about its
    nodes unless the configuration has its node groups (`fit.templates`).

    Exit code 0: no gang is known to never fit. 1: a gang never fits, or with `--strict` something about one is
    not known. 2: something cannot be read, or there is no workload. 3: no gang was judged, or the cluster cannot be
    read.

    **Examples**

    - `rollcall fit --facts cluster/ train.yaml`
    - `kubectl get nodes -o yaml > facts/nodes.yaml; rollcall fit --facts facts/ deploy/`
    - `rollcall fit --live --context prod --scheduler volcano train.yaml`
    - `rollcall fit jobset/train -n team-a --effort 100`
    - `rollcall fit --facts cluster/ -o svg train.yaml > train.svg`
    """
    if (named := objects_named(paths)) is not None:
        if facts or live or kubernetes is not None:
            refused = "--facts, --live and --kubernetes are for manifests: KIND/NAME reads the cluster"
            raise typer.BadParameter(refused)
        access = connected(kubeconfig, context)
        settings = judging_files(settings_there(config, access), scheduler)
        documents = documents_there(named, namespace, access)
        known = with_occupied(facts_there(settings, access), access)
    else:
        if namespace is not None:
            raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
        settings = settings_of(judging_configuration(command, config), scheduler)
        known = assuming(kubernetes, known_facts(facts, settings, kubeconfig, context, live=live), settings)
        documents = documents_of(paths)
        if live:
            known = with_occupied(known, connected(kubeconfig, context))
    worlds = Worlds(known, documents, settings.kinds)
    found = judged(documents, worlds, settings, effort)
    _print(found, worlds.remarks, output)
    if not found:
        tell("nothing to judge: no workload")
        raise typer.Exit(UNREADABLE)
    raise typer.Exit(_code_of([one.found for one in found], strict=strict))


def _code_of(found: list[Found], *, strict: bool) -> int:
    """Return the exit code. Workloads that have begun, or that ask for no gang, do not count."""
    verdicts = [one.entry.verdict for one in found if one.entry is not None]
    left_out = any(one.left_out for one in found)
    unknown = left_out or any(verdict.answer is Answer.UNKNOWN or verdict.causes for verdict in verdicts)
    if any(verdict.answer is Answer.NEVER for verdict in verdicts) or (strict and unknown):
        return REFUSED
    return NOT_EVALUATED if left_out and not verdicts else CLEAN


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
