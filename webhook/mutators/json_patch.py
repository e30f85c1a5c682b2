"""JSON Patch (RFC 6902), as far as admission needs it: single keys are added or replaced, and missing parents are
created.

A builder applies each operation to the received object when it records it. So a patch that cannot be applied fails
here (`Malformed`) and not in the API server, and later steps see the changes of earlier steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from webhook.model.admission_request import Operation
from webhook.model.reading import Malformed, Manifest

Parents = tuple[str | int, ...]


class PatchBuilder:
    """Collects the operations that turn `target` into the wanted object. `target` is changed in place."""

    __slots__ = ("operations", "target")

    def __init__(self, target: Manifest) -> None:
        self.target = target
        self.operations: list[Operation] = []

    def set(self, parents: Parents, key: str, value: Any) -> None:
        """Sets one key of the object at `parents` (keys, and indexes of existing items), unless it has that value."""
        self.set_all(parents, {key: value})

    def set_all(self, parents: Parents, values: Mapping[str, Any]) -> None:
        """Sets keys of the object at `parents`, as `set` does. Nothing is made for no keys."""
        if not values:
            return
        holder = self._holder(parents)
        for key, value in values.items():
            present = key in holder
            if present and holder[key] == value:
                continue
            holder[key] = value
            op = "replace" if present else "add"
            self.operations.append({"op": op, "path": _path(parents, key), "value": value})

    def append(self, parents: Parents, key: str, value: Any) -> None:
        """Appends to the list at `key` of the object at `parents`. A missing list is created."""
        holder = self._holder(parents)
        path = _path(parents, key)
        if holder.get(key) is None:
            holder[key] = []
            self.operations.append({"op": "add", "path": path, "value": []})
        if not isinstance(holder[key], list):
            raise Malformed(holder[key], "a list")
        holder[key].append(value)
        self.operations.append({"op": "add", "path": f"{path}/-", "value": value})

    def _holder(self, parents: Parents) -> dict[str, Any]:
        holder: Any = self.target
        for depth, parent in enumerate(parents, 1):
            if isinstance(parent, int):
                holder = holder[parent]
                continue
            if not isinstance(holder, dict):
                raise Malformed(holder, "an object")
            below = holder.get(parent)
            if below is None:
                # Also for a key with null: "add" replaces it.
                below = holder[parent] = {}
                self.operations.append({"op": "add", "path": _path(parents[: depth - 1], parent), "value": {}})
            holder = below
        if not isinstance(holder, dict):
            raise Malformed(holder, "an object")
        return holder


# The places that most patches change, mostly with the same keys. `_known_path` keeps the last of these paths. A key may
# be one that a configuration chose, such as the label of a queue. Elsewhere keys may be names that a tenant wrote.
_PLACES = frozenset({(), ("metadata",), ("metadata", "labels"), ("metadata", "annotations"), ("spec",)})


def _path(parents: Parents, key: str) -> str:
    return _known_path(parents, key) if parents in _PLACES else _pointer((*parents, key))


@lru_cache(maxsize=256)
def _known_path(parents: Parents, key: str) -> str:
    return _pointer((*parents, key))


def _pointer(parts: Parents) -> str:
    return "".join(["/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts])
