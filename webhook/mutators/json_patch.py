"""JSON Patch (RFC 6902), as far as admission needs it: single keys added or replaced, a missing parent made first.

A builder applies each operation to the received object as it records it, so that a patch that could not be applied
fails here (`Malformed`) and not in the API server, and so that later steps see what earlier ones did.
"""

from __future__ import annotations

from typing import Any

from webhook.model.admission_request import Operation
from webhook.model.reading import Malformed, Manifest

Parents = tuple[str | int, ...]


class PatchBuilder:
    """Collects the operations that turn `target` into what is wanted. `target` is changed in place."""

    __slots__ = ("operations", "target")

    def __init__(self, target: Manifest) -> None:
        self.target = target
        self.operations: list[Operation] = []

    def set(self, parents: Parents, key: str, value: Any) -> None:
        """Set one key of the object at `parents`: keys, and indexes of items that are there. No operation where it has
        that value already.
        """
        holder = self._holder(parents)
        present = key in holder
        if present and holder[key] == value:
            return
        holder[key] = value
        path = f"{_pointer(parents)}/{_escape(key)}"
        self.operations.append({"op": "replace" if present else "add", "path": path, "value": value})

    def append(self, parents: Parents, key: str, value: Any) -> None:
        """Append to the list at `key` of the object at `parents`; the list is made where there is none."""
        holder = self._holder(parents)
        path = f"{_pointer(parents)}/{_escape(key)}"
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
                # Also where the key is there with null: "add" replaces it.
                below = holder[parent] = {}
                self.operations.append({"op": "add", "path": _pointer(parents[:depth]), "value": {}})
            holder = below
        if not isinstance(holder, dict):
            raise Malformed(holder, "an object")
        return holder


def _pointer(parts: Parents) -> str:
    return "".join(f"/{_escape(str(part))}" for part in parts)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
