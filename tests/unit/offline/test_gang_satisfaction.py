"""Whether trees of groups can ever start: our verdict compared with independent oracles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import GroupWorld, group_worlds
from tests.unit.model.group_worlds import gang, gang_pods, trees_of
from webhook.offline.satisfiability import Branch, BranchFault, BranchKind, Standing, judge_tree, walk


def answers_by_sets(world: GroupWorld) -> dict[str, str]:
    """Whether the tree of each group can start, without following a tree: by sets of those that count, grown until no
    more is added.
    """
    groups = world.composites | world.leaves
    named = {parent for parent, _ in groups.values() if parent is not None}
    # The levels that are above each, or None for one whose parents go around or end at one that is not there.
    height: dict[str, int] = {}
    top: dict[str, str] = {}
    for _ in groups:
        for name, (parent, _minimum) in groups.items():
            if parent is None:
                height[name], top[name] = 1, name
            elif parent in height and parent in world.composites:
                height[name], top[name] = height[parent] + 1, top[parent]
        if len(height) == len(groups):
            break
    too_deep = {top[name] for name in height if height[name] > 4}

    def counting(counts: set[str]) -> set[str]:
        before = -1
        while len(counts) != before:
            before = len(counts)
            for name, (_, minimum) in world.composites.items():
                below = sum(parent == name for member, (parent, _) in groups.items() if member in counts)
                if below >= (minimum or 1):
                    counts.add(name)
        return counts

    known = world.pods or {}
    sure = counting({name for name, (_, minimum) in world.leaves.items() if known.get(name, 0) >= (minimum or 1)})
    possible = sure if world.pods else counting(set(world.leaves))
    found = {}
    for name in (*groups, *(named - groups.keys())):
        if name not in top or top[name] in too_deep or top[name] not in possible:
            found[name] = "cannot"
        else:
            found[name] = "can" if top[name] in sure else "notTold"
    return found


def drawn(tree: Branch) -> Iterator[Branch]:
    """Every branch of a tree but the one that says once more where it goes around."""
    return (branch for branch, level in walk(tree) if branch.fault is not BranchFault.CYCLE or level == 1)


def widest(pods_of_last: int) -> GroupWorld:
    """The widest tree: eight times eight groups of eight leaves, the last of which has so many pods."""
    middle = {f"c-{one}": ("c", 8) for one in range(8)}
    low = {f"{one}-{two}": (one, 8) for one in middle for two in range(8)}
    leaves = {f"{one}-p{index}": (one, 2) for one in low for index in range(8)}
    pods = dict.fromkeys(leaves, 2) | {"c-7-7-p7": pods_of_last}
    return GroupWorld({"c": (None, 8), **middle, **low}, {**leaves}, pods)


@example(widest(2))
@example(widest(1))
@given(group_worlds())
def test_the_verdict_agrees_with_an_independent_oracle(world: GroupWorld) -> None:
    compare_with_the_oracle(world)


@pytest.mark.exhaustive
@settings(max_examples=300)
@given(group_worlds())
def test_many_verdicts_agree_with_an_independent_oracle(world: GroupWorld) -> None:
    compare_with_the_oracle(world)


def compare_with_the_oracle(world: GroupWorld) -> None:
    """Judges each tree, and looks at each group of it once."""
    found: dict[str, str] = {}
    for tree in trees_of(world.manifests()):
        answer = str(judge_tree(tree).standing)
        for branch in drawn(tree):
            if branch.fault is BranchFault.ABSENT and branch.kind is BranchKind.POD_GROUP:
                # Pods that name a group that is not there: no group of this world.
                assert answer == "cannot"
                continue
            if branch.name in world.composites or branch.name in world.leaves or branch.kind is BranchKind.COMPOSITE:
                assert branch.name not in found, "every group is drawn once"
                found[branch.name] = answer
    assert found == answers_by_sets(world)


@given(group_worlds(width=3))
def test_only_a_tree_that_cannot_start_has_reasons(world: GroupWorld) -> None:
    for tree in trees_of(world.manifests()):
        verdict = judge_tree(tree)
        assert bool(verdict.causes) is (verdict.standing is Standing.CANNOT)
        assert list(verdict.causes) == sorted(verdict.causes, key=lambda cause: -cause.level)
        assert all(str(cause) for cause in verdict.causes)


NAMES = ["a", "b", "c", "d"]


@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.tuples(
            st.integers(0, 2), st.lists(st.sampled_from(["team-a/" + name for name in NAMES] + ["a"]), max_size=3)
        ),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 2)),
)
def test_verdicts_on_Koordinator_gangs_agree_with_an_oracle(
    listed: dict[str, tuple[int, list[str]]], members: dict[str, int]
) -> None:
    manifests = [gang(name, minimum, str(names).replace("'", '"')) for name, (minimum, names) in listed.items()]
    for name, count in members.items():
        manifests += gang_pods(name, count)
    # Each gang by a number that all who list each other come to share.
    numbers = {f"team-a/{name}": index for index, name in enumerate(NAMES)} | {"a": len(NAMES)}
    edges = [(f"team-a/{name}", other) for name, (_, names) in listed.items() for other in names]
    for _ in numbers:
        for one, other in edges:
            numbers[one] = numbers[other] = min(numbers[one], numbers[other])

    def stands(name: str) -> str:
        minimum = listed[name.removeprefix("team-a/")][0] if name in {f"team-a/{one}" for one in listed} else None
        if minimum is None:
            return "cannot"
        if not members:
            return "can" if minimum == 0 else "notTold"
        return "can" if members.get(name.removeprefix("team-a/"), 0) >= minimum else "cannot"

    there = {f"team-a/{name}" for name in (*listed, *members)} | {other for _, other in edges}
    expected = {}
    for name in there:
        standings = {stands(other) for other in there if numbers[other] == numbers[name]}
        expected[name] = next(answer for answer in ("cannot", "notTold", "can") if answer in standings)
    found = {}
    for tree in trees_of(manifests):
        found.update({branch.name: str(judge_tree(tree).standing) for branch in tree.below})
    assert found == expected
