"""The JSON report, by its own published schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests.unit.offline.given import FINE, HOSTILE, OPTIONS, PUBLISHED, REFUSED, report_on, with_unreadable
from webhook.offline.finding_details import FailOn
from webhook.offline.report_json import report_as_json
from webhook.offline.report_schemas import report_schema
from webhook.offline.report_summary import ReportOptions

SUPPRESSED = REFUSED.replace("train\n", "train # rollcall:ignore koordinator/mnnvl: one rack\n")

# The pods of a clique.
CLIQUE = FINE.split("    - name: worker\n")[1].replace("roleName: worker", "roleName: er")


def closed(schema: Any) -> Any:
    """Return the schema without room for other fields: a field that it does not describe is a mistake here."""
    if isinstance(schema, dict):
        below = {name: closed(value) for name, value in schema.items()}
        return below | ({"additionalProperties": False} if "required" in schema else {})
    return [closed(value) for value in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("options", [OPTIONS, PUBLISHED, ReportOptions(frozenset(FailOn), list_ignored=True)])
@pytest.mark.parametrize("text", [REFUSED, FINE, SUPPRESSED, REFUSED.replace("ls", HOSTILE.replace('"', "'"))])
def test_a_report_is_valid_by_its_schema(text: str, options: ReportOptions) -> None:
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    report = with_unreadable(report_on(text + service))
    jsonschema.Draft202012Validator(closed(schema)).validate(report_as_json(report, options))


def test_a_report_with_a_warning_passes_and_is_not_clean() -> None:
    warned = FINE.replace("    - name: worker\n", f"    - name: er\n{CLIQUE}    - name: worker\n")
    found = report_as_json(report_on(warned), OPTIONS)
    assert (found["passed"], found["clean"], found["counts"]["warning"], found["counts"]["error"]) == (
        True,
        False,
        1,
        0,
    )
    failing = report_as_json(report_on(warned), ReportOptions(frozenset({FailOn.ERROR, FailOn.WARNING})))
    assert failing["passed"] is False


def test_a_finding_names_the_page_of_its_rule() -> None:
    [address] = {
        found["ruleUrl"]
        for found in report_as_json(report_on(REFUSED), PUBLISHED)["findings"]
        if "mnnvl" in found["rule"]
    }
    assert address == "https://example.com/docs/reference/rules/koord-scheduler.md#koordinatormnnvl"


def test_a_suppressed_finding_has_its_reason_and_does_not_fail() -> None:
    found = report_as_json(report_on(SUPPRESSED), OPTIONS)
    [accepted] = [entry for entry in found["findings"] if entry["suppression"] is not None]
    assert (accepted["rule"], accepted["fails"]) == ("koordinator/mnnvl", False)
    assert accepted["suppression"] == {"kind": "inSource", "reason": "one rack"}
    assert (found["counts"]["error"], found["counts"]["suppressed"]) == (1, 1)
