"""Replacements in the text of a file that make the changes of an object, and leave comments, order and quoting alone.

The text is read again with the end of each value. The result is tested: the edited text must give exactly the changed
object, and no other document may change. So a change that cannot be written (its place comes from an anchor, a merge
key or an odd layout) has no edits, rather than wrong ones.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NamedTuple

import yaml

from webhook.model.admission_request import Change, Changes, applied
from webhook.model.fields import FieldPath, Item, Part
from webhook.offline import yaml_and_json
from webhook.offline.positions import Lines, TextEdit, TextProblem

_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_INDENT = "  "
# An edited document is read three times, and a file may have many refused objects.
_MAX_CHARACTERS = 1 << 17
# The end of a document. No value can have this at the begin of a line.
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)
# The styles of texts in a block of lines.
_BLOCKS = frozenset("|>")
# Start and end of the replaced text, and the new text.
_Placed = tuple[int, int, str]


class _Entry(NamedTuple):
    key: yaml.Node
    value: yaml.Node
    holder: yaml.Node


class _Part(NamedTuple):
    """The text of a document, or of a list with one of its objects alone; and where that object was further behind."""

    text: str
    root: yaml.Node
    at: FieldPath
    moved: int = 0


def text_edits(lines: Lines, start: int, at: FieldPath, changes: Changes) -> tuple[TextEdit, ...]:
    """Returns the replacements that make `changes` of the object at `at` in the document that begins at `start`; empty
    if they would change something else, or if the document is too large.
    """
    try:
        parsed = lines.last_cached(_parsed, start)
        if parsed is None:
            return ()
        document, root, below, moved = _alone(*parsed, at)
        rooted = tuple(change._replace(path=FieldPath((*below.parts, *change.path.parts))) for change in changes)
        placed = [replacement for change in rooted if (replacement := _edit(document, root, change)) is not None]
        overlap = any(after[0] < before[1] or after[:2] == before[:2] for before, after in pairwise(sorted(placed)))
        if len(placed) != len(rooted) or overlap or not _gives(document, placed, rooted):
            return ()
    except (yaml.YAMLError, TextProblem, ValueError, LookupError):
        return ()
    offset = _line_start(lines.text, start) + moved
    # A document of one line does not show how lines end.
    line_end = "\r\n" if "\r\n" in (document if "\n" in document else lines.text) else "\n"
    spans = sorted((offset + begin, offset + end, inserted.replace("\n", line_end)) for begin, end, inserted in placed)
    return tuple(TextEdit(*span, *lines.place_of(span[0]), *lines.place_of(span[1])) for span in spans)


def _parsed(text: str, start: int) -> tuple[str, yaml.Node] | None:
    document = document_at(text, start)
    return None if len(document) > _MAX_CHARACTERS else (document, yaml.compose(document, Loader=_Loader))


def _alone(text: str, root: yaml.Node, at: FieldPath) -> _Part:
    """Returns the list with only the object at `at`, to read less for each of its objects; the whole document if the
    object has no lines of its own, or may share an anchor with others.
    """
    whole = _Part(text, root, at)
    if at.parts[:1] != ("items",) or len(at.parts) == 1 or not isinstance(root, yaml.MappingNode) or "&" in text:
        return whole
    (_, item, *rest), keys = at.parts, [key.value for key, _ in root.value]
    items = root.value[keys.index("items")][1]
    if not isinstance(item, Item) or not isinstance(items, yaml.SequenceNode) or items.flow_style:
        return whole
    marks = [node.start_mark.index for node in items.value]
    starts = [text.rfind("\n", 0, mark) + 1 for mark in marks]
    if any(text[start:mark].strip() != "-" for start, mark in zip(starts, marks, strict=True)):
        return whole
    followers = root.value[keys.index("items") + 1 :]
    starts.append(_line_start(text, followers[0][0].start_mark.index) if followers else len(text))
    begin, end = starts[item.index : item.index + 2]
    alone = text[: starts[0]] + text[begin:end] + text[starts[-1] :]
    below = FieldPath(("items", Item(0), *rest))
    return _Part(alone, yaml.compose(alone, Loader=_Loader), below, begin - starts[0])


def document_at(text: str, start: int) -> str:
    """Returns the text of the document that begins at `start`, from the begin of its line."""
    end = _MARKER.search(text, start)
    return text[_line_start(text, start) : len(text) if end is None else end.start()]


def _line_start(text: str, start: int) -> int:
    begin = text.rfind("\n", 0, start) + 1
    # Behind `---` only a document in braces or one scalar can begin.
    return start if text[begin:start].strip() else begin


def _gives(text: str, placed: list[_Placed], changes: Changes) -> bool:
    """Returns whether the edited text is the old one with these changes, and nothing else."""
    before, edited = _value(text), text
    for start, end, inserted in sorted(placed, reverse=True):
        edited = edited[:start] + inserted + edited[end:]
    # What follows begins on a line of its own.
    ends = edited.endswith("\n") or not text.endswith("\n")
    return ends and bool(_value(edited) == applied(before, changes))


def _value(text: str) -> Any:
    """Returns the one value of a text as kubectl reads it. Raises `Problem` and `ValueError`."""
    (document,) = yaml_and_json.yaml_documents(text)
    return document.value


def _edit(text: str, root: yaml.Node, change: Change) -> _Placed | None:
    *above, last = change.path.parts
    holder = _node(root, tuple(above))
    if not isinstance(holder, yaml.MappingNode) or not isinstance(last, str):
        return None
    entry = _entry_of(holder, last)
    if change.op == "add":
        return None if entry is not None else _added(text, holder, last, change.value)
    if entry is None:
        return None
    if change.op == "remove":
        return _removed(text, entry)
    if isinstance(entry.value, yaml.ScalarNode) and not isinstance(change.value, dict | list):
        return _replaced(text, entry.value, change.value)
    if entry.value.end_mark.line == entry.value.start_mark.line:
        return entry.value.start_mark.index, entry.value.end_mark.index, _flow(change.value)
    return None


def _replaced(text: str, node: yaml.ScalarNode, value: Any) -> _Placed | None:
    start, end = node.start_mark.index, node.end_mark.index
    if node.style in _BLOCKS:
        # It ends before the next line that has something, which may be the `---` of the next document.
        end = start + len(text[start:end].rstrip())
        if "#" in text[start : text.find("\n", start)]:
            return None
    return start, end, _scalar(value, quote=node.style)


def _node(root: yaml.Node, parts: tuple[Part, ...]) -> yaml.Node | None:
    node: yaml.Node | None = root
    for part in parts:
        if isinstance(part, Item):
            if not isinstance(node, yaml.SequenceNode) or part.index >= len(node.value):
                return None
            node = node.value[part.index]
        else:
            if not isinstance(node, yaml.MappingNode):
                return None
            entry = _entry_of(node, part)
            node = None if entry is None else entry.value
    return node


def _entry_of(holder: yaml.MappingNode, name: object) -> _Entry | None:
    return next((_Entry(key, value, holder) for key, value in holder.value if key.value == name), None)


def _removed(text: str, entry: _Entry) -> _Placed | None:
    holder = entry.holder
    if len(holder.value) == 1:
        return _emptied(text, entry)
    start, end = entry.key.start_mark.index, _end(entry.value)
    if holder.flow_style:
        after = end + len(text[end:]) - len(text[end:].lstrip())
        if text[after : after + 1] == ",":
            stop = after + 1
            return start, stop + len(text[stop:]) - len(text[stop:].lstrip(" ")), ""
        before = text.rindex(",", 0, start)
        return before, end, ""
    begin = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    stop = len(text) if line_end < 0 else line_end + 1
    if text[begin:start].strip():
        # The first entry of a list item stands behind the dash: the next entry takes its place.
        follower = holder.value[1][0].start_mark.index
        return None if "#" in text[end:follower] else (start, follower, "")
    return begin, stop, ""


def _emptied(text: str, entry: _Entry) -> _Placed | None:
    """Returns the removal of the only entry of a mapping, which leaves `{}`: an empty block would be null."""
    start, end = entry.holder.start_mark.index, _end(entry.value)
    if entry.holder.flow_style:
        return start, entry.holder.end_mark.index, "{}"
    begin = len(text[:start].rstrip())
    return (begin, end, " {}") if text[begin - 1 : begin] == ":" else None


def _added(text: str, holder: yaml.MappingNode, key: str, value: Any) -> _Placed | None:
    written = _scalar(key)
    if not holder.value:
        # Braces without content.
        return holder.start_mark.index + 1, holder.start_mark.index + 1, f"{written}: {_flow(value)}"
    _, last = holder.value[-1]
    end = _end(last)
    if holder.flow_style:
        return end, end, f", {written}: {_flow(value)}"
    column = holder.value[0][0].start_mark.column
    line_end = text.find("\n", end)
    lines = _block(written, value, " " * column)
    if line_end < 0:
        return len(text), len(text), "\n" + lines.removesuffix("\n")
    return line_end + 1, line_end + 1, lines


def _end(node: yaml.Node) -> int:
    """Returns the index behind a value. The end of a block that libyaml gives is that of what follows it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last)
    index: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in _BLOCKS:
        return index - 1
    return index


def _block(key: str, value: Any, indent: str) -> str:
    if isinstance(value, dict) and value:
        inner = "".join(_block(_scalar(name), below, indent + _INDENT) for name, below in value.items())
        return f"{indent}{key}:\n{inner}"
    return f"{indent}{key}: {_flow(value)}\n"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(name)}: {_flow(below)}" for name, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any, quote: str | None = None) -> str:
    """Returns a value in one line, quoted where YAML would read something else, or as the value before was."""
    if not isinstance(value, str):
        return json.dumps(value)
    if quote == "'" and "'" not in value and value.isprintable():
        return f"'{value}'"
    if quote != '"' and _bare(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _bare(value: str) -> bool:
    if not value.isprintable() or any(sign in value for sign in ",[]{}#&*!|>'\"%@`:"):
        return False
    try:
        return bool(_value(value) == value)
    except (TextProblem, ValueError):
        return False
