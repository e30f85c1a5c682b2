"""Manifests from files, folders and standard input, with the line and column of every field.

YAML of several documents, JSON, and what kustomize or kubectl print. A document is read once into nodes; its values are
plain Python, and the nodes stay for as long as somebody may ask where a field stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.reader import ReaderError

from webhook.errors import InputError
from webhook.model.fields import FieldPath, Item
from webhook.model.reading import Manifest
from webhook.sources.yaml_values import ValueProblem, Values

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest, the file it came from (as it was named) and the line it starts on."""

    source: str
    manifest: Manifest
    line: int
    _text: str = field(repr=False, compare=False)
    _node: list[Node] = field(repr=False, compare=False)

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Line and column, from 1, of the key or list item at `path`; of its nearest parent where it is not there."""
        if not self._node:
            # JSON was read without positions, which only a finding needs.
            self._node.extend(_compose(self._text.replace("\t", " "), self.source))
        return _find(self._node[0], path)


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that paths name: each file, and the manifests below each folder. Raises `InputError`."""
    for path in paths:
        if path.is_dir():
            yield from files_in(path)
        else:
            yield path


def read_file(path: Path) -> list[Document]:
    """The manifests in one file. Raises `InputError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(str(path), "no such file") from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    return read_text(content, str(path))


def files_in(folder: Path) -> list[Path]:
    """The manifests below a folder, sorted, hidden ones left out. Raises `InputError` where there is none."""
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not found:
        raise InputError(str(folder), f"the folder has no manifests ({', '.join(SUFFIXES)})")
    return found


def read_text(text: bytes | str, source: str) -> list[Document]:
    """The manifests in one text. Empty documents are left out. Raises `InputError`."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(source, f"is not UTF-8 (at byte {error.start})") from None
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] == "{" and (found := _json(text, source)) is not None:
        return [found]
    try:
        return _documents(text, source)
    except RecursionError:
        raise InputError(source, "is nested too deep") from None


def _json(text: str, source: str) -> Document | None:
    """The one document of a JSON text; None for what is not JSON, and may yet be YAML."""
    try:
        manifest = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
        json.dumps(manifest, ensure_ascii=False).encode()
    except _DuplicateKey as error:
        raise InputError(source, f"the key {error} is there twice") from None
    except UnicodeEncodeError:
        raise InputError(source, "has half of a surrogate pair") from None
    except RecursionError:
        raise InputError(source, "is nested too deep") from None
    except ValueError:
        return None
    line = text[: len(text) - len(text.lstrip())].count("\n") + 1
    return Document(source, manifest, line, text, [])


class _DuplicateKey(Exception):
    """A key that is in an object twice: kubectl refuses it, and which one counts would be a guess."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")


def _documents(text: str, source: str) -> list[Document]:
    found = []
    for node in _compose(text, source):
        line = node.start_mark.line + 1
        try:
            manifest = Values().of(node)
        except ValueProblem as problem:
            mark = problem.node.start_mark
            raise InputError(source, problem.why, mark.line + 1, mark.column + 1) from None
        if manifest is None:
            continue
        if not isinstance(manifest, dict):
            what = "a list" if isinstance(manifest, list) else f"plain text or a number ({str(manifest)[:40]!r})"
            raise InputError(source, f"is no manifest: a mapping is needed and this is {what}", line, 1)
        found.append(Document(source, manifest, line, text, [node]))
    return found


def _compose(text: str, source: str) -> list[Node]:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True
    try:
        return [node for node in yaml.compose_all(text) if node is not None]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(str(error.problem or error.context or "is not YAML").split())
        line, column = (0, 0) if mark is None else (mark.line + 1, mark.column + 1)
        raise InputError(source, f"is not YAML: {why}", line, column) from None
    except ReaderError as error:
        position = text.count("\n", 0, error.position) + 1
        raise InputError(source, "is not YAML: it has a control character", position, 1) from None
    except YAMLError as error:
        raise InputError(source, f"is not YAML: {' '.join(str(error).split())}") from None


def _same(key: Node, part: str) -> bool:
    # JSON may write a character beyond the first plane as two escapes, which YAML takes for two characters.
    return key.value == part or (
        isinstance(key.value, str) and key.value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") == part
    )


def _find(node: Node, path: FieldPath) -> tuple[int, int]:
    place = node.start_mark
    for part in path.parts:
        if isinstance(part, Item) and isinstance(node, SequenceNode) and part.index < len(node.value):
            node = node.value[part.index]
            place = node.start_mark
        elif isinstance(part, str) and isinstance(node, MappingNode):
            found = next(((key, value) for key, value in node.value if _same(key, part)), None)
            if found is None:
                break
            place, node = found[0].start_mark, found[1]
        else:
            break
    return place.line + 1, place.column + 1
