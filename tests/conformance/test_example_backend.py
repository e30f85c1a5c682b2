"""The backend under examples/, built and installed as a separate package beside Rollcall."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from webhook.config.file import settings_from
from webhook.errors import ConfigurationError

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
        spec: {roleName: leader, replicas: 1, podSpec: {containers: [{name: main, image: example.com/main}]}}
      - name: worker
        spec:
          roleName: worker
          replicas: 4
          minAvailable: MINIMUM
          podSpec: {containers: [{name: main, image: example.com/main}]}
"""


def python(
    *arguments: str, path: str = "", cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    paths = [entry for entry in (path, os.environ.get("PYTHONPATH")) if entry]
    environment = os.environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


pytestmark = pytest.mark.exhaustive


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


# Each line of its input is the arguments of a command; each line of its output is what that command left.
COMMANDS = """
import contextlib, io, json, sys
from webhook.cli import run
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
RUNS = {
    "config": ["config", "check", "rollcall.yaml"],
    "rules": ["rules", "--output", "json"],
    "whole": ["check", "--config", "rollcall.yaml", "whole.yaml"],
    "spare": ["check", "--config", "rollcall.yaml", "spare.yaml"],
    "render": ["render", "--config", "rollcall.yaml", "whole.yaml"],
}


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def rollcall(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """What the commands left, in one process where the example is installed, with a configuration that enables it."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "rollcall.yaml").write_text(CONFIGURATION)
    (folder / "whole.yaml").write_text(WORKLOAD.replace("MINIMUM", "4"))
    (folder / "spare.yaml").write_text(WORKLOAD.replace("MINIMUM", "2"))
    ran = python("-c", COMMANDS, path=str(installed), cwd=folder, stdin="\n".join(map(json.dumps, RUNS.values())))
    assert ran.returncode == 0, ran.stderr
    return {name: Ran(*json.loads(line)) for name, line in zip(RUNS, ran.stdout.splitlines(), strict=True)}


def test_the_wheel_contains_the_package_without_its_tests(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir()) == [
        "rollcall_scheduler_plugins",
        "rollcall_scheduler_plugins-0.1.0.dist-info",
    ]


def test_a_profile_with_the_backend_name_enables_it(rollcall: dict[str, Ran]) -> None:
    checked = rollcall["config"]
    assert checked.code == 0, checked.err
    assert "profile batch-scheduler (default)\n  scheduleTimeoutSeconds: 300\n" in checked.out


def test_without_the_package_the_profile_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="batch-scheduler"):
        settings_from(yaml.safe_load(CONFIGURATION), "rollcall.yaml")


def test_the_rules_of_the_example_backend_are_listed(rollcall: dict[str, Ran]) -> None:
    listed = [entry["id"] for entry in json.loads(rollcall["rules"].out)]
    assert [name for name in listed if name.startswith("scheduler-plugins/")] == [
        "scheduler-plugins/topology",
        "scheduler-plugins/mnnvl",
        "scheduler-plugins/spare-pods",
    ]


def test_the_rules_of_the_example_backend_judge_a_workload(rollcall: dict[str, Ran]) -> None:
    assert rollcall["whole"].code == 0
    assert rollcall["spare"].code == 1
    assert "error scheduler-plugins/spare-pods" in rollcall["spare"].out


def test_the_objects_and_pods_of_the_example_backend_are_rendered(rollcall: dict[str, Ran]) -> None:
    rendered = rollcall["render"]
    assert rendered.code == 0, rendered.err
    assert "minMember: 5" in rendered.out
    assert "scheduling.x-k8s.io/pod-group: demo-0" in rendered.out


def test_the_example_backend_passes_its_own_tests_and_the_conformance_kit(installed: Path) -> None:
    tested = python("-m", "pytest", "-q", cwd=installed.parent / "source", path=str(installed))
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout


@pytest.mark.skipif(CRDS is None, reason="ROLLCALL_CRDS names no folder of real CRDs")
def test_the_real_crd_has_all_fields_that_the_example_backend_writes() -> None:
    manifest = Path(str(CRDS)) / "scheduler-plugins" / "scheduling.x-k8s.io_podgroups.yaml"
    crd = yaml.safe_load(manifest.read_text())["spec"]
    (version,) = crd["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert (crd["group"], version["name"], crd["names"]["kind"]) == ("scheduling.x-k8s.io", "v1alpha1", "PodGroup")
    assert {"minMember", "scheduleTimeoutSeconds"} <= fields.keys()
    assert fields["minMember"]["minimum"] == 1
