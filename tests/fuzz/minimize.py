"""A small corpus from a large one: the fewest and shortest inputs that reach the code that the seeds do not reach."""

from __future__ import annotations

import json
from collections.abc import Hashable
from itertools import islice
from random import Random

import orjson

from tests.fuzz.fuzzer import Fuzzer, running
from tests.fuzz.guidance import Guide
from tests.fuzz.inputs import Input
from tests.fuzz.mutation import spots
from tests.fuzz.oracle import Complaint

# What may be kept in the repository.
MAX_INPUTS = 200
MAX_BYTES = 1500
# Of what is no JSON so many bytes are left out at once.
_PIECE = 8

Reached = frozenset[Hashable]


async def minimized(guide: Guide, seeds: list[Input], inputs: list[Input]) -> list[Input]:
    """The few of `inputs`, each made shorter, that together reach what they all do and `seeds` do not."""
    with running(guide):
        fuzzer = Fuzzer(Random(0), None)
        known: set[Hashable] = set()
        for seed in seeds:
            known |= await _reached(fuzzer, guide, seed)
        found = {one: (await _reached(fuzzer, guide, one)) - known for one in inputs if len(one.body) <= 4 * MAX_BYTES}
        chosen = _cover(found)
        shortened = [await _short(fuzzer, guide, one, wanted) for one, wanted in chosen]
        return [one for one in shortened if len(one.body) <= MAX_BYTES]


async def _reached(fuzzer: Fuzzer, guide: Guide, one: Input) -> Reached:
    """What an input reaches by itself; nothing where it is answered wrongly."""
    try:
        # Twice, because what is remembered from one call to the next has it take another way the first time.
        await fuzzer.note(one)
        guide.seen.clear()
        fuzzer.outcomes.clear()
        guide.again()
        await fuzzer.note(one)
    except Complaint:
        return frozenset()
    return frozenset({*guide.seen, *fuzzer.outcomes})


def _cover(found: dict[Input, Reached]) -> list[tuple[Input, Reached]]:
    """Inputs, each with what it reaches and none before it does, the most useful for its length first."""
    chosen: list[tuple[Input, Reached]] = []
    left = dict(found)
    while left and len(chosen) < MAX_INPUTS:
        best = max(left, key=lambda one: (len(left[one]) / (len(one.body) + 400), one.line()))
        gained = left.pop(best)
        if not gained:
            break
        chosen.append((best, gained))
        left = {one: reached - gained for one, reached in left.items() if reached - gained}
    return chosen


async def _short(fuzzer: Fuzzer, guide: Guide, one: Input, wanted: Reached) -> Input:
    """The input without what is not needed to reach `wanted`."""
    at = 0
    while (shorter := _without(one, at)) is not None:
        if wanted <= await _reached(fuzzer, guide, shorter):
            one = shorter
        else:
            at += 1
    return one


def _without(one: Input, at: int) -> Input | None:
    """The input without the value, or the few bytes, at a place; None beyond the last place."""
    try:
        value = [orjson.loads(one.body)]
    except orjson.JSONDecodeError:
        cut = one.body[: at * _PIECE] + one.body[(at + 1) * _PIECE :]
        return None if at * _PIECE >= len(one.body) else one._replace(body=cut)
    spot = next(islice(spots(value), at + 1, None), None)
    if spot is None:
        return None
    del spot[0][spot[1]]
    return one._replace(body=json.dumps(value[0], separators=(",", ":")).encode())
