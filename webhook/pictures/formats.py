"""One picture in every format, as JSON."""

from __future__ import annotations

from typing import Any

from webhook.explain.gang_tree import Node
from webhook.pictures.folding import gang_picture
from webhook.pictures.mermaid import flowchart
from webhook.pictures.svg import drawing
from webhook.pictures.text import tree_lines


def pictures_as_json(tree: Node) -> dict[str, Any]:
    """Return the picture of a workload's gangs as SVG, Mermaid and lines of text."""
    box = gang_picture(tree)
    return {"svg": drawing([box]), "mermaid": flowchart([box]), "text": list(tree_lines(box))}
