"""The index of keys and their groups, against one that is searched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webhook.gangs.key import Grouping

# More keys than a group keeps as a tuple.
KEYS, GROUPS = range(24), (None, "a", "b")


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(GROUPS)), max_size=200))
def test_a_group_has_exactly_the_keys_that_were_moved_into_it_last(moves: list[tuple[int, str | None]]) -> None:
    found: Grouping[int, str] = Grouping()
    known: dict[int, str | None] = {}
    for key, group in moves:
        found.move(key, group)
        known[key] = group
    for group in ("a", "b"):
        members = found.members(group)
        assert len(members) == len(set(members))
        assert set(members) == {key for key, one in known.items() if one == group}
    assert {key: found.group(key) for key in known} == known
    assert set(found.groups()) == {group for group in known.values() if group is not None}


def test_a_large_group_can_be_emptied() -> None:
    found: Grouping[int, str] = Grouping()
    for key in range(1000):
        found.move(key, "a")
    assert len(found.members("a")) == 1000
    for key in range(1000):
        found.move(key, None)
    assert (list(found.members("a")), list(found.groups())) == ([], [])
