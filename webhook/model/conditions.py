"""The conditions in an object's status."""

from __future__ import annotations

from collections.abc import Container

from webhook.model.reading import Manifest, mapping, sequence


def any_true(raw: Manifest, types: Container[str]) -> bool:
    """Whether a condition of one of these types is True. Raises `Malformed`."""
    conditions = map(mapping, sequence(mapping(raw.get("status")).get("conditions")))
    return any(one.get("type") in types and one.get("status") == "True" for one in conditions)
