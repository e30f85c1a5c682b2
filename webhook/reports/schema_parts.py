"""Parts of JSON Schemas: texts, counts, lists and objects whose fields are all there."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
COUNT = {"type": "integer", "minimum": 0}
TRUTH = {"type": "boolean"}


def object_of(fields: dict[str, Any], optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the schema of an object that has these fields."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, **more}


def list_of(items: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


def enum_of(words: Any, description: str) -> dict[str, Any]:
    """Return the schema of one of some words."""
    return {"enum": sorted(str(word) for word in words), "description": description}


def or_null(schema: dict[str, Any], description: str) -> dict[str, Any]:
    """Return the schema of a value that may be null."""
    return {"description": description, "oneOf": [{"type": "null"}, schema]}
