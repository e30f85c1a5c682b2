"""The Report of a namespace: its numbers, its results, and since when they are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.growth.step_counts import Cost
from tests.unit.operations.test_tally import add, finding, key, verdict
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Unjudged
from webhook.operations.audit import Tally, results_in
from webhook.operations.audit_forms import MOST_RESULTS, report_of, reports, tally_for_reports

NOW = datetime(2026, 11, 27, 20, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def report(found: Tally, stored: dict[str, Any] | None = None, now: datetime = NOW) -> dict[str, Any]:
    """The report of team-a."""
    return dict(report_of("team-a", dict(reports(found))["team-a"], found, stored, now))


def test_a_report_has_the_numbers_of_its_namespace_and_its_results() -> None:
    found = tally_for_reports()
    add(found, "one", finding("koordinator/mnnvl", found="train"))
    add(found, "two", finding("a/w", Action.WARN))
    add(found, "three")
    add(found, "elsewhere", finding(), namespace="team-b")
    told = verdict(unjudged=(Unjudged(SPEC, "the quota is", "a/u"),))
    found.add(key("four"), told, results_in(told))
    made = report(found)
    assert (made["apiVersion"], made["kind"], made["source"]) == ("openreports.io/v1alpha1", "Report", "rollcall")
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("rollcall", "team-a")
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "rollcall"
    assert made["summary"] == {"pass": 1, "fail": 1, "warn": 1, "error": 0, "skip": 1}
    assert [(one["policy"], one["result"], one["severity"]) for one in made["results"]] == [
        ("koordinator/mnnvl", "fail", "high"),
        ("a/w", "warn", "medium"),
        ("a/u", "skip", "info"),
    ]
    first = made["results"][0]
    assert first["message"] == '"train": it is so; change it'
    assert first["category"] == "koord-scheduler"
    assert first["properties"] == {"field": "spec.x", "scheduler": "koord-scheduler"}
    assert first["resources"] == [
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "namespace": "team-a",
            "name": "one",
            "uid": "uid-one",
        }
    ]
    assert first["timestamp"] == {"seconds": 1795809600, "nanos": 0}


def test_an_unchanged_result_keeps_its_time_and_a_new_one_gets_its_own() -> None:
    found = tally_for_reports()
    add(found, "one", finding())
    first = report(found)
    assert report(found, first, LATER) == first
    add(found, "two", finding())
    times = {one["resources"][0]["name"]: one["timestamp"]["seconds"] for one in report(found, first, LATER)["results"]}
    assert times == {"one": 1795809600, "two": 1795813200}


def test_a_report_lists_a_bounded_number_and_counts_all() -> None:
    found = tally_for_reports()
    for number in range(2 * MOST_RESULTS):
        add(found, f"warned-{number:03}", finding("a/w", Action.WARN))
    for number in range(2 * MOST_RESULTS):
        add(found, f"refused-{number:03}", finding())
    made = report(found)
    assert len(made["results"]) == made["configuration"]["limits"]["maxResults"] == MOST_RESULTS
    assert {one["result"] for one in made["results"]} == {"fail"}
    assert (made["summary"]["fail"], made["summary"]["warn"]) == (2 * MOST_RESULTS, 2 * MOST_RESULTS)


def test_a_namespace_beyond_the_limit_has_its_numbers() -> None:
    found = Tally(most=1, most_of_namespace=1)
    add(found, "one", finding(), namespace="team-0")
    add(found, "two", finding())
    made = report(found)
    assert (made["results"], made["summary"]["fail"]) == ([], 1)


def test_a_namespace_without_findings_and_an_object_without_namespace_have_no_report() -> None:
    found = tally_for_reports()
    add(found, "one")
    add(found, "queue", finding(), namespace="")
    assert dict(reports(found)) == {}


def test_a_stored_report_that_cannot_be_read_is_replaced() -> None:
    found = tally_for_reports()
    add(found, "one", finding())
    assert report(found, {"results": "x"}) == report(found)
    assert report(found, {"results": [{"resources": [], "timestamp": 1}]}) == report(found)


def test_the_reports_of_many_namespaces_take_time_in_proportion() -> None:
    def written(namespaces: int) -> int:
        found = tally_for_reports()
        for index in range(namespaces):
            add(found, "one", finding(), namespace=f"team-{index}")
        every = list(reports(found))
        cost = Cost(lambda: [report_of(name, kept, found, None, NOW) for name, kept in every], memory=False)
        return cost.runs.total()

    assert written(120) < written(30) * 6
