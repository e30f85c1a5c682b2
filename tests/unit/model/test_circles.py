"""Circles, by table and by every graph in which each node has at most one parent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.pod_groups import circles

Parents = dict[str, str | None]

# What each names above it, where to start, and the circles.
CASES: dict[str, tuple[Parents, str, list[str]]] = {
    "nothing is there": ({}, "a", []),
    "a root": ({"a": None}, "a", []),
    "a parent that is not there": ({"a": "b"}, "a", []),
    "a tree": ({"a": None, "b": "a", "c": "a", "d": "c"}, "abcd", []),
    "one below itself": ({"a": "a"}, "a", ["a"]),
    "two below each other": ({"a": "b", "b": "a"}, "b", ["ab"]),
    "told of by both, and once": ({"a": "b", "b": "a"}, "ba", ["ab"]),
    "three, in the order of the way": ({"a": "c", "b": "a", "c": "b"}, "b", ["acb"]),
    "what hangs below a circle is not of it": ({"a": "b", "b": "a", "c": "b", "d": "c"}, "dc", ["ab"]),
    "two circles": ({"a": "b", "b": "a", "c": "c", "d": None}, "dcba", ["c", "ab"]),
    "nothing but what is above": ({"a": None, "b": "c", "c": "b"}, "a", []),
}


def found(parents: Parents, starts: str) -> list[str]:
    def above(key: tuple[str]) -> tuple[str] | None:
        parent = parents.get(key[0])
        return None if parent is None else (parent,)

    return ["".join(name for (name,) in circle) for circle in circles([(name,) for name in starts], above)]


@pytest.mark.parametrize(("parents", "starts", "expected"), CASES.values(), ids=CASES)
def test_a_circle_is_found_from_each_group_of_it_and_below_it(
    parents: Parents, starts: str, expected: list[str]
) -> None:
    assert found(parents, starts) == expected


NAMES = "abcdef"


@given(st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(NAMES)), st.permutations(NAMES))
def test_exactly_the_groups_that_are_their_own_ancestors_are_in_a_circle(parents: Parents, order: list[str]) -> None:
    def above_itself(name: str) -> bool:
        above = parents.get(name)
        for _ in NAMES:
            if above in {None, name}:
                break
            above = parents.get(str(above))
        return above == name

    members = [name for circle in found(parents, "".join(order)) for name in circle]
    assert sorted(members) == [name for name in NAMES if above_itself(name)]


def test_a_common_ancestor_is_read_once() -> None:
    """A circle of a thousand groups with ten thousand below it, each of which is judged."""
    asked = 0

    def above(key: tuple[int]) -> tuple[int]:
        nonlocal asked
        asked += 1
        return ((key[0] + 1) % 1000,) if key[0] < 1000 else (0,)

    (circle,) = circles([(number,) for number in range(11_000)], above)
    assert circle == tuple((number,) for number in range(1000))
    assert asked == 11_000
