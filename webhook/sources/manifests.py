"""Read manifests from files, folders and standard input, with the line and column of every field.

Input is YAML with several documents, JSON, or the output of kustomize or kubectl. `yaml_values` and `json_values` parse
the text. This module makes documents of it, and an error of one line for a file without a manifest.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from webhook.errors import InputError
from webhook.model.changes import Changes
from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import shown
from webhook.model.reading import Manifest
from webhook.offline.fix import TextEdit
from webhook.offline.suppression import Directive
from webhook.sources import json_values, yaml_values
from webhook.sources.limits import COMMAND_LINE, Budget, Limits, Problem, go_on
from webhook.sources.places import Lines, Root, find
from webhook.sources.suppression_comments import suppressions_in
from webhook.sources.text_edits import document_at, text_edits
from webhook.sources.whole_files import bounded, content_of, name_of

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
    _lines: Lines = field(repr=False, compare=False)
    # Called only when a position is needed: in JSON it must be searched.
    _root: Callable[[], Root] = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text of its file, without a byte order mark."""
        return self._lines.text

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column, from 1, of the key or list item at `path`; of its nearest parent if it does not
        exist.
        """
        return self._lines.place_of(find(self._root(), path))

    def end(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column behind the key or list item at `path`, or of its nearest parent."""
        text, start = self._lines.text, find(self._root(), path)
        found = _KEY.match(text, start)
        return self._lines.place_of(start if found is None else found.end())

    def read_again(self) -> Manifest:
        """Return the manifest as it is in the file: judging changes the one that was read. Callers must not
        change it.
        """
        return self._lines.last_cached(_manifest_at, self._root().start)

    def edits(self, at: FieldPath, changes: Changes) -> tuple[TextEdit, ...]:
        """Return the replacements in the file that make these changes of the object at `at`; none if none can."""
        return text_edits(self._lines, self._root().start, at, changes)

    def forget(self) -> None:
        """Drop what `read_again` and `edits` keep for further objects of the document."""
        self._lines.forget()

    @property
    def comments(self) -> tuple[Directive, ...]:
        """The suppressions in comments of its file."""
        return self._lines.cached(suppressions_in)


def _manifest_at(text: str, start: int) -> Manifest:
    own = document_at(text, start)
    value = next((found for found, _, _ in _values(own, partial(Budget, COMMAND_LINE))), None)
    return value if isinstance(value, dict) else {}


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that paths name: each file, and the manifests below each folder. Raises `InputError`."""
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
    """Return the manifests in one file. Raises `InputError`, also for an empty file that must have something."""
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
    """Return the manifests on standard input. Raises `InputError`."""
    return read_text(bounded(sys.stdin.buffer, STDIN), STDIN)


def files_in(folder: Path) -> list[Path]:
    """Return the manifests below a folder, sorted, without hidden files. Raises `InputError` if there is none, or if a
    folder cannot be read: what is in it would count as accepted.
    """

    def fail(error: OSError) -> None:
        raise _unreadable(Path(error.filename), error) from None

    found = []
    for parent, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        named = (Path(parent, name) for name in files if not name.startswith("."))
        found += [path for path in named if path.suffix in SUFFIXES and _is_file(path)]
    found.sort()
    if not found:
        raise InputError(name_of(folder), f"the folder has no manifests ({', '.join(SUFFIXES)})")
    return found


def _is_file(path: Path) -> bool:
    """Return whether a name in a folder is a file, or cannot be followed, which is reported when it is read. A pipe is
    none: reading it could wait for ever.
    """
    try:
        return path.is_file() or not path.exists()
    except OSError:
        return True


def read_text(
    text: bytes | str, source: str, limits: Limits = COMMAND_LINE, proceed: Callable[[], None] = go_on
) -> list[Document]:
    """Return the manifests in one text, without empty documents. `proceed` is called now and then, and may raise.

    Raises `InputError`.
    """
    text = _decoded(text, source).removeprefix(BYTE_ORDER_MARK)
    lines, budget = Lines(text), partial(Budget, limits, proceed)
    try:
        return [
            _document(value, source, lines, index, root)
            for value, index, root in _values(text, budget)
            if value is not None
        ]
    except Problem as problem:
        place = (0, 0) if problem.index is None else lines.place_of(problem.index)
        raise InputError(source, problem.why, *place) from None


def _values(text: str, budget: Callable[[], Budget]) -> Iterator[tuple[Any, int, Callable[[], Root]]]:
    """Yield each value, its index, and a function that finds the positions in it."""
    if text.lstrip()[:1] == "{":
        try:
            for value, index in json_values.documents_of(text, budget()):
                yield value, index, cache(partial(json_values.root_of, text, index))
            return
        except json_values.NotJson:
            # YAML in braces, or JSON documents with --- between them.
            pass
    for value, root in yaml_values.documents_of(text, budget()):
        yield value, root.start, partial(_same, root)


def _same(root: Root) -> Root:
    return root


def _document(value: Any, source: str, lines: Lines, index: int, root: Callable[[], Root]) -> Document:
    if not isinstance(value, dict):
        what = "a list" if isinstance(value, list) else f"plain text or a number ({shown(value)})"
        raise Problem(index, f"is not a manifest: it must be a mapping, and this is {what}")
    _check_items(value, root)
    return Document(source, value, lines.place_of(index)[0], lines, root)


def _check_items(manifest: Manifest, root: Callable[[], Root]) -> None:
    """Raise `Problem` for a list whose items cannot be read: it would count as an empty one."""
    kind, items = manifest.get("kind"), manifest.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or items is None:
        return
    at = ROOT / "items"
    if not isinstance(items, list):
        raise Problem(find(root(), at), f"items of a {kind} must be a list, and this is {shown(items)}")
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            at /= Item(index)
            raise Problem(find(root(), at), f"{at} of a {kind} must be an object, and this is {shown(item)}")


def _decoded(text: bytes | str, source: str) -> str:
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(source, "has half of a surrogate pair", *Lines(text).place_of(error.start)) from None
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
