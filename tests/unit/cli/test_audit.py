"""`rollcall audit`, against a simulated cluster: what it prints, by which configuration, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.conftest import CONFIG, Run, answer_for_the_cluster
from tests.unit.cli.gang_cluster import quiet
from tests.unit.cli.test_gangs_there import context, installed
from tests.unit.cluster.scripted import failure
from tests.unit.operations.stored_objects import RULE, stored_set
from tests.unit.reconciler.cluster import WritableWorld

__all__ = ["quiet"]
SETS = "/apis/grove.io/v1alpha1/podcliquesets"
LENIENT = CONFIG + f"enforcement: {{rules: {{{RULE}: warn}}}}\n"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WritableWorld:
    found = WritableWorld()
    for raw in (stored_set("bad", bad=True), stored_set("good"), stored_set("bad", "team-b", bad=True)):
        found.put(SETS, raw)
    for name in ("team-a", "team-b"):
        found.put("/api/v1/namespaces", {"metadata": {"name": name}})
    answer_for_the_cluster(found, monkeypatch)
    return found


@pytest.fixture
def today(tmp_path: Path) -> str:
    file = tmp_path / "today.yaml"
    file.write_text(CONFIG)
    return f"--today={file}"


@pytest.fixture
def lenient(tmp_path: Path) -> Path:
    file = tmp_path / "lenient.yaml"
    file.write_text(LENIENT)
    return file


def test_stored_objects_that_would_be_refused_are_a_table(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    ran = rollcall("audit", "-A", today)
    assert ran.code == 1
    rows = [line.split()[:5] for line in ran.out.splitlines()]
    assert rows[:3] == [
        ["LEVEL", "RULE", "NAMESPACE", "OBJECTS", "FOR"],
        ["error", RULE, "team-a", "1", "PodCliqueSet/bad"],
        ["error", RULE, "team-b", "1", "PodCliqueSet/bad"],
    ]
    assert "2 errors; 2 objects would be refused; rollcall explain PodCliqueSet/bad -n team-a" in ran.out
    assert cluster.writes == []


def test_a_namespace_is_audited_alone(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    found = json.loads(rollcall("audit", "-n", "team-a", today, "-o", "json").out)
    assert (found["judged"], found["refused"]) == (2, 1)


def test_the_namespace_comes_from_the_context(
    rollcall: Run, cluster: WritableWorld, today: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(monkeypatch, "team-b")
    ran = rollcall("audit", today, "-o", "json")
    assert ran.err.startswith("rollcall: namespace team-b, from the context; ")
    assert {one["namespace"] for one in json.loads(ran.out)["groups"]} == {"team-b"}
    assert rollcall("audit", "-A", "-n", "team-a").code == 2


def test_without_a_file_the_installed_configuration_judges(rollcall: Run, cluster: WritableWorld) -> None:
    installed(cluster, LENIENT)
    assert rollcall("audit", "-A").code == 0
    assert rollcall("audit", "-A", "--fail-on", "warning").code == 1


def test_only_selected_rules_count(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    assert rollcall("audit", "-A", today, "--ignore", RULE).code == 0
    assert rollcall("audit", "-A", today, "--select", "koordinator/*").code == 1


def test_another_configuration_is_compared_with_today(
    rollcall: Run, cluster: WritableWorld, today: str, lenient: Path
) -> None:
    ran = rollcall("audit", "-A", today, f"--config={lenient}")
    assert ran.code == 0
    assert f"new with {lenient}" in ran.out
    assert re.search(r"\b0 objects .* in addition, 2 no longer", ran.out)
    assert rollcall("audit", "-A", f"--today={lenient}", today.replace("--today", "--config")).code == 1
    same = rollcall("audit", "-A", today, today.replace("--today", "--config"))
    assert (same.code, "nothing changes with" in same.out) == (0, True)


def test_a_scheduler_that_is_not_enabled_cannot_be_switched_to(
    rollcall: Run, cluster: WritableWorld, today: str
) -> None:
    ran = rollcall("audit", "-A", today, "--as", "kai-scheduler")
    assert ran.code == 2
    assert 'rollcall: command line: --as: "kai-scheduler": no profile ' in ran.err


def test_a_switch_of_the_scheduler_is_shown(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    found = json.loads(rollcall("audit", "-A", today, "--as", "default-scheduler", "-o", "json").out)["comparison"]
    assert found["with"] == "as default-scheduler"
    assert {one["rule"] for one in found["gone"]["groups"]} == {RULE}


def test_a_kind_that_cannot_be_listed_is_named_beside_what_is_refused(
    rollcall: Run, cluster: WritableWorld, today: str
) -> None:
    cluster.refused["/api/v1/pods"] = httpx.Response(403, json=failure(403, "pods is forbidden"))
    ran = rollcall("audit", "-A", today)
    # A refusal is certain, whatever is not known.
    assert ran.code == 1
    assert re.search(r"^rollcall: pods .* not judged: HTTP 403: pods is forbidden$", ran.err, re.MULTILINE)
    assert "2 objects would be refused" in ran.out


def test_a_cluster_that_does_not_answer_ends_with_3(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    cluster.failing = httpx.ConnectError("refused")
    assert rollcall("audit", "-A", today).code == 3


def test_progress_goes_to_standard_error(rollcall: Run, cluster: WritableWorld, today: str) -> None:
    ran = rollcall("audit", "-A", today, "--progress", "-o", "sarif")
    assert "rollcall: podcliquesets.grove.io: 3 read\n" in ran.err
    assert len(json.loads(ran.out)["runs"][0]["results"]) == 2
    assert "3 read" not in rollcall("audit", "-A", today).err
