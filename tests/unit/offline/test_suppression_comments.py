"""Suppressions in comments: which line they are about, and what is no comment."""

from __future__ import annotations

import pytest

from tests.unit.growth.step_counts import Cost
from webhook.offline.finding_details import Directive
from webhook.offline.manifests import suppressions_in

RULE = "koordinator/mnnvl"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1 # rollcall:ignore koordinator/mnnvl: one rack\n", Directive((RULE,), "one rack", 1)),
        ("a: 1\n# rollcall:ignore koordinator/mnnvl: one rack\nb: 2\n", Directive((RULE,), "one rack", 3)),
        ("# rollcall:ignore koordinator/mnnvl: x\n# more\n\nb: 2\n", Directive((RULE,), "x", 4)),
        ("# rollcall:ignore koordinator/mnnvl: x\n---\nb: 2\n", Directive((RULE,), "x", 3)),
        ("#rollcall:ignore a/b , c/d:  x: y \nb: 2\n", Directive(("a/b", "c/d"), "x: y", 2)),
        ("b: 2 # rollcall:ignore a/b\n", Directive(("a/b",), "", 1)),
        ("b: 2 # rollcall:ignore a/b: x\r\nc: 1\r\n", Directive(("a/b",), "x", 1)),
    ],
)
def test_a_comment_is_about_its_line_or_the_next(text: str, found: Directive) -> None:
    assert suppressions_in(text) == (found,)


@pytest.mark.parametrize(
    "text",
    [
        'a: "x # rollcall:ignore a/b: c"\n',
        "a: |\n  echo # rollcall:ignore a/b: c\nb: 1\n",
        "a: >-\n  # rollcall:ignore a/b: c\nb: 1\n",
        "a: 'x\n  # rollcall:ignore a/b: c\n  y'\n",
        "a: x#rollcall:ignore a/b: c\n",
        "a: 1 # rollcall:ignored a/b: c\n",
        "a: [ # rollcall:ignore a/b: c\n",
        "a: 1 # rollcall:ignore\n",
    ],
)
def test_what_looks_like_a_comment_and_is_none_suppresses_nothing(text: str) -> None:
    assert suppressions_in(text) == ()


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("", "# rollcall:ignore a/b: c\n"),
        ("a:\n", "# rollcall:ignore a/b: c\n"),
        ("a:\n", "- 1 # rollcall:ignore a/b: c\n"),
    ],
)
def test_many_comments_take_time_in_proportion_to_their_number(head: str, line: str) -> None:
    def steps(number: int) -> int:
        text = head + line * number
        assert len(suppressions_in(text)) == number
        return max(Cost(lambda: suppressions_in(text), memory=False).runs.values())

    assert steps(400) <= 4 * steps(100) + 8
