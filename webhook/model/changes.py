"""One change of one field, and changes applied to an object, without I/O.

`webhook.explain` finds the changes that help, `webhook.sources.text_edits` says what they mean for the text of a file.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from webhook.model.admission_request import Operation
from webhook.model.fields import FieldPath, Item, Part
from webhook.model.reading import Manifest


class Change(NamedTuple):
    """One field added, replaced or removed. `was` is None for a new field, `value` is None for a removed one."""

    op: str
    path: FieldPath
    was: Any
    value: Any

    def as_json(self) -> dict[str, Any]:
        """Return the change in the form that a person reads."""
        return {"path": str(self.path), "from": self.was, "to": self.value}

    def as_patch(self) -> Operation:
        """Return the change as an operation of JSON Patch (RFC 6902)."""
        pointer = "".join(f"/{_token(part)}" for part in self.path.parts)
        return {"op": self.op, "path": pointer, **({} if self.op == "remove" else {"value": self.value})}

    @property
    def key(self) -> str:
        """The same text for equal changes."""
        return f"{self.op} {self.path} {json.dumps(self.value, sort_keys=True)}"


Changes = tuple[Change, ...]


def applied(raw: Manifest, changes: Changes) -> Manifest:
    """Return `raw` with the changes. Copies only the changed parts and shares the rest."""
    for change in changes:
        raw = _with(raw, change.path.parts, change)
    return raw


def value_at(raw: Any, at: FieldPath) -> tuple[bool, Any]:
    """Return whether the field exists, and its value."""
    for part in at.parts:
        if isinstance(part, Item):
            if not isinstance(raw, list) or part.index >= len(raw):
                return False, None
            raw = raw[part.index]
        elif not isinstance(raw, dict) or part not in raw:
            return False, None
        else:
            raw = raw[part]
    return True, raw


def _with(holder: Any, parts: tuple[Part, ...], change: Change) -> Any:
    first, *rest = parts
    if isinstance(first, Item):
        copied: Any = list(holder)
        copied[first.index] = _with(holder[first.index], tuple(rest), change)
        return copied
    copied = dict(holder)
    if rest:
        copied[first] = _with(holder[first], tuple(rest), change)
    elif change.op == "remove":
        del copied[first]
    else:
        copied[first] = change.value
    return copied


def _token(part: Part) -> str:
    return str(part.index) if isinstance(part, Item) else part.replace("~", "~0").replace("/", "~1")
