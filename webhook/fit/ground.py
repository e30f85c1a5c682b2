"""The ground: a room prepared for the roles of a gang, so that conditions are sums of integers.

Roles that nothing can tell apart are one *kind*. Classes of nodes that differ only in their names and domains are one
*shape*. An *area* is a part of the nodes, as counts of shapes: the whole room, or one domain of a partition. A
conflict says which kinds cannot share a node or a value of a label; it is symmetric, because the scheduler checks the
anti-affinity of running pods too. The ground does not depend on how many pods there are. It is kept with the room, so
that a second gang of the same template finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from webhook.fit.packing import OWN_VALUE, NodeClass, PackingRole, Room
from webhook.fit.pod_needs import DeviceNeed

ALL_ADDRESSES = ("", "0.0.0.0")  # noqa: S104 - what a pod may state; nothing is opened


class Conflicts(NamedTuple):
    """By kind, as bit masks of kinds. `node`: kinds that share no node. `apart`: by label key, kinds that share no
    value of it. `most`: by label key and kind, the most pods in each value.
    """

    node: tuple[int, ...]
    apart: dict[str, tuple[int, ...]]
    most: dict[str, tuple[int | None, ...]]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(sorted({*self.apart, *self.most}))


def conflicts_of(roles: Sequence[PackingRole], kind_of: Mapping[str, int], values: Mapping[str, int]) -> Conflicts:
    """Returns the conflicts of roles. `kind_of` numbers them, and roles of one kind are equal. `values` is how many
    values each label key may have: a spread constraint counts only if it wants more of them than there can be.
    """
    kinds = len(set(kind_of.values()))
    apart: dict[str, list[int]] = {}
    most: dict[str, list[int | None]] = {}
    for role in roles:
        kind = kind_of[role.name]
        for rule in role.pods.apart:
            rows = apart.setdefault(rule.key, [0] * kinds)
            for name in rule.roles:
                if (matched := kind_of.get(name)) is not None:
                    rows[kind] |= 1 << matched
                    rows[matched] |= 1 << kind
        for limit in role.pods.spread:
            if values.get(limit.key, 0) >= limit.min_domains:
                continue
            limits = most.setdefault(limit.key, [None] * kinds)
            before = limits[kind]
            limits[kind] = limit.most if before is None else min(before, limit.most)
    return Conflicts(
        _port_conflicts(roles, kind_of, kinds),
        {key: tuple(rows) for key, rows in apart.items() if any(rows)},
        {key: tuple(limits) for key, limits in most.items()},
    )


def _port_conflicts(roles: Sequence[PackingRole], kind_of: Mapping[str, int], kinds: int) -> tuple[int, ...]:
    """Returns, by kind, the kinds with a host port in common. The work grows with the ports, not their pairs."""
    used: dict[tuple[int, str], dict[str, set[int]]] = {}
    for role in roles:
        for port in role.pods.ports:
            addresses = used.setdefault((port.number, port.protocol), {})
            addresses.setdefault(port.address, set()).add(kind_of[role.name])
    conflicting = [0] * kinds
    for addresses in used.values():
        masks = {address: sum(1 << kind for kind in users) for address, users in addresses.items()}
        everywhere = reduce(or_, (mask for address, mask in masks.items() if address in ALL_ADDRESSES), 0)
        every = reduce(or_, masks.values())
        for address, users in addresses.items():
            overlapping = every if address in ALL_ADDRESSES else masks[address] | everywhere
            for kind in users:
                conflicting[kind] |= overlapping
    return tuple(conflicting)


# Stands for a node group that grows without limit: more nodes than any gang has pods.
UNLIMITED = 1 << 40
# "Devices of driver X" as a resource; "" is all drivers together. No resource name has a space.
DEVICES = "devices of "
# A room keeps the grounds of so many kinds of gangs.
_KEPT = 8


class NodeShape(NamedTuple):
    """Equal nodes. `kinds` may use them (a bit mask). `cells`: for each key of a conflict, the value that these nodes
    share, `OWN_VALUE` if each has its own, None if they are not restricted.
    """

    capacity: tuple[int, ...]
    kinds: int
    cells: tuple[str | None, ...]


class Area:
    """A part of the nodes: `counts` of shapes, and the classes that they come from. With `single` it is one node: any
    of its class, or the one with number `ordinal`. `nodes` is their number.
    """

    __slots__ = ("classes", "counts", "floors", "inner", "nodes", "ordinal", "shaped", "single", "totals")

    def __init__(self, counts: tuple[tuple[int, int], ...], classes: tuple[int, ...], *, single: bool = False) -> None:
        self.counts = counts
        self.classes = classes
        self.single = single
        self.nodes = sum(count for _, count in counts)
        self.ordinal: int | None = None
        # Worked out when first asked for, by `Ground`.
        self.floors: tuple[int, ...] | None = None
        self.totals: tuple[int, ...] | None = None
        self.shaped: dict[int, list[int]] | None = None
        self.inner: dict[Any, Any] = {}

    def node(self, ordinal: int) -> Area:
        """Returns the node with that number, where the area is of one class."""
        area = Area(self.counts, self.classes, single=True)
        area.ordinal, area.shaped = ordinal, self.shaped
        return area


class Ground:
    """The shapes, the kinds, and how many pods of each kind an empty node of each shape takes (`floors`)."""

    def __init__(self, roles: Sequence[PackingRole], room: Room) -> None:
        self.room = room
        self.kind_of = _kinds(roles, room)
        self.kinds = len(set(self.kind_of.values()))
        first: dict[int, PackingRole] = {}
        for role in roles:
            first.setdefault(self.kind_of[role.name], role)
        self.roles = tuple(first[kind] for kind in range(self.kinds))
        # Devices are resources: those of each driver, and of all drivers together.
        needed = [{**role.pods.request, **_devices(role.pods.devices)} for role in self.roles]
        shared = [_devices(need for claim in role.pods.shared_devices for need in claim.devices) for role in self.roles]
        requested = {name for amounts in needed + shared for name in amounts if amounts[name] > 0}
        self.resources = tuple(sorted(requested - room.unsure))
        self.requests = tuple(tuple(max(amounts.get(name, 0), 0) for name in self.resources) for amounts in needed)
        # What a pod shares with others by a claim: its node must have that beside what each pod has for itself.
        self.shared = tuple(tuple(amounts.get(name, 0) for name in self.resources) for amounts in shared)
        self.conflicts = conflicts_of(roles, self.kind_of, _label_values(roles, room))
        self.keys = self.conflicts.keys
        self.shapes, self.shape_of = self._shapes()
        self.node_conflicts, self.floors = self._conflicts_and_floors()
        self.shared_cells = any(cell not in (None, OWN_VALUE) for shape in self.shapes for cell in shape.cells)
        self.usable: dict[tuple[int, int], list[int]] = {}
        self._preferred: dict[int, list[int]] = {}
        self._largest: dict[int, float] = {}
        useful = [index for index, shape in enumerate(self.shape_of) if any(self.floors[shape])]
        self.whole = self.area(useful)

    def number(self, index: int) -> int:
        number = self.room.classes[index].number
        return UNLIMITED if number is None else number

    def area(self, classes: Sequence[int], *, single: bool = False) -> Area:
        counts: dict[int, int] = {}
        for index in classes:
            shape = self.shape_of[index]
            counts[shape] = counts.get(shape, 0) + (1 if single else self.number(index))
        return Area(tuple(sorted(counts.items())), tuple(classes), single=single)

    def floors_in(self, area: Area) -> tuple[int, ...]:
        """Returns, by kind, the most pods of it that can be in the area if there are no others."""
        if area.floors is None:
            floors = [0] * self.kinds
            for shape, count in area.counts:
                for kind, floor in enumerate(self.floors[shape]):
                    floors[kind] += floor * count
            area.floors = tuple(self._capped_by_cells(area, kind, floor) for kind, floor in enumerate(floors))
        return area.floors

    def totals_in(self, area: Area) -> tuple[int, ...]:
        """Returns, by resource, what all nodes of the area have."""
        if area.totals is None:
            totals = [0] * len(self.resources)
            for shape, count in area.counts:
                for k, have in enumerate(self.shapes[shape].capacity):
                    totals[k] += have * count
            area.totals = tuple(totals)
        return area.totals

    def shaped_in(self, area: Area) -> dict[int, list[int]]:
        if area.shaped is None:
            area.shaped = {}
            for index in area.classes:
                area.shaped.setdefault(self.shape_of[index], []).append(index)
        return area.shaped

    def preferred(self, kind: int) -> list[int]:
        """Returns the shapes that a kind may use, those first that fewest others may use and that waste least."""
        if (shapes := self._preferred.get(kind)) is None:
            usable = [shape for shape in range(len(self.shapes)) if self.floors[shape][kind]]
            shapes = self._preferred[kind] = sorted(usable, key=lambda shape: self._waste(shape, kind))
        return shapes

    def largest(self, kind: int) -> float:
        """Returns the largest part of all there is of a resource that a pod of a kind requests."""
        if (share := self._largest.get(kind)) is None:
            totals = self.totals_in(self.whole)
            parts = [want / have for want, have in zip(self.requests[kind], totals, strict=True) if have]
            share = self._largest[kind] = max(parts, default=0.0)
        return share

    def _waste(self, shape: int, kind: int) -> tuple[float, ...]:
        others = sum(1 for floor in self.floors[shape] if floor)
        left = 0.0
        for have, request in zip(self.shapes[shape].capacity, self.requests[kind], strict=True):
            if have:
                left += (have - request * self.floors[shape][kind]) / have
        return others, left

    def cell_caps(self, kind: int, key: int) -> int | None:
        """Returns how many pods of a kind each value of a conflict key may have."""
        name = self.keys[key]
        rows = self.conflicts.apart.get(name)
        most = self.conflicts.most.get(name)
        cap = None if most is None else most[kind]
        if rows is not None and rows[kind] >> kind & 1:
            return 1 if cap is None else min(cap, 1)
        return cap

    def _capped_by_cells(self, area: Area, kind: int, free: int) -> int:
        """Returns how many of the pods that would fit are left by what each value of a label may have."""
        for key in range(len(self.keys)):
            cap = self.cell_caps(kind, key)
            if cap is None:
                continue
            cells: dict[str, int] = {}
            uncapped = 0
            for shape, count in area.counts:
                cell = self.shapes[shape].cells[key]
                pods = self.floors[shape][kind] * count
                if cell is None or cell == OWN_VALUE:
                    uncapped += pods
                else:
                    cells[cell] = cells.get(cell, 0) + pods
            free = min(free, uncapped + sum(min(cap, pods) for pods in cells.values()))
        return free

    def _shapes(self) -> tuple[list[NodeShape], list[int]]:
        shapes: dict[NodeShape, int] = {}
        masks: dict[frozenset[str], int] = {}
        capacities: dict[tuple[int, int], tuple[int, ...]] = {}
        shared = _shared_values(self.keys, self.room)
        numbers = []
        by_identity: dict[tuple[int, int, int], int] = {}
        for node in self.room.classes:
            alike = id(node.roles), id(node.capacity), id(node.devices)
            if not self.keys and (index := by_identity.get(alike)) is not None:
                numbers.append(index)
                continue
            if (mask := masks.get(node.roles)) is None:
                mask = masks[node.roles] = sum(
                    1 << kind for kind in {self.kind_of[name] for name in node.roles if name in self.kind_of}
                )
            # Classes of equal nodes mostly share their maps.
            seen = id(node.capacity), id(node.devices)
            if (capacity := capacities.get(seen)) is None:
                capacity = capacities[seen] = tuple(_capacity(node, name) for name in self.resources)
            values = ((node.labels.get(key), shared[key]) for key in self.keys)
            cells = tuple(value if value is None or value in many else OWN_VALUE for value, many in values)
            by_identity[alike] = shapes.setdefault(
                NodeShape(capacity, self._spreadable(mask, node), cells), len(shapes)
            )
            numbers.append(by_identity[alike])
        return list(shapes), numbers

    def _spreadable(self, mask: int, node: NodeClass) -> int:
        """Returns the mask without the kinds that a spread constraint keeps off nodes without its key."""
        for key, most in self.conflicts.most.items():
            if key not in node.labels and not node.future:
                for kind, cap in enumerate(most):
                    if cap is not None:
                        mask &= ~(1 << kind)
        return mask

    def _conflicts_and_floors(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Returns, by shape, the kinds that share no node, and how many pods of each fit. Labels make no difference."""
        of_alike: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        of_shapes = []
        for shape in self.shapes:
            alike = shape.capacity, shape.kinds, tuple([cell is None for cell in shape.cells])
            if (both := of_alike.get(alike)) is None:
                # By ports, or as the node has a value of the key, which then only its own pods and those of its
                # neighbours share.
                rows = list(self.conflicts.node)
                for key, cell in zip(self.keys, shape.cells, strict=True):
                    if cell is not None and key in self.conflicts.apart:
                        rows = [mine | more for mine, more in zip(rows, self.conflicts.apart[key], strict=True)]
                conflicts = tuple(rows)
                both = of_alike[alike] = (
                    conflicts,
                    tuple(self._floor_on(shape, conflicts, kind) for kind in range(self.kinds)),
                )
            of_shapes.append(both)
        return [conflicts for conflicts, _ in of_shapes], [floors for _, floors in of_shapes]

    def _floor_on(self, shape: NodeShape, conflicts: tuple[int, ...], kind: int) -> int:
        if not shape.kinds >> kind & 1:
            return 0
        floor = UNLIMITED
        for have, request, shared in zip(shape.capacity, self.requests[kind], self.shared[kind], strict=True):
            if shared:
                floor = min(floor, max(have - shared, -1) // request if request else int(have >= shared) * UNLIMITED)
            elif request:
                floor = min(floor, have // request)
        if conflicts[kind] >> kind & 1:
            floor = min(floor, 1)
        for key, cell in enumerate(shape.cells):
            if cell is not None and (cap := self.cell_caps(kind, key)) is not None:
                floor = min(floor, cap)
        return max(floor, 0)


def ground_of(roles: Sequence[PackingRole], room: Room) -> Ground:
    """Returns the ground of roles in a room, worked out once for equal roles."""
    key = tuple((role.name, _signature(role)) for role in roles)
    kept: dict[Any, Ground] = room.memo
    if (ground := kept.get(key)) is None:
        if len(kept) >= _KEPT:
            kept.clear()
        ground = kept[key] = Ground(roles, room)
    return ground


def _signature(role: PackingRole) -> tuple[Any, ...]:
    pods = role.pods
    devices = tuple(need[:2] + need[3:] for need in pods.devices)
    shared = tuple((claim.claim, tuple(need[:2] + need[3:] for need in claim.devices)) for claim in pods.shared_devices)
    spread = tuple(limit[:3] for limit in pods.spread)
    apart = tuple((rule.key, rule.roles) for rule in pods.apart)
    return tuple(sorted(pods.request.items())), devices, shared, pods.ports, apart, spread


def _devices(needs: Iterable[DeviceNeed]) -> dict[str, int]:
    devices: dict[str, int] = {}
    for need in needs:
        for driver in {"", need.driver or ""}:
            devices[DEVICES + driver] = devices.get(DEVICES + driver, 0) + need.number
    return devices


def _capacity(node: NodeClass, resource: str) -> int:
    if resource == DEVICES:
        return node.devices.get("", sum(node.devices.values()))
    if resource.startswith(DEVICES):
        return node.devices.get(resource.removeprefix(DEVICES), 0)
    return max(node.capacity.get(resource, 0), 0)


def _kinds(roles: Sequence[PackingRole], room: Room) -> Mapping[str, int]:
    """Numbers the roles. Two are one kind if they have equal needs, may use the same nodes and conflict with none."""
    admitted = {node.roles for node in room.classes}
    apart_names = {name for role in roles for rule in role.pods.apart for name in rule.roles}
    numbers: dict[Any, int] = {}
    kinds: dict[str, int] = {}
    for role in roles:
        pods = role.pods
        alone = bool(pods.ports or pods.apart or pods.spread or role.name in apart_names)
        usable = frozenset(names for names in admitted if role.name in names)
        key: Any = role.name if alone else (_signature(role), usable)
        kinds[role.name] = numbers.setdefault(key, len(numbers))
    return kinds


def _label_values(roles: Sequence[PackingRole], room: Room) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key in {limit.key for role in roles for limit in role.pods.spread}:
        values = {node.labels[key] for node in room.classes if key in node.labels} - {OWN_VALUE}
        numbers = (node.number for node in room.classes if node.labels.get(key) == OWN_VALUE)
        distinct = sum(UNLIMITED if number is None else number for number in numbers)
        unseen = any(node.future and key not in node.labels for node in room.classes)
        counts[key] = UNLIMITED if unseen else len(values) + distinct
    return counts


def _shared_values(keys: Sequence[str], room: Room) -> dict[str, frozenset[str]]:
    """Returns, by key, the values that more than one node has."""
    shared = {}
    for key in keys:
        nodes: dict[str, int] = {}
        for node in room.classes:
            if (value := node.labels.get(key)) is not None and value != OWN_VALUE:
                nodes[value] = nodes.get(value, 0) + (UNLIMITED if node.number is None else node.number)
        shared[key] = frozenset(value for value, count in nodes.items() if count > 1)
    return shared
