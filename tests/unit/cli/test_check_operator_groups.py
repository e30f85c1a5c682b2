"""`rollcall check` of the workloads and PodGroups that kubectl prints: the operator's minimum is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run

# kubectl get rayclusters,podgroups -o yaml, cut to what is read.
PRINTED = """\
apiVersion: v1
kind: List
metadata:
  resourceVersion: ""
items:
- apiVersion: ray.io/v1
  kind: RayCluster
  metadata:
    name: train
    namespace: research
    uid: 6f1c
  spec:
    headGroupSpec:
      template: {spec: {containers: [{name: ray-head, image: rayproject/ray:2.52.0}]}}
    workerGroupSpecs:
    - groupName: gpu
      replicas: 4
      minReplicas: 0
      maxReplicas: 8
      template: {spec: {containers: [{name: ray-worker, image: rayproject/ray:2.52.0}]}}
- apiVersion: scheduling.x-k8s.io/v1alpha1
  kind: PodGroup
  metadata:
    name: train
    namespace: research
    ownerReferences:
    - apiVersion: ray.io/v1
      kind: RayCluster
      name: train
      uid: 6f1c
  spec:
    minMember: 3
"""
FINDING = """\
    object PodGroup research/train
    field  spec.minMember
    found  3
    why    the gang of RayCluster train needs 5 pods"""
REMEDY = "    do     set it to 5"


def test_what_kubectl_prints_shows_a_stale_minimum(rollcall: Run) -> None:
    ran = rollcall("check", "-", stdin=PRINTED)
    assert ran.code == 0
    assert f"<stdin>:32:5: warning owner/operator-group\n{FINDING}" in ran.out
    assert REMEDY in ran.out


def test_a_stale_minimum_is_found_for_any_enabled_scheduler_and_may_fail_a_check(rollcall: Run) -> None:
    ran = rollcall("check", "--scheduler", "kai-scheduler", "--fail-on", "warning", "-", stdin=PRINTED)
    assert ran.code == 1
    assert f"warning owner/operator-group\n{FINDING}" in ran.out
    assert REMEDY in ran.out


def test_workload_and_group_may_be_in_different_files(rollcall: Run, tmp_path: Path) -> None:
    workload, group = PRINTED.split("- apiVersion: scheduling.x-k8s.io/v1alpha1")
    (tmp_path / "workload.yaml").write_text(workload)
    (tmp_path / "group.yaml").write_text(f"kind: List\nitems:\n- apiVersion: scheduling.x-k8s.io/v1alpha1{group}")
    ran = rollcall("check", "--fail-on", "warning", str(tmp_path))
    assert ran.code == 1
    assert "group.yaml:14:5: warning owner/operator-group" in ran.out


def test_the_right_minimum_passes(rollcall: Run) -> None:
    ran = rollcall("check", "--fail-on", "warning", "-", stdin=PRINTED.replace("minMember: 3", "minMember: 5"))
    assert ran.code == 0
    assert "owner/operator-group" not in ran.out


def test_a_group_without_its_workload_is_not_compared(rollcall: Run) -> None:
    ran = rollcall("check", "--fail-on", "warning", "-", stdin=PRINTED.replace("kind: RayCluster", "kind: Unknown", 1))
    assert "owner/operator-group" not in ran.out


def _deployment(
    minimum: str, strategy: dict[str, Any] | None, replicas: int | None = 4, *, opted_in: bool = False
) -> str:
    pod = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "example.com/main"}]}
    metadata = {
        "name": "demo",
        "labels": {"rollcall.dev/scheduler": "volcano"} if opted_in else {},
        "annotations": {"scheduling.volcano.sh/group-min-member": minimum},
    }
    selector = {"app": "demo"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": selector},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    spec |= {} if strategy is None else {"strategy": strategy}
    spec |= {} if replicas is None else {"replicas": replicas}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def _rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("manifest", "is_found"),
    [
        (_deployment("2", _rolling(1, 0)), True),
        (_deployment("2", _rolling(1, 1)), False),
        # A quarter of four pods each: one more, and one less.
        (_deployment("3", None), True),
        (_deployment("2", None), False),
        (_deployment("3", _rolling("50%", 0)), True),
        (_deployment("3", _rolling("51%", 0)), False),
        (_deployment("2", _rolling(0, "10%")), True),
        (_deployment("4", {"type": "Recreate"}), False),
        (_deployment("5", {"type": "Recreate"}), True),
        (_deployment("2", _rolling(1, 0), None), True),
        (_deployment("2", _rolling(1, 0), 0), False),
        (_deployment("1", _rolling(1, 0)), False),
        (_deployment("two", _rolling(1, 0)), False),
        (_deployment("2", _rolling("many", 0)), False),
        # Rollcall makes one group of all its revisions.
        (_deployment("2", _rolling(1, 0), opted_in=True), False),
    ],
)
def test_a_rollout_that_waits_for_its_own_end_is_found(rollcall: Run, manifest: str, is_found: bool) -> None:
    found = json.loads(rollcall("check", "-o", "json", "-", stdin=manifest).out)["findings"]
    at = "metadata.annotations[scheduling.volcano.sh/group-min-member]"
    assert [one["field"] for one in found if one["rule"] == "owner/group-rollout"] == ([at] if is_found else [])
