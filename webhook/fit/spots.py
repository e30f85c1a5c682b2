"""Spots: an arrangement of pods by kind on nodes by shape, as pods of needs on nodes of classes."""

from __future__ import annotations

from webhook.fit.exact import Arrangement, Filled, pools
from webhook.fit.ground import Ground
from webhook.fit.parts import Path
from webhook.fit.placement import Spot


def spots_of(arrangement: Arrangement, ground: Ground) -> list[Spot]:
    """Return where the pods of an arrangement are."""
    used: dict[int, int] = {}
    left: dict[Path, int] = {}
    spots: list[Spot] = []
    for filled in arrangement.nodes:
        index, ordinal = _node(filled, used, ground)
        waiting = list(filled.pods)
        for path, kind, count in pools(arrangement.content, filled):
            pods = min(left.setdefault(path, count), waiting[kind])
            if pods:
                left[path] -= pods
                waiting[kind] -= pods
                spots.append(Spot(path, index, ordinal, 1, pods))
    return spots


def _node(filled: Filled, used: dict[int, int], ground: Ground) -> tuple[int, int]:
    """The next node of the shape in its area."""
    if filled.ordinal is not None:
        return filled.area.classes[0], filled.ordinal
    classes = ground.shaped_in(filled.area)[filled.shape]
    index = next((one for one in classes if used.get(one, 0) < ground.number(one)), classes[-1])
    used[index] = used.get(index, 0) + 1
    return index, used[index] - 1
