"""Trees as a Mermaid flowchart, as GitHub and most wikis draw it.

Labels have names from manifests. Inside quotes only Mermaid's own entity codes are safe (`#35;` and the like), so all
special characters are written as such codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from webhook.pictures.boxes import Box, Shape

_SAFE = frozenset(" -_./:,()+")
# Each shape has its own brackets; a branch that cannot start has a dashed border.
_SHAPES = {Shape.WHOLE: ("[[", "]]"), Shape.GANG: ("[", "]"), Shape.PART: ("(", ")"), Shape.LEAF: ("([", "])")}
_CANNOT = "    classDef cannot stroke:#c62828,stroke-dasharray:4 3"


def flowchart(trees: Sequence[Box]) -> str:
    """Return the flowchart of all `trees`, side by side."""
    lines = ["flowchart TD"]
    numbers = count()
    for tree in trees:
        _draw(tree, None, numbers, lines)
    if any(line.endswith(":::cannot") for line in lines):
        lines.append(_CANNOT)
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return `text` as part of a quoted label."""
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in _SAFE else f"#{ord(character)};"
        for character in text
    )


def _draw(box: Box, parent: str | None, numbers: count[int], lines: list[str]) -> str:
    own = f"n{next(numbers)}"
    opened, closed = _SHAPES[box.shape]
    label = "<br/>".join(escaped(part) for part in (box.title, *box.lines))
    lines.append(f'    {own}{opened}"{label}"{closed}{":::cannot" if box.cannot else ""}')
    if parent is not None:
        lines.append(f"    {parent} --> {own}")
    drawn: dict[str, str] = {}
    for below in box.below:
        its = _draw(below, own, numbers, lines)
        if below.waits_for in drawn:
            lines.append(f'    {drawn[below.waits_for]} -. "starts first" .-> {its}')
        else:
            drawn[below.name] = its
    return own
