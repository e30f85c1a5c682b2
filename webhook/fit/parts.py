"""Parts: a need as a tree of integers. Equal children are one part with several places in the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from webhook.fit.domains import partition_key
from webhook.fit.ground import Ground
from webhook.fit.packing import GroupNeed, Need, Partition, PodsNeed, Role

# Where a need stands in a tree: the index of the child at each level.
Path = tuple[int, ...]


class Part:
    """Pods of one kind (`kind` and `count`), or `count` of the children. `vector` is the number of pods of each kind,
    or None if there is a choice of children. `name` is that of the role or of the group.
    """

    __slots__ = ("children", "content", "count", "key", "kind", "name", "need", "sums", "vector", "within")

    def __init__(self, need: Need, kind: int, children: tuple[Child, ...], count: int, ground: Ground) -> None:
        self.need = need
        self.name = need.role.name if isinstance(need, PodsNeed) else need.name
        self.kind = kind
        self.children = children
        self.count = count
        self.within = need.within
        self.content: Content | None = None
        within = None if need.within is None else partition_key(need.within)
        self.key: Any = (kind, count, within, tuple((child.part.key, len(child.indexes)) for child in children))
        self.vector = self._vector(ground)
        self.sums: tuple[int, ...] = () if self.vector is None else sums_of(self.vector, ground)

    @property
    def chooses(self) -> bool:
        """Whether fewer than all children are needed."""
        return self.kind < 0 and self.count < sum(len(child.indexes) for child in self.children)

    def _vector(self, ground: Ground) -> tuple[int, ...] | None:
        vector = [0] * ground.kinds
        if self.kind >= 0:
            vector[self.kind] = self.count
            return tuple(vector)
        if self.chooses:
            return None
        for child in self.children:
            if child.part.vector is None:
                return None
            for kind, pods in enumerate(child.part.vector):
                vector[kind] += pods * len(child.indexes)
        return tuple(vector)


class Child(NamedTuple):
    """A part and the indexes at which its parent has it."""

    part: Part
    indexes: tuple[int, ...]


def part_of(need: Need, ground: Ground) -> Part:
    """Return the part of a need."""
    if isinstance(need, PodsNeed):
        return Part(need, ground.kind_of[need.role.name], (), max(need.count, 0), ground)
    equal: dict[Any, list[int]] = {}
    for index, child in enumerate(need.needs):
        equal.setdefault(_key(child, ground), []).append(index)
    children = tuple(Child(part_of(need.needs[some[0]], ground), tuple(some)) for some in equal.values())
    return Part(need, -1, children, max(need.count, 0), ground)


def _key(need: Need, ground: Ground) -> Any:
    """What makes two needs equal, so that a part is made once for all of them."""
    within = None if need.within is None else partition_key(need.within)
    if isinstance(need, PodsNeed):
        return ground.kind_of[need.role.name], need.count, within
    return need.count, within, tuple([_key(child, ground) for child in need.needs])


def least(part: Part, weights: Sequence[int]) -> int:
    """Return the smallest weight of pods that the part needs, where a pod of each kind has a weight."""
    if part.vector is not None:
        return sum(pods * weight for pods, weight in zip(part.vector, weights, strict=True) if pods)
    values = sorted((least(child.part, weights), len(child.indexes)) for child in part.children)
    total, left = 0, part.count
    for value, number in values:
        total += value * min(number, left)
        left -= min(number, left)
    return total


def only(part: Part, dead: frozenset[int], ground: Ground) -> Part | None:
    """Return the part without its direct children at `dead` positions. None if too few are left."""
    children = tuple(child for index, child in enumerate(part.children) if index not in dead)
    if sum(len(child.indexes) for child in children) < part.count:
        return None
    return Part(part.need, -1, children, part.count, ground)


def sums_of(vector: Sequence[int], ground: Ground) -> tuple[int, ...]:
    """Return, by resource, what these pods request."""
    return tuple(
        sum(pods * ground.requests[kind][k] for kind, pods in enumerate(vector) if pods)
        for k in range(len(ground.resources))
    )


def partitions_below(part: Part) -> list[Partition]:
    """Return the different partitions that the part's descendants name."""
    found: dict[Any, Partition] = {}
    for one in _descendants(part):
        if one.within is not None:
            found.setdefault(partition_key(one.within), one.within)
    return list(found.values())


def _descendants(part: Part) -> Iterator[Part]:
    for child in part.children:
        yield child.part
        yield from _descendants(child.part)


def roles_of(needs: Sequence[Need]) -> tuple[Role, ...]:
    """Return the roles that needs name, each once, in their order."""
    found: dict[str, Role] = {}
    for need in needs:
        _collect(need, found)
    return tuple(found.values())


def _collect(need: Need, found: dict[str, Role]) -> None:
    if isinstance(need, PodsNeed):
        found.setdefault(need.role.name, need.role)
        return
    seen: set[int] = set()
    for child in need.needs:
        if id(child) not in seen:
            seen.add(id(child))
            _collect(child, found)


def need_at(need: Need, path: Path) -> Need:
    """Return the need at a place of the tree."""
    for index in path:
        assert isinstance(need, GroupNeed)  # noqa: S101 - a path has no step below a leaf
        need = need.needs[index]
    return need


class Item(NamedTuple):
    """Equal parts that each need one domain, and their places."""

    part: Part
    paths: tuple[Path, ...]


class Content(NamedTuple):
    """What a part needs in one area: pods anywhere there, `items` that each need a domain, and `choices` among
    children. `free` are the places of the pods that may be anywhere.
    """

    free: tuple[tuple[Path, int, int], ...]
    items: tuple[Item, ...]
    choices: tuple[tuple[Path, Part], ...]


def content_of(part: Part, path: Path = ()) -> Content:
    """Return what a part needs once its own domain is chosen."""
    if part.content is None:
        part.content = _content_of(part)
    found = part.content
    if not path:
        return found
    return Content(
        tuple([((*path, *place), kind, count) for place, kind, count in found.free]),
        tuple([Item(item.part, tuple([(*path, *place) for place in item.paths])) for item in found.items]),
        tuple([((*path, *place), choice) for place, choice in found.choices]),
    )


def _content_of(part: Part) -> Content:
    free: list[tuple[Path, int, int]] = []
    items: dict[Any, tuple[Part, list[Path]]] = {}
    choices: list[tuple[Path, Part]] = []
    _flatten(part, (), free, items, choices)
    found = tuple(Item(one, tuple(paths)) for one, paths in items.values())
    return Content(tuple(free), found, tuple(choices))


def _flatten(
    part: Part,
    path: Path,
    free: list[tuple[Path, int, int]],
    items: dict[Any, tuple[Part, list[Path]]],
    choices: list[tuple[Path, Part]],
) -> None:
    if part.kind >= 0:
        free.append((path, part.kind, part.count))
    elif part.chooses:
        choices.append((path, part))
    else:
        for child in part.children:
            for index in child.indexes:
                if child.part.within is not None:
                    items.setdefault(child.part.key, (child.part, []))[1].append((*path, index))
                else:
                    _flatten(child.part, (*path, index), free, items, choices)


def free_vector(free: Sequence[tuple[Path, int, int]], kinds: int) -> tuple[int, ...]:
    """Return how many pods of each kind may be anywhere."""
    vector = [0] * kinds
    for _, kind, count in free:
        vector[kind] += count
    return tuple(vector)
