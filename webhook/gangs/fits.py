"""Whether gangs that wait can ever start, and what they lack now.

A judgement costs some milliseconds, and a thousand gangs may wait. So gangs of one shape are judged once, and again
only after a change of what the answer depends on. `ready` limits how many shapes are judged in a row; the others keep
the answer that they have until the next call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from webhook.config.settings import Profile
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Witness
from webhook.gangs.waiting_pods import PodShape
from webhook.model.keys import Record
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang

# Shapes that are judged at one look: each takes some milliseconds, and other tasks wait.
SHAPES_A_LOOK = 20
# Answers that are kept: of the shapes that were asked for last.
MEMORY = 2048

A = TypeVar("A")


class Waiting(NamedTuple):
    """A gang none of whose pods was on a node. `pods` has the shape of the stored pods of each member that has pods,
    and `counts` their number. `workload` is its PodCliqueSet, if known.
    """

    podgang: PodGang
    workload: PodCliqueSet | None
    profile: Profile
    record: Record
    pods: Mapping[str, PodShape]
    counts: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """Whether it has all pods that it needs to start."""
        return all(self.counts.get(member.name, 0) >= member.min_replicas for member in self.podgang.members)


def shape_key(gang: Waiting) -> Hashable:
    """What the answer about a gang depends on, besides the cluster: equal for gangs that differ in names only."""
    podgang = gang.podgang
    places = {member.name: place for place, member in enumerate(podgang.members)}
    return (
        gang.profile.name,
        podgang.namespace,
        podgang.workload_kind,
        gang.record,
        podgang.topology_name,
        podgang.constraint.required,
        tuple(
            (
                member.min_replicas,
                gang.counts.get(member.name, 0),
                member.constraint.required,
                gang.pods.get(member.name),
            )
            for member in podgang.members
        ),
        tuple(
            (tuple(places.get(name) for name in config.members), config.constraint.required)
            for config in podgang.group_configs
        ),
    )


class Memory(Generic[A]):
    """Answers by shape. An answer is old after `revision` has changed, and is judged again when it is asked for."""

    def __init__(self, shapes_a_look: int = SHAPES_A_LOOK) -> None:
        self.revision = 0
        self._most = self._left = shapes_a_look
        self._known: OrderedDict[Hashable, tuple[int, A]] = OrderedDict()
        # Whether an answer was not judged again for lack of time.
        self.is_behind = False

    def changed(self) -> None:
        """Judge every shape again when it is asked for."""
        self.revision += 1

    def look(self) -> None:
        """Begin a look: as many shapes as one look allows may be judged again."""
        self._left, self.is_behind = self._most, False

    def of(self, key: Hashable, judged: Callable[[], A]) -> A | None:
        """The answer for a shape; an old one, or None, if this look has judged enough shapes."""
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            if known[0] == self.revision:
                return known[1]
        if not self._left:
            self.is_behind = True
            return None if known is None else known[1]
        self._left -= 1
        found = judged()
        self._known[key] = self.revision, found
        while len(self._known) > MEMORY:
            self._known.popitem(last=False)
        return found


def unnamed(shape: GangShape) -> GangShape:
    """The shape with places for names, so that the answer is that for each gang of the shape."""
    places = {member.name: _place(index) for index, member in enumerate(shape.members)}
    return shape._replace(
        name="",
        members=tuple(member._replace(name=places[member.name]) for member in shape.members),
        subsets=tuple(
            one._replace(name=f"{_place(index)}-subset", members=tuple(places[name] for name in one.members))
            for index, one in enumerate(shape.subsets)
        ),
    )


def named(witness: Witness, names: Sequence[str]) -> Witness:
    """The witness with the names of a gang's members in their places."""

    def said(text: str) -> str:
        for index, name in enumerate(names):
            text = text.replace(_place(index), name)
        return text

    return replace(
        witness,
        why=said(witness.why),
        remedy=said(witness.remedy),
        members=tuple(said(member) for member in witness.members),
    )


def _place(index: int) -> str:
    """What stands for a member's name. No name has these characters."""
    return f"<{index}>"
