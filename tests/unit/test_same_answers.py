"""Comparing the answers of two checkouts."""

from __future__ import annotations

import json

from tools.same_answers import Difference, differences, lines_of, read_answers, rules_changed, shown, summary

QUESTION = ("check", "check a.yaml")


def line(answer: str, question: str = QUESTION[1]) -> str:
    return json.dumps([QUESTION[0], question, answer])


def test_equal_answers_have_no_difference() -> None:
    answers = read_answers([line("exit code 0"), line("exit code 1", "check b.yaml")])
    assert list(differences(answers, dict(answers))) == []


def test_a_single_byte_is_a_difference() -> None:
    before, after = read_answers([line("exit code 0\n")]), read_answers([line("exit code 0")])
    (difference,) = differences(before, after)
    assert difference == Difference(QUESTION, "exit code 0\n", "exit code 0")
    assert shown(difference) == ["- 'exit code 0\\n'", "+ 'exit code 0'"]


def test_an_answer_of_one_side_alone_is_a_difference() -> None:
    before, after = read_answers([line("a", "one")]), read_answers([line("a", "two")])
    assert [difference.key[1] for difference in differences(before, after)] == ["one", "two"]
    assert summary(differences(before, after))[:2] == ["check: one: only before", "check: two: only after"]


def test_a_question_that_is_asked_twice_has_two_answers() -> None:
    answers = read_answers([line("a"), line("b"), line("c")])
    assert list(answers.values()) == ["a", "b", "c"]


def test_json_is_compared_line_by_line_and_so_are_its_texts() -> None:
    assert lines_of('200 application/json\n{"a":"b\\nc"}') == ["200 application/json", "{", ' "a": "b', 'c"', "}"]
    assert lines_of("{no json") == ["{no json"]


def test_a_difference_is_cut() -> None:
    before, after = ("".join(f"{number}{side}\n" for number in range(100)) for side in "ab")
    lines = shown(Difference(QUESTION, before, after), 10)
    assert lines[:4] == ["--- before", "+++ after", "@@ -1,100 +1,100 @@", "-0a"]
    assert lines[10:] == ["... and 193 more lines"]


def test_the_rules_of_lines_that_differ_are_named() -> None:
    before = "200\nkoordinator/mnnvl at spec: one\nkai/queue at spec: same\n"
    after = '200\nkoordinator/mnnvl at spec: two\nkai/queue at spec: same\n"rule": "grove/shape"\n'
    difference = Difference(QUESTION, before, after)
    assert rules_changed(difference) == {"koordinator/mnnvl", "grove/shape"}
    assert summary([difference]) == [
        "check: check a.yaml: differs",
        "1 of the list check",
        "grove/shape: in 1 answers",
        "koordinator/mnnvl: in 1 answers",
    ]
