"""`rollcall check` of the workloads and PodGroups that kubectl prints: the operator's minimum is compared."""

from __future__ import annotations

from pathlib import Path

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
