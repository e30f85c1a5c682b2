"""YAML and JSON text as the plain values that kubectl would send, with the position of each key and list item; and
objects as YAML that kubectl reads back unchanged.

libyaml is the parser of YAML. kubectl's parser is a translation of libyaml into Go, so both accept and refuse the same
text. The result has only dict, list, str, int, float, bool and None, and no object is in two places. Neither depth nor
aliases can make a small text large.

JSON has its own decoder: a YAML parser is far slower and fails on input that is valid only in JSON, such as surrogate
pairs as escapes and keys of more than a thousand characters. Positions in JSON are searched only when needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import yaml

from webhook.model.reading import Manifest
from webhook.offline import positions

# The pure Python parser is ten times slower. It is used if PyYAML was built without libyaml.
_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# Deeper than any schema of Kubernetes, and safe for recursive functions: Python allows a thousand calls.
MAX_DEPTH = 100
# The cost of a value that an alias copies, in addition to the length of a text.
_VALUE_COST = 20

_LONG_TAG = "tag:yaml.org,2002:"
# Characters that the YAML specification forbids. libyaml reports that it met one, but not where.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# The parser compares each directive with all before it, in one step that cannot be interrupted. No manifest has more
# than one.
MAX_DIRECTIVES = 32
_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])%")


class YamlDocument(NamedTuple):
    """One document: its value, and the positions of its fields."""

    value: Any
    root: positions.Root


def yaml_documents(text: str, budget: positions.TextBudget | None = None) -> Iterator[YamlDocument]:
    """Yields every document of `text`, including empty ones. Raises `Problem`."""
    budget = positions.TextBudget(positions.COMMAND_LINE) if budget is None else budget
    if sum(1 for _ in islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1)) > MAX_DIRECTIVES:
        raise positions.TextProblem(0, f"has more than {MAX_DIRECTIVES} directives or lines that begin with %")
    loader = None
    try:
        loader = _Loader(text)
        yield from _Composer(loader, budget).documents()
    except yaml.reader.ReaderError:
        match = _UNPRINTABLE.search(text)
        character = "a control character" if match is None else f"the control character U+{ord(match.group()):04X}"
        raise positions.TextProblem(match and match.start(), f"is not YAML: it has {character}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(str(error.problem or error.context).split())
        raise positions.TextProblem(mark and mark.index, f"is not YAML: {why}") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Node(NamedTuple):
    value: Any
    places: positions.Places


class _Composer:
    """Builds values from the parser's events. An anchor is valid in one document."""

    def __init__(self, loader: Any, budget: positions.TextBudget) -> None:
        self._next = loader.get_event
        self._budget = budget
        self._anchors: dict[str, _Node] = {}
        self._open: set[str] = set()

    def documents(self) -> Iterator[YamlDocument]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                self._budget.document(event.start_mark.index)
                first = self._next()
                node = self._node(first, 0)
                yield YamlDocument(node.value, positions.Root(first.start_mark.index, node.places))

    def _node(self, event: Any, depth: int) -> _Node:
        self._budget.values(event.start_mark.index)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        anchor = event.anchor
        if anchor is not None:
            self._open.add(anchor)
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(_scalar(event), None)
        elif depth >= MAX_DEPTH:
            raise positions.TextProblem(event.start_mark.index, f"is nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = node
        return node

    def _sequence(self, start: Any, depth: int) -> _Node:
        _refuse_tag(start, "seq")
        items: list[Any] = []
        places: list[positions.Root] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            node = self._node(event, depth + 1)
            items.append(node.value)
            places.append(positions.Root(event.start_mark.index, node.places))
        return _Node(items, places)

    def _mapping(self, start: Any, depth: int) -> _Node:
        _refuse_tag(start, "map")
        members: dict[str, Any] = {}
        places: dict[str, positions.Root] = {}
        explicit: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            index = event.start_mark.index
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                below = self._next()
                for source in _merged(self._node(below, depth + 1), below.start_mark.index):
                    # In the order of the text, as in go-yaml v2: a later value wins, even over an explicit key.
                    members.update(source.value)
                    places.update(source.places if isinstance(source.places, dict) else {})
                continue
            key = self._key(event, depth)
            if key in explicit:
                raise positions.TextProblem(index, f"the key {key} appears twice")
            explicit.add(key)
            node = self._node(self._next(), depth + 1)
            members[key] = node.value
            places[key] = positions.Root(index, node.places)
        return _Node(members, places)

    def _key(self, event: Any, depth: int) -> str:
        value = self._node(event, depth + 1).value
        if isinstance(value, str):
            return value
        # kubectl converts these to strings. It refuses null. Fractions are refused here, because their text in Go is
        # never what a user wants.
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, dict):
            # YAML reads an expression of a Helm template as such a mapping.
            why = "a key must be a word, but this is a mapping: is it a template that was not rendered?"
        else:
            what = "a list" if isinstance(value, list) else "null" if value is None else f"the number {value}"
            why = f"a key must be a word, but this is {what}"
        raise positions.TextProblem(event.start_mark.index, why)

    def _alias(self, event: Any, depth: int) -> _Node:
        name, index = event.anchor, event.start_mark.index
        if name in self._open:
            raise positions.TextProblem(index, f"the anchor {name} contains itself")
        if name not in self._anchors:
            raise positions.TextProblem(index, f"there is no anchor {name}")
        node = self._anchors[name]
        cost, height = _extent(node.value)
        self._budget.aliased(index, cost)
        if depth + height > MAX_DEPTH:
            raise positions.TextProblem(index, f"is nested deeper than {MAX_DEPTH} levels")
        # A copy: a change in one place must not change the other.
        return _Node(_copy(node.value), node.places)


