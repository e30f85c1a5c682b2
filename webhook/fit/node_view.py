"""The nodes of a cluster as one gang sees them: equal nodes are one class.

What is known of a group of nodes is kept until one of them changes in a way that the gang can see. So after a change
only the groups of that node are read again, and without one nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from webhook.fit.asked import Asked, Same
from webhook.fit.capacity import GPU_MEMORY_LABEL, GPUS_BY_CLAIMS, capacity_of
from webhook.fit.eligibility import Eligibility
from webhook.fit.reading import PodReading
from webhook.fit.requests import GPU_MEMORY
from webhook.fit.room import NodeClass
from webhook.model.node import Taint
from webhook.model.nodes import NodeGroup, NodeNames, Nodes

# A gang whose roles differ more is not judged by nodes: the work is bounded. Each requirement of a role is one check on
# each kind of nodes.
_MOST_CHECKS = 30_000
# A label with more values, each on one node alone, does not divide nodes into classes.
_FEW_VALUES = 32
# What is known of so many more parts of groups than there are now is forgotten.
_SPARE = 64
_NO_DEVICES: Mapping[str, int] = {}


class _TooManyChecksError(Exception):
    """The roles of a gang, and the nodes, differ too much."""


class Around(NamedTuple):
    """What else a room depends on. `by_class` are extended resources that a DeviceClass stands for, and of which
    therefore every node may have some. `gpus_unknown`: ResourceSlices may have GPUs that are not known.
    """

    reading: PodReading
    settings: Same
    grows: bool
    startup_taints: frozenset[Taint]
    by_class: frozenset[str]
    gpus_unknown: bool
    devices: Same | None

    def devices_of(self, name: str) -> Mapping[str, int]:
        """Return the devices of a node by driver."""
        known: Mapping[str, Mapping[str, int]] = {} if self.devices is None else self.devices.value
        return known.get(name) or {}


class NodeView:
    """The classes of the nodes for one question about them. It is kept with the nodes."""

    def __init__(self, asked: Asked, around: Around) -> None:
        self._asked = asked
        self._around = around
        by_memory = (GPU_MEMORY_LABEL,) if GPU_MEMORY in asked.resources else ()
        self._read = frozenset((*asked.read, *by_memory))
        self._wanted = tuple(dict.fromkeys((*asked.read, *asked.shown, *by_memory)))
        # Of the memory of GPUs each node needs its own value.
        self._compared = asked.compared
        self._by_memory = frozenset(by_memory)
        self._named_nodes = asked.named_nodes
        self._domains = _domains_of(asked)
        self._by_eligibility: dict[Eligibility, set[str]] = {}
        for name, eligibility in asked.roles:
            self._by_eligibility.setdefault(eligibility, set()).add(name)
        self._checks = sum(one.size for one in self._by_eligibility)
        # At which change of the groups the classes were made.
        self._changed: tuple[int, int] | None = None
        self._classes: tuple[NodeClass, ...] | None = None
        # The devices of which some node states none: its device plugin may have stopped before it was ever seen.
        self.stopped: frozenset[str] = frozenset()
        self._forget((), ())

    def _forget(self, keys: tuple[str, ...], own: tuple[str, ...]) -> None:
        """Begin again, with nodes grouped by the values of `keys`. Where each node has its own value, as for the keys
        `own`, a group tells only that there is one.
        """
        self._keys, self._own = keys, own
        self._named = {key: values for key in own if (values := self._asked.named_values(key))}
        self._alone = bool(self._named or self._named_nodes or self._domains or self._around.devices)
        places = {key: place for place, key in enumerate((*keys, *own))}
        # Among the values of a group, those that roles and capacities depend on, and those that a class shows.
        self._deciding = _picked([place for key, place in places.items() if key in self._read])
        shown = [key for key in self._asked.shown if key in places]
        self._shown, self._showing = tuple(shown), _picked([places[key] for key in shown])
        self._roles: dict[tuple[Any, ...], frozenset[str]] = {}
        self._kinds = _Kinds()
        self._groups: dict[int, _Group] = {}
        self._numbers: dict[_Class, int] = {}
        self._made: dict[int, tuple[list[tuple[str, ...]], NodeClass]] = {}
        self._labels: dict[tuple[str | None, ...], Mapping[str, str]] = {}

    @property
    def weight(self) -> int:
        """How many classes or groups are kept."""
        return max(len(self._made), len(self._groups))

    def classes(self, nodes: Nodes) -> tuple[NodeClass, ...] | None:
        """Return the classes, in the order of their first nodes; None if that takes too much work. If nothing changed
        that the gang sees, it is the same object as before.
        """
        keys, own = self._split(nodes)
        if not self._compared.isdisjoint(own):
            # A number that each node has its own of makes each node a kind of its own.
            return None
        if (keys, own) != (self._keys, self._own):
            self._forget(keys, own)
            self._changed = None
        groups = nodes.groups(keys, own)
        # Labels of single nodes may change without their group.
        changed = (groups.changed, nodes.revision if self._named else 0)
        if changed != self._changed:
            kept = bool(self._groups)
            found = self._parts(groups, nodes)
            if found is None and kept:
                # Much of it may be of nodes that are gone.
                self._forget(keys, own)
                found = self._parts(groups, nodes)
            self._classes = None if found is None else self._classes_of(found)
            self._changed = changed
        return self._classes

    def _split(self, nodes: Nodes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the label keys of the question that nodes have: those to group by, and those of own values."""
        keys = [key for key in self._wanted if nodes.has_key(key)]
        own = tuple(key for key in keys if key not in self._by_memory and _is_own(nodes, key))
        return tuple(key for key in keys if key not in own), own

    def _parts(self, groups: Mapping[NodeGroup, NodeNames], nodes: Nodes) -> dict[int, list[tuple[str, ...]]] | None:
        """Return the names of the nodes of each class, by its number; None if that takes too much work."""
        try:
            return self._numbered(groups, nodes)
        except _TooManyChecksError:
            return None

    def _numbered(self, groups: Mapping[NodeGroup, NodeNames], nodes: Nodes) -> dict[int, list[tuple[str, ...]]]:
        self._kinds.begin()
        before, self._groups = self._groups, {}
        found: dict[int, list[tuple[str, ...]]] = {}
        stopped: set[str] = set()
        by_label = bool(self._named)
        for group, names in groups.items():
            ordered = names.ordered()
            known = before.get(id(names))
            if known is None or known.ordered is not ordered or (by_label and known.touched != names.touched):
                known = self._group(group, names, nodes)
            self._groups[id(names)] = known
            for number, some in known.parts:
                found.setdefault(number, []).append(some)
            if known.stopped:
                stopped |= known.stopped
        self.stopped = frozenset(stopped)
        return found

    def _group(self, group: NodeGroup, names: NodeNames, nodes: Nodes) -> _Group:
        ordered = names.ordered()
        if self._alone:
            seen = self._seen_in(ordered, nodes)
            parts = tuple([(self._number(group, one), tuple(some)) for one, some in seen.items()])
        else:
            parts = ((self._number(group, _NOTHING_SEEN), ordered),)
        return _Group(names, ordered, names.touched, parts, self._kinds.stopped(group))

    def _classes_of(self, parts: Mapping[int, list[tuple[str, ...]]]) -> tuple[NodeClass, ...]:
        before, self._made = self._made, {}
        numbered = list(self._numbers)
        for number, names in parts.items():
            made = before.get(number)
            if made is None or made[0] != names:
                made = (names, self._class_of(numbered[number], names))
            self._made[number] = made
        classes = tuple(sorted([one for _, one in self._made.values()], key=lambda one: one.nodes[0]))
        # A group may have many parts, such as the members of a hundred racks.
        if max(len(self._numbers), len(self._roles)) > 2 * sum(map(len, parts.values())) + _SPARE:
            self._forget(self._keys, self._own)
        return classes

    def _class_of(self, one: _Class, names: list[tuple[str, ...]]) -> NodeClass:
        every = names[0] if len(names) == 1 else tuple(sorted([name for some in names for name in some]))
        capacity, roles = self._kinds.kinds[one.kind]
        labels = self._labels.get(one.shown)
        if labels is None:
            shown = zip(self._shown, one.shown, strict=False)
            labels = self._labels[one.shown] = {key: value for key, value in shown if value is not None}
        return NodeClass(capacity, labels, len(every), roles, every, dict(one.devices) if one.devices else _NO_DEVICES)

    def _seen_in(self, names: tuple[str, ...], nodes: Nodes) -> Mapping[_Seen, list[str]]:
        """Return the nodes of a group by what the gang sees of single nodes."""
        found: dict[_Seen, list[str]] = {}
        for name in names:
            labels = nodes[name].labels
            own = tuple((key, value) for key, values in self._named.items() if (value := labels.get(key)) in values)
            devices = tuple(sorted(self._around.devices_of(name).items()))
            known = name if name in self._named_nodes else ""
            found.setdefault(_Seen(known, own, self._domains.get(name, ()), devices), []).append(name)
        return found

    def _number(self, group: NodeGroup, seen: _Seen) -> int:
        """Return the number of the class of such nodes."""
        deciding = self._deciding(group.values)
        key = (id(group.highest), id(group.oversubscribed), group.taints, deciding, seen)
        kind = self._kinds.by_identity.get(key)
        if kind is None:
            kind = self._kinds.by_identity[key] = self._kind(group, seen)
        told = self._kinds.kinds[kind][1] or self._asked.every_domain
        found = _Class(
            kind,
            self._showing(group.values) if told else (),
            seen.domains,
            seen.devices if self._asked.with_devices else (),
        )
        return self._numbers.setdefault(found, len(self._numbers))

    def _kind(self, group: NodeGroup, seen: _Seen) -> int:
        """Return the number of what such nodes can give and to which roles."""
        labels = self._labels_of(group)
        claims = dict(seen.devices).get("", 0)
        reading = self._around.reading
        highest = {**group.highest, **({GPUS_BY_CLAIMS: claims} if reading.gpus_by_claims else {})}
        memory = labels.get(GPU_MEMORY_LABEL)
        capacity = capacity_of(self._asked.resources, highest, group.oversubscribed, memory, reading)
        return self._kinds.number(capacity, self._roles_on(group, seen, labels))

    def _labels_of(self, group: NodeGroup) -> dict[str, str]:
        keys = (*self._keys, *self._own)
        return {key: value for key, value in zip(keys, group.values, strict=True) if value is not None}

    def _roles_on(self, group: NodeGroup, seen: _Seen, labels: Mapping[str, str]) -> frozenset[str]:
        """Return the roles that may use such nodes."""
        key = (group.taints, self._deciding(group.values), seen.name, seen.labels)
        found = self._roles.get(key)
        if found is None:
            if len(self._roles) * self._checks > _MOST_CHECKS:
                raise _TooManyChecksError
            taints = [taint for taint in group.taints if taint not in self._around.startup_taints]
            found = self._roles[key] = frozenset(
                role
                for eligibility, roles in self._by_eligibility.items()
                if eligibility.admits(seen.name, {**labels, **dict(seen.labels)}, taints)
                for role in roles
            )
        return found


