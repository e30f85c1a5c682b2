"""The facts that an example of a rule assumes, as plain values for YAML. Values that were not set are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from webhook.model.bounds import Packed
from webhook.model.facts import ClusterFacts


def known_values(facts: ClusterFacts) -> dict[str, Any]:
    """Return each known part of `facts` by its name in words."""
    parts = {part.name.replace("_", " "): getattr(facts, part.name) for part in fields(facts)}
    return {name: _plain(value) for name, value in parts.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return a value in a form that is the same on every run."""
    if isinstance(value, Packed):
        return value.manifest()
    if isinstance(value, Mapping):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset):
        return sorted(_key(one) for one in value)
    if is_dataclass(value):
        named = {part.name: getattr(value, part.name) for part in fields(value) if part.compare}
    elif hasattr(value, "_asdict"):
        named = value._asdict()
    elif isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    else:
        return value if value is None or type(value) in {str, int, float, bool} else str(value)
    return {name.replace("_", " "): _plain(one) for name, one in named.items() if _is_set(one)}


def _key(key: Any) -> str:
    """Return a key in words: namespace and name of an object, or a kind."""
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value not in ((), {}, frozenset())
