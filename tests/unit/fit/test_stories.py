"""Gangs that waited for ever, as users reported them: verdict and remedy. `stories` has each as a manifest, with the
facts of its cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from webhook.cli.options import settings_of
from webhook.fit.verdict import Answer
from webhook.offline.fit import fits_in
from webhook.offline.fit_report import FitEntry, leaving_words, now_words, verdict_words
from webhook.sources.facts import load_facts
from webhook.sources.manifests import read_file

STORIES = Path(__file__).parent / "stories"
EVER, HERE = "never fits", "never fits on these nodes"


class Story(NamedTuple):
    """What is said of the first gang: its verdict, why, and what to do; of one that fits, how it is now."""

    verdict: str
    why: str = ""
    do: str = ""
    now: str = ""
    go: str = ""


TOLD = {
    "kueue-3211": Story(
        HERE,
        "a pod of train requests 8 nvidia.com/gpu; the largest node that it may use has 4",
        "request less for each pod, or add nodes that are large enough and that the pods may use",
    ),
    "volcano-5006": Story(
        HERE,
        "a pod of train requests 8 nvidia.com/gpu; the largest node that it may use has 4",
        "request less for each pod, or add nodes that are large enough and that the pods may use",
    ),
    "marin-7225": Story(
        HERE,
        "18 pods of 4 nvidia.com/gpu need one NvlinkLayer; the largest NvlinkLayer dh1 has room for 17",
        "lower the minimum of moe to 17 pods, or do not require one NvlinkLayer",
    ),
    "marin-8925": Story(
        "fits an empty cluster",
        now="short by 8 pods on NvlinkLayer dh2",
        go="rope",
    ),
    "nvcf-598": Story("fits an empty cluster", now="room, on nvidia.com/gpu.clique b1.b"),
    "koordinator-2393": Story(
        EVER,
        "the gang requests at least 200504m cpu; the ElasticQuota quota-pub allows 200 cpu",
        "lower the minimum of train to 7 pods",
    ),
    "volcano-1295": Story(
        HERE,
        "a pod of one requests 73 cpu; the largest node that it may use has 72",
        "request less for each pod, or add nodes that are large enough and that the pods may use",
    ),
    "volcano-1331": Story(
        EVER,
        "the gang requests at least 7 nvidia.com/gtx-1080-ti; the Volcano Queue a allows 3 nvidia.com/gtx-1080-ti",
        "lower the nvidia.com/gtx-1080-ti that the gang requests by 4 nvidia.com/gtx-1080-ti",
    ),
    "kai-39": Story("not known", "not all nodes say how much they have of nvidia.com/gpu"),
    "scheduler-plugins-713": Story(
        HERE, "10 pods of 10 cpu; 3 nodes of 32 take 3 each", "lower the minimum of group to 9 pods"
    ),
    "grove-648": Story(
        HERE,
        "20 pods of 8 nvidia.com/gpu need one block; the largest block z1.b1 has room for 18",
        "lower the minimum of worker to 18 pods, or require one zone instead of one block",
    ),
}


def gangs_of(name: str) -> list[FitEntry]:
    facts = load_facts([STORIES / f"{name}.facts.yaml"])
    [document] = read_file(STORIES / f"{name}.yaml")
    return [found.entry for found in fits_in(document.manifest, facts, settings_of(None)) if found.entry is not None]


@pytest.mark.parametrize("name", TOLD)
def test_a_story_gets_its_verdict_and_its_remedy(name: str) -> None:
    first = gangs_of(name)[0]
    witness, now = first.verdict.witness, first.now
    assert TOLD[name] == Story(
        verdict_words(first.verdict),
        _why(first),
        "" if witness is None else witness.remedy,
        "" if now is None else now_words(now),
        "" if now is None else "".join(leaving_words(now)),
    )


def _why(entry: FitEntry) -> str:
    if entry.verdict.witness is not None:
        return entry.verdict.witness.why
    return entry.verdict.causes[0] if entry.verdict.answer is Answer.UNKNOWN else ""


def test_every_story_is_told() -> None:
    assert {path.name.removesuffix(".facts.yaml") for path in STORIES.glob("*.facts.yaml")} == set(TOLD)
