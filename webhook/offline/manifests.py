"""Manifests from files, folders and standard input, with the line and column of every field, and the suppressions in
their comments.

Input is YAML with several documents, JSON, or the output of kustomize or kubectl. A file without a manifest gives an
error of one line.

A suppression (`# rollcall:ignore RULE: reason`) at the end of a line is about that line. On a line of its own it is
about the next line that is not a comment.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from webhook.errors import InputError
from webhook.model.admission_request import Changes
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import shown
from webhook.model.reading import Manifest
from webhook.offline import positions, yaml_and_json
from webhook.offline.finding_details import COMMENT, Directive, parse_directive
from webhook.offline.text_edits import document_at, text_edits
from webhook.offline.whole_files import content_of, name_of, read_bounded

_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_COMMENT = re.compile(rf"(?:^|(?<=\s))#\s*{COMMENT}\s+(.*)$", re.MULTILINE)
_PASSED = re.compile(r"\s*(?:#.*)?\Z")


def suppressions_in(text: str) -> tuple[Directive, ...]:
    """Returns the suppressions in the comments of a text. A text that is not YAML has none."""
    if COMMENT not in text:
        return ()
    try:
        spans = [
            (event.start_mark.index, event.end_mark.index)
            for event in yaml.parse(text, Loader=_Loader)
            if isinstance(event, yaml.ScalarEvent) and event.style is not None
        ]
    except yaml.YAMLError:
        return ()
    lines, directives = _CommentedLines(text), []
    for match in _COMMENT.finditer(text):
        index = bisect_right(spans, (match.start(), len(text)))
        # Within a text between quotes, or a block such as a script, this is no comment.
        if index and spans[index - 1][1] > match.start():
            continue
        written = parse_directive(match[1].rstrip("\r"), lines.about(match.start()))
        if written is not None:
            directives.append(written)
    return tuple(directives)


class _CommentedLines:
    """The lines of a text, to find the line that a comment is about. A text may have very many comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        # Of each line, the first line from there on with something besides a comment; none stands for the one behind.
        self._next = [*range(len(lines)), -1]
        for number in range(len(lines) - 1, -1, -1):
            if _PASSED.match(lines[number]):
                self._next[number] = self._next[number + 1]
        # Comments above the first `---` are about what is behind it.
        self._first = first = self._next[0]
        while first >= 0 and lines[first].startswith("---"):
            first = self._next[first + 1]
        self._after_first = first

    def about(self, start: int) -> int:
        """Returns the line that the comment at `start` is about, from 1."""
        line = bisect_right(self._starts, start) - 1
        if self._text[self._starts[line] : start].strip():
            return line + 1
        target = self._after_first if line < self._first or self._first < 0 else self._next[line]
        return (line if target < 0 else target) + 1


SUFFIXES = (".yaml", ".yml", ".json")

