"""Numbers in texts: Kubernetes and Go read ASCII digits, and Python many others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

import webhook
from webhook.fit.node_classes import memory_of_gpu
from webhook.model.quantity import Version, int32, int64, parse_quantity

# Three, in the digits of several scripts, and a digit that is no decimal.
THREES = ["\u0663", "\u096b", "\uff13", "\U0001d7d1", "\u00b3"]


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Each pattern for texts, with its name."""
    for module in walk_packages(webhook.__path__, "webhook."):
        if not module.name.endswith("__main__"):
            for name, value in vars(import_module(module.name)).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    yield f"{module.name}.{name}", value


def test_no_pattern_takes_digits_of_other_scripts() -> None:
    every = dict(patterns())
    assert len(every) > 50
    wrong = [name for name, found in every.items() if r"\d" in found.pattern and not found.flags & re.ASCII]
    assert wrong == []


READERS: dict[str, Callable[[str], Any]] = {
    "a quantity": parse_quantity,
    "an amount with a unit": lambda digit: parse_quantity(f"{digit}Gi"),
    "an exponent": lambda digit: parse_quantity(f"1e{digit}"),
    "a version": lambda digit: Version.parse(f"1.{digit}"),
    "a number of Go": int32,
    "a large number of Go": int64,
    "the label of a GPU's memory": lambda digit: memory_of_gpu(digit) or None,
}


@pytest.mark.parametrize("digit", THREES, ids=ascii)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_digits_of_other_scripts_are_no_numbers(reader: Callable[[str], Any], digit: str) -> None:
    assert reader(digit) is None
    assert reader("3") is not None
