"""A tree as lines of text, for a terminal and for readers of a page who do not see its picture."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.pictures.boxes import Box


def tree_lines(tree: Box) -> Iterator[str]:
    """Yield the tree, one line for each box."""
    yield _line(tree)
    yield from _below(tree, "")


def _below(box: Box, indent: str) -> Iterator[str]:
    for index, below in enumerate(box.below):
        last = index == len(box.below) - 1
        yield f"{indent}{'└── ' if last else '├── '}{_line(below)}"
        yield from _below(below, indent + ("    " if last else "│   "))


def _line(box: Box) -> str:
    return f"{box.title}: {', '.join(box.lines)}" if box.lines else box.title