def _scalar(event: Any) -> Any:
    tag, written = event.tag, event.value
    try:
        if tag == "!":
            return written
        if tag is None:
            # Not implicit: quoted, or a block.
            return positions.plain_value(written) if event.implicit[0] else written
        if tag.startswith(_LONG_TAG):
            return positions.tagged_value(tag.removeprefix(_LONG_TAG), written)
    except ValueError as error:
        raise positions.TextProblem(event.start_mark.index, str(error)) from None
    raise positions.TextProblem(event.start_mark.index, f"has the tag {tag}, which a manifest cannot have")


def _refuse_tag(event: Any, allowed: str) -> None:
    if event.tag not in {None, "!", _LONG_TAG + allowed}:
        tag = event.tag.replace(_LONG_TAG, "!!")
        raise positions.TextProblem(event.start_mark.index, f"has the tag {tag}, which a manifest cannot have")


def _merged(node: _Node, index: int) -> list[_Node]:
    """Returns the mappings to merge; the last one takes precedence."""
    if isinstance(node.value, dict):
        return [node]
    if isinstance(node.value, list) and all(isinstance(item, dict) for item in node.value):
        below = node.places if isinstance(node.places, list) else []
        return [_Node(item, place.places) for item, place in zip(node.value, below, strict=True)][::-1]
    raise positions.TextProblem(index, "only a mapping can be merged")


def _extent(value: Any) -> tuple[int, int]:
    """Returns the cost of copying a value, and its number of levels."""
    if isinstance(value, str):
        return _VALUE_COST + len(value), 0
    if not isinstance(value, dict | list):
        return _VALUE_COST, 0
    below = [_extent(item) for item in (value.values() if isinstance(value, dict) else value)]
    keys = sum(map(len, value)) if isinstance(value, dict) else 0
    return _VALUE_COST + keys + sum(cost for cost, _ in below), 1 + max((height for _, height in below), default=0)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


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


