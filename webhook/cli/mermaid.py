"""The gangs of workloads as a Mermaid flowchart, as GitHub and most wikis draw it.

Labels hold names from manifests. Inside quotes only Mermaid's own entity codes are safe (`#35;` and the like), so every
character but plain ones is written as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from webhook.cli.explain_text import describe
from webhook.gang_tree import Level, Node

_SAFE = frozenset(" -_./:,()+")
# A gang's box has a heavier border than what is in it; what waits is dashed.
_SHAPES = {Level.SET: ("[[", "]]"), Level.GANG: ("[", "]"), Level.GROUP: ("(", ")"), Level.CLIQUE: ("([", "])")}


def flowchart(trees: Sequence[Node]) -> str:
    """The flowchart of all `trees`, side by side."""
    lines = ["flowchart TD"]
    numbers = count()
    for tree in trees:
        _draw(tree, None, numbers, lines)
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """`text` as part of a quoted label."""
    return "".join(
        character if (character.isascii() and character.isalnum()) or character in _SAFE else f"#{ord(character)};"
        for character in text
    )


def _draw(node: Node, parent: str | None, numbers: count[int], lines: list[str]) -> str:
    own = f"n{next(numbers)}"
    opened, closed = _SHAPES[node.level]
    title, *details = describe(node)
    label = "<br/>".join(escaped(part) for part in (title, *details))
    lines.append(f'    {own}{opened}"{label}"{closed}')
    if parent is not None:
        lines.append(f"    {parent} --> {own}")
    gangs: dict[str, str] = {}
    for below in node.below:
        drawn = _draw(below, own, numbers, lines)
        if below.waits_for in gangs:
            lines.append(f'    {gangs[below.waits_for]} -. "starts first" .-> {drawn}')
        elif below.level is Level.GANG:
            gangs[below.name] = drawn
    return own
