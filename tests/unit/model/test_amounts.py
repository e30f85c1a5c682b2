"""Amounts of resources as whole numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from webhook.model.quantity import ceiling_amounts, exact_amounts, is_cpu, rounded_down, rounded_up


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"cpu": "1500m", "memory": "1Gi", "example.com/gpu": 8}, {"cpu": 1500, "memory": 2**30, "example.com/gpu": 8}),
        ({"limits.cpu": "2", "requests.cpu": "0.5"}, {"limits.cpu": 2000, "requests.cpu": 500}),
        ({"cpu": "1u", "memory": "1500m"}, {"cpu": 1, "memory": 2}),
        ({}, {}),
        (None, {}),
        ({"cpu": "many"}, None),
        ({f"example.com/r{number}": 1 for number in range(33)}, None),
        ({"r" * 321: 1}, None),
    ],
)
def test_limits_are_rounded_up_and_unreadable_ones_are_unknown(stated: Any, expected: Any) -> None:
    assert ceiling_amounts(stated) == expected


def test_quantities_are_read_exactly() -> None:
    assert exact_amounts({"cpu": "0.1m"}) == {"cpu": Fraction(1, 10_000)}


def test_what_is_needed_is_rounded_down() -> None:
    half = Fraction(3, 2)
    assert (rounded_down("memory", half), rounded_up("memory", half), rounded_down("cpu", half)) == (1, 2, 1500)


def test_a_device_whose_name_ends_in_cpu_is_not_counted_in_milli() -> None:
    assert [is_cpu(name) for name in ("cpu", "limits.cpu", "example.com/cpu", "a.cpu/b")] == [True, True, False, False]
