"""Every trap of the design by its number: a gang that a naive check calls never although its scheduler may start it.
With each naive check that can be put in place of ours, the test of its trap fails.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.unit.fit import traps_of_controllers, traps_of_limits, traps_of_nodes, traps_of_pods
from tests.unit.fit.trap_world import TRAPS, Mutant, Trap

_NUMBERS = range(1, 55)
_MODULES = (traps_of_pods, traps_of_nodes, traps_of_limits, traps_of_controllers)


def _named(value: object) -> str:
    return f"{value.number}-{value.check.__name__}" if isinstance(value, Trap) else ""


def test_every_trap_has_a_test_and_a_naive_check() -> None:
    assert sorted({one.number for one in TRAPS if one.mutants}) == list(_NUMBERS)


@pytest.mark.parametrize("trap", TRAPS, ids=_named)
def test_trap(trap: Trap) -> None:
    trap.check()


@pytest.mark.parametrize(
    ("trap", "mutant"),
    [(one, mutant) for one in TRAPS for mutant in one.mutants],
    ids=lambda value: _named(value) if isinstance(value, Trap) else value.at.removeprefix("webhook."),
)
def test_a_naive_check_falls_into_the_trap(trap: Trap, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, name = _place(mutant.at)
    # A name such as "sum" is a builtin there.
    monkeypatch.setattr(holder, name, mutant.made(getattr(holder, name, None)), raising=name != "sum")
    with pytest.raises(AssertionError):
        trap.check()


def _place(dotted: str) -> tuple[Any, str]:
    """What has the attribute at a dotted name: a module, or a class in one."""
    holder, _, name = dotted.rpartition(".")
    try:
        return importlib.import_module(holder), name
    except ModuleNotFoundError:
        module, _, owner = holder.rpartition(".")
        return getattr(importlib.import_module(module), owner), name
