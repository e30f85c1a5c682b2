"""Malformed objects: every field of a wrong type is refused, and a repair is not blocked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.decisions import GPU, NVLINK, mutate
from tests.unit.worlds import PCS, POD, gang_pod, koordinator, request, rules, validate
from webhook import admission
from webhook.model.facts import NO_FACTS
from webhook.validators.examples import clique, pod_clique_set

MALFORMED = {
    "metadata is a list": ({"metadata": []}, ["metadata"]),
    "labels are numbers": ({"metadata": {"labels": 7}}, ["metadata.labels"]),
    "spec is a string": ({"spec": "x"}, ["spec"]),
    "replicas and a name": (
        {"spec": {"replicas": "2", "template": {"cliques": [{"name": 5}]}}},
        ["spec.replicas", "spec.template.cliques[0].name"],
    ),
    "true is no number": ({"spec": {"replicas": True}}, ["spec.replicas"]),
    "a container is a string": (
        {"spec": {"template": {"cliques": [{"name": "w", "spec": {"podSpec": {"containers": ["x"]}}}]}}},
        ["spec.template.cliques[0].spec.podSpec.containers[0]"],
    ),
}


@pytest.mark.parametrize(("fields", "places"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_object_is_refused_at_every_wrong_field(fields: dict[str, Any], places: list[str]) -> None:
    manifest = {**pod_clique_set(), **fields}
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("grove/shape", place) for place in places
    ]
    assert not verdict.allowed


@pytest.mark.parametrize(
    "old",
    [
        {**pod_clique_set(), "spec": "x"},
        pod_clique_set(clique("worker", labels=7)),
        pod_clique_set(clique("worker", pod={"initContainers": "x"})),
    ],
    ids=["spec", "a clique's labels", "a clique's init containers"],
)
def test_a_malformed_old_object_does_not_block_its_repair(old: Any) -> None:
    asked = request(pod_clique_set(), old, PCS)
    assert admission.validate(asked, NO_FACTS, koordinator()).allowed
    worse = request(pod_clique_set(GPU, annotations=NVLINK), old, PCS)
    assert rules(admission.validate(worse, NO_FACTS, koordinator())) == ["koordinator/mnnvl"]


def test_a_malformed_pod_is_refused_by_validation_and_left_unchanged_by_mutation() -> None:
    asked = request(gang_pod(schedulingGates="x"))
    assert admission.mutate(asked, NO_FACTS, koordinator(gate=True)).patch == ()
    assert asked.object == gang_pod(schedulingGates="x")
    broken = {**gang_pod(), "spec": {"schedulerName": 5}}
    assert rules(admission.validate(request(broken), NO_FACTS, koordinator())) == ["grove/shape"]


def test_a_malformed_object_is_identified_by_the_review() -> None:
    verdict = admission.validate(request({"spec": {"replicas": "x"}}, kind=PCS), NO_FACTS, koordinator())
    assert [str(finding.at) for finding in verdict.findings] == ["spec.replicas"]
    listed = admission.validate(
        request({"metadata": {"deletionTimestamp": None}, "spec": []}, kind=POD), NO_FACTS, koordinator()
    )
    assert str(listed.findings[0]).startswith("grove/shape at spec: a list of 0 items: ")


def test_a_null_field_counts_as_absent() -> None:
    manifest = pod_clique_set()
    manifest["metadata"] |= {"labels": None, "annotations": None}
    manifest["spec"]["template"] |= {"topologyConstraint": None, "podCliqueScalingGroups": None}
    assert validate(manifest).findings == ()
    assert mutate(manifest).patch[0] == {"op": "add", "path": "/metadata/labels", "value": {}}
