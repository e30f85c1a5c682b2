"""From YAML nodes to the plain values that kubectl would send for them. Which scalar is what, `scalars` says.

Nothing but dict, list, str, int, float, bool and None leaves here.
"""

from __future__ import annotations

from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.sources.scalars import plain

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(
    _PREFIX + name for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)
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
    # A quoted or block scalar is a string, whatever it looks like.
    if node.style is not None:
        return written
    try:
        value = plain(written)
    except ValueError as error:
        raise ValueProblem(node, str(error)) from None
    # The parser follows YAML 1.2, where yes and on are words and a number is none only with the tag !!str.
    return value if tag != f"{_PREFIX}str" or isinstance(value, bool) else written
