"""One picture in every format, as JSON."""

from __future__ import annotations

from typing import Any

from webhook.pictures.boxes import Box
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.pictures.text import tree_lines


def pictures_as_json(picture: Box) -> dict[str, Any]:
    """Return a folded picture as SVG, Mermaid and lines of text."""
    return {"svg": drawing([picture]), "mermaid": flowchart([picture]), "text": list(tree_lines(picture))}
