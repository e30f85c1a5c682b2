"""Reading plain Kubernetes dicts: absent and null are empty, and a value of the wrong type is an error.

An object from an API server has passed its schema, or will pass it before it is stored. An object from a file or from
`curl` has not. A wrong type raises `Malformed`. The caller that judges the object reports it, so nothing passes
silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

# A Kubernetes object as received: never converted, so that fields of newer API versions survive.
Manifest = dict[str, Any]

EMPTY: Mapping[str, Any] = MappingProxyType({})
# A placeholder of envsubst, of a Makefile, of Helm, Jinja, Cookiecutter, ERB, Concourse or Azure, of autoconf and sed,
# of Windows, or for a person. Percentages and the operator % of CEL are none, nor are the names of Python with
# underscores on both sides.
_PLACEHOLDER = re.compile(
    r"\$\{[A-Za-z_][^{}]*\}|\$[A-Za-z_]\w*|\$\([A-Za-z_][\w.-]*\)|\{\{[^{}]*\}\}"
    r"|<[A-Z][A-Z0-9_ -]+>|<[a-z]\w*(?:[ _.-]\w+)+>|\A<(?!none>|nil>)[A-Za-z][\w .-]*>\Z"
    r"|@@\w+@@|@[A-Za-z_]\w*@|%[A-Za-z_]\w*%|(?<!\w)__[A-Z](?:[A-Z0-9_]*[A-Z0-9])?__(?!\w)"
    r"|\[\[[^\[\]]+\]\]|#\{[^{}]+\}#|\(\([A-Za-z_][\w.-]*\)\)|<%[^%]*%>|\{%[^%]*%\}"
)
# A longer text is no value of a field that rules read.
_MOST_CHARACTERS = 256
_LEAST, _MOST = -(2**63), 2**63 - 1
# The types of JSON and YAML in plain words.
_TYPES = {
    "str": "text",
    "int": "a number",
    "float": "a decimal number",
    "bool": "true or false",
    "NoneType": "null",
    "dict": "an object",
    "list": "a list",
    "date": "a date",
    "datetime": "a date",
}


class Malformed(TypeError):
    """A value does not have the type that the schema of its object requires."""

    def __init__(self, value: object, wanted: str) -> None:
        super().__init__(f"expected {wanted}, found {_TYPES.get(name := type(value).__name__, name)}")


def is_unrendered(value: object) -> bool:
    """Whether it is text with a placeholder, which a template leaves where nothing has rendered it."""
    return isinstance(value, str) and len(value) <= _MOST_CHARACTERS and _PLACEHOLDER.search(value) is not None


def mapping(value: object) -> Mapping[str, Any]:
    """The object `value`; an empty one for null. Raises `Malformed`."""
    if isinstance(value, dict):
        return value
    if value is None or value is EMPTY:
        return EMPTY
    raise Malformed(value, "an object")


def plain_object(value: object) -> Mapping[str, Any]:
    """The object `value`; an empty one for a value of another type, which the API server refuses."""
    return value if isinstance(value, dict) else EMPTY


def sequence(value: object) -> Sequence[Any]:
    """The list `value`; an empty one for null. Raises `Malformed`."""
    if isinstance(value, list):
        return value
    if value is None:
        return ()
    raise Malformed(value, "a list")


def text(value: object) -> str | None:
    """The string `value`; None for null and for the empty string. Raises `Malformed`."""
    if value is None or isinstance(value, str):
        return value or None
    raise Malformed(value, "a string")


def flag(value: object) -> bool:
    """Whether `value` is true; null is not. Raises `Malformed`."""
    if value is None or isinstance(value, bool):
        return value is True
    raise Malformed(value, "true or false")


def integer(value: object) -> int | None:
    """The whole number `value`, of 64 bits as the API has them; None for null. Raises `Malformed`."""
    if value is None or (type(value) is int and _LEAST <= value <= _MOST):
        return value
    raise Malformed(value, "a whole number of 64 bits" if isinstance(value, int) else "a whole number")
