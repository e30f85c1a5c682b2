"""`rollcall check` on gang objects: objects of one folder know each other, in whichever file they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  defaultProfileName: default-scheduler
  profiles: [{name: default-scheduler, config: {gangScheduling: true, apiGeneration: v1beta1}}]
"""
WORKLOAD = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: Workload
metadata: {name: demo}
spec:
  compositePodGroupTemplates:
  - name: root
    schedulingPolicy: {gang: {minGroupCount: 1}}
    podGroupTemplates:
    - {name: worker, schedulingPolicy: {gang: {minCount: 2}}}
"""
ROOT = """\
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata: {name: demo}
spec:
  workloadRef: {workloadName: demo, templateName: root}
  schedulingPolicy: {gang: {minGroupCount: 1}}
"""
WORKER = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: demo-worker}
spec:
  parentCompositePodGroupName: demo
  workloadRef: {workloadName: demo, templateName: worker}
  schedulingPolicy: {gang: {minCount: 2}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree in three files, of which the leaf is read first."""
    (tmp_path / "rollcall.yaml").write_text(CONFIG)
    objects = tmp_path / "objects"
    objects.mkdir()
    for name, text in (("a-worker", WORKER), ("b-root", ROOT), ("c-workload", WORKLOAD)):
        (objects / f"{name}.yaml").write_text(text)
    return tmp_path


def found(rollcall: Run, folder: Path) -> list[tuple[str, str]]:
    """Where there is something, and by which rule; and that nothing is left unjudged."""
    ran = rollcall("check", "--config", str(folder / "rollcall.yaml"), "-o", "json", str(folder / "objects"))
    report = json.loads(ran.out)
    return [(Path(one["file"]).name, one["rule"]) for one in report["findings"]]


def test_a_tree_in_several_files_is_accepted(rollcall: Run, folder: Path) -> None:
    strict = rollcall("check", "--strict", "--config", str(folder / "rollcall.yaml"), str(folder / "objects"))
    assert strict.code == 0, strict.out
    assert found(rollcall, folder) == []


def test_a_contradiction_with_an_object_in_another_file_is_reported(rollcall: Run, folder: Path) -> None:
    (folder / "objects" / "a-worker.yaml").write_text(WORKER.replace("minCount: 2", "minCount: 3"))
    (folder / "objects" / "b-root.yaml").write_text(ROOT.replace("spec:", "spec:\n  disruptionMode: {all: {}}"))
    assert found(rollcall, folder) == [
        ("a-worker.yaml", "kube/template-policy"),
        ("a-worker.yaml", "kube/disruption-single"),
        ("b-root.yaml", "kube/disruption-single"),
    ]


def test_a_parent_that_is_in_none_of_the_files_causes_a_warning_or_is_not_judged(rollcall: Run, folder: Path) -> None:
    other = ROOT.replace("name: demo}", "name: other}")
    (folder / "objects" / "b-root.yaml").write_text(other)
    assert ("a-worker.yaml", "kube/parent-missing") in found(rollcall, folder)
    (folder / "objects" / "b-root.yaml").unlink()
    strict = rollcall("check", "--strict", "--config", str(folder / "rollcall.yaml"), str(folder / "objects"))
    assert strict.code == 1
    assert "not judged kube/parent-missing" in strict.out


POD = """\
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulingGroup: {podGroupName: demo-worker}
  schedulerName: %s
  containers: [{name: main, image: example.com/main}]
"""


def test_pods_of_one_group_in_two_files_must_name_one_scheduler(rollcall: Run, folder: Path) -> None:
    objects = folder / "objects"
    (objects / "d-pod.yaml").write_text(POD % ("worker-0", "batch-scheduler"))
    assert found(rollcall, folder) == [], "a pod is not compared with itself"
    (objects / "e-pod.yaml").write_text(POD % ("worker-1", "batch-scheduler"))
    assert found(rollcall, folder) == []
    (objects / "e-pod.yaml").write_text(POD % ("worker-1", "default-scheduler"))
    assert found(rollcall, folder) == [
        ("d-pod.yaml", "kube/pod-schedulers"),
        ("e-pod.yaml", "kube/pod-schedulers"),
    ]
    unnamed = (POD % ("x", "third-scheduler")).replace("{name: x}", "{generateName: worker-}")
    (objects / "e-pod.yaml").write_text(unnamed)
    assert found(rollcall, folder) == [("e-pod.yaml", "kube/pod-schedulers")]
