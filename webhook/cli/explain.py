"""`rollcall explain`: which schedulers could run a workload, what refuses it, and what would help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from webhook.admission.opinion import Answer
from webhook.cli.explain_gang import explain_gangs, gangs_named
from webhook.cli.explain_groups import code_of, print_tree
from webhook.cli.explain_text import print_explanation, print_names
from webhook.cli.inputs import documents_of
from webhook.cli.judging_configuration import ConfigurationOrInstalled, judging_configuration
from webhook.cli.live import Live, known_facts
from webhook.cli.options import (
    Facts,
    Grove,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    NamespaceOfNamed,
    Scheduler,
    SchemaFiles,
    assuming,
    console,
    settings_of,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.clock import MACHINE_CLOCK
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.explain.found_trees import FoundTree, trees_in
from webhook.explain.workload import Explanation, explain_document
from webhook.model.fields import FieldPath
from webhook.offline.judgement import Judgement, names_in
from webhook.offline.position import Position, position_in
from webhook.offline.report import finding_as_json
from webhook.pictures.folding import gang_picture, group_picture
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.sources.facts import with_field_names
from webhook.sources.manifests import Document
from webhook.sources.worlds import Worlds

_ASSUMED = "no --config: every scheduler is shown with its defaults, default-scheduler without gangScheduling"
_CODES = {Answer.RUNS: CLEAN, Answer.PARTLY: CLEAN, Answer.REFUSED: REFUSED, Answer.UNKNOWN: NOT_EVALUATED}


class Picture(StrEnum):
    """The formats of `explain`."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"


PictureOutput = Annotated[Picture, typer.Option("--output", "-o", help="What to print.")]


class Found(NamedTuple):
    """An explanation, and the place of its workload."""

    document: Document
    at: FieldPath
    explanation: Explanation

    @property
    def place(self) -> Position:
        """The position of the workload."""
        return position_in(self.document, self.at)


