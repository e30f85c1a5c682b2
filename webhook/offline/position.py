"""Position: where an object of a document begins."""

from __future__ import annotations

from typing import Any, NamedTuple

from webhook.model.fields import FieldPath
from webhook.offline.report import Source


class Position(NamedTuple):
    """File, line and column."""

    file: str
    line: int
    column: int

    def as_json(self) -> dict[str, Any]:
        """Return the position as plain JSON values."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def position_in(document: Source, at: FieldPath) -> Position:
    """Return the position of the field at `at` of a document."""
    return Position(document.source, *document.position(at))
