"""JSON text to plain values, and where its fields stand, which is searched only when somebody asks.

YAML's parser would read most of it, but far slower, and it stumbles over what only JSON has: surrogate pairs as
escapes, and keys of more than a thousand characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.sources.places import Places, Root
from webhook.sources.scalars import number
from webhook.sources.yaml_values import MAX_DEPTH, Problem

_BLANK = re.compile(r"[ \t\n\r]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


class NotJson(Exception):
    """The text is no JSON; it may yet be YAML."""


class JsonDocument(NamedTuple):
    """One document: its value, and the index in the text where it begins."""

    value: Any
    start: int


def documents_of(text: str) -> list[JsonDocument]:
    """The documents of `text`, one behind the other as kubectl takes them. Raises `NotJson`, and `Problem` for JSON
    that no manifest can be made of.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=number, parse_float=number, parse_constant=_refuse)
    found: list[JsonDocument] = []
    index = _after_blank(text, 0)
    while index < len(text):
        try:
            value, end = decoder.raw_decode(text, index)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError:
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
        found.append(JsonDocument(value, index))
        index = _after_blank(text, end)
    return found


def root_of(text: str, index: int) -> Root:
    """Where the fields stand of the JSON value that begins at `index`."""
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


class _Duplicate(Exception):
    """A key that is in an object twice: kubectl refuses it, and which one counts would be a guess."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key} is there twice")
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
    raise ValueError(f"{word} is no number in JSON")


def _second(text: str, index: int, wanted: str) -> int:
    """Where an object has the key `wanted` for the second time."""
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
