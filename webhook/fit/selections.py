"""Selections: every way to choose the children that are needed, where there are few."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.fit.budget import Budget
from webhook.fit.parts import Content, Item, Part, Path, content_of

# More ways than this are not looked at.
_MOST = 64


class TooManyError(Exception):
    """Raised when there are too many ways to choose."""


def selections_of(part: Part, budget: Budget) -> list[Content]:
    """Return what the part needs, without choices: one content for each way to choose. Raises `TooManyError`."""
    found: list[Content] = []
    for content in _chosen(part, (), budget):
        budget.spend(1 + len(content.free) + len(content.items))
        found.append(content)
        if len(found) > _MOST:
            raise TooManyError
    return found


def _chosen(part: Part, path: Path, budget: Budget) -> Iterator[Content]:
    if not part.chooses:
        yield from _resolved(content_of(part, path), budget)
        return
    for numbers in _numbers([len(child.indexes) for child in part.children], part.count):
        budget.spend(1)
        partial = [Content((), (), ())]
        for child, number in zip(part.children, numbers, strict=True):
            for index in child.indexes[:number]:
                place = (*path, index)
                if child.part.within is not None:
                    ways = [Content((), (Item(child.part, (place,)),), ())]
                else:
                    ways = list(_chosen(child.part, place, budget))
                partial = [_joined(one, way) for one in partial for way in ways]
                if len(partial) > _MOST:
                    raise TooManyError
        yield from partial


def _resolved(content: Content, budget: Budget) -> Iterator[Content]:
    partial = [Content(content.free, content.items, ())]
    for path, choice in content.choices:
        ways = list(_chosen(choice, path, budget))
        partial = [_joined(one, way) for one in partial for way in ways]
        if len(partial) > _MOST:
            raise TooManyError
    yield from partial


def _numbers(available: list[int], wanted: int) -> Iterator[tuple[int, ...]]:
    """How many of each sort of children to take."""
    if not available:
        if not wanted:
            yield ()
        return
    for number in range(min(available[0], wanted), -1, -1):
        if wanted - number <= sum(available[1:]):
            for rest in _numbers(available[1:], wanted - number):
                yield (number, *rest)


def _joined(one: Content, other: Content) -> Content:
    items = {item.part.key: item for item in one.items}
    for item in other.items:
        known = items.get(item.part.key)
        items[item.part.key] = item if known is None else Item(known.part, known.paths + item.paths)
    return Content(one.free + other.free, tuple(items.values()), ())
