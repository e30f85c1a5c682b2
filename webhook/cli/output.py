"""Output that commands share: exit codes, JSON, changes in words, and lines on standard error."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from webhook.model.findings import escaped, printable

if TYPE_CHECKING:
    from webhook.model.admission_request import Change

CLEAN, REFUSED, UNREADABLE, NOT_EVALUATED = 0, 1, 2, 3
# Longer values are cut.
_LONGEST = 120


def tell(message: str) -> None:
    """Prints one line on standard error."""
    print(f"rollcall: {printable(message)}", file=sys.stderr)


def as_json_text(value: Any, *, indent: int | None = 2) -> str:
    """Returns `value` as JSON in UTF-8, with control characters for terminals escaped."""
    return escaped(json.dumps(value, indent=indent, ensure_ascii=False))


def change_line(change: Change, verb: str = "is") -> str:
    if change.op == "remove":
        return f"remove  {change.path} (it {verb} {_value(change.was)})"
    if change.op == "add":
        return f"add     {change.path}: {_value(change.value)}"
    return f"set     {change.path} to {_value(change.value)} (it {verb} {_value(change.was)})"


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
