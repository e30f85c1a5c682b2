"""Typical mistakes: each is found at its line, with the same verdict in every way to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.texts import Text
from tests.unit.cli.agreement import HEAD, KAI_ONLY, agree
from tests.unit.cli.conftest import Run
from tests.unit.mistakes import (
    declared_kinds,
    gang_objects,
    kueue_and_gangs,
    kueue_workloads,
    opted_in,
    podcliqueset,
    wrong_names,
)
from tests.unit.mistakes.manifests import CORRECT, SET
from tests.unit.mistakes.mistake import WITHOUT_OPTIONS, Mistake
from tests.unit.server.test_capabilities import ask
from webhook.config.defaults import default_settings
from webhook.model.facts import NO_FACTS
from webhook.server.state import ServerState

MISTAKES: dict[str, Mistake] = {
    **wrong_names.MISTAKES,
    **podcliqueset.MISTAKES,
    **opted_in.MISTAKES,
    **declared_kinds.MISTAKES,
    **gang_objects.MISTAKES,
    **kueue_and_gangs.MISTAKES,
    **kueue_workloads.MISTAKES,
}
LEVELS = (" error ", " warning ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The only file of a folder."""
    folder = tmp_path / "judged"
    folder.mkdir()
    return folder / "manifests.yaml"


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_at_its_line_in_every_way_to_ask(
    rollcall: Run, file: Path, tmp_path: Path, mistake: Mistake
) -> None:
    file.write_text(mistake.manifests)
    arguments, report, _ = agree(rollcall, mistake.case, file.parent, tmp_path)
    expected = [line for line in mistake.says if any(level in line for level in LEVELS)]
    assert sorted(f"{one['line']} {one['level']} {one['rule']}" for one in report["findings"]) == sorted(expected)
    assert report["passed"] is not any(" error " in line for line in expected)
    blocks = _blocks(rollcall("check", *arguments).out)
    for line in mistake.says:
        place, _, told = line.partition(" ")
        told_there = [one for one in blocks if one.startswith(f"{file}:{place}:") and f" {told}" in one]
        assert told_there, line
        # A note has what to do in its text.
        assert all("\n    do     " in one or "; --scheduler NAME " in one for one in told_there), line


def _blocks(text: str) -> list[str]:
    """The lines of a report in text, each with the indented lines below it."""
    blocks: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return blocks


@pytest.mark.parametrize("manifests", CORRECT.values(), ids=CORRECT)
def test_nothing_is_found_without_a_mistake(rollcall: Run, file: Path, tmp_path: Path, manifests: str) -> None:
    file.write_text(manifests)
    report = agree(rollcall, WITHOUT_OPTIONS, file.parent, tmp_path).report
    assert (report["findings"], report["notes"], report["passed"]) == ([], [], True)


def test_the_queue_of_volcano_in_the_same_files_is_known(rollcall: Run) -> None:
    ran = rollcall("check", "--strict", "-", stdin=CORRECT["a PodGroup of Volcano, its Queue and its pods"])
    assert (ran.code, ran.out) == (0, "4 objects judged for volcano: 0 errors\n")


@pytest.mark.parametrize("command", ["check", "explain", "render"])
def test_a_scheduler_that_the_configuration_lacks_is_refused_as_an_option(
    rollcall: Run, tmp_path: Path, command: str
) -> None:
    config = tmp_path / "rollcall.json"
    config.write_text(json.dumps({**HEAD, "scheduler": {**KAI_ONLY, "defaultProfileName": "kai-scheduler"}}))
    ran = rollcall(command, "--config", str(config), "--scheduler", "koord-scheduler", "-", stdin=SET)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == Text(
        'rollcall: command line: --scheduler: "koord-scheduler": ', "(allowed: kai-scheduler, default-scheduler)\n"
    )


def test_the_table_covers_the_projects() -> None:
    reported = [mistake.source for mistake in MISTAKES.values() if mistake.source]
    projects = {"/".join(source.split("/")[3:5]) for source in reported}
    assert len(MISTAKES) >= 60
    assert projects >= {
        "ai-dynamo/grove",
        "kai-scheduler/KAI-Scheduler",
        "kubeflow/trainer",
        "kubernetes-sigs/jobset",
        "kubernetes-sigs/lws",
        "volcano-sh/volcano",
    }


@pytest.mark.parametrize(
    ("command", "out"),
    [("check", "nothing judged: 0 errors, 1 unreadable\n"), ("explain", ""), ("render", "")],
)
def test_empty_standard_input_is_not_clean(rollcall: Run, command: str, out: str) -> None:
    ran = rollcall(command, "-", stdin="# kustomize build failed\n")
    assert (ran.code, ran.out) == (2, out)
    assert ran.err == Text("rollcall: <stdin>: has no manifest")


def test_an_empty_body_is_not_clean() -> None:
    (served,) = ask(ServerState(default_settings(), NO_FACTS, None), "POST", "/check", "# kustomize build failed\n")
    assert (served.status_code, served.json()) == (
        400,
        {"error": Text("body: has no manifest")},
    )
