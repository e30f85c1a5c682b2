"""Trees of groups written by hand, found in manifests: the verdict on each, and the place of its first object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhook.errors import InputError
from webhook.explain.group_forest import GROUP_KINDS, POD_KINDS, GroupForest
from webhook.explain.satisfiability import Branch, Kind, Standing, Verdict, judge, walk
from webhook.model.reading import Malformed
from webhook.offline.judgement import requests_in
from webhook.offline.position import Position, position_in
from webhook.offline.report import Source


@dataclass(frozen=True, slots=True)
class FoundTree:
    """A tree, the verdict on it, and the place of its first object."""

    place: Position
    tree: Branch
    verdict: Verdict

    @property
    def untold(self) -> str:
        """Return what must be known for a verdict."""
        if any(branch.kind is Kind.TEMPLATE for branch, _ in walk(self.tree)):
            return "no group here was made from its templates"
        return "no pods here name a group"

    def as_json(self) -> dict[str, Any]:
        """Return the tree as plain JSON values."""
        found: dict[str, Any] = {"kind": str(self.tree.kind), "name": self.tree.full_name}
        found["answer"] = str(self.verdict.standing)
        found["why"] = [cause.as_json() for cause in self.verdict.causes]
        if self.verdict.standing is Standing.NOT_TOLD:
            found["needs"] = self.untold
        return found | {"tree": self.tree.as_json()} | self.place.as_json()


def trees_in(documents: Iterable[Source]) -> list[FoundTree]:
    """Return the trees that all `documents` make together. Raises `InputError`, `ReviewError`."""
    world = GroupForest()
    for document in documents:
        for request, at in requests_in(document.manifest, judged=GROUP_KINDS | POD_KINDS):
            try:
                world.add(request.kind.group, request.kind.version, request.object or {}, (document, at))
            except Malformed as error:
                why = f"{request.kind.kind} {request.namespace}/{request.name}: {error}"
                raise InputError(document.source, why, *document.position(at)) from None
    return [FoundTree(position_in(document, at), tree, judge(tree)) for tree, (document, at) in world.trees()]
