"""What `scripts/test --changed` runs: the tests that import what changed, nearest first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import grimp
import pytest

from tests import reach
from tests.reach import EVERYWHERE, LOOP, ROOT, import_graph, reached_tests
from tests.waiting import LIMIT_SECONDS


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return import_graph()


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("webhook/reconciler/work_queue.py", "tests/unit/reconciler/test_queue.py"),
        ("webhook/backends/registry.py", "tests/unit/validators/test_rule_examples.py"),
        ("webhook/server/lane.py", "tests/unit/server/test_lane.py"),
        ("webhook/fit/packing.py", "tests/unit/admission/test_admission.py"),
        ("tests/unit/worlds.py", "tests/unit/backends/test_kai_gangs.py"),
        ("tests/unit/reconciler/test_queue.py", "tests/unit/reconciler/test_queue.py"),
        ("tests/unit/cli/conftest.py", "tests/unit/cli"),
        ("docs/tutorial.md", "tests/unit/documentation"),
        ("README.md", "tests/unit/documentation"),
        ("manifests/configuration.yaml", "tests/unit/installation"),
        ("webhook/installation/chart/values.yaml", "tests/unit/installation"),
    ],
)
def test_a_change_reaches_the_tests_that_import_or_read_it(graph: grimp.ImportGraph, path: str, test: str) -> None:
    assert (ROOT / path).exists()
    assert test in reached_tests([path], graph)


def test_the_nearest_test_comes_first(graph: grimp.ImportGraph) -> None:
    reached = reached_tests(["webhook/reconciler/lease.py"], graph)
    assert reached.index("tests/unit/reconciler/test_lease.py") < reached.index("tests/unit/cli/test_gangs_there.py")


def test_a_change_reaches_no_test_that_does_not_import_it(graph: grimp.ImportGraph) -> None:
    reached = reached_tests(["webhook/reconciler/work_queue.py"], graph)
    assert [test for test in reached if test.startswith("tests/unit/validators")] == []


@pytest.mark.parametrize("path", EVERYWHERE)
def test_what_holds_for_all_tests_reaches_all(graph: grimp.ImportGraph, path: str) -> None:
    assert (ROOT / path).exists()
    assert reached_tests([path, "docs/tutorial.md"], graph) == list(LOOP)


def test_a_deleted_module_reaches_nothing_by_itself(graph: grimp.ImportGraph) -> None:
    assert reached_tests(["webhook/reconciler/deleted.py", "tests/unit/reconciler/test_deleted.py"], graph) == []


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one committed file, in the place of this one: this may be an archive without a history."""
    # A hook of git tells the programs that it starts which repository they are for.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "kept.py").write_text("kept = 1\n")
    for command in (
        ["init", "--quiet"],
        ["add", "kept.py"],
        ["-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=first"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=LIMIT_SECONDS)
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    return tmp_path


def test_a_change_is_what_differs_or_is_new(checkout: Path) -> None:
    assert reach.changed_paths("HEAD") == []
    (checkout / "new name.py").touch()
    (checkout / "kept.py").write_text("kept = 2\n")
    assert reach.changed_paths("HEAD") == ["kept.py", "new name.py"]


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("revision", ["no-such-revision", "--help", ""])
def test_a_revision_that_git_does_not_know_is_an_error(revision: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        reach.main([revision])
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert f"'{revision}'" in err