# What an editor marks of a field: a quoted key, a plain key, or the line of a list item.
_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[^\s:#][^:\n]*')
# The name of standard input in messages.
STDIN = "<stdin>"
# Why an input is refused that was to have a manifest.
NO_MANIFEST = "has no manifest: it is empty or has only comments; the command that wrote it has probably failed"

BYTE_ORDER_MARK = "\ufeff"
# Windows shells write this when the output of a command goes to a file.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest, the file it came from (as the user named it) and the line it starts on."""

    source: str
    manifest: Manifest
    line: int
    _lines: positions.Lines = field(repr=False, compare=False)
    # Called only when a position is needed: in JSON it must be searched.
    _root: Callable[[], positions.Root] = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        return self._lines.text

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Returns line and column, from 1, of the key or list item at `path`, or of its nearest parent."""
        return self._lines.place_of(positions.find(self._root(), path))

    def end(self, path: FieldPath) -> tuple[int, int]:
        """Returns line and column behind the key or list item at `path`, or of its nearest parent."""
        text, start = self._lines.text, positions.find(self._root(), path)
        match = _KEY.match(text, start)
        return self._lines.place_of(start if match is None else match.end())

    def read_again(self) -> Manifest:
        """Returns the manifest as it is in the file, before judging changed it. Callers must not change it."""
        return self._lines.last_cached(_manifest_at, self._root().start)

    def edits(self, at: FieldPath, changes: Changes) -> tuple[positions.TextEdit, ...]:
        """Returns the replacements in the file that make these changes of the object at `at`; none if none can."""
        return text_edits(self._lines, self._root().start, at, changes)

    def forget(self) -> None:
        self._lines.forget()

    @property
    def comments(self) -> tuple[Directive, ...]:
        return self._lines.cached(suppressions_in)


def document_of(manifest: Manifest, source: str) -> Document:
    """Returns an object that was read from a cluster as a document, which has no positions."""
    return Document(source, manifest, 1, positions.Lines(""), lambda: positions.Root(0, None))


def _manifest_at(text: str, start: int) -> Manifest:
    document_text = document_at(text, start)
    for value, _, _ in _values(document_text, partial(positions.TextBudget, positions.COMMAND_LINE)):
        return value if isinstance(value, dict) else {}
    return {}


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """Yields the files that paths name: each file, and the manifests below each folder. Raises `InputError`."""
    for path in paths:
        try:
            folder = path.is_dir()
        except OSError as error:
            raise _unreadable(path, error) from None
        if folder:
            yield from files_in(path)
        else:
            yield path


def read_file(path: Path, *, may_be_empty: bool = True) -> list[Document]:
    """Returns the manifests in one file. Raises `InputError`, also for an empty file that must have something."""
    try:
        content = content_of(path)
    except FileNotFoundError:
        raise InputError(name_of(path), "no such file") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if not may_be_empty and not content.strip():
        raise InputError(name_of(path), NO_MANIFEST)
    return read_text(content, name_of(path))


def read_standard_input() -> list[Document]:
    return read_text(read_bounded(sys.stdin.buffer, STDIN), STDIN)


def files_in(folder: Path) -> list[Path]:
    """Returns the manifests below a folder, sorted, without hidden files. Raises `InputError` if there is none, or if a
    folder cannot be read: what is in it would count as accepted.
    """

    def fail(error: OSError) -> None:
        raise _unreadable(Path(error.filename), error) from None

    paths = []
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        candidates = (Path(parent, name) for name in files if not name.startswith("."))
        paths += [path for path in candidates if path.suffix in SUFFIXES and _is_file(path)]
    paths.sort()
    if not paths:
        raise InputError(name_of(folder), f"the folder has no manifests ({', '.join(SUFFIXES)})")
    return paths


def _is_file(path: Path) -> bool:
    """Returns whether a name in a folder is a file, or cannot be followed, which is reported when it is read. A pipe is
    none: reading it could wait for ever.
    """
    try:
        return path.is_file() or not path.exists()
    except OSError:
        return True


def read_text(
    text: bytes | str,
    source: str,
    limits: positions.Limits = positions.COMMAND_LINE,
    proceed: Callable[[], None] = positions.do_nothing,
) -> list[Document]:
    """Returns the manifests in one text. `proceed` is called now and then, and may raise. Raises `InputError`."""
    text = _decoded(text, source).removeprefix(BYTE_ORDER_MARK)
    lines, budget = positions.Lines(text), partial(positions.TextBudget, limits, proceed)
    try:
        values = _values(text, budget)
        return [_document(value, source, lines, index, root) for value, index, root in values if value is not None]
    except positions.TextProblem as problem:
        place = (0, 0) if problem.index is None else lines.place_of(problem.index)
        raise InputError(source, problem.why, *place) from None


def _values(
    text: str, budget: Callable[[], positions.TextBudget]
) -> Iterator[tuple[Any, int, Callable[[], positions.Root]]]:
    """Yields each value, its index, and a function that finds the positions in it."""
    if text.lstrip()[:1] == "{":
        try:
            for value, index in yaml_and_json.json_documents(text, budget()):
                yield value, index, cache(partial(yaml_and_json.root_of, text, index))
            return
        except yaml_and_json.NotJson:
            # YAML in braces, or JSON documents with --- between them.
            pass
    for value, root in yaml_and_json.yaml_documents(text, budget()):
        yield value, root.start, partial(_same, root)


def _same(root: positions.Root) -> positions.Root:
    return root


def _document(
    value: Any, source: str, lines: positions.Lines, index: int, root: Callable[[], positions.Root]
) -> Document:
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else f"plain text or a number ({shown(value)})"
        raise positions.TextProblem(index, f"is not a manifest: it must be a mapping, and this is {what}")
    _check_items(value, root)
    return Document(source, value, lines.place_of(index)[0], lines, root)


def _check_items(manifest: Manifest, root: Callable[[], positions.Root]) -> None:
    """Raises `Problem` for a list whose items cannot be read: it would count as an empty one."""
    kind, items = manifest.get("kind"), manifest.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or items is None:
        return
    at = ROOT / "items"
    if not isinstance(items, list):
        why = f"items of a {kind} must be a list, and this is {shown(items)}"
        raise positions.TextProblem(positions.find(root(), at), why)
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            at /= Item(index)
            why = f"{at} of a {kind} must be an object, and this is {shown(item)}"
            raise positions.TextProblem(positions.find(root(), at), why)


def _decoded(text: bytes | str, source: str) -> str:
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            place = positions.Lines(text).place_of(error.start)
            raise InputError(source, "has half of a surrogate pair", *place) from None
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        if text.startswith(_UTF_16):
            raise InputError(source, "is UTF-16; save it as UTF-8") from None
        before = text[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise InputError(source, "is not UTF-8; save it as UTF-8", line, column) from None


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(name_of(path), f"cannot be read: {error.strerror}")
