"""The last part of docs/tutorial.md as written: a refused and a started gang on a real scheduler.

The page's commands run in its order, with its files, until they print what the page shows. Commands and output are
printed, so that a reader of the page can watch them: `scripts/test-cluster --kube 1.37 -s -k test_tutorial`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.nodes import add_nodes, remove_nodes
from tests.e2e.programs import COMMAND, eventually, program
from tests.unit.documentation.pages import ROOT, Command, blocks, sessions

PAGE = ROOT / "docs" / "tutorial.md"
NAMESPACE = "tutorial"
# A gang that was rejected for lack of room may wait a minute for its next turn.
PATIENCE_SECONDS = 90


class Reader:
    """A reader of the page: a folder with its files, and a shell with its commands."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        kubectl = program("kubectl", f"kube-{plane.version}")
        assert kubectl is not None
        self._folder = folder
        self._environment = {
            "PATH": f"{kubectl.parent}:{COMMAND.parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(plane.kubeconfig),
        }

    def sees(self, command: Command) -> None:
        """Run a command until it prints what the page shows."""
        printed: list[str] = []

        def as_shown() -> bool:
            nonlocal printed
            ran = subprocess.run(
                ["/bin/sh", "-c", command.text],
                cwd=self._folder,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            printed = [line.rstrip() for line in (ran.stderr + ran.stdout).splitlines()]
            assert [timeless(line) for line in printed] == [timeless(line) for line in command.shown], printed
            return True

        # A command that writes runs once; a look may have to wait.
        looks = "get" in command.text.split() or "gangs" in command.text.split()
        eventually(as_shown, command.text, timeout=PATIENCE_SECONDS if looks else 0, pause=0.5)
        print(f"$ {command.text}", *printed, sep="\n")


def timeless(line: str) -> str:
    """Return a line without ages, names of pods and nodes that vary, and with single spaces."""
    for varying, fixed in (
        (r"\b\d+[sm]\b", "AGE"),
        (r"\bpod demo-0-\S+", "pod POD"),
        (r"\bnode-\d+", "node"),
        (r" +", " "),
    ):
        line = re.sub(varying, fixed, line)
    return line.rstrip()


@pytest.fixture
def reader(plane: ControlPlane, tmp_path: Path) -> Iterator[Reader]:
    """A reader with the files of the page, in a namespace of the page's name."""
    for block in blocks(PAGE):
        if name := re.match(r"# (\S+\.yaml)\n", block.text):
            (tmp_path / name[1]).write_text(block.text)
    plane.http.post("/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}}).raise_for_status()
    yield Reader(plane, tmp_path)
    plane.http.delete(f"/api/v1/namespaces/{NAMESPACE}").raise_for_status()
    plane.http.delete(f"/api/v1/namespaces/{NAMESPACE}/pods", params={"gracePeriodSeconds": "0"})
    remove_nodes(plane)


def test_the_tutorial_s_gang_starts_when_all_of_its_pods_fit(
    plane: ControlPlane,
    reader: Reader,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    tmp_path: Path,
) -> None:
    config = yaml.safe_load((tmp_path / "rollcall.yaml").read_text())
    scheduler(plane, "kube")
    rollcall(plane, config)
    reconciler(config).until_leading()
    refused, held, started = (sessions(block) for block in blocks(PAGE) if f"kubectl -n {NAMESPACE} " in block.text)

    for command in refused:
        reader.sees(command)
    # One node with room for two of the three pods.
    add_nodes(plane, 1, cpu=2)
    reader.sees(held[0])
    played = Played(plane, plane.get("podcliquesets.grove.io", "demo", NAMESPACE)).create()
    played.lift_gates()
    for command in held[1:]:
        reader.sees(command)
    assert played.bound() == []
    add_nodes(plane, 1, cpu=2)
    for command in started:
        reader.sees(command)
    assert len(played.bound()) == 3
