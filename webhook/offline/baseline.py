"""A baseline: the findings that a project had when it began to check, which do not fail a later check. Without I/O.

A finding is known again by object, rule, field and value, but not by file and line: a file may be moved and edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from webhook.model.findings import Finding
from webhook.offline.judgement import Judgement

VERSION = 1
_Key = tuple[str, str, str, str, str, str]
_FIELDS = ("kind", "namespace", "name", "rule", "field", "found")


class Baseline:
    """The findings of a baseline. Each is taken as often as it is listed."""

    def __init__(self, keys: Iterable[_Key]) -> None:
        self._left = Counter(keys)

    def takes(self, judgement: Judgement, found: Finding) -> bool:
        """Return whether the finding is in the baseline, and count it."""
        key = key_of(judgement, found)
        if not self._left[key]:
            return False
        self._left[key] -= 1
        return True


def key_of(judgement: Judgement, found: Finding) -> _Key:
    """Return what identifies a finding in other versions of the files."""
    return (judgement.kind, judgement.namespace, judgement.name, *found.identity)


def baseline_as_json(found: Iterable[tuple[Judgement, Finding]]) -> dict[str, Any]:
    """Return a baseline of these findings as plain JSON values, in an order that does not depend on the files."""
    keys = sorted(key_of(judgement, finding) for judgement, finding in found if not finding.fails_closed)
    return {"version": VERSION, "findings": [dict(zip(_FIELDS, key, strict=True)) for key in keys]}


def baseline_from(written: Any) -> Baseline:
    """Return the baseline in plain JSON values. Raises `ValueError` with the reason if it is none."""
    if not isinstance(written, dict) or written.get("version") != VERSION:
        raise ValueError(f"is not a baseline of version {VERSION}; write one with --write-baseline")
    entries = written.get("findings")
    if not isinstance(entries, list):
        raise ValueError("has no list of findings")
    return Baseline(_key(entry, index) for index, entry in enumerate(entries))


def _key(entry: Any, index: int) -> _Key:
    values = [entry.get(name) for name in _FIELDS] if isinstance(entry, dict) else []
    match values:
        case [str(kind), str(namespace), str(name), str(rule), str(field), str(found)]:
            return (kind, namespace, name, rule, field, found)
    raise ValueError(f"findings[{index}] must have these texts: {', '.join(_FIELDS)}")