class Named(NamedTuple):
    """An object that is not explained, with what is wrong with the names in it."""

    document: Document
    judgement: Judgement

    @property
    def place(self) -> Position:
        """The position of the object."""
        return position_in(self.document, self.judgement.at)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the findings as plain JSON values."""
        judged = self.judgement
        named = {"kind": judged.kind, "namespace": judged.namespace, "name": judged.name}
        place = {"object": named, **self.place.as_json()}
        return [finding_as_json(found) | place for found in judged.verdict.findings]


def explain(  # noqa: PLR0913 - one parameter for each option
    command: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-|KIND/NAME",
            help="Manifests, `-` is standard input; or a podgang, pcs, job, jobset, lws or pod of a cluster.",
            show_default=False,
        ),
    ],
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    schemas: SchemaFiles = None,
    live: Live = False,
    config: ConfigurationOrInstalled = None,
    grove: Grove = None,
    output: PictureOutput = Picture.TEXT,
    namespace: NamespaceOfNamed = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Show which schedulers could run a workload, what stops each of the others, and the smallest edit that would help.
    For gang objects written by hand: whether their trees can ever start. For a PodGang, Job, JobSet or LeaderWorkerSet
    in a cluster: why it does not start.

    For each PodCliqueSet it prints what the set asks for, each scheduler's answer, the edits, and the gangs as a tree.
    For each TrainJob, JobSet, LeaderWorkerSet and Job it prints the same without edits. `-o mermaid` prints the tree as
    a flowchart, `-o svg` as a drawing. Without `--config` every installed scheduler is considered with its defaults, so
    default-scheduler makes no gangs. PodGroups, CompositePodGroups, Workloads and pods of all files are read together:
    each of their trees is shown with the minimum and the actual number at every level, and why it can never start.

    The PodGangs of a PodCliqueSet are named as by Grove v0.1.0-alpha.12 and later, with `<epoch>` for the number that
    Grove will choose, or by `--grove legacy` as by the releases before.

    Exit code 0: the chosen scheduler refuses nothing and the tree can start. 1: the scheduler refuses something or the
    tree cannot start. 2: something cannot be read. 3: more facts or pods are needed to decide, or the workload is not
    opted in. For KIND/NAME 0: the gang has started. 1: it is held. 2: it does not exist. 3: the cluster cannot be read.

    **Examples**

    - `rollcall explain set.yaml`
    - `rollcall explain --config rollcall.yaml --facts cluster/ -o json deploy/`
    - `kubectl get podcliqueset demo -o yaml | rollcall explain -o mermaid -`
    - `rollcall explain -o svg gang-objects/ > gangs.svg`
    - `rollcall explain --live --context prod set.yaml`
    - `rollcall explain pcs/demo -n team-a`
    - `rollcall explain pod/demo-0-worker-x7k2p -n team-a`
    - `rollcall explain jobset/train lws/serve -n team-a --config rollcall.yaml`
    """
    if (named := gangs_named(paths)) is not None:
        of_files = scheduler is not None or facts or live or grove is not None or kubernetes is not None
        if of_files or output in {Picture.MERMAID, Picture.SVG}:
            refused = (
                "--scheduler, --facts, --kubernetes, --live, --grove, -o mermaid and -o svg are for manifests, not for "
                "KIND/NAME"
            )
            raise typer.BadParameter(refused)
        as_json = output is Picture.JSON
        raise typer.Exit(explain_gangs(named, namespace, config, kubeconfig, context, as_json=as_json))
    if namespace is not None:
        raise typer.BadParameter("--namespace is for KIND/NAME, not for manifests")
    config = judging_configuration(command, config)
    settings = settings_of(config, scheduler, grove)
    known = assuming(kubernetes, known_facts(facts, settings, kubeconfig, context, live=live), settings)
    documents = documents_of(paths)
    worlds = Worlds(with_field_names(known, schemas or ()), documents, settings.kinds)
    for remark in worlds.remarks:
        tell(str(remark))
    found: list[Found] = []
    others: list[Named] = []
    for document in documents:
        known = worlds.of(document)
        try:
            explained = list(explain_document(document.manifest, known, settings, MACHINE_CLOCK.now()))
        except (ReviewError, TooLarge) as error:
            raise InputError(document.source, str(error), document.line, 1) from None
        found += [Found(document, one.at, one.explanation) for one in explained]
        places = {one.at for one in explained}
        every = names_in(document.manifest, known, settings)
        others += [Named(document, one) for one in every if one.at not in places]
    trees = trees_in(documents)
    _print(found, trees, others, output, config)
    if not found and not trees:
        tell("nothing to explain: no workload, and no gang object")
        raise typer.Exit(UNREADABLE)
    codes = {*(_code_of(one.explanation) for one in found), *map(code_of, trees)}
    # A refusal is certain, even if other facts are unknown.
    raise typer.Exit(REFUSED if REFUSED in codes else max(codes))


def _code_of(explanation: Explanation) -> int:
    if explanation.answer is not None:
        return _CODES[explanation.answer]
    # Without a scheduler nothing is decided; of a workload that asks for no gang there is nothing to decide.
    is_ordinary = explanation.omission is None or explanation.omission.is_ordinary
    return CLEAN if is_ordinary else NOT_EVALUATED


def _print(
    found: list[Found], trees: list[FoundTree], named: list[Named], output: Picture, config: Path | None
) -> None:
    assumed = [_ASSUMED] if config is None else []
    boxes = [gang_picture(one.explanation.tree) for one in found if one.explanation.tree is not None]
    boxes += [group_picture(one.tree) for one in trees]
    if output is Picture.JSON:
        typer.echo(as_json_text(_json(found, trees, named, assumed) | {"configuration": config and str(config)}))
    elif output is Picture.MERMAID:
        typer.echo(flowchart(boxes), nl=False)
    elif output is Picture.SVG:
        typer.echo(drawing(boxes), nl=False)
    else:
        out = console()
        for other in named:
            print_names(other.place, other.judgement, out)
        for one in found:
            print_explanation(one.place, one.explanation, out)
        for tree in trees:
            print_tree(tree, out)
        for note in assumed if found else []:
            out.print(note, style="dim")


def _json(found: list[Found], trees: list[FoundTree], named: list[Named], assumed: list[str]) -> dict[str, Any]:
    workloads = [one.explanation.as_json() | one.place.as_json() for one in found]
    others = [entry for one in named for entry in one.as_json()]
    trees_found = [one.as_json() for one in trees]
    return {"workloads": workloads, "trees": trees_found, "otherObjects": others, "assumed": assumed}
