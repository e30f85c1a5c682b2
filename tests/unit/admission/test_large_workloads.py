"""Workloads with more parts than an API server can store."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.worlds import request, settings_of
from webhook import admission
from webhook.admission import decision
from webhook.errors import TooManyParts
from webhook.model.facts import NO_FACTS

SETTINGS = settings_of("koord-scheduler", standalone=True)

# By kind: its API version, and the list of its parts.
KINDS = {
    "cliques": ("grove.io/v1alpha1", "PodCliqueSet", ("template", "cliques")),
    "scaling groups": ("grove.io/v1alpha1", "PodCliqueSet", ("template", "podCliqueScalingGroups")),
    "replicated Jobs": ("jobset.x-k8s.io/v1alpha2", "JobSet", ("replicatedJobs",)),
    "runtime patches": ("trainer.kubeflow.org/v1alpha1", "TrainJob", ("runtimePatches",)),
    "replicated Jobs in runtime patches": (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        ("runtimePatches", "*", "trainingRuntimeSpec", "template", "spec", "replicatedJobs"),
    ),
}


def workload(api_version: str, kind: str, path: tuple[str, ...], parts: int) -> dict[str, Any]:
    spec: Any = [{}] * parts
    for step in reversed(path):
        spec = [spec] if step == "*" else {step: spec}
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "labels": labels}, "spec": spec}


@pytest.mark.parametrize(("api_version", "kind", "path"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("decide", [admission.validate, admission.mutate])
def test_a_workload_of_more_parts_than_are_judged_is_too_large(
    decide: Any, api_version: str, kind: str, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "MOST_PARTS", 100)
    most, more = (workload(api_version, kind, path, 100 + extra) for extra in (0, 1))
    for asked in (request(more), request(most, more)):
        with pytest.raises(TooManyParts, match=rf"^{re.escape('.'.join(('spec', *path)))} .*\b101\b.*\b100\b"):
            decide(asked, NO_FACTS, SETTINGS)
    decide(request(most), NO_FACTS, SETTINGS)


def test_a_workload_of_as_many_parts_as_are_judged_gets_a_verdict() -> None:
    api_version, kind, path = KINDS["cliques"]
    admission.validate(request(workload(api_version, kind, path, decision.MOST_PARTS)), NO_FACTS, SETTINGS)


@pytest.mark.parametrize("decide", [admission.validate, admission.mutate])
def test_a_workload_that_is_being_deleted_may_have_any_number_of_parts(decide: Any) -> None:
    more = workload(*KINDS["cliques"], decision.MOST_PARTS + 1)
    leaving = {**more, "metadata": {**more["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert decide(request(more, leaving), NO_FACTS, SETTINGS).allowed
