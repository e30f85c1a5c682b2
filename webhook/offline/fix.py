"""The smallest edit of one object in a file: its changes, and the replacements of text that make them.

`Fix` is data. `webhook.explain.fixes` finds the changes, `webhook.sources.text_edits` the replacements. Reports show
them, and `applied_to` makes the new text of a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.changes import Changes


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """One replacement in a text. `start` and `end` are indexes in it; lines and columns count from 1."""

    start: int
    end: int
    inserted: str
    line: int
    column: int
    end_line: int
    end_column: int


class Fix(NamedTuple):
    """The changes after which `scheduler` no longer refuses an object, and their text.

    `edits` do not overlap, and are in the order of the text. They are empty if the changes cannot be written without
    touching something else, such as an anchor that another place uses.
    """

    file: str
    scheduler: str
    changes: Changes
    edits: tuple[TextEdit, ...] = ()


def applied_to(text: str, edits: Iterable[TextEdit]) -> str:
    """Return `text` with the replacements, which must not overlap."""
    # From the end, so that the indexes of the others stay right.
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.inserted + text[edit.end :]
    return text
