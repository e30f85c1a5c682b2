"""What the counts of the growth tests count, and what they do not."""

from __future__ import annotations

from typing import Any

from tests.unit.growth.step_counts import Cost
from webhook.model.nodes import Nodes

FUNCTIONS, LINES = 100, 50


def one() -> int:
    return 0


def calls() -> dict[str, Any]:
    """Functions that are not ours, each of many lines with a call."""
    found: dict[str, Any] = {"one": one}
    for number in range(FUNCTIONS):
        exec(f"def calls_{number}():\n" + "    one()\n" * LINES + "    return 0\n", found)  # noqa: S102 - our own text
    return {name: function for name, function in found.items() if name.startswith("calls_")}


def test_memory_of_the_counts_themselves_is_not_counted() -> None:
    """Their tables grow with the number of different lines, by kilobytes at a time: whichever line runs then. Here they
    take 600 KB. Python itself keeps some of each function that is traced.
    """
    there = list(calls().values())
    taken = Cost(lambda: Nodes().remembered("key", lambda: sum(one() for one in there)), memory=True).bytes
    assert sum(taken.values()) < 256 * 1024


def test_memory_that_is_taken_and_given_back_is_counted() -> None:
    taken = Cost(lambda: Nodes().remembered("key", lambda: len(bytes(1_000_000))), memory=True).bytes
    assert sum(taken.values()) > 1_000_000
