"""Texts of which a test names what it is about. How they are worded is held by the generated reference."""

from __future__ import annotations

import re
from collections.abc import Sequence


class Text(str):
    """Equal to every text that has these parts, in this order."""

    __slots__ = ("_parts",)
    __hash__ = None  # type: ignore[assignment]
    _parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Text:
        """`parts` may be values, names, paths and single words. A part that is a `Text` stands for its parts."""
        each = [inner for part in parts for inner in (part._parts if isinstance(part, Text) else (part,))]
        text = super().__new__(cls, " … ".join(each))
        text._parts = tuple(each)
        return text

    def __eq__(self, other: object) -> bool:
        """Returns whether `other` is a text that has the parts."""
        if not isinstance(other, str):
            return False
        rest = other
        for part in self._parts:
            _, present, rest = rest.partition(part)
            if not present:
                return False
        return True

    def __ne__(self, other: object) -> bool:
        """Returns the opposite of `==`: that of `str` compares the characters."""
        return not self == other

    def __repr__(self) -> str:
        """Returns it as it is written in a test."""
        return f"Text({', '.join(map(repr, self._parts))})"


def is_like(message: str, pattern: str) -> bool:
    """Returns whether a message is the pattern, in which "..." stands for any text: the rest of a sentence."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), message, re.DOTALL) is not None


def require_like(messages: Sequence[str], patterns: Sequence[str]) -> None:
    """Requires messages like these patterns, in this order."""
    pairs = zip(messages, patterns, strict=False)
    alike = [message if is_like(message, pattern) else pattern for message, pattern in pairs]
    assert list(messages) == [*alike, *patterns[len(alike) :]]
