"""From YAML nodes to the plain values that kubectl would send for them.

kubectl reads YAML with sigs.k8s.io/yaml, whose scalars follow YAML 1.1 where it matters: yes, no, on and off are
booleans. Timestamps stay strings there, because they pass through JSON. Nothing but dict, list, str, int, float, bool
and None leaves here.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

# goyaml.v2 of sigs.k8s.io/yaml, resolve.go.
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(
    _PREFIX + name for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)
# No number of Kubernetes is longer; beyond, Python would refuse the conversion or take long over it.
_MAX_DIGITS = 400
# An aliased node counts each time it is used. The largest object that etcd takes has far fewer values than this.
MAX_VALUES = 1_000_000
MAX_DEPTH = 100


class ValueProblem(Exception):
    """A node that has no value in a manifest."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


class Values:
    """Builds the values of one document, and counts them, so that aliases cannot grow without bound."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, node: Node, depth: int = 0) -> Any:
        """The value of `node`. Raises `ValueProblem`."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise ValueProblem(node, f"has more than {MAX_VALUES} values, counting aliases each time they are used")
        if depth > MAX_DEPTH:
            raise ValueProblem(node, f"is nested deeper than {MAX_DEPTH} levels")
        tag = str(node.tag)
        if tag not in _TAGS:
            raise ValueProblem(node, f"has the tag {tag.replace(_PREFIX, '!!')}, which a manifest cannot have")
        if isinstance(node, ScalarNode):
            return _scalar(node, tag)
        if isinstance(node, SequenceNode):
            return [self.of(item, depth + 1) for item in node.value]
        if isinstance(node, MappingNode):
            return self._mapping(node, depth)
        raise ValueProblem(node, "is no value")

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{_PREFIX}merge":
                merged += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
                continue
            key = _key(key_node)
            if key in found:
                raise ValueProblem(key_node, f"the key {key} is there twice")
            found[key] = self.of(value_node, depth + 1)
        for source in merged:
            if not isinstance(source, MappingNode):
                raise ValueProblem(source, "only a mapping can be merged")
            for key, value in self.of(source, depth + 1).items():
                found.setdefault(key, value)
        return found


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise ValueProblem(node, "a key must be a plain word")
    value = _scalar(node, str(node.tag))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _scalar(node: ScalarNode, tag: str) -> Any:
    written: str = node.value
    if any("\ud800" <= character <= "\udfff" for character in written):
        raise ValueProblem(node, "has half of a surrogate pair")
    # A quoted or block scalar is a string, whatever it looks like; so is one that is tagged as one.
    if node.style is not None or (tag == f"{_PREFIX}str" and not _looks_otherwise(written)):
        return written
    if written in _NULL:
        return None
    if written in _TRUE:
        return True
    if written in _FALSE:
        return False
    if len(written) < _MAX_DIGITS and _INTEGER.match(written):
        return _integer(written.replace("_", ""))
    if len(written) < _MAX_DIGITS and _FLOAT.match(written):
        number = float(written.replace("_", ""))
        if math.isfinite(number):
            return number
    if _NOT_FINITE.match(written):
        raise ValueProblem(node, f"{written} is no number in JSON")
    return written


def _looks_otherwise(written: str) -> bool:
    return written in _TRUE or written in _FALSE


def _integer(written: str) -> int:
    digits = written.lstrip("+-")
    # A leading zero is octal to kubectl, as in YAML 1.1.
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit() and not set(digits) & {"8", "9"}
    number = int(digits, 8) if octal else int(digits, 10 if digits.isdigit() else 0)
    return -number if written[0] == "-" else number
