"""What is shown of an object whose name Grove's operator will only choose later.

The object is made twice, for two epochs that stand in for the unknown one. They have the length of a real epoch, so
whatever depends on a name's length or form is as in a cluster. What differs between the two depends on the epoch: the
epoch itself, or a digest of it.
"""

from __future__ import annotations

import re
from typing import Any

from webhook.model.grove_generation import EPOCH, EPOCH_DIGITS, GroveGeneration

_FIRST, _SECOND = "1", "2"
STAND_INS = (_FIRST * EPOCH_DIGITS, _SECOND * EPOCH_DIGITS)
# For a digest of a name with an epoch.
DIGEST = "<digest>"
_WORDS = re.compile(r"([0-9A-Za-z]+)")


def stand_ins(generation: GroveGeneration) -> tuple[str, ...]:
    """Return the epochs for which objects are made: none that matters where names are known."""
    return STAND_INS[:1] if generation is GroveGeneration.LEGACY else STAND_INS


def hidden(first: Any, second: Any) -> Any:
    """Return what was made for the first of `STAND_INS`, with placeholders where the other one was made differently."""
    if isinstance(first, str) and isinstance(second, str):
        return first if first == second else _hidden_text(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return {hidden(key, other): hidden(first[key], second[other]) for key, other in zip(first, second, strict=True)}
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return [hidden(one, other) for one, other in zip(first, second, strict=True)]
    return first


def _hidden_text(first: str, second: str) -> str:
    ones, others = _WORDS.split(first), _WORDS.split(second)
    if len(ones) != len(others):
        return DIGEST
    return "".join(map(_hidden_word, ones, others))


def _hidden_word(one: str, other: str) -> str:
    if one == other:
        return one
    # A name that is cut may end within the epoch.
    return EPOCH if (set(one), set(other)) == ({_FIRST}, {_SECOND}) else DIGEST
