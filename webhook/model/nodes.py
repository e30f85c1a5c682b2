"""Nodes: the nodes of a cluster by name, and the groups of those that a gang cannot tell apart.

Groups are kept and changed node by node, so a node that changes costs as much in a large cluster as in a small one.
Nothing here depends on what passes, such as readiness: a heartbeat changes no group.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from webhook.model.keys import Api
from webhook.model.node import NODE_BYTES, Node, Taint, node_of
from webhook.model.projections import Projection, Resource
from webhook.model.reading import Manifest
from webhook.model.rows import Row

__all__ = ["NODES", "Node", "NodeGroup", "Nodes", "Taint"]

T = TypeVar("T")
V = TypeVar("V", bound="View")
_Keys = tuple[tuple[str, ...], tuple[str, ...]]

# How many sets of label keys, and label keys, are followed at once. A gang names a handful.
_MOST_GROUPINGS, _MOST_COUNTED = 32, 256
# How many results of others are remembered until a node changes, and how many views are kept over changes.
_MOST_REMEMBERED, _MOST_VIEWS = 64, 32
# How many groups, and classes of nodes, all of these may have together, at about a kilobyte each. Anybody who creates
# workloads may ask for others, and in a large cluster all nodes may differ by some bytes of memory.
_MOST_KEPT = 60_000


# No label has this value.
SOME = "*"


class NodeGroup(NamedTuple):
    """What equal nodes have: `values` are those of the label keys that they were grouped by, None for no label and
    `SOME` for any value of a label that is only looked at for being there.
    """

    highest: Row[int]
    oversubscribed: Row[int] | None
    taints: tuple[Taint, ...]
    values: tuple[str | None, ...]


class NodeNames(dict[str, None]):
    """The names of the nodes of a group. `touched` is the revision of the nodes at which one of them changed last."""

    __slots__ = ("_ordered", "touched")

    def __init__(self) -> None:
        super().__init__()
        self.touched = 0
        self._ordered: tuple[str, ...] | None = None

    def ordered(self) -> tuple[str, ...]:
        """Return the names in order: the same object until a node is added or removed."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self))
        return self._ordered

    def add(self, name: str) -> None:
        """Add a name."""
        self[name] = None
        self._ordered = None

    def remove(self, name: str) -> None:
        """Remove a name."""
        del self[name]
        self._ordered = None


class View(Protocol):
    """What is known of the nodes for one question. `weight` is how many classes of nodes it keeps."""

    @property
    def weight(self) -> int:
        """The number of classes, once for each time that something is known of them."""


