"""`rollcall explain`: which schedulers could run a workload, what refuses it, and what would help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from webhook.admission.opinion import Answer
from webhook.cli.explain_gang import explain_gangs, gangs_named
from webhook.cli.explain_groups import code_of, print_tree
from webhook.cli.explain_text import print_explanation
from webhook.cli.options import (
    Configuration,
    Facts,
    Grove,
    Kubeconfig,
    KubeContext,
    Scheduler,
    console,
    facts_of,
    inputs_of,
    judging_files,
    settings_of,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.config.file import choosing_settings
from webhook.config.settings import Settings
from webhook.errors import InputError, ReviewError
from webhook.explain.found_trees import FoundTree, trees_in
from webhook.explain.workload import Explanation, explain_document
from webhook.model.fields import FieldPath
from webhook.model.grove_generation import GroveGeneration
from webhook.pictures.folding import gang_picture, group_picture
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.sources.facts import one_world
from webhook.sources.manifests import Document, read_file, read_standard_input

_ASSUMED = "no --config: default-scheduler is shown with gangScheduling, as Kubernetes 1.37 has it"
_CODES = {Answer.RUNS: CLEAN, Answer.PARTLY: CLEAN, Answer.REFUSED: REFUSED, Answer.UNKNOWN: NOT_EVALUATED}


class Picture(StrEnum):
    """The formats of `explain`."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    SVG = "svg"


class Found(NamedTuple):
    """An explanation, and the place of its workload."""

    document: Document
    at: FieldPath
    explanation: Explanation

    @property
    def place(self) -> tuple[str, int, int]:
        """File, line and column."""
        return (self.document.source, *self.document.position(self.at))


def explain(  # noqa: PLR0913 - one parameter for each option
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|DIR|-|KIND/NAME...",
            help="Manifests, `-` is standard input; or a podgang, job, jobset or lws of a cluster.",
            show_default=False,
        ),
    ],
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    config: Configuration = None,
    grove: Grove = None,
    output: Annotated[Picture, typer.Option("--output", "-o", help="What to print.")] = Picture.TEXT,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of KIND/NAME.", show_default="default"),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
) -> None:
    """Show which schedulers could run a workload, what stops each of the others, and the smallest edit that would help.
    For gang objects written by hand: whether their trees can ever start. For a PodGang, Job, JobSet or LeaderWorkerSet
    in a cluster: why it does not start.

    For each PodCliqueSet it prints what the set asks for, each scheduler's answer, the edits, and the gangs as a tree.
    For each TrainJob, JobSet, LeaderWorkerSet and Job it prints the same without edits. `-o mermaid` prints the tree as
    a flowchart, `-o svg` as a drawing. Without `--config` every installed scheduler is considered, and kube-scheduler
    with gangs enabled. PodGroups, CompositePodGroups, Workloads and pods of all files are read together: each of their
    trees is shown with the minimum and the actual number at every level, and why it can never start.

    The PodGangs of a PodCliqueSet are named as by Grove v0.1.0-alpha.12 and later, with `<epoch>` for the number that
    Grove will choose, or by `--grove legacy` as by the releases before.

    Exit code 0: the chosen scheduler refuses nothing and the tree can start. 1: the scheduler refuses something or the
    tree cannot start. 2: something cannot be read. 3: more facts or pods are needed to decide. For KIND/NAME 0: the
    gang has started. 1: it is held. 2: it does not exist. 3: the cluster cannot be read.

    **Examples**

    - `rollcall explain set.yaml`
    - `rollcall explain --config rollcall.yaml --facts cluster/ -o json deploy/`
    - `kubectl get podcliqueset demo -o yaml | rollcall explain -o mermaid -`
    - `rollcall explain -o svg gang-objects/ > gangs.svg`
    - `rollcall explain podgang/demo-0 -n team-a --config rollcall.yaml`
    - `rollcall explain jobset/train lws/serve -n team-a --config rollcall.yaml`
    """
    if (named := gangs_named(paths)) is not None:
        if scheduler is not None or facts or grove is not None or output in {Picture.MERMAID, Picture.SVG}:
            refused = "--scheduler, --facts, --grove and -o mermaid or svg are for manifests, not for KIND/NAME"
            raise typer.BadParameter(refused)
        as_json = output is Picture.JSON
        raise typer.Exit(explain_gangs(named, namespace, config, kubeconfig, context, as_json=as_json))
    if namespace is not None or kubeconfig is not None or context is not None:
        raise typer.BadParameter("--namespace, --kubeconfig and --context are for KIND/NAME, not for manifests")
    settings, known = _settings(config, scheduler, grove), facts_of(facts)
    documents = [
        document
        for path in inputs_of(paths)
        for document in (read_file(path) if isinstance(path, Path) else read_standard_input())
    ]
    known = one_world(known, documents)
    found: list[Found] = []
    for document in documents:
        try:
            explained = list(explain_document(document.manifest, known, settings))
        except ReviewError as error:
            raise InputError(document.source, str(error), document.line, 1) from None
        found += [Found(document, one.at, one.explanation) for one in explained]
    trees = trees_in(documents)
    _print(found, trees, output, [_ASSUMED] if config is None else [])
    if not found and not trees:
        tell("nothing to explain: no workload, and no gang object")
        raise typer.Exit(UNREADABLE)
    answers = (one.explanation.answer for one in found)
    codes = {*(CLEAN if answer is None else _CODES[answer] for answer in answers), *map(code_of, trees)}
    # A refusal is certain, even if other facts are unknown.
    raise typer.Exit(REFUSED if REFUSED in codes else max(codes))


def _print(found: list[Found], trees: list[FoundTree], output: Picture, assumed: list[str]) -> None:
    boxes = [gang_picture(one.explanation.tree) for one in found if one.explanation.tree is not None]
    boxes += [group_picture(one.tree) for one in trees]
    if output is Picture.JSON:
        typer.echo(as_json_text(_json(found, trees, assumed)))
    elif output is Picture.MERMAID:
        typer.echo(flowchart(boxes), nl=False)
    elif output is Picture.SVG:
        typer.echo(drawing(boxes), nl=False)
    else:
        out = console()
        for one in found:
            print_explanation(one.place, one.explanation, out)
        for tree in trees:
            print_tree(tree, out)
        for note in assumed if found else []:
            out.print(note, style="dim")


def _settings(config: Path | None, scheduler: str | None, grove: GroveGeneration | None) -> Settings:
    if config is not None:
        return settings_of(config, scheduler, grove)
    return judging_files(choosing_settings(), scheduler, grove)


def _json(found: list[Found], trees: list[FoundTree], assumed: list[str]) -> dict[str, Any]:
    workloads = []
    for one in found:
        file, line, column = one.place
        workloads.append(one.explanation.as_json() | {"file": file, "line": line, "column": column})
    return {"workloads": workloads, "trees": [one.as_json() for one in trees], "assumed": assumed}
