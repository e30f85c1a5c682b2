"""What `rollcall explain` prints of manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import typer

from webhook.admission.opinion import Answer
from webhook.cli.explain import Picture
from webhook.cli.explain_groups import code_of, print_tree
from webhook.cli.explain_text import print_explanation, print_names
from webhook.cli.options import (
    console,
)
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED, UNREADABLE, as_json_text, tell
from webhook.clock import MACHINE_CLOCK
from webhook.config.settings import Settings
from webhook.errors import InputError, ReviewError, TooLarge
from webhook.explain.found_trees import FoundTree, trees_in
from webhook.explain.workload import Explanation, explain_document
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.offline.judgement import Judgement, names_in
from webhook.offline.position import Position, position_in
from webhook.offline.report import finding_as_json
from webhook.pictures.folding import gang_picture, group_picture
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.sources.manifests import Document
from webhook.sources.worlds import Worlds

_ASSUMED = "no --config: every scheduler is shown with its defaults, default-scheduler without gangScheduling"
_CODES = {Answer.RUNS: CLEAN, Answer.PARTLY: CLEAN, Answer.REFUSED: REFUSED, Answer.UNKNOWN: NOT_EVALUATED}


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


def print_explanations(
    documents: list[Document], known: ClusterFacts, settings: Settings, output: Picture, config: Path | None
) -> int:
    """Print what is explained of each document, and return the exit code. Raises `InputError`."""
    worlds = Worlds(known, documents, settings.kinds)
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
        return UNREADABLE
    codes = {*(_code_of(one.explanation) for one in found), *map(code_of, trees)}
    # A refusal is certain, even if other facts are unknown.
    return REFUSED if REFUSED in codes else max(codes)


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