def json_documents(text: str, budget: positions.TextBudget) -> list[JsonDocument]:
    """Returns the documents of `text`, one after the other, as kubectl accepts them. Raises `NotJson`, and `Problem`
    for JSON that cannot be a manifest.
    """
    _count(text, budget)
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_int=positions.number, parse_float=positions.number, parse_constant=_refuse
    )
    documents: list[JsonDocument] = []
    index = _skip_blank(text, 0)
    while index < len(text):
        try:
            value, end = decoder.raw_decode(text, index)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as wrong:
            # The depth at which the decoder gives up differs between releases of Python.
            _refuse_depth_until(text, index, wrong.pos)
            raise NotJson from None
        except _Duplicate as wrong:
            raise positions.TextProblem(_second(text, index, wrong.key), str(wrong)) from None
        except UnicodeEncodeError:
            raise positions.TextProblem(index, "has half of a surrogate pair") from None
        except RecursionError:
            raise positions.TextProblem(index, f"is nested deeper than {MAX_DEPTH} levels") from None
        except ValueError as error:
            raise positions.TextProblem(index, str(error)) from None
        _refuse_depth(value, index)
        budget.document(index)
        documents.append(JsonDocument(value, index))
        index = _skip_blank(text, end)
    return documents


def _count(text: str, budget: positions.TextBudget) -> None:
    """Counts the values before the decoder makes all of them at once; strings only if there may be too many."""
    if 1 + sum(map(text.count, _BEFORE_VALUES)) <= budget.limits.values:
        return
    for token in _TOKEN.finditer(text):
        if token.group() in _BEFORE_VALUES:
            budget.values(token.start())


def root_of(text: str, index: int) -> positions.Root:
    tokens = _TOKEN.finditer(text, index)
    return positions.Root(index, _places(tokens, next(tokens).group()))


def _places(tokens: Iterator[re.Match[str]], opening: str) -> positions.Places:
    if opening == "{":
        members: dict[str, positions.Root] = {}
        for token in tokens:
            if token.group() == "}":
                break
            if token.group() != ",":
                next(tokens)  # the colon
                members[json.loads(token.group())] = positions.Root(
                    token.start(), _places(tokens, next(tokens).group())
                )
        return members
    if opening == "[":
        items: list[positions.Root] = []
        for token in tokens:
            if token.group() == "]":
                break
            if token.group() != ",":
                items.append(positions.Root(token.start(), _places(tokens, token.group())))
        return items
    return None


def _skip_blank(text: str, index: int) -> int:
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
    raise positions.TextProblem(index, f"is nested deeper than {MAX_DEPTH} levels")


def _refuse_depth_until(text: str, index: int, end: int) -> None:
    """Raises `Problem` if the text between two indexes, which may be no JSON, is nested too deep."""
    depth = 0
    for token in _TOKEN.finditer(text, index, end):
        depth += _NESTING.get(token.group(), 0)
        if depth > MAX_DEPTH + 1:
            raise positions.TextProblem(index, f"is nested deeper than {MAX_DEPTH} levels")


class _Duplicate(Exception):
    """A key is in an object twice. kubectl refuses it, and choosing one would be a guess."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key} appears twice")
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return members


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def _second(text: str, index: int, duplicate: str) -> int:
    """Returns the index at which an object has the key `duplicate` for the second time."""
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
            if key == duplicate and key in keys[-1]:
                return place
            keys[-1].add(key)
        before, place = word, token.start()
    return index


# libyaml's dumper, if PyYAML has it, is seven times as fast: a large set becomes a million lines.
_FASTEST: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# libyaml counts in 32 bits.
_NO_WRAPPING = 2**31 - 1


class _Dumper(_FASTEST):  # type: ignore[misc]
    """Writes keys in the order of the object, without aliases: kubectl reads aliases, but people should not have to."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: Any, value: str) -> Any:
    # A word in newer YAML versions may be a boolean or a number to kubectl: on, y, 0o7, 1e3.
    style = "|" if "\n" in value else "" if _stays(value) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


def _stays(value: str) -> bool:
    try:
        return isinstance(positions.plain_value(value), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _string)


def as_yaml_text(manifest: Manifest) -> str:
    """Returns one document, without its `---`. Lines are not wrapped, so that they can be searched."""
    return _written(manifest, flow_style=False)


def as_compact_yaml_text(manifest: Manifest) -> str:
    """Returns one document, without its `---`. Lists and mappings that contain no others are on one line."""
    return _written(manifest, flow_style=None)


def _written(manifest: Manifest, *, flow_style: bool | None) -> str:
    text: str = yaml.dump(
        manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow_style, width=_NO_WRAPPING
    )
    return text
