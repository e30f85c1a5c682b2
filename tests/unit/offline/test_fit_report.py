"""What is reported of a gang: words, table and JSON."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests.unit.offline.fit_entries import GROWS, NEVER, ROOM, SHORT, TRAIN, rack
from webhook.fit.feasibility import GangsToEvict, RoomAnswer, RoomEstimate
from webhook.fit.verdict import FitAnswer, FitFamily, FitScope, FitVerdict, Shortfall, Witness
from webhook.model.fields import SPEC
from webhook.offline.fit_report import FitEntry, leaving_words, now_words, table_of, verdict_words
from webhook.offline.report_schemas import FIT_VERSION, fit_schema


@pytest.mark.parametrize("entry", [NEVER, ROOM, SHORT, GROWS], ids=["never", "room", "short", "grows"])
def test_an_entry_is_valid_by_the_schema(entry: FitEntry) -> None:
    schema = fit_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    place = {"file": "train.yaml", "line": 1, "column": 1}
    printed: dict[str, Any] = {
        "fitVersion": FIT_VERSION,
        "gangs": [entry.as_json() | place],
        "notJudged": [place | {"kind": "TrainJob", "namespace": "team-a", "name": "train", "why": "x"}],
        "notes": [place | {"message": "x"}],
    }
    jsonschema.Draft202012Validator(schema).validate(printed)
    assert set(printed["gangs"][0]) == set(schema["properties"]["gangs"]["items"]["properties"])


def test_the_json_says_never_with_its_scope_and_witness() -> None:
    found = NEVER.as_json()
    assert (found["verdict"], found["scope"], found["now"]) == ("never", "on these nodes", None)
    assert found["witness"]["domain"] == "r7"
    assert found["witness"]["short"] == [{"resource": "nvidia.com/gpu", "needed": 96, "there": 72}]


def test_the_json_of_now_counts_gangs_of_other_namespaces_and_names_none() -> None:
    assert SHORT.as_json()["now"]["wouldHaveToGo"] == {"gangs": ["eval", "pretrain"], "ofOtherNamespaces": 1}


@pytest.mark.parametrize(
    ("scope", "words"),
    [(FitScope.EVER, "never fits"), (FitScope.ON_THESE_NODES, "never fits on these nodes")],
)
def test_never_says_how_far_it_reaches(scope: FitScope, words: str) -> None:
    witness = Witness(FitFamily.QUOTA, scope, SPEC, 1, "why", "do", "C0")
    assert verdict_words(FitVerdict(FitAnswer.NEVER, witness)) == words


def test_now_is_a_sentence() -> None:
    assert ROOM.now is not None
    assert SHORT.now is not None
    assert now_words(ROOM.now) == "room, on rack r7"
    assert now_words(SHORT.now) == "short by 24 nvidia.com/gpu on rack r7"
    assert list(leaving_words(SHORT.now)) == ["eval and pretrain, and 1 gang of other namespaces"]
    assert now_words(RoomEstimate(RoomAnswer.UNKNOWN, why="a list is partial")).endswith(": a list is partial")
    assert now_words(RoomEstimate(RoomAnswer.SHORT, why="no node is free")) == "short: no node is free"
    assert list(leaving_words(RoomEstimate(RoomAnswer.SHORT, leaving=GangsToEvict((), 3)))) == [
        "3 gangs of other namespaces"
    ]


def test_many_names_are_counted() -> None:
    many = RoomEstimate(RoomAnswer.ROOM, tuple(f"r{index}" for index in range(8)))
    assert now_words(many) == "room, on r0, r1, r2, r3, r4 and 3 more"


def test_a_shortfall_is_written_as_in_a_manifest() -> None:
    short = RoomEstimate(
        RoomAnswer.SHORT, nearest="all nodes", short=(Shortfall("cpu", 3500, 2000), Shortfall("memory", 64, 0))
    )
    assert now_words(short) == "short by 1500m cpu and 64 memory on all nodes"


def test_the_table_has_the_domain_with_most_free_first() -> None:
    assert table_of((rack("r6", 4, 16), rack("r7", 9, 48))) == [
        ("rack", "nodes", "nvidia.com/gpu free", "cpu free"),
        ("r7", "9", "48 of 72", "384 of 576"),
        ("r6", "4", "16 of 32", "128 of 256"),
    ]


def test_without_pods_on_nodes_the_table_has_only_totals() -> None:
    assert table_of((rack("r6", 4),)) == [
        ("rack", "nodes", "nvidia.com/gpu", "cpu"),
        ("r6", "4", "32", "256"),
    ]


def test_a_gang_without_nodes_has_no_table() -> None:
    assert table_of(FitEntry(TRAIN, "train", "volcano", FitVerdict(FitAnswer.UNKNOWN)).domains) == []
