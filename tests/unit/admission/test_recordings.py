"""Recorded reviews of an API server with Grove's operator, replayed. Without the recordings (ROLLCALL_RECORDINGS), a
short stand-in of the same shape is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from tests.unit.worlds import gang_pod, koordinator
from webhook import admission
from webhook.admission.decision import request_from
from webhook.config.settings import Tenancy
from webhook.model.facts import NO_FACTS
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set

# They were made with an operator that was the administrator.
SETTINGS = replace(koordinator(), tenancy=Tenancy(grove_operators=("admin",)))


def stand_in() -> Iterator[Any]:
    created = gang_pod()
    bound = gang_pod(nodeName="node-1", schedulingGates=[])
    for operation, object_, old in (
        ("CREATE", created, None),
        ("UPDATE", bound, created),
        ("DELETE", None, bound),
    ):
        kind = {"group": "", "version": "v1", "kind": "Pod"}
        yield pytest.param(review(operation, kind, object_, old), id=f"stand-in {operation} pod")
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    manifest = pod_clique_set(clique("worker"))
    yield pytest.param(review("CREATE", kind, manifest, None), id="stand-in CREATE set")
    yield pytest.param(review("UPDATE", kind, manifest, manifest), id="stand-in UPDATE set")


def review(operation: str, kind: dict[str, str], object_: Manifest | None, old: Manifest | None) -> dict[str, Any]:
    request = {
        "uid": "u",
        "operation": operation,
        "kind": kind,
        "namespace": "default",
        "object": object_,
        "oldObject": old,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def recorded() -> Iterator[Any]:
    folder = os.environ.get("ROLLCALL_RECORDINGS")
    if folder is None:
        yield from stand_in()
        return
    for path in sorted(Path(folder).rglob("[0-9]*.json")):
        yield pytest.param(json.loads(path.read_text()), id=f"{path.parent.name}/{path.stem}")


REVIEWS = list(recorded())
assert REVIEWS, "ROLLCALL_RECORDINGS names a folder without recordings"


@pytest.mark.parametrize("review", REVIEWS)
def test_preparing_a_gang_s_pods_is_idempotent_and_changes_nothing_else(review: dict[str, Any]) -> None:
    asked = review["request"]
    before = json.loads(json.dumps(asked["object"]))
    verdict = admission.mutate(request_from(review), NO_FACTS, SETTINGS)
    patch = list(verdict.patch)
    if asked["operation"] != "CREATE" or asked["kind"]["kind"] not in {"Pod", "PodCliqueSet"}:
        assert patch == []
        return
    if asked["kind"]["kind"] == "PodCliqueSet":
        assert patch[-1] == {
            "op": "add",
            "path": "/metadata/labels/rollcall.dev~1scheduler",
            "value": "koord-scheduler",
        }
    else:
        labels = before["metadata"]["labels"]
        podgang, podclique = labels["grove.io/podgang"], labels["grove.io/podclique"]
        name = podclique if podclique.startswith(f"{podgang}-") else f"{podgang}-{podclique}"
        stamp = patch[2]["value"] if patch[1]["path"] == "/metadata/annotations" else patch[1]["value"]
        assert stamp.startswith("koord-scheduler/")
        assert [op for op in patch if "annotations" not in op["path"]] == [
            {"op": "add", "path": "/metadata/labels/pod-group.scheduling.sigs.k8s.io", "value": name},
            {"op": "replace", "path": "/spec/schedulerName", "value": "koord-scheduler"},
        ]
    patched = jsonpatch.apply_patch(before, patch)
    again = {**review, "request": {**asked, "object": patched}}
    assert admission.mutate(request_from(again), NO_FACTS, SETTINGS).patch == ()


@pytest.mark.parametrize("review", REVIEWS)
def test_the_refused_recordings_are_refused_for_their_topology(review: dict[str, Any]) -> None:
    """Two of the recorded workloads are fine on Koordinator; the third has topology on a scaling group."""
    verdict = admission.validate(request_from(review), NO_FACTS, SETTINGS)
    expected: set[str] = set()
    asked = review["request"]
    if asked["kind"]["kind"] == "PodCliqueSet" and asked.get("name") == "topo":
        body = asked["object"]
        if asked["operation"] in {"CREATE", "UPDATE"} and "deletionTimestamp" not in body["metadata"]:
            expected = {"koordinator/scaling-group-topology", "koordinator/divergent-topology"}
    assert {finding.rule for finding in verdict.findings} == expected
    assert verdict.allowed is not bool(expected) or asked["operation"] == "UPDATE"
