"""Pictures of gangs, groups and fits as text, SVG and Mermaid. All formats draw the same folded boxes.

Siblings that differ only in their names are drawn once, with the number of the others, so that 400 pods are as
readable as 4.

Names come from manifests. In Mermaid all special characters are written as its own entity codes (`#35;` and the like),
because inside quotes only these are safe. In SVG, XML special characters are escaped, and characters that XML forbids
are shown as escapes. An SVG has no external font, script or style, and is the same for the same trees; its classes are
for a page that has its own colours.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import count
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from webhook.fit.domains import DomainRoom
from webhook.fit.feasibility import RoomAnswer
from webhook.fit.verdict import FitAnswer, PlacedPods, Shortfall, count_text
from webhook.model.findings import printable
from webhook.offline.fit_report import (
    FitEntry,
    now_words,
    resources_of,
    room_text,
    shortfall_text,
    sort_by_room,
    verdict_words,
)
from webhook.offline.gang_tree import WORKLOADS, TreeLevel, TreeNode
from webhook.offline.satisfiability import Branch, BranchFault, BranchKind, Standing


class BoxShape(Enum):
    """The look of a box, by what it stands for: from the whole workload to the pods."""

    WHOLE = auto()
    GANG = auto()
    PART = auto()
    LEAF = auto()


@dataclass(frozen=True, slots=True)
class Box:
    """One box. `waits_for` is the name of a sibling that starts first; `cannot` marks what stops a tree. `more` counts
    further boxes like it that are not drawn, `last` is the name of the last one. They are `in_turn` if each waits for
    the one before it.
    """

    title: str
    details: tuple[str, ...]
    shape: BoxShape
    name: str
    waits_for: str | None = None
    cannot: bool = False
    below: tuple[Box, ...] = ()
    more: int = 0
    last: str | None = None
    in_turn: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """What every format shows below the title."""
        order = [] if self.waits_for is None else [f"waits for {self.waits_for}"]
        if self.more:
            order.append(f"and {self.more:,} more like it{' in turn' if self.in_turn else ''}, up to {self.last}")
        return (*self.details, *order)


_LEVELS = {
    **dict.fromkeys(WORKLOADS, BoxShape.WHOLE),
    TreeLevel.GANG: BoxShape.GANG,
    TreeLevel.GROUP: BoxShape.PART,
    TreeLevel.CLIQUE: BoxShape.LEAF,
    TreeLevel.OWNED_GANG: BoxShape.GANG,
    TreeLevel.SUBGROUP: BoxShape.PART,
    TreeLevel.MEMBER: BoxShape.LEAF,
}
# What is titled by its name alone.
_BY_NAME = frozenset({TreeLevel.CLIQUE, TreeLevel.MEMBER, TreeLevel.SUBGROUP})
_KINDS = {
    BranchKind.WORKLOAD: BoxShape.WHOLE,
    BranchKind.GANG_GROUP: BoxShape.WHOLE,
    BranchKind.COMPOSITE: BoxShape.GANG,
    BranchKind.COMPOSITE_TEMPLATE: BoxShape.GANG,
}
_FAULTS = {
    BranchFault.ABSENT: "missing",
    BranchFault.CYCLE: "its own ancestor",
    BranchFault.TOO_DEEP: "too deep",
    BranchFault.NO_NAMESPACE: "listed without a namespace",
    BranchFault.NOT_DESCRIBED: "its pods do not say how many it needs to start",
}

# Only the names of these are known, from the objects that refer to them.
_UNKNOWN = frozenset({BranchFault.ABSENT, BranchFault.NO_NAMESPACE, BranchFault.NOT_DESCRIBED})


def gangs_box(node: TreeNode) -> Box:
    title = node.name if node.level in _BY_NAME else f"{node.kind_name} {node.name}"
    if node.level is TreeLevel.GROUP:
        title = f"replica {node.name}"
    return Box(
        title,
        tuple(_details(node)),
        _LEVELS[node.level],
        node.name,
        node.waits_for,
        below=tuple(map(gangs_box, node.below)),
        more=node.more,
        last=node.last,
    )


def _details(node: TreeNode) -> Iterator[str]:
    yield _count(node.pods, "pod") if node.level not in WORKLOADS else f"{_count(node.pods, 'pod')} in all"
    if node.needed is not None:
        yield f"starts with {node.needed:,} of {_count(sum(1 + child.more for child in node.below), 'part')}"
    elif node.level not in WORKLOADS and node.minimum != node.pods:
        yield f"starts with {node.minimum:,}"
    if node.required is not None:
        yield f"requires one {node.required}"
    if node.preferred is not None:
        yield f"prefers one {node.preferred}"
    for carried in node.carries:
        yield carried if node.pods == 1 else f"{carried} each"
    if node.note:
        yield node.note


def group_box(branch: Branch, *, top: bool = True) -> Box:
    name = branch.full_name if top else branch.name
    title = f"{branch.kind} {name}"
    cannot = branch.standing is Standing.CANNOT
    below = tuple(group_box(child, top=False) for child in branch.below)
    details, shape = tuple(_branch_details(branch)), _KINDS.get(branch.kind, BoxShape.LEAF)
    return Box(title, details, shape, name, cannot=cannot, below=below)


def _branch_details(branch: Branch) -> Iterator[str]:
    if branch.fault is not None:
        yield _FAULTS[branch.fault]
    if branch.fault in _UNKNOWN:
        if branch.pods:
            yield f"has {_count(branch.pods, 'pod')}"
    elif branch.counts_pods:
        yield "starts with any pod" if branch.minimum is None else f"starts with {_count(branch.minimum, 'pod')}"
        if branch.pods is not None:
            yield f"has {branch.pods:,}"
    else:
        yield _starts(branch)
    if branch.fault is None and branch.below and branch.standing is Standing.CANNOT:
        yield f"{sum(below.standing is Standing.CAN for below in branch.below):,} can start"
    if branch.topology is not None:
        yield f"requires one {branch.topology}"
    yield from branch.notes
    if branch.hidden:
        yield f"and {_count(branch.hidden, 'group')} further below"


def _starts(branch: Branch) -> str:
    count = len(branch.below)
    if branch.kind is BranchKind.GANG_GROUP:
        return f"starts with all of {_count(count, 'gang')}"
    if branch.kind is BranchKind.WORKLOAD:
        return _count(count, "group" if any(child.kind is BranchKind.ENTRY for child in branch.below) else "template")
    needed = "any" if branch.minimum is None else f"{branch.minimum:,}"
    return f"starts with {needed} of {_count(count, 'group')}" if not branch.hidden else f"starts with {needed}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


# Two alike are drawn as two; of more, only the first.
_ONE_BY_ONE = 2
# More siblings, each unlike the others, do not fit on a screen.
_MOST_SIBLINGS = 20


def gang_picture(tree: TreeNode) -> Box:
    return folded(gangs_box(tree))


def group_picture(tree: Branch) -> Box:
    return folded(group_box(tree))


def folded(box: Box) -> Box:
    return _folded(box)[0]


def _folded(box: Box) -> tuple[Box, Hashable]:
    """Returns the box with folded siblings, and a key that boxes have in common if they differ only in their names."""
    below: list[Box] = []
    keys: list[Hashable] = []
    # The key of a whole subtree is replaced by a number among its siblings, so keys stay small.
    numbers: dict[Hashable, int] = {}
    waits = Counter(sibling.waits_for for sibling in box.below)
    for index, sibling in enumerate(box.below):
        child, identity = _folded(sibling)
        in_turn = index > 0 and sibling.waits_for == box.below[index - 1].name and waits[sibling.waits_for] == 1
        after = in_turn or sibling.waits_for
        below.append(child)
        keys.append((identity, after))
    order = tuple(numbers.setdefault(key, len(numbers)) for key in keys)
    label = box.title.removesuffix(box.name)
    identity = (label, box.details, box.shape, box.cannot, box.more, order, tuple(numbers))
    return replace(box, below=tuple(_fewer(list(_once(below, keys))))), identity


def _once(boxes: Sequence[Box], keys: Sequence[Hashable]) -> Iterator[Box]:
    """Yields one box for each key that more than a few have, in the place of the first, and all others."""
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
            first, second, last = same[0], same[1], same[-1]
            more = sum(1 + other.more for other in same) - 1
            in_turn = second.waits_for is not None and second.waits_for != first.waits_for
            end = last.name if last.last is None else last.last
            yield replace(first, more=more, last=end, in_turn=in_turn)


def _fewer(boxes: Sequence[Box]) -> Sequence[Box]:
    """Returns at most some boxes and one for the others. Boxes that stop a tree are kept before those that do not."""
    if len(boxes) <= _MOST_SIBLINGS + 1:
        return boxes
    first = sorted(range(len(boxes)), key=lambda index: not boxes[index].cannot)[:_MOST_SIBLINGS]
    kept = set(first)
    others = [box for index, box in enumerate(boxes) if index not in kept]
    count = sum(1 + box.more for box in others)
    rest = Box(f"{count:,} others", (), BoxShape.LEAF, "", cannot=any(box.cannot for box in others))
    return [*(boxes[index] for index in sorted(kept)), rest]


def fit_picture(entry: FitEntry) -> Box:
    """Returns the boxes of one gang, with its pods as they fit now, else as they fit an empty cluster."""
    placement = entry.now.placement if entry.now is not None else ()
    placement = placement or entry.verdict.placement
    used = {placed.domain or "" for placed in placement}
    # Domains that the gang would be in are drawn first: of very many, only the first are.
    ordered = sorted(
        sort_by_room(entry.domains), key=lambda domain: not _is_in(domain, used) and not _is_nearest(entry, domain)
    )
    below = tuple(_domain(entry, domain, placement) for domain in ordered)
    details = [verdict_words(entry.verdict)]
    if pods := sum((entry.pods or {}).values()):
        details.append(f"starts with {count_text(pods, 'pod')}")
    if entry.now is not None and entry.verdict.answer is not FitAnswer.NEVER:
        details.append(f"now {now_words(entry.now)}")
    title = f"gang {entry.gang}"
    return folded(Box(title, tuple(details), BoxShape.GANG, entry.gang, cannot=entry.never, below=below))


def _domain(entry: FitEntry, domain: DomainRoom, placement: Iterable[PlacedPods]) -> Box:
    free = "" if domain.free is None else " free"
    details = [count_text(domain.nodes, "node")]
    details += [f"{room_text(domain, resource)} {resource}{free}" for resource in resources_of(domain)]
    nearest = _is_nearest(entry, domain)
    if nearest:
        details += [f"short of {shortfall_text(shortfall)}" for shortfall in _short(entry)] or ["comes nearest"]
    below = tuple(_placed(placement, domain))
    return Box(domain.called, tuple(details), BoxShape.PART, domain.name, cannot=nearest and entry.never, below=below)


def _placed(placement: Iterable[PlacedPods], domain: DomainRoom) -> Iterator[Box]:
    pods: dict[str, int] = {}
    nodes: dict[str, set[str]] = {}
    for placed in placement:
        if _is_in(domain, {placed.domain or ""}):
            pods[placed.role] = pods.get(placed.role, 0) + placed.pods
            nodes.setdefault(placed.role, set()).add(placed.node)
    for role, number in pods.items():
        where = count_text(len(nodes[role]), "node")
        yield Box(role, (f"{count_text(number, 'pod')} on {where}",), BoxShape.LEAF, role)


def _is_in(domain: DomainRoom, names: set[str]) -> bool:
    return not domain.partition or not names.isdisjoint({domain.name, domain.called})


def _is_nearest(entry: FitEntry, domain: DomainRoom) -> bool:
    witness = entry.verdict.witness
    if witness is not None:
        return witness.domain in {domain.name, domain.called}
    return entry.now is not None and entry.now.answer is RoomAnswer.SHORT and entry.now.nearest == domain.called


def _short(entry: FitEntry) -> tuple[Shortfall, ...]:
    if entry.verdict.witness is not None:
        return entry.verdict.witness.shortfalls
    return () if entry.now is None else entry.now.short


def tree_lines(tree: Box) -> Iterator[str]:
    yield _line(tree)
    yield from _below(tree, "")


def _below(box: Box, indent: str) -> Iterator[str]:
    for index, below in enumerate(box.below):
        last = index == len(box.below) - 1
        yield f"{indent}{'└── ' if last else '├── '}{_line(below)}"
        yield from _below(below, indent + ("    " if last else "│   "))


def _line(box: Box) -> str:
    return f"{box.title}: {', '.join(box.lines)}" if box.lines else box.title


_SAFE = frozenset(" -_./:,()+")
# Each shape has its own brackets; a branch that cannot start has a dashed border.
_SHAPES = {
    BoxShape.WHOLE: ("[[", "]]"),
    BoxShape.GANG: ("[", "]"),
    BoxShape.PART: ("(", ")"),
    BoxShape.LEAF: ("([", "])"),
}
_CANNOT = "    classDef cannot stroke:#c62828,stroke-dasharray:4 3"


def flowchart(trees: Sequence[Box]) -> str:
    lines = ["flowchart TD"]
    numbers = count()
    for tree in trees:
        _draw(tree, None, numbers, lines)
    if any(line.endswith(":::cannot") for line in lines):
        lines.append(_CANNOT)
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in _SAFE else f"#{ord(character)};"
        for character in text
    )


def _draw(box: Box, parent: str | None, numbers: count[int], lines: list[str]) -> str:
    node = f"n{next(numbers)}"
    opened, closed = _SHAPES[box.shape]
    label = "<br/>".join(escaped(part) for part in (box.title, *box.lines))
    lines.append(f'    {node}{opened}"{label}"{closed}{":::cannot" if box.cannot else ""}')
    if parent is not None:
        lines.append(f"    {parent} --> {node}")
    drawn: dict[str, str] = {}
    for below in box.below:
        its = _draw(below, node, numbers, lines)
        if below.waits_for in drawn:
            lines.append(f'    {drawn[below.waits_for]} -. "starts first" .-> {its}')
        else:
            drawn[below.name] = its
    return node


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
_FILLS = {BoxShape.WHOLE: "#eef1f4", BoxShape.GANG: "#e3edfb", BoxShape.PART: "#f2ecfa", BoxShape.LEAF: "#e8f5e9"}


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
    width = max(_wide(line) for line in _lines(box)) * _CHARACTER + 2 * _PADDING
    if level == len(widths):
        widths.append(0)
    widths[level] = max(widths[level], width)
    for below in box.below:
        _measure(below, level + 1, widths)


def _place(box: Box, top: int, parent: int | None, columns: Sequence[tuple[int, int]], placed: list[_Placed]) -> None:
    """Places a box in the middle of its band, which begins at `top`, but not far below the first of the boxes below it.
    They are in bands of their own.
    """
    (x, width), *rest = columns
    height, band = _height(box), _band(box)
    index = len(placed)
    placed.append(_Placed(box, x, top + min((band - height) // 2, _DEEPEST), width, height, parent))
    needed = _needed(box)
    top += (band - needed) // 2
    for below in box.below:
        _place(below, top, index, rest, placed)
        top += _band(below) + _BETWEEN


def _band(box: Box) -> int:
    return max(_height(box), _needed(box))


def _needed(box: Box) -> int:
    return sum(_band(below) for below in box.below) + _BETWEEN * max(len(box.below) - 1, 0)


def _height(box: Box) -> int:
    return len(_lines(box)) * _LINE + 2 * _PADDING


def _lines(box: Box) -> list[str]:
    return [_svg_short(printable(line)) for line in (box.title, *box.lines)]


def _svg_short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def _wide(line: str) -> int:
    """Returns the width in characters: East Asian ones count as two."""
    return sum(2 if unicodedata.east_asian_width(character) in "FWA" else 1 for character in line)


def _opening(width: int, height: int, trees: Sequence[Box]) -> Iterator[str]:
    title = ", ".join(_svg_short(printable(tree.title)) for tree in trees[:1]) + (", ..." if len(trees) > 1 else "")
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label={quoteattr(title)} font-family="ui-monospace, monospace" font-size="{_SIZE}">'
    )
    yield f'<rect class="paper" width="{width}" height="{height}" fill="{_PAPER}"/>'


def _drawn(placed: Sequence[_Placed]) -> Iterator[str]:
    # Lines first, so that they are under the boxes.
    for box in placed:
        if box.parent is not None:
            above = placed[box.parent]
            start, end = above.x + above.width, box.x
            half = start + _COLUMN // 2
            ways = f"M{start} {above.y + above.height // 2}H{half}V{box.y + box.height // 2}H{end}"
            yield f'<path d="{ways}" fill="none" stroke="{_LEAD}"/>'
    yield from _arrows(placed)
    for box in placed:
        yield from _box(box)


def _arrows(placed: Sequence[_Placed]) -> Iterator[str]:
    siblings = {(sibling.parent, sibling.box.name): sibling for sibling in placed}
    for second in placed:
        first = siblings.get((second.parent, second.box.waits_for or ""))
        if first is None or second.box.waits_for is None:
            continue
        x, start, end = second.x, first.y + first.height * 3 // 4, second.y + second.height // 4
        way = f"M{x} {start}h{-_ARROW}V{end}h{_ARROW}"
        yield f'<path class="waits" d="{way}" fill="none" stroke="{_LEAD}" stroke-dasharray="4 2"/>'
        yield f'<path d="M{x - 5} {end - 4}L{x} {end}L{x - 5} {end + 4}" fill="none" stroke="{_LEAD}"/>'


def _box(placed: _Placed) -> Iterator[str]:
    edge = f'stroke="{_BAD}" stroke-width="2" stroke-dasharray="6 3"' if placed.box.cannot else f'stroke="{_LEAD}"'
    corner = 12 if placed.box.shape is BoxShape.LEAF else 3
    yield '<g class="box">'
    if placed.box.more:
        right, low = placed.x + placed.width, placed.y + placed.height
        stack = f"M{placed.x + corner} {low + _STACK}H{right + _STACK - corner}Q{right + _STACK} {low + _STACK} "
        stack += f"{right + _STACK} {low + _STACK - corner}V{placed.y + corner}"
        yield f'<path class="stack" d="{stack}" fill="none" stroke="{_LEAD}"/>'
    yield (
        f'<rect class="{placed.box.shape.name.lower()}{" cannot" if placed.box.cannot else ""}" '
        f'x="{placed.x}" y="{placed.y}" width="{placed.width}" height="{placed.height}" rx="{corner}" '
        f'fill="{_FILLS[placed.box.shape]}" {edge}/>'
    )
    for index, line in enumerate(_lines(placed.box)):
        weight = ' font-weight="bold"' if index == 0 else ""
        y = placed.y + _PADDING + _SIZE + index * _LINE
        yield f'<text x="{placed.x + _PADDING}" y="{y}" fill="{_INK}"{weight}>{escape(line)}</text>'
    yield "</g>"


def pictures_as_json(picture: Box) -> dict[str, Any]:
    return {"svg": drawing([picture]), "mermaid": flowchart([picture]), "text": list(tree_lines(picture))}
