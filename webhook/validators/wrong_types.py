"""Reports every field of the wrong type in an object that cannot be read.

Reading an object stops at the first such field (`Malformed`). In a shape, a dict or a one-item list describes nested
fields, a tuple lists permitted types, and any other value is the required type.
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
_CONTAINER: dict[str, Any] = {
    "name": str,
    "env": [{"name": str}],
    "resources": {"requests": {}, "limits": {}},
    "ports": [{"containerPort": int, "hostPort": int, "protocol": str, "hostIP": str}],
}
_EXPRESSION: dict[str, Any] = {"key": str, "operator": str, "values": [str]}
_SELECTOR: dict[str, Any] = {"matchLabels": WORDS, "matchExpressions": [_EXPRESSION]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERM: dict[str, Any] = {"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}
_POD_TERM: dict[str, Any] = {
    "topologyKey": str,
    "labelSelector": _SELECTOR,
    "namespaces": [str],
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": [str],
    "mismatchLabelKeys": [str],
}
_SPREAD: dict[str, Any] = {
    "topologyKey": str,
    "maxSkew": int,
    "minDomains": int,
    "whenUnsatisfiable": str,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [str],
}
POD_SPEC: dict[str, Any] = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "schedulerName": str,
    "priorityClassName": str,
    "runtimeClassName": str,
    "nodeName": str,
    "hostNetwork": bool,
    "resources": {"requests": {}, "limits": {}},
    "overhead": {},
    "resourceClaims": [{"name": str, "resourceClaimName": str, "resourceClaimTemplateName": str}],
    "nodeSelector": WORDS,
    "affinity": {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]}},
        "podAffinity": {_REQUIRED: [_POD_TERM]},
        "podAntiAffinity": {_REQUIRED: [_POD_TERM]},
    },
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
    "topologySpreadConstraints": [_SPREAD],
}


class Entries(NamedTuple):
    """In a shape: a list or an object whose entries have one type."""

    type: Any


class Unreadable(NamedTuple):
    """An object that could not be read: its group and kind, and the shape of its kind if a backend declares one, or a
    WorkloadShape does (`is_declared`).
    """

    kind: tuple[str, str]
    manifest: Manifest
    shape: Mapping[str, Any]
    is_declared: bool = False


def said_of(manifest: Manifest, shape: Any) -> Iterator[Finding]:
    """One finding for each field of the wrong type. If the faulty field is not in `shape`, there is one general
    finding.
    """
    found = wrong_in(manifest, shape)
    # Findings are yielded one by one, so that a caller with enough findings can stop.
    yield next(found, None) or _wrong(ROOT, manifest, "what the schema of its kind demands")
    yield from found


def wrong_in(manifest: Manifest, shape: Any) -> Iterator[Finding]:
    """One finding for each field of the wrong type that is in `shape`."""
    return _walk(manifest, shape, ROOT)


def _walk(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    # YAML reads a key without a value as null. The API server drops such a key.
    if value is None:
        return
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            yield _wrong(path, value, "an object")
            return
        for key, below in expected.items():
            if key in value:
                yield from _walk(value[key], below, path / key)
    elif isinstance(expected, Entries):
        yield from _entries(value, expected, path)
    elif isinstance(expected, list):
        yield from _list(value, expected[0], path)
    elif isinstance(expected, str):
        yield from _map(value, expected, path)
    else:
        types = expected if isinstance(expected, tuple) else (expected,)
        # In Python a bool is an int.
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in types):
            yield _wrong(path, value, " or ".join(_CALLED[one] for one in types))


def _list(value: Any, expected: Any, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield _wrong(path, value, "a list")
        return
    for index, item in enumerate(value):
        name = item.get("name") if isinstance(item, dict) else None
        place = path / Item(index, name if isinstance(name, str) else None)
        if item is None:
            # The API server does not drop null from a list.
            yield _wrong(place, item, "an object" if isinstance(expected, dict) else "a string")
        yield from _walk(item, expected, place)


def _entries(value: Any, expected: Entries, path: FieldPath) -> Iterator[Finding]:
    if not isinstance(value, dict):
        yield from _list(value, expected.type, path)
        return
    for key, one in value.items():
        yield from _walk(one, expected.type, path / str(key))


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
