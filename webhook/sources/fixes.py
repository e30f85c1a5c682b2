"""The smallest edit of a refused object in its file: the changes, and what they mean for the text.

`rollcall check` shows it, and writes it with `--fix` (`webhook.sources.fixed_files`).
"""

from __future__ import annotations

from collections.abc import Callable

from webhook.config.settings import Settings
from webhook.model.changes import value_at
from webhook.model.facts import ClusterFacts
from webhook.offline.fix import Fix
from webhook.offline.judgement import Judgement
from webhook.offline.report import Report
from webhook.sources.manifests import Document

# A search judges an object up to 120 times. A run with more refused objects says so, and stays short.
MAX_SEARCHED = 100


def fix_of(document: Document, judgement: Judgement, facts: ClusterFacts, settings: Settings) -> Fix | None:
    """Return the smallest edit after which nothing refuses the object; None if none was found. A recorded review has
    none: its object is no longer in a file that anyone applies.
    """
    if judgement.verdict.allowed or judgement.at.parts[:1] == ("request",):
        return None
    _, raw = value_at(document.read_again(), judgement.at)
    if not isinstance(raw, dict):
        return None
    # Most files are not refused, and the search for an edit is all of `webhook.explain`.
    from webhook.explain.fixes import changes_for  # noqa: PLC0415

    changes = changes_for(raw, judgement.namespace, facts, settings)
    if not changes:
        return None
    settings.proceed()
    edits = document.edits(judgement.at, changes)
    return Fix(document.source, judgement.verdict.scheduler or "", changes, edits)


def add_fixes(
    report: Report, facts_for: Callable[[Document], ClusterFacts], settings: Settings, most: int | None = MAX_SEARCHED
) -> None:
    """Add to each refusal of the report the edit that removes it, for the first refused objects, or for all. An
    object with a suppressed refusal has none: its edit would remove what its author accepts.
    """
    accepted = {id(entry.place.judgement) for entry in report.findings if entry.refuses and entry.suppression}
    found: dict[int, Fix | None] = {}
    last: Document | None = None
    for index, entry in enumerate(report.findings):
        document, judgement = entry.place.document, entry.place.judgement
        if not entry.refuses or id(judgement) in accepted or not isinstance(document, Document):
            continue
        if last is not None and last is not document:
            last.forget()
        last = document
        if id(judgement) not in found:
            if len(found) == most:
                report.all_searched = False
                break
            found[id(judgement)] = fix_of(document, judgement, facts_for(document), settings)
        report.findings[index] = entry._replace(fix=found[id(judgement)])
    if last is not None:
        last.forget()
