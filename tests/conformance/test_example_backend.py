"""The backend under examples/, built and installed as a separate package beside Rollcall."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rollcall-scheduler-plugins"
CRDS = os.environ.get("ROLLCALL_CRDS")
CONFIGURATION = """
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  profiles:
    - name: batch-scheduler
      config: {scheduleTimeoutSeconds: 300}
  defaultProfileName: batch-scheduler
"""
WORKLOAD = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: demo, namespace: default}
spec:
  replicas: 1
  template:
    cliques:
      - name: leader
        spec: {replicas: 1, podSpec: {containers: [{name: main, image: example.com/main}]}}
      - name: worker
        spec: {replicas: 4, minAvailable: MINIMUM, podSpec: {containers: [{name: main, image: example.com/main}]}}
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def python(*arguments: str, path: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    paths = [entry for entry in (path, os.environ.get("PYTHONPATH")) if entry]
    environment = os.environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the example was installed: built by its own build backend, without an index."""
    place = tmp_path_factory.mktemp("example")
    # A copy, so that nothing that tools leave behind lies about in the checkout.
    shutil.copytree(EXAMPLE, place / "source", ignore=shutil.ignore_patterns("__pycache__"))
    built = python("-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist"), cwd=place / "source")
    assert built.returncode == 0, built.stderr
    (wheel,) = (place / "dist").iterdir()
    # A wheel of pure Python is installed by unpacking it; the environment of the tests has no pip.
    with zipfile.ZipFile(wheel) as content:
        content.extractall(place / "site")
    return place / "site"


@pytest.fixture(scope="module")
def rollcall(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs `rollcall` where the example is installed, in a folder with a configuration that enables it."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "rollcall.yaml").write_text(CONFIGURATION)
    (folder / "whole.yaml").write_text(WORKLOAD.replace("MINIMUM", "4"))
    (folder / "spare.yaml").write_text(WORKLOAD.replace("MINIMUM", "2"))
    return lambda *arguments: python("-m", "webhook", *arguments, path=str(installed), cwd=folder)


def test_the_wheel_contains_the_package_without_its_tests(installed: Path) -> None:
    assert sorted(found.name for found in installed.iterdir()) == [
        "rollcall_scheduler_plugins",
        "rollcall_scheduler_plugins-0.1.0.dist-info",
    ]


def test_a_profile_with_the_backend_name_enables_it(rollcall: Run) -> None:
    checked = rollcall("config", "check", "rollcall.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "profile batch-scheduler (default)\n  scheduleTimeoutSeconds: 300\n" in checked.stdout


def test_without_the_package_the_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text(CONFIGURATION)
    checked = python("-m", "webhook", "config", "check", "rollcall.yaml", cwd=tmp_path)
    assert checked.returncode == 2
    assert "is not a scheduler with a backend" in checked.stderr


def test_the_rules_of_the_example_backend_are_listed(rollcall: Run) -> None:
    listed = [entry["id"] for entry in json.loads(rollcall("rules", "--output", "json").stdout)]
    assert [name for name in listed if name.startswith("scheduler-plugins/")] == [
        "scheduler-plugins/topology",
        "scheduler-plugins/mnnvl",
        "scheduler-plugins/spare-pods",
    ]


def test_the_rules_of_the_example_backend_judge_a_workload(rollcall: Run) -> None:
    assert rollcall("check", "--config", "rollcall.yaml", "whole.yaml").returncode == 0
    refused = rollcall("check", "--config", "rollcall.yaml", "spare.yaml")
    assert refused.returncode == 1
    assert "error scheduler-plugins/spare-pods" in refused.stdout


def test_the_objects_and_pods_of_the_example_backend_are_rendered(rollcall: Run) -> None:
    rendered = rollcall("render", "--config", "rollcall.yaml", "whole.yaml")
    assert rendered.returncode == 0, rendered.stderr
    assert "minMember: 5" in rendered.stdout
    assert "scheduling.x-k8s.io/pod-group: demo-0" in rendered.stdout


def test_the_example_backend_passes_its_own_tests_and_the_conformance_kit(installed: Path) -> None:
    tested = python("-m", "pytest", "-q", cwd=installed.parent / "source", path=str(installed))
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout


@pytest.mark.skipif(CRDS is None, reason="ROLLCALL_CRDS names no folder of real CRDs")
def test_the_real_crd_has_all_fields_that_the_example_backend_writes() -> None:
    import yaml

    manifest = Path(str(CRDS)) / "scheduler-plugins" / "scheduling.x-k8s.io_podgroups.yaml"
    crd = yaml.safe_load(manifest.read_text())["spec"]
    (version,) = crd["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert (crd["group"], version["name"], crd["names"]["kind"]) == ("scheduling.x-k8s.io", "v1alpha1", "PodGroup")
    assert {"minMember", "scheduleTimeoutSeconds"} <= fields.keys()
    assert fields["minMember"]["minimum"] == 1
