"""`rollcall check` of gang objects written by hand: the objects of one folder are judged together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Ran, Run
from tests.unit.cli.test_commands import CHECKOUT

CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler:
  defaultProfileName: default-scheduler
  profiles:
  - {name: default-scheduler, config: {gangScheduling: true, apiGeneration: v1beta1}}
"""
TREE = (CHECKOUT / "manifests" / "trees" / "training.yaml").read_text()


@pytest.fixture
def checked(rollcall: Run, tmp_path: Path) -> Callable[..., Ran]:
    """Checks a folder of these files."""
    config = tmp_path / "rollcall.yaml"
    config.write_text(CONFIG)
    folder = tmp_path / "folder"
    folder.mkdir()

    def check(**files: str) -> Ran:
        for name, content in files.items():
            (folder / f"{name}.yaml").write_text(content)
        return rollcall("check", "--config", str(config), "--kubernetes", "1.37", "--strict", str(folder))

    return check


def documents() -> list[str]:
    return TREE.split("---\n")


def test_a_tree_with_one_file_per_object_is_judged_as_a_whole(checked: Callable[..., Ran]) -> None:
    # The last first, so that none is read after what it names.
    files = {f"f{99 - index}": document for index, document in enumerate(documents())}
    ran = checked(**files)
    assert (ran.code, ran.err) == (0, "")
    # The four Jobs are judged with the groups that their pods name.
    assert ran.out == "8 objects judged for default-scheduler: 0 errors, 4 workloads judged by their groups\n"


def test_a_parent_that_is_in_none_of_the_files_is_reported(checked: Callable[..., Ran]) -> None:
    without = [document for document in documents() if "metadata: {name: stage-1}" not in document]
    out = checked(groups="---\n".join(without)).out
    found = [line for line in out.splitlines() if "kube/parent-missing" in line]
    assert len(found) == 2
    assert out.count('found  "stage-1"') == 2


def test_a_cycle_across_two_files_is_reported(checked: Callable[..., Ran]) -> None:
    first, second = (
        TREE.split("---\n")[1]
        .replace("metadata: {name: training}", f"metadata: {{name: {name}}}")
        .replace("spec:\n", f"spec:\n  parentCompositePodGroupName: {parent}\n")
        for name, parent in (("a", "b"), ("b", "a"))
    )
    out = checked(first=first, second=second, workload=documents()[0]).out
    assert out.count("error kube/tree-cycle") == 2, out
