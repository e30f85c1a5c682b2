"""Apply a patch as the API server does, but more strictly: operations that an API server accepts and a mutating webhook
must not use are errors here. Independent of the builder in `webhook.mutators`, which it tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from webhook.model.admission_request import Operation
from webhook.model.reading import Manifest


class Unapplicable(AssertionError):
    """An operation cannot be applied, or removes more than one value."""


def applied(original: Manifest, operations: Iterable[Operation]) -> Manifest:
    """Return `original` after the operations. Raises `Unapplicable`."""
    result = deepcopy(original)
    for operation in operations:
        _apply(result, operation)
    return result


def steps(path: str) -> list[str]:
    """Return the keys of a JSON pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _apply(target: Any, operation: Operation) -> None:
    kind, path, value = operation["op"], operation["path"], deepcopy(operation["value"])
    *parents, last = steps(path)
    holder = target
    for parent in parents:
        if not isinstance(holder, dict) or not isinstance(holder.get(parent), dict | list):
            raise Unapplicable(f"{path}: its parent {parent} does not exist; add the parent first")
        holder = holder[parent]
    if isinstance(holder, list):
        if (kind, last) != ("add", "-"):
            raise Unapplicable(f"{path}: {kind} at a place of a list; items may only be appended")
        holder.append(value)
        return
    if kind not in {"add", "replace"} or (kind == "replace" and last not in holder):
        raise Unapplicable(f"{path}: {kind} cannot be applied; single keys are added, and replaced where they are")
    if isinstance(holder.get(last), dict | list):
        raise Unapplicable(f"{path}: replaces a whole map or list; set single keys, and append")
    holder[last] = value