class NodeGroups(dict[NodeGroup, NodeNames]):
    """The groups of nodes. `changed` is the revision of the nodes at which one moved to another group last."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed = 0

    def add(self, group: NodeGroup, name: str) -> None:
        """Add a node."""
        names = self.get(group)
        if names is None:
            names = self[group] = NodeNames()
        names.add(name)

    def move(self, name: str, before: NodeGroup | None, after: NodeGroup | None, revision: int) -> None:
        """Take a changed node from its group to another one. None is that of a node that is not there."""
        if before != after:
            self.changed = revision
            if before is not None:
                self[before].remove(name)
                if not self[before]:
                    del self[before]
            if after is not None:
                self.add(after, name)
        if after is not None:
            self[after].touched = revision


class Nodes(dict[str, Node]):
    """Nodes by name. It only changes by single nodes, as a watch does; a copy shares nothing that changes.

    `revision` grows with every change that a gang may see.
    """

    def __init__(self, found: Mapping[str, Node] | Iterable[tuple[str, Node]] = ()) -> None:
        super().__init__(found)
        self._reset()

    def _reset(self) -> None:
        self.revision = 0
        self._groupings: OrderedDict[_Keys, NodeGroups] = OrderedDict()
        self._views: OrderedDict[Hashable, Any] = OrderedDict()
        self._counts: OrderedDict[str, Counter[str]] = OrderedDict()
        self._remembered: OrderedDict[Hashable, Any] = OrderedDict()
        # How many nodes have the same set of label keys, and how many such sets have a key.
        self._key_sets: Counter[tuple[str, ...]] = Counter()
        self._keys: Counter[str] = Counter()
        self._problems: dict[str, None] = {}
        for node in self.values():
            self._count(node, 1)

    def __setitem__(self, name: str, node: Node) -> None:
        before = self.get(name)
        if before is not None:
            node = node.after(before)
            if before.looks_like(node):
                super().__setitem__(name, node)
                return
        super().__setitem__(name, node)
        self._changed(name, before, node)

    def __delitem__(self, name: str) -> None:
        before = self[name]
        super().__delitem__(name)
        self._changed(name, before, None)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a node and return it, or the default."""
        if name not in self:
            return super().pop(name, *default)
        found = self[name]
        del self[name]
        return found

    def update(self, *found: Any, **named: Node) -> None:
        """Add nodes."""
        super().update(*found, **named)
        self._reset()

    def clear(self) -> None:
        """Remove all nodes."""
        super().clear()
        self._reset()

    def has_key(self, key: str) -> bool:
        """Return whether any node has a label with that key."""
        return self._keys[key] > 0

    def values_of(self, key: str) -> Mapping[str, int]:
        """Return the values that nodes have for a label key, with the number of nodes of each."""
        if not self.has_key(key):
            return {}
        return _kept(self._counts, key, lambda: Counter(self._values_of(key)), _MOST_COUNTED)

    def is_unique(self, key: str) -> bool:
        """Return whether no two nodes have the same value for a label key."""
        values = self.values_of(key)
        return sum(values.values()) == len(values)

    def groups(self, keys: tuple[str, ...], present: tuple[str, ...] = ()) -> NodeGroups:
        """Return the names of the nodes by group, for the values of label `keys` and for having those of `present`."""
        both = (keys, present)
        found = _kept(self._groupings, both, lambda: self._grouped(both), _MOST_GROUPINGS)
        _lighten(self._groupings, len)
        return found

    def remembered(self, key: Hashable, made: Callable[[], T]) -> T:
        """Return what `made` returns, until a node changes."""
        found: T = _kept(self._remembered, key, made, _MOST_REMEMBERED)
        return found

    def view(self, key: Hashable, made: Callable[[], V]) -> V:
        """Return what `made` returned, also after nodes changed: it looks itself at what did since."""
        found: V = _kept(self._views, key, made, _MOST_VIEWS)
        _lighten(self._views, _weight)
        return found

    @property
    def problem(self) -> str | None:
        """Why the nodes are not known well, if so: one of them could not be read."""
        name = next(iter(self._problems), None)
        return None if name is None else f"node {name} could not be read: {self[name].problem}"

    def _values_of(self, key: str) -> Iterator[str]:
        for node in self.values():
            value = node.labels.get(key)
            if value is not None:
                yield value

    def _grouped(self, keys: _Keys) -> NodeGroups:
        found = NodeGroups()
        for name, node in self.items():
            found.add(_group(node, *keys), name)
        found.changed = self.revision
        return found

    def _changed(self, name: str, before: Node | None, after: Node | None) -> None:
        """Follow a node that changed, was added (`before` is None) or was removed."""
        self.revision += 1
        self._remembered.clear()
        for node, by in ((before, -1), (after, 1)):
            if node is not None:
                self._count(node, by)
        if not self:
            self._groupings.clear()
        for keys, groups in self._groupings.items():
            old, new = (None if node is None else _group(node, *keys) for node in (before, after))
            groups.move(name, old, new, self.revision)

    def _count(self, node: Node, by: int) -> None:
        keys = tuple(node.labels)
        before = self._key_sets[keys]
        _add(self._key_sets, keys, by)
        if not before or not self._key_sets[keys]:
            for key in keys:
                _add(self._keys, key, by)
        for key, values in list(self._counts.items()):
            value = node.labels.get(key)
            if value is not None:
                _add(values, value, by)
            if not values:
                del self._counts[key]
        if node.problem is not None:
            if by > 0:
                self._problems[node.name] = None
            else:
                self._problems.pop(node.name, None)


def _group(node: Node, keys: tuple[str, ...], present: tuple[str, ...]) -> NodeGroup:
    values = [node.labels.get(key) for key in keys]
    values += [SOME if key in node.labels.places else None for key in present]
    return NodeGroup(node.highest, node.oversubscribed, node.taints, tuple(values))


def _add(counts: Counter[Any], key: Any, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


def _kept(known: OrderedDict[Any, T], key: Hashable, made: Callable[[], T], most: int) -> T:
    """Return the value of a key, made if it is not known. The one that was not asked for longest is dropped."""
    if key in known:
        known.move_to_end(key)
        return known[key]
    found = known[key] = made()
    while len(known) > most:
        known.popitem(last=False)
    return found


def _weight(view: View) -> int:
    return view.weight


def _lighten(known: OrderedDict[Any, T], weight: Callable[[T], int]) -> None:
    """Drop those that were not asked for longest, until all together are light enough. The last one stays."""
    total = sum(map(weight, known.values()))
    while total > _MOST_KEPT and len(known) > 1:
        total -= weight(known.popitem(last=False)[1])


def _node(raw: Manifest) -> tuple[str, Node]:
    node = node_of(raw)
    return node.name, node


# Missing rights must not keep a server from being ready: without nodes nothing is said of them.
NODES = Projection(
    "nodes",
    Resource(Api("", "v1", "Node"), "nodes", namespaced=False),
    _node,
    Nodes,
    awaited=False,
    most=NODE_BYTES,
    fields=(
        "metadata.labels",
        "metadata.annotations",
        "spec.taints",
        "spec.unschedulable",
        "status.allocatable",
        "status.capacity",
        "status.conditions.type",
        "status.conditions.status",
    ),
)
