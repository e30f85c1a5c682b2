"""`rollcall check` of Koordinator's PodGroups and the pods that name them: a folder is judged together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

KOORD = ("--scheduler", "koord-scheduler")


def pod_group(name: str, groups: str) -> str:
    return f"""\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: {name}
  annotations:
    gang.scheduling.koordinator.sh/mode: Strict
    gang.scheduling.koordinator.sh/groups: '{groups}'
spec:
  minMember: 2
"""


TOGETHER = '["default/leader", "default/worker"]'
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: worker-0
  labels:
    pod-group.scheduling.sigs.k8s.io: worker
spec:
  schedulerName: koord-scheduler
  containers:
  - name: main
    image: example.com/main
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "leader.yaml").write_text(pod_group("leader", TOGETHER))
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "worker.yaml").write_text(pod_group("worker", TOGETHER))
    return tmp_path


def test_objects_of_other_files_are_known(rollcall: Run, folder: Path) -> None:
    (folder / "other.yaml").write_text(POD.replace("worker-0", "worker-1"))
    ran = rollcall("check", *KOORD, "--strict", str(folder))
    assert ran.out == "4 objects judged for koord-scheduler: 0 errors\n"
    assert ran.code == 0


def test_a_missing_file_causes_findings_in_the_others(rollcall: Run, folder: Path) -> None:
    (folder / "worker.yaml").unlink()
    ran = rollcall("check", *KOORD, str(folder))
    assert ran.code == 0
    assert f"{folder}/leader.yaml:7:5: warning koordinator/gang-member-missing" in ran.out
    assert f"{folder}/pod.yaml:6:5: warning koordinator/pod-group-missing" in ran.out


def test_two_conflicting_files_are_both_shown(rollcall: Run, folder: Path) -> None:
    (folder / "worker.yaml").write_text(pod_group("worker", '["default/worker"]'))
    ran = rollcall("check", *KOORD, str(folder))
    assert ran.code == 1
    for name in ("leader", "worker"):
        assert f"{folder}/{name}.yaml:7:5: error koordinator/gang-groups-differ" in ran.out


def test_references_of_a_single_file_are_not_judged(rollcall: Run, folder: Path) -> None:
    ran = rollcall("check", *KOORD, "--strict", str(folder / "pod.yaml"))
    assert ran.code == 1
    assert ":6:5: not judged koordinator/pod-group-missing" in ran.out


POD_OF = "{apiVersion: v1, kind: Pod, metadata: {name: NAME, MARK}, spec: {containers: [{name: a, image: b}]}}"
GROUPS = {
    "volcano/group-pods": ("scheduling.volcano.sh/v1beta1", "annotations: {scheduling.k8s.io/group-name: g}"),
    "koordinator/group-pods": ("scheduling.sigs.k8s.io/v1alpha1", "labels: {pod-group.scheduling.sigs.k8s.io: g}"),
    "coscheduling/group-pods": ("scheduling.x-k8s.io/v1alpha1", "labels: {scheduling.x-k8s.io/pod-group: g}"),
    "kai/group-pods": ("scheduling.run.ai/v2alpha2", "annotations: {pod-group-name: g}"),
}


@pytest.mark.parametrize("rule", GROUPS)
def test_a_minimum_above_the_pods_in_the_same_files_is_a_warning(rollcall: Run, rule: str) -> None:
    api_version, mark = GROUPS[rule]
    group = f"{{apiVersion: {api_version}, kind: PodGroup, metadata: {{name: g}}, spec: {{minMember: 3, queue: q}}}}"
    pods = [POD_OF.replace("NAME", name).replace("MARK", mark) for name in ("a", "b", "c")]
    ran = rollcall("check", "-", stdin="\n---\n".join([*pods[:2], group]))
    assert f"warning {rule}" in ran.out
    assert "in these files only 2 pods name the group" in ran.out
    assert rule not in rollcall("check", "-", stdin="\n---\n".join([*pods, group])).out
    assert rule not in rollcall("check", "-", stdin=group).out
