"""An explanation at its place in a file: what `rollcall explain -o json` and POST /capabilities say of a workload."""

from __future__ import annotations

from typing import Any

from webhook.config.settings import Settings
from webhook.explain.workload import Explained
from webhook.reports.json_report import edits_as_json
from webhook.sources.manifests import Document


def explained_as_json(document: Document, found: Explained, settings: Settings) -> dict[str, Any]:
    """Return the explanation as plain JSON values, with its place, and with the text of each edit as in a report."""
    explanation = found.explanation
    said = explanation.as_json()
    for view, told in zip(explanation.views, said["schedulers"], strict=True):
        if view.edit is not None:
            settings.proceed()
            told["edit"]["edits"] = edits_as_json(document.edits(found.at, view.edit.changes))
    line, column = document.position(found.at)
    return said | {"file": document.source, "line": line, "column": column}
