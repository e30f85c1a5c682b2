"""Trees as an independent SVG: no external font, script or style, and the same output for the same trees.

Boxes are in columns, with the root of a tree on the left. Each tree, and each part of one, has its own band, so boxes
never overlap. A dashed arrow leads from a box to one that waits for it, and a second edge stands for folded boxes. The
classes are for a page that has its own colours. Names come from manifests: XML special characters are escaped, and
characters that XML forbids are shown as escapes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from webhook.model.plain_text import printable
from webhook.pictures.boxes import Box, Shape

# In a monospaced font of 13 pixels a character is at most 8 wide in any browser's default.
_SIZE, _CHARACTER, _LINE = 13, 8, 18
_PADDING, _BETWEEN, _COLUMN, _MARGIN = 8, 12, 44, 16
# Longer lines are cut.
_LONGEST = 90
# A box far below the first of the boxes below it would be out of sight.
_DEEPEST = 120
_INK, _PAPER, _LEAD, _BAD = "#1f2328", "#ffffff", "#57606a", "#c62828"
# The distance of an arrow between siblings from their left edge, and of the second edge of a folded box.
_ARROW, _STACK = 12, 4
_FILLS = {Shape.WHOLE: "#eef1f4", Shape.GANG: "#e3edfb", Shape.PART: "#f2ecfa", Shape.LEAF: "#e8f5e9"}


@dataclass(frozen=True, slots=True)
class _Placed:
    """A box, the position of its upper left corner, and the index of its parent box."""

    box: Box
    x: int
    y: int
    width: int
    height: int
    parent: int | None


def drawing(trees: Sequence[Box]) -> str:
    """Return the drawing of all `trees`, one below the other."""
    widths: list[int] = []
    for tree in trees:
        _measure(tree, 0, widths)
    columns = [_MARGIN + sum(widths[:index]) + index * _COLUMN for index in range(len(widths))]
    placed: list[_Placed] = []
    bottom = _MARGIN
    for tree in trees:
        _place(tree, bottom, None, list(zip(columns, widths, strict=True)), placed)
        bottom += _band(tree) + _BETWEEN
    width = columns[-1] + widths[-1] + _MARGIN if columns else 2 * _MARGIN
    return "\n".join((*_opening(width, bottom + _MARGIN, trees), *_drawn(placed), "</svg>")) + "\n"


def _measure(box: Box, level: int, widths: list[int]) -> None:
    own = max(_wide(line) for line in _lines(box)) * _CHARACTER + 2 * _PADDING
    if level == len(widths):
        widths.append(0)
    widths[level] = max(widths[level], own)
    for below in box.below:
        _measure(below, level + 1, widths)


def _place(box: Box, top: int, parent: int | None, columns: Sequence[tuple[int, int]], placed: list[_Placed]) -> None:
    """Place a box in the middle of its band, which begins at `top`, but not far below the first of the boxes below it.
    They are in bands of their own.
    """
    (x, width), *rest = columns
    height, band = _height(box), _band(box)
    own = len(placed)
    placed.append(_Placed(box, x, top + min((band - height) // 2, _DEEPEST), width, height, parent))
    needed = _needed(box)
    top += (band - needed) // 2
    for below in box.below:
        _place(below, top, own, rest, placed)
        top += _band(below) + _BETWEEN


def _band(box: Box) -> int:
    """Return the height of a box and all boxes below it."""
    return max(_height(box), _needed(box))


def _needed(box: Box) -> int:
    return sum(_band(below) for below in box.below) + _BETWEEN * max(len(box.below) - 1, 0)


def _height(box: Box) -> int:
    return len(_lines(box)) * _LINE + 2 * _PADDING


def _lines(box: Box) -> list[str]:
    return [_short(printable(line)) for line in (box.title, *box.lines)]


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _wide(line: str) -> int:
    """Return the width in characters: East Asian ones count as two."""
    return sum(2 if unicodedata.east_asian_width(character) in "FWA" else 1 for character in line)


def _opening(width: int, height: int, trees: Sequence[Box]) -> Iterator[str]:
    title = ", ".join(_short(printable(tree.title)) for tree in trees[:1]) + (", ..." if len(trees) > 1 else "")
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label={quoteattr(title)} font-family="ui-monospace, monospace" font-size="{_SIZE}">'
    )
    yield f'<rect class="paper" width="{width}" height="{height}" fill="{_PAPER}"/>'


def _drawn(placed: Sequence[_Placed]) -> Iterator[str]:
    # Lines first, so that they are under the boxes.
    for one in placed:
        if one.parent is not None:
            above = placed[one.parent]
            start, end = above.x + above.width, one.x
            half = start + _COLUMN // 2
            ways = f"M{start} {above.y + above.height // 2}H{half}V{one.y + one.height // 2}H{end}"
            yield f'<path d="{ways}" fill="none" stroke="{_LEAD}"/>'
    yield from _arrows(placed)
    for one in placed:
        yield from _box(one)


def _arrows(placed: Sequence[_Placed]) -> Iterator[str]:
    """Yield an arrow to each box from the sibling that starts before it."""
    siblings = {(one.parent, one.box.name): one for one in placed}
    for one in placed:
        first = siblings.get((one.parent, one.box.waits_for or ""))
        if first is None or one.box.waits_for is None:
            continue
        x, start, end = one.x, first.y + first.height * 3 // 4, one.y + one.height // 4
        way = f"M{x} {start}h{-_ARROW}V{end}h{_ARROW}"
        yield f'<path class="waits" d="{way}" fill="none" stroke="{_LEAD}" stroke-dasharray="4 2"/>'
        yield f'<path d="M{x - 5} {end - 4}L{x} {end}L{x - 5} {end + 4}" fill="none" stroke="{_LEAD}"/>'


def _box(one: _Placed) -> Iterator[str]:
    edge = f'stroke="{_BAD}" stroke-width="2" stroke-dasharray="6 3"' if one.box.cannot else f'stroke="{_LEAD}"'
    corner = 12 if one.box.shape is Shape.LEAF else 3
    yield '<g class="box">'
    if one.box.more:
        right, low = one.x + one.width, one.y + one.height
        stack = f"M{one.x + corner} {low + _STACK}H{right + _STACK - corner}Q{right + _STACK} {low + _STACK} "
        stack += f"{right + _STACK} {low + _STACK - corner}V{one.y + corner}"
        yield f'<path class="stack" d="{stack}" fill="none" stroke="{_LEAD}"/>'
    yield (
        f'<rect class="{one.box.shape.name.lower()}{" cannot" if one.box.cannot else ""}" '
        f'x="{one.x}" y="{one.y}" width="{one.width}" height="{one.height}" rx="{corner}" '
        f'fill="{_FILLS[one.box.shape]}" {edge}/>'
    )
    for index, line in enumerate(_lines(one.box)):
        weight = ' font-weight="bold"' if index == 0 else ""
        y = one.y + _PADDING + _SIZE + index * _LINE
        yield f'<text x="{one.x + _PADDING}" y="{y}" fill="{_INK}"{weight}>{escape(line)}</text>'
    yield "</g>"
