"""Decode JSON text to plain values; positions of fields are searched only when needed.

A YAML parser could read most of it, but is far slower and fails on input that is valid only in JSON: surrogate pairs as
escapes, and keys of more than a thousand characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.sources.limits import Budget, Problem
from webhook.sources.places import Places, Root
from webhook.sources.scalars import number
from webhook.sources.yaml_values import MAX_DEPTH

_BLANK = re.compile(r"[ \t\n\r]*")
# An unterminated string is one token up to the end: otherwise the search would restart at each quote in it.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
_NESTING = {"{": 1, "[": 1, "}": -1, "]": -1}

# Each value of a text, except the first, follows or is one of these characters.
_BEFORE_VALUES = frozenset("{[,")


class NotJson(Exception):
    """The text is not JSON; it may still be YAML."""


class JsonDocument(NamedTuple):
    """One document: its value, and the index in the text where it begins."""

    value: Any
    start: int


def documents_of(text: str, budget: Budget) -> list[JsonDocument]:
    """Return the documents of `text`, one after the other, as kubectl accepts them. Raises `NotJson`, and `Problem` for
    JSON that cannot be a manifest.
    """
    _count(text, budget)
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=number, parse_float=number, parse_constant=_refuse)
    found: list[JsonDocument] = []
    index = _after_blank(text, 0)
    while index < len(text):
        try:
            value, end = decoder.raw_decode(text, index)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as wrong:
            # The depth at which the decoder gives up differs between releases of Python.
            _refuse_depth_until(text, index, wrong.pos)
            raise NotJson from None
        except _Duplicate as wrong:
            raise Problem(_second(text, index, wrong.key), str(wrong)) from None
        except UnicodeEncodeError:
            raise Problem(index, "has half of a surrogate pair") from None
        except RecursionError:
            raise Problem(index, f"is nested deeper than {MAX_DEPTH} levels") from None
        except ValueError as error:
            raise Problem(index, str(error)) from None
        _refuse_depth(value, index)
        budget.document(index)
        found.append(JsonDocument(value, index))
        index = _after_blank(text, end)
    return found


def _count(text: str, budget: Budget) -> None:
    """Count the values before the decoder makes all of them at once. Strings are recognised only if there may be too
    many values.
    """
    if 1 + sum(map(text.count, _BEFORE_VALUES)) <= budget.limits.values:
        return
    for token in _TOKEN.finditer(text):
        if token.group() in _BEFORE_VALUES:
            budget.values(token.start())


def root_of(text: str, index: int) -> Root:
    """Return the positions of the fields of the JSON value that begins at `index`."""
    tokens = _TOKEN.finditer(text, index)
    return Root(index, _places(tokens, next(tokens).group()))


def _places(tokens: Iterator[re.Match[str]], opening: str) -> Places:
    if opening == "{":
        members: dict[str, Root] = {}
        for token in tokens:
            if token.group() == "}":
                break
            if token.group() != ",":
                next(tokens)  # the colon
                members[json.loads(token.group())] = Root(token.start(), _places(tokens, next(tokens).group()))
        return members
    if opening == "[":
        items: list[Root] = []
        for token in tokens:
            if token.group() == "]":
                break
            if token.group() != ",":
                items.append(Root(token.start(), _places(tokens, token.group())))
        return items
    return None


def _after_blank(text: str, index: int) -> int:
    match = _BLANK.match(text, index)
    return index if match is None else match.end()


def _refuse_depth(value: Any, index: int) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH + 1):
        level = [
            below
            for outer in level
            for below in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(below, dict | list)
        ]
        if not level:
            return
    raise Problem(index, f"is nested deeper than {MAX_DEPTH} levels")


def _refuse_depth_until(text: str, index: int, end: int) -> None:
    """Raise `Problem` if the text between two indexes is nested too deep. The text may be incomplete or
    invalid JSON.
    """
    depth = 0
    for token in _TOKEN.finditer(text, index, end):
        depth += _NESTING.get(token.group(), 0)
        if depth > MAX_DEPTH + 1:
            raise Problem(index, f"is nested deeper than {MAX_DEPTH} levels")


class _Duplicate(Exception):
    """A key is in an object twice. kubectl refuses it, and choosing one would be a guess."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key} appears twice")
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def _second(text: str, index: int, wanted: str) -> int:
    """Return the index at which an object has the key `wanted` for the second time."""
    keys: list[set[str]] = []
    before, place = "", index
    for token in _TOKEN.finditer(text, index):
        word = token.group()
        if word in {"{", "["}:
            keys.append(set())
        elif word in {"}", "]"}:
            keys.pop()
        elif word == ":":
            key = json.loads(before)
            if key == wanted and key in keys[-1]:
                return place
            keys[-1].add(key)
        before, place = word, token.start()
    return index
