"""Trees of groups written by hand, for `rollcall explain`: read from manifests, printed as text or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from webhook.cli.explain_text import say
from webhook.cli.output import CLEAN, NOT_EVALUATED, REFUSED
from webhook.errors import InputError
from webhook.explain.group_forest import GROUP_KINDS, POD_KINDS, GroupForest
from webhook.explain.satisfiability import Branch, Kind, Standing, Verdict, judge, walk
from webhook.model.plain_text import printable
from webhook.model.reading import Malformed
from webhook.offline.judgement import requests_in
from webhook.pictures.boxes import Box
from webhook.pictures.folding import group_picture
from webhook.pictures.text import tree_lines
from webhook.sources.manifests import Document

_CODES = {Standing.CAN: CLEAN, Standing.CANNOT: REFUSED, Standing.NOT_TOLD: NOT_EVALUATED}
_ANSWERS = {Standing.CAN: ("can start", "green"), Standing.CANNOT: ("can never start", "bold red")}
_NOT_TOLD = ("not known whether it can start", "cyan")
# The first causes are printed: the later ones often follow from them.
_TOLD = 5


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A tree, the verdict on it, and the place of its first object."""

    place: tuple[str, int, int]
    tree: Branch
    verdict: Verdict

    @property
    def code(self) -> int:
        """Return the exit code for this tree."""
        return _CODES[self.verdict.standing]

    @property
    def box(self) -> Box:
        """Return the box of the tree for a picture."""
        return group_picture(self.tree)

    @property
    def untold(self) -> str:
        """Return what must be known for a verdict."""
        if any(branch.kind is Kind.TEMPLATE for branch, _ in walk(self.tree)):
            return "no group here was made from its templates"
        return "no pods here name a group"

    def as_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON values."""
        file, line, column = self.place
        found: dict[str, Any] = {"kind": str(self.tree.kind), "name": self.tree.full_name}
        found["answer"] = str(self.verdict.standing)
        found["why"] = [cause.as_json() for cause in self.verdict.causes]
        if self.verdict.standing is Standing.NOT_TOLD:
            found["needs"] = self.untold
        return found | {"tree": self.tree.as_json(), "file": file, "line": line, "column": column}


def trees_in(documents: Iterable[Document]) -> list[FoundTree]:
    """Return the trees that all `documents` make together. Raises `InputError`, `ReviewError`."""
    world = GroupForest()
    for document in documents:
        for request, at in requests_in(document.manifest, judged=GROUP_KINDS | POD_KINDS):
            try:
                world.add(request.kind.group, request.kind.version, request.object or {}, (document, at))
            except Malformed as error:
                why = f"{request.kind.kind} {request.namespace}/{request.name}: {error}"
                raise InputError(document.source, why, *document.position(at)) from None
    return [
        FoundTree((document.source, *document.position(at)), tree, judge(tree))
        for tree, (document, at) in world.trees()
    ]


def print_tree(found: FoundTree, out: Console) -> None:
    """Print the explanation of one tree."""
    file, line, column = found.place
    out.print(Text(printable(f"{file}:{line}:{column}: {found.tree.kind} {found.tree.full_name}"), "bold"))
    answer, style = _ANSWERS.get(found.verdict.standing, _NOT_TOLD)
    lead = Text.assemble("    ", (answer, style))
    first, *others = [str(cause) for cause in found.verdict.causes] or [""]
    if found.verdict.standing is Standing.NOT_TOLD:
        first = found.untold
    out.print(lead + (f": {printable(first)}" if first else ""))
    for other in others[: _TOLD - 1]:
        say(out, 2, f"and {other}")
    if len(others) >= _TOLD:
        say(out, 2, f"and {len(others) - _TOLD + 1} more")
    out.print()
    for line_of_tree in tree_lines(found.box):
        say(out, 1, line_of_tree)
    out.print()
