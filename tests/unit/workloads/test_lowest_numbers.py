"""Parts that may run with fewer pods than their gang needs, of a kind that is declared in the configuration."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import validate
from tests.unit.workloads.workloads import declared, template, with_shapes, workload
from webhook.model.findings import Finding
from webhook.model.reading import Manifest

FOR = {"group": "example.com", "kind": "Farm", "plural": "farms", "versions": ["v1"]}
ELASTIC = {"when": {"path": "$.spec.elastic", "exists": True}, "count": "$.spec.elastic.least"}
MINIMUM = {"when": {"path": "$.spec.minimum", "exists": True}, "count": "$.spec.minimum"}
PART: dict[str, Any] = {"template": "$.spec.template", "pods": "$.spec.replicas"}


def _found(spec: dict[str, Any], **part: Any) -> list[Finding]:
    settings = with_shapes(declared({"for": FOR, "parts": [{**PART, **part}]}, "farm"))
    farm: Manifest = workload("example.com/v1", "Farm", {"template": template(), **spec}, "koord-scheduler")
    verdict = validate(deepcopy(farm), settings=settings)
    assert verdict.allowed, verdict.denials
    return [one for one in verdict.findings if one.rule == "owner/operator"]


@pytest.mark.parametrize(
    ("spec", "part", "expected"),
    [
        (
            {"replicas": 4, "minimum": 4, "elastic": {"least": 2}},
            {"minimum": MINIMUM, "lowest": ELASTIC},
            ("spec.minimum", 4, 2, 4, "lower it, or raise spec.elastic.least"),
        ),
        (
            {"replicas": 4, "minimum": 3},
            {"minimum": MINIMUM, "lowest": {"count": 1}},
            ("spec.minimum", 3, 1, 3, "lower it until"),
        ),
        (
            {"replicas": 4, "elastic": {"least": 0}},
            {"lowest": ELASTIC},
            ("spec.elastic.least", 0, 0, 4, "raise it to"),
        ),
        (
            {"replicas": 4},
            {"lowest": {"count": 3}},
            ("spec.template", None, 3, 4, "in the WorkloadShape"),
        ),
    ],
    ids=["two fields", "the minimum is a field", "the lowest number is a field", "neither is a field"],
)
def test_a_part_that_may_run_with_fewer_pods_than_its_gang_needs(
    spec: dict[str, Any], part: dict[str, Any], expected: tuple[str, object, int, int, str]
) -> None:
    at, found, lowest, minimum, remedy = expected
    (finding,) = _found(spec, **part)
    assert (str(finding.at), finding.value) == (at, found)
    assert f"with {lowest} of these pods" in finding.why
    assert f"its gang needs {minimum}:" in finding.why
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"replicas": 4, "minimum": 2, "elastic": {"least": 2}}, {"minimum": MINIMUM, "lowest": ELASTIC}),
        ({"replicas": 4, "minimum": 2, "elastic": {"least": 3}}, {"minimum": MINIMUM, "lowest": ELASTIC}),
        ({"replicas": 2, "elastic": {"least": 3}}, {"lowest": ELASTIC}),
        ({"replicas": 4}, {"lowest": ELASTIC}),
        ({"replicas": 4, "elastic": {"least": 2}}, {}),
    ],
    ids=["the same number", "a higher one", "fewer pods than the lowest number", "not elastic", "not declared"],
)
def test_a_part_whose_gang_follows(spec: dict[str, Any], part: dict[str, Any]) -> None:
    assert _found(spec, **part) == []


def test_pods_outside_of_the_gang_may_be_any_number() -> None:
    outside = {
        "name": "submitter",
        "template": "$.spec.submitter",
        "pods": 2,
        "outside": True,
        "lowest": {"count": 0},
    }
    settings = with_shapes(declared({"for": FOR, "parts": [{**PART, "name": "worker"}, outside]}, "farm"))
    farm = workload("example.com/v1", "Farm", {"template": template(), "replicas": 2}, "koord-scheduler")
    assert validate(farm, settings=settings).findings == ()


def test_a_lowest_number_of_the_wrong_type_is_reported_with_its_place() -> None:
    settings = with_shapes(declared({"for": FOR, "parts": [{**PART, "lowest": ELASTIC}]}, "farm"))
    spec = {"template": template(), "replicas": 2, "elastic": {"least": "2"}}
    verdict = validate(workload("example.com/v1", "Farm", spec, "koord-scheduler"), settings=settings)
    assert [(one.rule, str(one.at)) for one in verdict.denials] == [("owner/shape", "spec.elastic.least")]
