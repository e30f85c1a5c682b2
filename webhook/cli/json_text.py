"""The output of commands with `-o json`."""

from __future__ import annotations

import json
from typing import Any

from webhook.model.plain_text import escaped


def as_json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return `value` as JSON in UTF-8, with control characters for terminals escaped."""
    return escaped(json.dumps(value, indent=indent, ensure_ascii=False))
