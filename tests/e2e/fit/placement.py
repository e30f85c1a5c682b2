"""A plain placement, by which a case is drawn at its limit: pod by pod, on the emptiest node or on the fullest.

It proves nothing and knows only what the generator draws. The real scheduler decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.spelling import SLOTS


@dataclass
class NodeDraft:
    """A node as it is drawn: `room` in milli cpu and units. Nodes of one class have the same room."""

    class_name: str
    room: dict[str, int]
    labels: dict[str, str]
    taints: list[Manifest] = field(default_factory=list)


@dataclass
class RoleDraft:
    """Pods of one template as they are drawn. `selector`, `affinity` and `tolerations` are as in a pod spec; `ports`
    are number, protocol and address. No two pods share a value of node label `apart[0]` if the other has the label
    `apart[1]` as its value of "apart".
    """

    name: str
    request: dict[str, int]
    count: int = 1
    selector: dict[str, str] = field(default_factory=dict)
    terms: list[Manifest] = field(default_factory=list)
    tolerations: list[Manifest] = field(default_factory=list)
    ports: list[tuple[int, str, str]] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    apart: tuple[str, str] | None = None


# The roles whose pods are on each node.
Placed = list[list[RoleDraft]]


def may_use(role: RoleDraft, node: NodeDraft, name: str) -> bool:
    """Whether a pod of the role may be on the node with that name."""
    if any(node.labels.get(key) != value for key, value in role.selector.items()):
        return False
    if role.terms and not any(_term(term, node.labels, name) for term in role.terms):
        return False
    hard = [taint for taint in node.taints if taint["effect"] != "PreferNoSchedule"]
    return all(any(_tolerates(one, taint) for one in role.tolerations) for taint in hard)


def _term(term: Manifest, labels: Mapping[str, str], name: str) -> bool:
    fields = term.get("matchFields", [])
    wanted = [(one, {"metadata.name": name}) for one in fields]
    wanted += [(one, dict(labels)) for one in term.get("matchExpressions", [])]
    return bool(wanted) and all(_meets(one, values) for one, values in wanted)


def _meets(wanted: Manifest, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(wanted["key"]), wanted.get("values", [])
    match wanted["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case operator:
            try:
                here, there = int(value or ""), int(values[0])
            except ValueError:
                return False
            return here > there if operator == "Gt" else here < there


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") not in {None, "", taint["effect"]}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", "") in {"", taint["key"]}
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


class Floor:
    """Nodes with the pods that were put on them so far."""

    def __init__(self, nodes: Sequence[NodeDraft]) -> None:
        self.nodes = nodes
        self.placed: Placed = [[] for _ in nodes]

    def place(self, role: RoleDraft, number: int, on: Iterable[int], *, fullest: bool = False) -> bool:
        """Put so many pods of a role on nodes among `on`; on failure nothing is put."""
        before = [list(pods) for pods in self.placed]
        among = [index for index in on if may_use(role, self.nodes[index], f"@n{index}")]
        for _ in range(number):
            fitting = [index for index in among if self._fits(role, index)]
            if not fitting:
                self.placed = before
                return False
            best = (min if fullest else max)(fitting, key=self._free)
            self.placed[best].append(role)
        return True

    def used(self, index: int) -> dict[str, int]:
        """What the pods on a node need."""
        found = {SLOTS: len(self.placed[index])}
        for role in self.placed[index]:
            for name, amount in role.request.items():
                found[name] = found.get(name, 0) + amount
        return found

    def _free(self, index: int) -> float:
        used = self.used(index)
        shares = [1 - used.get(name, 0) / room for name, room in self.nodes[index].room.items() if room]
        return sum(shares) / max(len(shares), 1)

    def _fits(self, role: RoleDraft, index: int) -> bool:
        node, used = self.nodes[index], self.used(index)
        if used[SLOTS] + 1 > node.room.get(SLOTS, 0):
            return False
        if any(amount and used.get(name, 0) + amount > node.room.get(name, 0) for name, amount in role.request.items()):
            return False
        here = [(port, other) for other in self.placed[index] for port in other.ports]
        if any(_overlap(port, taken) for port in role.ports for taken, _ in here):
            return False
        return not any(self._apart(role, other, index, place) for place in range(len(self.nodes))
                       for other in self.placed[place])  # fmt: skip

    def _apart(self, role: RoleDraft, other: RoleDraft, index: int, place: int) -> bool:
        for one, two in ((role, other), (other, role)):
            if one.apart is not None and two.labels.get("apart") == one.apart[1]:
                here = self._value(index, one.apart[0])
                if here is not None and here == self._value(place, one.apart[0]):
                    return True
        return False

    def _value(self, index: int, key: str) -> str | None:
        return self.nodes[index].labels.get(key)


def _overlap(one: tuple[int, str, str], two: tuple[int, str, str]) -> bool:
    everywhere = {"", "0.0.0.0"}  # noqa: S104 - an address in a manifest
    return one[:2] == two[:2] and (one[2] == two[2] or bool(everywhere & {one[2], two[2]}))


@dataclass
class GroupDraft:
    """Roles or groups that are placed one after the other, all within one value of a node label if it names one. Of
    its parts `enough` are needed, None for all.
    """

    parts: list[RoleDraft | GroupDraft]
    within: str | None = None
    enough: int | None = None


def placed(nodes: Sequence[NodeDraft], top: GroupDraft) -> Floor | None:
    """The nodes with the whole gang on them; None if this plain placement finds no way."""
    for fullest in (False, True):
        floor = Floor(nodes)
        if _put(floor, top, list(range(len(nodes))), fullest=fullest):
            return floor
    return None


def _put(floor: Floor, part: RoleDraft | GroupDraft, on: list[int], *, fullest: bool) -> bool:
    if isinstance(part, RoleDraft):
        return floor.place(part, part.count, on, fullest=fullest)
    for among in _domains(floor, part.within, on):
        before = [list(pods) for pods in floor.placed]
        whole = sum(_put(floor, one, among, fullest=fullest) for one in part.parts)
        if whole >= (len(part.parts) if part.enough is None else part.enough):
            return True
        floor.placed = before
    return False


def _domains(floor: Floor, key: str | None, on: list[int]) -> list[list[int]]:
    if key is None:
        return [on]
    found: dict[str, list[int]] = {}
    for index in on:
        value = floor.nodes[index].labels.get(key)
        if value is not None:
            found.setdefault(value, []).append(index)
    return list(found.values())


def roles_of(part: RoleDraft | GroupDraft) -> list[RoleDraft]:
    """All roles in a group."""
    if isinstance(part, RoleDraft):
        return [part]
    return [role for one in part.parts for role in roles_of(one)]


def at_the_limit(nodes: Sequence[NodeDraft], top: GroupDraft, rng: Random, most: int) -> bool:
    """Raise the counts of the roles until one pod more of any finds no place; whether they fit at all. No more than
    `most` pods in all.
    """
    roles = roles_of(top)
    if placed(nodes, top) is None:
        return False
    growing = list(roles)
    while growing and sum(role.count for role in roles) < most:
        role = rng.choice(growing)
        step = rng.choice([1, 1, 2])
        role.count += step
        if placed(nodes, top) is None:
            role.count -= step
            if step == 1:
                growing.remove(role)
    return True
