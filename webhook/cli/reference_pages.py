"""Write the pages of `docs/reference` that are made from the code: `python -m webhook.cli.reference_pages DIR`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from webhook.cli import command_reference, doctor_reference, fact_reference, metric_reference, rule_reference
from webhook.cli.output import as_json_text
from webhook.doctor.checks import EVERY_CHECK
from webhook.reports.fit_schema import fit_schema
from webhook.reports.schema import report_schema


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its path below `docs/reference`."""
    return {
        "command-line.md": command_reference.reference(),
        "doctor.md": doctor_reference.reference(EVERY_CHECK),
        "facts.md": fact_reference.reference(),
        "metrics.md": metric_reference.reference(metric_reference.metrics_of(metric_reference.reference_settings())),
        "fit.schema.json": f"{as_json_text(fit_schema())}\n",
        "report.schema.json": f"{as_json_text(report_schema())}\n",
    } | {f"rules/{name}": text for name, text in rule_reference.pages().items()}


def write(pages: Mapping[str, str], folder: Path) -> None:
    """Writes the pages below `folder`, and deletes the rule pages of backends that no longer exist."""
    for old in (folder / "rules").glob("*.md"):
        if f"rules/{old.name}" not in pages:
            old.unlink()
    for path, text in pages.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(reference_pages(), Path(sys.argv[1]))
