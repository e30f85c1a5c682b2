"""Convert YAML text to the plain values that kubectl would send, with the position of each key and list item.

libyaml is the parser. kubectl's parser is a translation of libyaml into Go, so both accept and refuse the same text.
The result has only dict, list, str, int, float, bool and None, and no object is in two places. Neither depth nor
aliases can make a small text large. `scalars` decides the type of each scalar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import yaml

from webhook.sources.limits import COMMAND_LINE, Budget, Problem
from webhook.sources.places import Places, Root
from webhook.sources.scalars import plain, tagged

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
    root: Root


def documents_of(text: str, budget: Budget | None = None) -> Iterator[YamlDocument]:
    """Yield every document of `text`, including empty ones. Raises `Problem`."""
    budget = Budget(COMMAND_LINE) if budget is None else budget
    if sum(1 for _ in islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1)) > MAX_DIRECTIVES:
        raise Problem(0, f"has more than {MAX_DIRECTIVES} directives or lines that begin with %")
    loader = None
    try:
        loader = _Loader(text)
        yield from _Composer(loader, budget).documents()
    except yaml.reader.ReaderError:
        found = _UNPRINTABLE.search(text)
        character = "a control character" if found is None else f"the control character U+{ord(found.group()):04X}"
        raise Problem(found and found.start(), f"is not YAML: it has {character}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(str(error.problem or error.context).split())
        raise Problem(mark and mark.index, f"is not YAML: {why}") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Node(NamedTuple):
    value: Any
    places: Places


class _Composer:
    """Builds values from the parser's events. An anchor is valid in one document."""

    def __init__(self, loader: Any, budget: Budget) -> None:
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
                yield YamlDocument(node.value, Root(first.start_mark.index, node.places))

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
            raise Problem(event.start_mark.index, f"is nested deeper than {MAX_DEPTH} levels")
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
        places: list[Root] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            node = self._node(event, depth + 1)
            items.append(node.value)
            places.append(Root(event.start_mark.index, node.places))
        return _Node(items, places)

    def _mapping(self, start: Any, depth: int) -> _Node:
        _refuse_tag(start, "map")
        found: dict[str, Any] = {}
        places: dict[str, Root] = {}
        own: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            index = event.start_mark.index
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                below = self._next()
                for source in _merged(self._node(below, depth + 1), below.start_mark.index):
                    # In the order of the text, as in go-yaml v2: a later value wins, even over an explicit key.
                    found.update(source.value)
                    places.update(source.places if isinstance(source.places, dict) else {})
                continue
            key = self._key(event, depth)
            if key in own:
                raise Problem(index, f"the key {key} appears twice")
            own.add(key)
            node = self._node(self._next(), depth + 1)
            found[key] = node.value
            places[key] = Root(index, node.places)
        return _Node(found, places)

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
        raise Problem(event.start_mark.index, why)

    def _alias(self, event: Any, depth: int) -> _Node:
        name, index = event.anchor, event.start_mark.index
        if name in self._open:
            raise Problem(index, f"the anchor {name} contains itself")
        if name not in self._anchors:
            raise Problem(index, f"there is no anchor {name}")
        node = self._anchors[name]
        cost, height = _extent(node.value)
        self._budget.aliased(index, cost)
        if depth + height > MAX_DEPTH:
            raise Problem(index, f"is nested deeper than {MAX_DEPTH} levels")
        # A copy: a change in one place must not change the other.
        return _Node(_copy(node.value), node.places)


def _scalar(event: Any) -> Any:
    tag, written = event.tag, event.value
    try:
        if tag == "!":
            return written
        if tag is None:
            # Not implicit: quoted, or a block.
            return plain(written) if event.implicit[0] else written
        if tag.startswith(_LONG_TAG):
            return tagged(tag.removeprefix(_LONG_TAG), written)
    except ValueError as error:
        raise Problem(event.start_mark.index, str(error)) from None
    raise Problem(event.start_mark.index, f"has the tag {tag}, which a manifest cannot have")


def _refuse_tag(event: Any, allowed: str) -> None:
    if event.tag not in {None, "!", _LONG_TAG + allowed}:
        tag = event.tag.replace(_LONG_TAG, "!!")
        raise Problem(event.start_mark.index, f"has the tag {tag}, which a manifest cannot have")


def _merged(node: _Node, index: int) -> list[_Node]:
    """Return the mappings to merge; the last one takes precedence."""
    if isinstance(node.value, dict):
        return [node]
    if isinstance(node.value, list) and all(isinstance(item, dict) for item in node.value):
        below = node.places if isinstance(node.places, list) else []
        return [_Node(item, place.places) for item, place in zip(node.value, below, strict=True)][::-1]
    raise Problem(index, "only a mapping can be merged")


def _extent(value: Any) -> tuple[int, int]:
    """Return the cost of copying a value, and its number of levels."""
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
