"""Texts for people contain nothing that a terminal or a browser executes."""

from __future__ import annotations

import json

import pytest

from webhook.model.fields import ROOT
from webhook.model.findings import Finding, escaped, plain, shown

# A name that a terminal shows as "team-a/train" although it is another.
SPOOFED = "team-a/\u202eniart"
OBEYED = [
    "\x00",
    "\x1b",
    "\x7f",
    "\x9b",
    "\u00ad",
    "\u061c",
    "\u200b",
    "\u200f",
    "\u2028",
    "\u202e",
    "\u2066",
    "\ufeff",
]


@pytest.mark.parametrize("character", OBEYED, ids=lambda character: f"U+{ord(character):04X}")
def test_a_control_character_is_replaced(character: str) -> None:
    assert plain(f"a{character}b") == "a\ufffdb"


def test_ordinary_text_is_unchanged() -> None:
    assert plain("häuser 日本 🚀 عربي “x”") == "häuser 日本 🚀 عربي “x”"


@pytest.mark.parametrize("character", OBEYED, ids=lambda character: f"U+{ord(character):04X}")
def test_escaped_json_has_the_same_meaning(character: str) -> None:
    text = escaped(json.dumps([f"a{character}b"], ensure_ascii=False, indent=1))
    assert character not in text
    assert json.loads(text) == [f"a{character}b"]


def test_a_found_value_is_shown_without_control_characters() -> None:
    assert shown(SPOOFED) == '"team-a/\ufffdniart"'
    finding = Finding(at=ROOT, value=SPOOFED, why="it is wrong", remedy="change it")
    assert "\u202e" not in str(finding)
