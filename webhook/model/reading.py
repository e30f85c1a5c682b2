"""Typed reading of plain Kubernetes dicts, their conditions, label selectors and EndpointSlices.

Absent and null are empty. A value of the wrong type raises `Malformed`: an object from a file or from `curl` has
passed no schema. The caller that judges the object reports it, so nothing passes silently. Label selectors are
evaluated as the API server does. Source: Kubernetes API reference, meta/v1 LabelSelector.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

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

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"expected {expected}, found {_TYPES.get(name := type(value).__name__, name)}")


def is_unrendered(value: object) -> bool:
    """Returns whether it is text with a placeholder, which a template leaves where nothing has rendered it."""
    return isinstance(value, str) and len(value) <= _MOST_CHARACTERS and _PLACEHOLDER.search(value) is not None


def mapping(value: object) -> Mapping[str, Any]:
    """Returns the object `value`; an empty one for null. Raises `Malformed`."""
    if isinstance(value, dict):
        return value
    if value is None or value is EMPTY:
        return EMPTY
    raise Malformed(value, "an object")


def plain_object(value: object) -> Mapping[str, Any]:
    """Returns the object `value`; an empty one for a value of another type, which the API server refuses."""
    return value if isinstance(value, dict) else EMPTY


def sequence(value: object) -> Sequence[Any]:
    """Returns the list `value`; an empty one for null. Raises `Malformed`."""
    if isinstance(value, list):
        return value
    if value is None:
        return ()
    raise Malformed(value, "a list")


def text(value: object) -> str | None:
    """Returns the string `value`; None for null and for the empty string. Raises `Malformed`."""
    if value is None or isinstance(value, str):
        return value or None
    raise Malformed(value, "a string")


def flag(value: object) -> bool:
    """Returns whether `value` is true; null is not. Raises `Malformed`."""
    if value is None or isinstance(value, bool):
        return value is True
    raise Malformed(value, "true or false")


def integer(value: object) -> int | None:
    """Returns the whole number `value`, of 64 bits as the API has them; None for null. Raises `Malformed`."""
    if value is None or (type(value) is int and _LEAST <= value <= _MOST):
        return value
    raise Malformed(value, "a whole number of 64 bits" if isinstance(value, int) else "a whole number")


def any_true(raw: Manifest, types: Container[str]) -> bool:
    """Returns whether a condition of one of these types is True. Raises `Malformed`."""
    conditions = map(mapping, sequence(mapping(raw.get("status")).get("conditions")))
    return any(condition.get("type") in types and condition.get("status") == "True" for condition in conditions)


# The API server sets this label on each namespace; a namespaceSelector selects a namespace's name by it.
NAMESPACE_NAME = "kubernetes.io/metadata.name"


def selects(selector: object, labels: Mapping[str, Any]) -> bool:
    """Returns whether a selector matches these labels; a missing or empty selector matches everything."""
    terms = mapping(selector)
    if any(labels.get(key) != value for key, value in mapping(terms.get("matchLabels")).items()):
        return False
    return all(_holds(mapping(expression), labels) for expression in sequence(terms.get("matchExpressions")))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, operator = str(expression.get("key")), expression.get("operator")
    if operator in {"Exists", "DoesNotExist"}:
        return (key in labels) is (operator == "Exists")
    # NotIn also matches an object without the label.
    return (labels.get(key) in sequence(expression.get("values"))) is (operator == "In")


class ServiceEndpoint(NamedTuple):
    """One endpoint of a Service: its addresses, which all reach it; its ports, by the names that the Service gives them
    (one may be empty); and whether it is ready for traffic.
    """

    addresses: tuple[str, ...]
    ports: Mapping[str, int]
    ready: bool
    node: str | None


def port_name(service: object, number: int) -> str | None:
    """Returns the name of a Service's port in its slices, where the port has another number. A single port may have no
    name; it is then the empty string. None if the Service has no such port. Raises `Malformed`.
    """
    ports = map(mapping, sequence(mapping(mapping(service).get("spec")).get("ports")))
    return next((text(port.get("name")) or "" for port in ports if port.get("port") == number), None)


def slices_of(service: str) -> str:
    """Returns the label selector for the slices of that Service, in its namespace."""
    return f"kubernetes.io/service-name={service}"


def endpoints_in(endpoint_slice: object) -> Iterator[ServiceEndpoint]:
    """Yields the endpoints in a slice. One may be in two slices, one an address family. Raises `Malformed`."""
    holder = mapping(endpoint_slice)
    ports = {}
    for port in map(mapping, sequence(holder.get("ports"))):
        # A port without a number means every port; a Service never routes to it.
        if (number := integer(port.get("port"))) is not None:
            ports[text(port.get("name")) or ""] = number
    for endpoint in map(mapping, sequence(holder.get("endpoints"))):
        addresses = tuple(address for raw in sequence(endpoint.get("addresses")) if (address := text(raw)) is not None)
        # An endpoint without the condition is ready.
        ready = mapping(endpoint.get("conditions")).get("ready") is not False
        yield ServiceEndpoint(addresses, ports, ready, text(endpoint.get("nodeName")))
