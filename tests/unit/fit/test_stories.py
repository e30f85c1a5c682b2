"""Gangs that waited for ever, as users reported them: verdict and remedy. `stories` has each as a manifest, with the
facts of its cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.fit.gangs import GPU
from webhook.cli.options import settings_of
from webhook.offline.fact_files import load_facts
from webhook.offline.fit_report import FitEntry, fits_in, leaving_words, now_words, verdict_words
from webhook.offline.manifests import read_file

STORIES = Path(__file__).parent / "stories"
EVER, HERE = "never fits", "never fits on these nodes"


class Story(NamedTuple):
    """What is said of the first gang: its verdict, what is short or not known and where, and what to do; of one that
    fits, how it is now.
    """

    verdict: str
    short: tuple[str, int, int] | str = ""
    where: str = ""
    do: str = ""
    now: str = ""
    go: str = ""


LARGER_NODES = "request less"
TOLD = {
    "kueue-3211": Story(HERE, (GPU, 8, 4), "node", LARGER_NODES),
    "volcano-5006": Story(HERE, (GPU, 8, 4), "node", LARGER_NODES),
    "marin-7225": Story(HERE, ("pods", 18, 17), "topology dh1", "minimum of moe to 17 pods, or do not require"),
    "marin-8925": Story("fits an empty cluster", now="short by 8 pods on NvlinkLayer dh2", go="rope"),
    "nvcf-598": Story("fits an empty cluster", now="room, on nvidia.com/gpu.clique b1.b"),
    "koordinator-2393": Story(EVER, ("cpu", 200504, 200000), "quota", "minimum of train to 7 pods"),
    "volcano-1295": Story(HERE, ("cpu", 73000, 72000), "node", LARGER_NODES),
    "volcano-1331": Story(EVER, ("nvidia.com/gtx-1080-ti", 7, 3), "queue", "by 4 nvidia.com/gtx-1080-ti"),
    "kai-39": Story("not known", GPU),
    "scheduler-plugins-713": Story(HERE, ("pods", 10, 9), "total", "minimum of group to 9 pods"),
    "grove-648": Story(HERE, ("pods", 20, 18), "topology z1.b1", "minimum of worker to 18 pods, or require one zone"),
}


def gangs_of(name: str) -> list[FitEntry]:
    facts = load_facts([STORIES / f"{name}.facts.yaml"])
    [document] = read_file(STORIES / f"{name}.yaml")
    return [found.entry for found in fits_in(document.manifest, facts, settings_of(None)) if found.entry is not None]


@pytest.mark.parametrize("name", TOLD)
def test_a_story_gets_its_verdict_and_its_remedy(name: str) -> None:
    entry, story = gangs_of(name)[0], TOLD[name]
    assert verdict_words(entry.verdict) == story.verdict
    assert ("" if entry.now is None else now_words(entry.now)) == story.now
    assert ("" if entry.now is None else "".join(leaving_words(entry.now))) == story.go
    if (witness := entry.verdict.witness) is None:
        assert isinstance(story.short, str)
        assert story.short in "".join(entry.verdict.causes[:1])
    else:
        assert witness.shortfalls == (story.short,)
        assert f"{witness.family} {witness.domain or ''}".strip() == story.where
        assert story.do in witness.remedy


def test_every_story_is_told() -> None:
    assert {path.name.removesuffix(".facts.yaml") for path in STORIES.glob("*.facts.yaml")} == set(TOLD)
