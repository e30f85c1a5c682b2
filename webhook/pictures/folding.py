"""Fold the boxes of a large tree, so that 400 pods are as readable as 4.

Siblings that differ only in their names are drawn once, with the number of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from webhook.explain.gang_tree import Node
from webhook.explain.satisfiability import Branch
from webhook.pictures.boxes import Box, Shape, gangs_box, group_box

# Two alike are drawn as two; of more, only the first.
_ONE_BY_ONE = 2
# More siblings, each unlike the others, do not fit on a screen.
_MOST_SIBLINGS = 20


def gang_picture(tree: Node) -> Box:
    """Return the boxes of a workload's gangs, folded."""
    return folded(gangs_box(tree))


def group_picture(tree: Branch) -> Box:
    """Return the boxes of a tree of groups, folded."""
    return folded(group_box(tree))


def folded(box: Box) -> Box:
    """Return `box` with the siblings at each level below it folded."""
    return _folded(box)[0]


def _folded(box: Box) -> tuple[Box, Hashable]:
    """Return the box with folded siblings, and a key that boxes have in common if they differ only in their names."""
    below: list[Box] = []
    keys: list[Hashable] = []
    # The key of a whole subtree is replaced by a number among its siblings, so keys stay small.
    numbers: dict[Hashable, int] = {}
    waits = Counter(one.waits_for for one in box.below)
    for index, one in enumerate(box.below):
        child, own = _folded(one)
        in_turn = index > 0 and one.waits_for == box.below[index - 1].name and waits[one.waits_for] == 1
        after = in_turn or one.waits_for
        below.append(child)
        keys.append((own, after))
    order = tuple(numbers.setdefault(key, len(numbers)) for key in keys)
    label = box.title.removesuffix(box.name)
    own = (label, box.details, box.shape, box.cannot, box.more, order, tuple(numbers))
    return replace(box, below=tuple(_fewer(list(_once(below, keys))))), own


def _once(boxes: Sequence[Box], keys: Sequence[Hashable]) -> Iterator[Box]:
    """Yield one box for each key that more than a few have, in the place of the first, and all others."""
    alike: dict[Hashable, list[Box]] = {}
    for box, key in zip(boxes, keys, strict=True):
        alike.setdefault(key, []).append(box)
    seen: set[Hashable] = set()
    for box, key in zip(boxes, keys, strict=True):
        same = alike[key]
        if len(same) <= _ONE_BY_ONE:
            yield box
        elif key not in seen:
            seen.add(key)
            yield _standing_for(same)


def _standing_for(same: Sequence[Box]) -> Box:
    first, second, last = same[0], same[1], same[-1]
    more = sum(1 + box.more for box in same) - 1
    in_turn = second.waits_for is not None and second.waits_for != first.waits_for
    return replace(first, more=more, last=last.name if last.last is None else last.last, in_turn=in_turn)


def _fewer(boxes: Sequence[Box]) -> Sequence[Box]:
    """Return at most some boxes and one for the others. Boxes that stop a tree are kept before those that do not."""
    if len(boxes) <= _MOST_SIBLINGS + 1:
        return boxes
    first = sorted(range(len(boxes)), key=lambda index: not boxes[index].cannot)[:_MOST_SIBLINGS]
    kept = set(first)
    others = [box for index, box in enumerate(boxes) if index not in kept]
    count = sum(1 + box.more for box in others)
    rest = Box(f"{count:,} others", (), Shape.LEAF, "", cannot=any(box.cannot for box in others))
    return [*(boxes[index] for index in sorted(kept)), rest]
