"""The walk over an object that cannot be read: it names every field of the wrong type.

Whoever reads an object stops at the first such field (`Malformed`). Of a shape, a dict or a one-item list goes further
down, a tuple is either of its types, and the rest is the type that a field must have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.fields import ROOT, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.reading import Manifest

WORDS = "a map of strings"
COUNTS = "a map of whole numbers"
_MAPS: dict[str, type] = {WORDS: str, COUNTS: int}
_CALLED: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
METADATA: dict[str, Any] = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "labels": WORDS,
    "annotations": WORDS,
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str}],
}
_CONTAINER: dict[str, Any] = {"name": str, "resources": {"requests": {}, "limits": {}}}
POD_SPEC: dict[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "schedulerName": str,
    "priorityClassName": str,
    "resourceClaims": [{}],
}


class Unreadable(NamedTuple):
    """An object that could not be read: its group and kind, and what its kind is read as, where a backend says so."""

    kind: tuple[str, str]
    manifest: Manifest
    shape: Mapping[str, Any]


def said_of(manifest: Manifest, shape: Any) -> Iterator[Finding]:
    """Each field of the wrong type; whoever could not read the object and met something that is not in `shape` is told
    less exactly, but told.
    """
    found = _walk(manifest, shape, ROOT)
    # One by one: whoever has read enough of them asks for no more.
    yield next(found, None) or _wrong(ROOT, manifest, "what the schema of its kind demands")
    yield from found


def _walk(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    # null is what YAML makes of a key without a value; the API server drops it.
    if value is None:
        return
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            yield _wrong(path, value, "an object")
            return
        for key, below in expected.items():
            if key in value:
                yield from _walk(value[key], below, path / key)
    elif isinstance(expected, list):
        if not isinstance(value, list):
            yield _wrong(path, value, "a list")
            return
        for index, item in enumerate(value):
            name = item.get("name") if isinstance(item, dict) else None
            place = path / Item(index, name if isinstance(name, str) else None)
            if item is None:
                # Of a list it drops none.
                yield _wrong(place, item, "an object" if isinstance(expected[0], dict) else "a string")
            yield from _walk(item, expected[0], place)
    elif isinstance(expected, str):
        yield from _map(value, expected, path)
    else:
        types = expected if isinstance(expected, tuple) else (expected,)
        # To Python true is a number.
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in types):
            yield _wrong(path, value, " or ".join(_CALLED[one] for one in types))


def _map(value: Any, expected: str, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, expected)
        return
    of = _MAPS[expected]
    for key, one in value.items():
        if not isinstance(one, of) or (of is int and isinstance(one, bool)):
            yield _wrong(path / str(key), one, "a string; quote it" if of is str else _CALLED[of])


def _wrong(path: FieldPath, value: Any, wanted: str) -> Finding:
    return Finding(at=path, found=value, why="the value has the wrong type", remedy=f"write {wanted}")
