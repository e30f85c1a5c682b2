"""A baseline: what identifies a finding, and what a broken file is told."""

from __future__ import annotations

import re
from typing import Any

import pytest

from webhook.model.admission_request import Verdict
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import Finding
from webhook.offline.judgement import Judgement
from webhook.offline.report import baseline_as_json, baseline_from

JUDGEMENT = Judgement("PodCliqueSet", "default", "demo", ROOT, Verdict())
FOUND = Finding(FieldPath(("spec", Item(0, "a"), "x")), "train", "why", "remedy", rule="koordinator/mnnvl")
WRITTEN = {
    "version": 1,
    "findings": [
        {
            "kind": "PodCliqueSet",
            "namespace": "default",
            "name": "demo",
            "rule": "koordinator/mnnvl",
            "field": "spec[a].x",
            "found": '"train"',
        }
    ],
}


def test_a_baseline_names_object_rule_field_and_value() -> None:
    assert baseline_as_json([(JUDGEMENT, FOUND)]) == WRITTEN


def test_a_finding_is_taken_as_often_as_it_is_listed() -> None:
    baseline = baseline_from(WRITTEN)
    assert [baseline.takes(JUDGEMENT, FOUND) for _ in range(2)] == [True, False]


def test_a_rule_that_fails_closed_is_not_written() -> None:
    closed = Finding(FOUND.at, "train", "why", "remedy", rule="grove/shape", fails_closed=True)
    assert baseline_as_json([(JUDGEMENT, closed)])["findings"] == []


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ([], "is not a baseline"),
        ({"version": 2, "findings": []}, "is not a baseline"),
        ({"version": 1}, "has no list of findings"),
        (
            {"version": 1, "findings": [{"kind": 1}]},
            "findings[0] must have these texts: kind, namespace, name, rule, field, found",
        ),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(written: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        baseline_from(written)
