"""Answers about shapes of gangs: each is made once, and again only after a change."""

from __future__ import annotations

from webhook.gangs.waiting_gang import MEMORY, Answers


class Judge:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_a_shape_is_judged_once_until_something_changes() -> None:
    answers, judge = Answers[int](5), Judge()
    assert [answers.answer("team", "shape", judge) for _ in range(1000)] == [1] * 1000
    answers.changed()
    assert [answers.answer("team", "shape", judge) for _ in range(1000)] == [2] * 1000


def test_a_look_judges_few_shapes_and_says_that_it_is_behind() -> None:
    answers, judge = Answers[int](2), Judge()
    assert [answers.answer("team", shape, judge) for shape in "abc"] == [1, 2, None]
    assert (answers.take_behind(), answers.take_behind()) == (True, False)
    answers.look()
    assert [answers.answer("team", shape, judge) for shape in "abc"] == [1, 2, 3]
    assert not answers.take_behind()


def test_a_shape_keeps_its_old_answer_until_a_look_has_time_for_it() -> None:
    answers, judge = Answers[int](1), Judge()
    answers.answer("team", "a", judge)
    answers.look()
    answers.answer("team", "b", judge)
    answers.changed()
    answers.look()
    assert [answers.answer("team", shape, judge) for shape in "ab"] == [3, 2]


def test_a_command_may_judge_more() -> None:
    answers, judge = Answers[int](1), Judge()
    answers.look(3)
    assert [answers.answer("team", shape, judge) for shape in "abcd"] == [1, 2, 3, None]


def test_only_the_latest_shapes_are_kept() -> None:
    answers, judge = Answers[int](MEMORY + 2), Judge()
    for shape in range(MEMORY + 1):
        answers.answer("team", shape, judge)
    assert answers.answer("team", MEMORY, judge) == MEMORY + 1
    assert answers.answer("team", 0, judge) == MEMORY + 2


def test_a_namespace_with_very_many_shapes_does_not_push_out_the_answers_of_others() -> None:
    answers, judge = Answers[int](3 * MEMORY), Judge()
    assert answers.answer("quiet", "shape", judge) == 1
    for shape in range(2 * MEMORY):
        answers.answer("crowd", shape, judge)
    assert answers.answer("quiet", "shape", judge) == 1
    assert len(answers._answers) <= MEMORY
