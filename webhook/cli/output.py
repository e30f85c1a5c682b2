"""Output that all commands share: exit codes, JSON, and lines on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from webhook.model.plain_text import escaped, printable

CLEAN, REFUSED, UNREADABLE, NOT_EVALUATED = 0, 1, 2, 3


def tell(message: str) -> None:
    """Print one line on standard error."""
    print(f"rollcall: {printable(message)}", file=sys.stderr)


def as_json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return `value` as JSON in UTF-8, with control characters for terminals escaped."""
    return escaped(json.dumps(value, indent=indent, ensure_ascii=False))
