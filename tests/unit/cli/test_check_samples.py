"""`rollcall check` of Grove's published samples: accepted unchanged, refused with file and line when edited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.cli.checked_manifests import FINE, KOORD
from tests.unit.cli.conftest import Run

SAMPLES = Path(os.environ["ROLLCALL_SAMPLES"]) / "grove" if "ROLLCALL_SAMPLES" in os.environ else None


def samples(tmp_path: Path) -> Path:
    """Grove's published samples where they are at hand, else a stand-in: a copy that a test may edit."""
    folder = tmp_path / "samples"
    folder.mkdir()
    if SAMPLES is None:
        (folder / "stand-in.yaml").write_text(FINE)
    else:
        for path in SAMPLES.glob("*.yaml"):
            (folder / path.name).write_text(path.read_text())
    return folder


def test_koordinator_accepts_grove_s_samples(rollcall: Run, tmp_path: Path) -> None:
    ran = rollcall("check", *KOORD, str(samples(tmp_path)))
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (
            "        podSpec:\n",
            "        podSpec:\n          initContainers: [{name: x, resources: {limits: {nvidia.com/gpu: 1}}}]\n",
            "koordinator/mnnvl",
        ),
        (
            "    podCliqueScalingGroups:\n    - ",
            "    podCliqueScalingGroups:\n    - topologyConstraint: {topologyName: dc, pack: {required: rack}}\n      ",
            "koordinator/scaling-group-topology",
        ),
        (
            "    cliques:\n    - ",
            "    cliques:\n    - topologyConstraint: {topologyName: dc, pack: {required: rack}}\n      ",
            "koordinator/divergent-topology",
        ),
    ],
    ids=["multi-node NVLink", "scaling-group topology", "divergent cliques"],
)
def test_edited_grove_samples_are_refused_with_file_and_line(
    rollcall: Run, tmp_path: Path, old: str, new: str, rule: str
) -> None:
    marks = ("    cliques:\n    - ", "    podCliqueScalingGroups:\n    - ", "        podSpec:\n")
    texts = {path: path.read_text() for path in sorted(samples(tmp_path).iterdir())}
    file = next(path for path, text in texts.items() if all(mark in text for mark in marks))
    text = file.read_text().replace(old, new)
    if rule == "koordinator/mnnvl":
        text = text.replace("metadata:\n", "metadata:\n  annotations: {grove.io/mnnvl-group: train}\n", 1)
    file.write_text(text)
    ran = rollcall("check", *KOORD, str(file))
    assert ran.code == 1, ran
    place = ran.out.splitlines()[0]
    assert place.startswith(f"{file}:")
    assert place.endswith(f": error {rule}")
