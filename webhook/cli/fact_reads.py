"""Which facts each rule asks for, observed while it judges its own examples: no list of them can be out of date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields
from types import CodeType
from typing import Any

from webhook.cli.rule_messages import verdicts_on
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.validators.registry import Example, Rule

_PARTS = frozenset(part.name for part in fields(ClusterFacts))


def parts_read_by(rule: Rule) -> frozenset[str]:
    """Return the parts of the facts that a rule reads of its examples, with their facts and without any."""
    found: set[str] = set()
    for example in (rule.passes, rule.fails):
        for known in (example.facts, NOTHING_KNOWN):
            found.update(_observed(rule, example, known))
    return frozenset(found)


def _observed(rule: Rule, example: Example, known: ClusterFacts) -> Iterator[str]:
    facts = _Observed(**{name: getattr(known, name) for name in _PARTS})
    code = rule.check.__code__
    read: set[str] = set()
    _Observed.observe = lambda part: read.add(part) if _runs(code) else None
    try:
        verdicts = verdicts_on(rule, example, facts)
    finally:
        _Observed.observe = None
    yield from read
    # A rule that only hands on what another function found.
    yield from (
        missing.part for verdict in verdicts for missing in verdict.unjudged if missing.rule == rule.id and missing.part
    )


class _Observed(ClusterFacts):
    """Facts that report each part that is read."""

    observe: Any = None

    def __getattribute__(self, name: str) -> Any:
        if name in _PARTS and (observe := _Observed.observe) is not None:
            observe(name)
        return super().__getattribute__(name)


def _runs(code: CodeType) -> bool:
    """Return whether the function with that code is among the callers."""
    frame = sys._getframe()
    found = frame.f_back
    while found is not None:
        if found.f_code is code:
            return True
        found = found.f_back
    return False