class _Kinds:
    """What nodes can give and to which roles: most classes share it, and then it is one object. `by_identity` has its
    number by the identity of what groups have, as long as these groups are there.
    """

    def __init__(self) -> None:
        self.kinds: list[tuple[Mapping[str, int], frozenset[str]]] = []
        self.by_identity: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._capacities: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
        self._stopped: dict[int, frozenset[str]] = {}

    def begin(self) -> None:
        """Forget what is known by the identity of what groups have: some may be gone."""
        self.by_identity.clear()
        self._stopped.clear()

    def number(self, capacity: Mapping[str, int], roles: frozenset[str]) -> int:
        """Return the number of a capacity with its roles."""
        # In the order of the resources that are asked for, always.
        amounts = tuple(capacity.items())
        number = self._numbers.setdefault((amounts, roles), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append((self._capacities.setdefault(amounts, capacity), roles))
        return number

    def stopped(self, group: NodeGroup) -> frozenset[str]:
        """Return the resources of which such nodes state none."""
        found = self._stopped.get(id(group.highest))
        if found is None:
            found = frozenset(resource for resource, amount in group.highest.items() if not amount)
            self._stopped[id(group.highest)] = found
        return found


class _Group(NamedTuple):
    """What is known of a group: its names as they were, its parts with the numbers of their classes. `names` is kept,
    so that no other group gets its identity.
    """

    names: NodeNames
    ordered: tuple[str, ...]
    touched: int
    parts: tuple[tuple[int, tuple[str, ...]], ...]
    stopped: frozenset[str]


class _Seen(NamedTuple):
    """What a gang sees of a node alone: its name and labels of its own, if a role names them; the objects that have it
    as a member; its devices.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


_NOTHING_SEEN = _Seen("", (), (), ())


class _Class(NamedTuple):
    """What makes a class: the number of its kind, the values of the labels that it shows, its domains and devices."""

    kind: int
    shown: tuple[str | None, ...]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


def _picked(places: list[int]) -> Callable[[tuple[str | None, ...]], tuple[str | None, ...]]:
    """Return what takes the values at these places."""
    if not places:
        return lambda _: ()
    if len(places) == 1:
        only = slice(places[0], places[0] + 1)
        return lambda values: values[only]
    return itemgetter(*places)


def _is_own(nodes: Nodes, key: str) -> bool:
    """Whether a label divides the nodes into so many that each is better taken as one of its kind."""
    values = nodes.values_of(key)
    return len(values) > _FEW_VALUES and nodes.is_unique(key)


def _domains_of(asked: Asked) -> dict[str, tuple[tuple[int, str], ...]]:
    """Return the domains of each node, for partitions whose domains name their nodes."""
    found: dict[str, list[tuple[int, str]]] = {}
    for index, members in enumerate(asked.members):
        domains: Mapping[str, frozenset[str]] = members.value
        for domain, names in domains.items():
            for name in names:
                found.setdefault(name, []).append((index, domain))
    return {name: tuple(sorted(domains)) for name, domains in found.items()}
