"""Some of the random gangs of `python -m tests.strength`, the same each time, and what must not change an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.strength.cases import FAMILIES, Case, case
from tests.strength.measure import enough, measured
from webhook.fit.feasibility import judge
from webhook.fit.packing import GroupNeed, Need, NodeClass, Packing, PackingRole, PodsNeed, Room
from webhook.fit.verdict import FitAnswer

exhaustive = pytest.mark.exhaustive
# Of each family.
some_seeds = pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 12), marks=exhaustive)], ids=str)


@pytest.mark.parametrize("seeds", [range(7, 10), pytest.param(range(7, 22), marks=exhaustive)], ids=str)
def test_what_cannot_be_placed_is_called_never_and_nothing_else_is(seeds: range) -> None:
    tallies = [measured(family, seeds) for family in FAMILIES]
    assert not [wrong for tally in tallies for wrong in tally.wrong]
    assert enough(tallies), [line for tally in tallies for line in tally.missed]


@some_seeds
@pytest.mark.parametrize("family", FAMILIES)
def test_more_steps_only_turn_unknown_into_an_answer(family: str, seeds: range) -> None:
    for seed in seeds:
        found = case(family, seed)
        known = FitAnswer.UNKNOWN
        for steps in (*range(0, 400, 23), 1_000, 3_000, 10_000):
            answer = judge(found.packing, found.room, steps).answer
            assert known in (FitAnswer.UNKNOWN, answer), (family, seed, steps)
            known = answer


@some_seeds
@pytest.mark.parametrize("family", FAMILIES)
def test_a_room_that_was_used_before_gives_the_same_answer_in_the_same_steps(family: str, seeds: range) -> None:
    for seed in seeds:
        found = case(family, seed)
        fresh = judge(found.packing, found.room)
        again = judge(found.packing, found.room)
        assert (again.answer, again.steps) == (fresh.answer, fresh.steps)


def possible(family: str, seeds: range) -> Iterator[Case]:
    """The cases that are not called never."""
    for seed in seeds:
        found = case(family, seed)
        if judge(found.packing, found.room, 50_000).answer is not FitAnswer.NEVER:
            yield found


@some_seeds
@pytest.mark.parametrize("family", FAMILIES)
def test_more_room_never_makes_a_gang_impossible(family: str, seeds: range) -> None:
    for found in possible(family, seeds):
        roles = frozenset(role.name for role in _roles(found.packing.sets[0]))
        for room in _larger(found.room, roles):
            assert judge(found.packing, room, 50_000).answer is not FitAnswer.NEVER, found.seed


@some_seeds
@pytest.mark.parametrize("family", FAMILIES)
def test_a_smaller_gang_is_never_harder_to_place(family: str, seeds: range) -> None:
    for found in possible(family, seeds):
        for smaller in (_less(found.packing.sets[0], pods=1), _less(found.packing.sets[0], request=1)):
            packing = replace(found.packing, sets=(smaller,))
            assert judge(packing, found.room, 50_000).answer is not FitAnswer.NEVER, found.seed


def _larger(room: Room, roles: frozenset[str]) -> list[Room]:
    """One node more, more on each node, and no taint that keeps a role away."""
    first = room.classes[0]
    more = [
        [first._replace(number=(first.number or 0) + 1), *room.classes[1:]],
        [*room.classes, NodeClass({"cpu": 1}, {}, 1, roles, ("new",))],
        [one._replace(capacity={name: amount + 1 for name, amount in one.capacity.items()}) for one in room.classes],
        [one._replace(roles=roles) for one in room.classes],
    ]
    return [Room(tuple(classes)) for classes in more]


def _roles(need: Need) -> list[PackingRole]:
    if isinstance(need, PodsNeed):
        return [need.role]
    return [role for child in need.needs for role in _roles(child)]


def _less(need: Need, pods: int = 0, request: int = 0) -> Need:
    """The need with fewer pods of each role, or pods that request less."""
    if isinstance(need, GroupNeed):
        return replace(need, needs=tuple(_less(child, pods, request) for child in need.needs))
    lower = {
        name: amount if name == "pods" else max(amount - request, 0) for name, amount in need.role.pods.request.items()
    }
    role = need.role._replace(pods=replace(need.role.pods, request=lower))
    return replace(need, count=max(need.count - pods, 1), role=role)


def test_every_gang_of_the_families_is_judged_as_what_it_is() -> None:
    # A packing with two sets is never if one is, and fits if both do.
    fits, never = case("sum", 2), case("shape", 1)
    assert judge(fits.packing, fits.room).answer is FitAnswer.FITS
    assert judge(never.packing, never.room).answer is FitAnswer.NEVER
    both = Packing((*never.packing.sets, *never.packing.sets))
    assert judge(both, never.room).answer is FitAnswer.NEVER
