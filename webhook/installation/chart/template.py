"""Templates as text: objects with placeholder words, which are replaced by template expressions at the end.

A word occurs nowhere else and needs no quotes in YAML, so objects are written like any others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from webhook.installation.chart.features import NAMESPACE
from webhook.model.reading import Manifest

_MARKED = re.compile(r"^( *)(- )?([\w.]+): (Optional|Inline)(\d+)x$", re.MULTILINE)
_EACH = re.compile(r"^( *)- Each(\d+)x$", re.MULTILINE)


class Place(NamedTuple):
    """A place in an object that a value fills."""

    path: tuple[str | int, ...]
    expression: str
    optional: bool = False


class Words:
    """The placeholder words of one template, and their expressions."""

    def __init__(self) -> None:
        self._expressions: list[str] = []

    def inline(self, expression: str) -> str:
        """A word for an expression that always has a value."""
        return self._word("Inline", expression)

    def optional(self, expression: str) -> str:
        """A word for the value of a key that is omitted if the value is empty."""
        return self._word("Optional", expression)

    def each(self, expression: str) -> str:
        """A word for a list item that is repeated for each item of a list in the values."""
        return self._word("Each", expression)

    def resolved(self, text: str) -> str:
        """`text` as a template: the words replaced by their expressions."""
        return resolved(_EACH.sub(self._resolve_each, _MARKED.sub(self._resolve, text)))

    def _word(self, kind: str, expression: str) -> str:
        self._expressions.append(expression)
        return f"{kind}{len(self._expressions) - 1}x"

    def _resolve(self, found: re.Match[str]) -> str:
        indent, dash, key, kind, number = found.groups("")
        expression = self._expressions[int(number)]
        if kind == "Inline":
            return f"{indent}{dash}{key}: {{{{ {expression} }}}}"
        return f"{indent}{{{{- with {expression} }}}}\n{indent}{key}: {{{{ toJson . }}}}\n{indent}{{{{- end }}}}"

    def _resolve_each(self, found: re.Match[str]) -> str:
        indent, number = found.groups()
        expression = self._expressions[int(number)]
        return f"{indent}{{{{- range {expression} }}}}\n{indent}- {{{{ toJson . }}}}\n{indent}{{{{- end }}}}"


def resolved(text: str) -> str:
    """`text` with the namespace of the installation in its places."""
    return text.replace(NAMESPACE, "{{ .Release.Namespace }}")


def put(manifest: Manifest, path: tuple[str | int, ...], value: object) -> Manifest:
    """A copy of `manifest` with `value` at `path`."""
    found = deepcopy(manifest)
    place: Any = found
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return found


def item(value: Manifest, dump: Callable[[Manifest], str], indent: str = "") -> str:
    """An item of a list, as YAML."""
    first, *lines = dump(value).splitlines(keepends=True)
    return f"{indent}- {first}" + "".join(f"{indent}  {line}" for line in lines)


def literal(value: object) -> str:
    """A value as an expression of a template."""
    if value == NAMESPACE:
        return "$.Release.Namespace"
    if isinstance(value, Mapping):
        return f"(dict {' '.join(f'{json.dumps(key)} {literal(one)}' for key, one in value.items())})"
    if isinstance(value, list | tuple):
        return f"(list {' '.join(map(literal, value))})" if value else "list"
    return json.dumps(value)


def conditional(condition: str, text: str) -> str:
    """`text` inside an `if` with this condition."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
