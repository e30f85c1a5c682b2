"""The types of the fields that a WorkloadShape reads, for the report about a workload that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

from webhook.model.workloads.shapes.condition import Condition
from webhook.model.workloads.shapes.count import Count
from webhook.model.workloads.shapes.path import Each, ShapePath
from webhook.model.workloads.shapes.shape import PartShape, Statement, WorkloadShape
from webhook.validators.wrong_types import METADATA, POD_SPEC, WORDS, Entries

_TEMPLATE: dict[str, Any] = {"metadata": METADATA, "spec": POD_SPEC}
_FLAT: dict[str, Any] = {"labels": WORDS, "annotations": WORDS, "schedulerName": str, "priorityClassName": str}
_SCALAR = (str, int, bool)


class _Typed(NamedTuple):
    """A path, the entries that it may begin at, and the type of its value."""

    path: ShapePath
    entries: tuple[ShapePath, ...]
    type: Any


@lru_cache(maxsize=256)
def declared_types(shape: WorkloadShape) -> dict[str, Any]:
    """Return the types of the fields that a shape reads, in the form of `wrong_types`. The result is shared."""
    root: dict[Any, Any] = {"metadata": dict(METADATA), "spec": {}}
    for path, entries, wanted in _typed(shape):
        if path.of_entry:
            for each in entries:
                _put(root, (*each.steps, *path.steps), wanted)
        else:
            _put(root, path.steps, wanted)
    found: dict[str, Any] = _finished(root)
    return found


def _typed(shape: WorkloadShape) -> Iterator[_Typed]:
    for part in shape.parts:
        yield from _of_part(part)
    for carried in shape.carried:
        yield _Typed(carried.path, (), str)
        yield from _of_conditions(carried.when, ())
    for mark in shape.marked:
        yield _Typed(mark, (), METADATA)
    yield from _of_conditions((*shape.suspended, *shape.elsewhere), ())
    for said in shape.statements:
        yield from _of_statement(said)


def _of_part(part: PartShape) -> Iterator[_Typed]:
    entries = () if part.each is None else (part.each,)
    if part.name.path is not None:
        yield _Typed(part.name.path, entries, str)
    for path in part.templates:
        yield _Typed(path, entries, _FLAT if part.flat else _TEMPLATE)
    if part.spec is not None:
        yield _Typed(part.spec, entries, POD_SPEC)
    yield from _of_count(part.pods, entries)
    yield from _of_conditions(part.when, entries)
    for minimum in (*part.minimums, *part.lowest):
        yield from _of_count(minimum.count, entries)
        yield from _of_conditions(minimum.when, entries)


def _of_statement(said: Statement) -> Iterator[_Typed]:
    yield from _of_conditions(said.when, () if said.each is None else (said.each,))


def _of_count(count: Count, entries: tuple[ShapePath, ...]) -> Iterator[_Typed]:
    if count.path is not None:
        yield _Typed(count.path, entries, int)
    yield from _of_conditions(count.zero_if, entries)
    for inner in count:
        yield from _of_count(inner, entries)


def _of_conditions(conditions: tuple[Condition, ...], entries: tuple[ShapePath, ...]) -> Iterator[_Typed]:
    for one in conditions:
        if one.exists is None:
            yield _Typed(one.path, entries, _SCALAR)


def _put(root: dict[Any, Any], steps: tuple[str | Each, ...], wanted: Any) -> None:
    """Put a type at its place. A number is more exact than the scalar of a condition."""
    if not steps:
        return
    below = root
    for step in steps[:-1]:
        found = below.setdefault(step, {})
        if not isinstance(found, dict):
            return
        below = found
    known = below.get(steps[-1])
    if isinstance(known, dict) and isinstance(wanted, dict):
        below[steps[-1]] = {**known, **wanted}
    elif known is None or known == _SCALAR:
        # Other fields of the same object may be added to it.
        below[steps[-1]] = deepcopy(wanted)


def _finished(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if Each.EACH in tree:
        return Entries(_finished(tree[Each.EACH]))
    return {key: _finished(below) for key, below in tree.items()}
