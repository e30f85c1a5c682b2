"""Queues of any scheduler as a tree: parents, children and missing ancestors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from webhook.fit.shape import GangShape
from webhook.model.capabilities import Use
from webhook.model.fields import METADATA, FieldPath
from webhook.model.findings import Finding, Unjudged, shown
from webhook.model.known_objects import QueueTree
from webhook.validators import opted_in_names
from webhook.validators.gang_scheduler import Limit
from webhook.validators.opted_in_names import Key
from webhook.validators.registry import Results

# How many queues are suggested in place of a wrong one.
_OFFERED = 3


class Queue(Protocol):
    """The fields that every scheduler's queue has."""

    @property
    def parent(self) -> str | None:
        """The queue above it."""

    @property
    def limited(self) -> bool:
        """Whether it limits the resources of its gangs."""


Q = TypeVar("Q", bound=Queue)


def children_of(name: str, queues: Mapping[str, Q]) -> dict[str, Q]:
    """The queues directly below a queue."""
    if isinstance(queues, QueueTree):
        return {other: queues[other] for other in queues.having(name)}
    return {other: queue for other, queue in queues.items() if queue.parent == name}


def leaves(queues: Mapping[str, Queue]) -> list[str]:
    """The queues without children, assuming that these are all queues."""
    if isinstance(queues, QueueTree):
        return queues.leaves
    parents = {queue.parent for queue in queues.values()}
    return sorted(name for name in queues if name not in parents)


def judged_once(named: Iterable[Use], judge: Callable[[Use], Results]) -> Results:
    """The results of `judge` for each place that names a queue. Each queue is judged once even if many places name it,
    because judging may search all queues of the cluster.
    """
    judged: dict[str, list[Finding | Unjudged]] = {}
    for use in named:
        if use.value not in judged:
            judged[use.value] = list(judge(use))
        yield from (replace(result, at=use.path) for result in judged[use.value])


def place_of(shape: GangShape, keys: Sequence[Key], unnamed: FieldPath) -> FieldPath:
    """The field in which the author of a gang names its queue or quota, by the first of `keys` that has a name: of the
    workload before its templates. `unnamed` if there is none.
    """
    if shape.opted_in is not None:
        return next((use.path for use in opted_in_names.named(shape.opted_in.workload, keys, keys)), unnamed)
    holders = [(METADATA, {"labels": shape.labels, "annotations": shape.annotations})]
    for member in shape.members:
        template = member.template
        path = FieldPath(template.labels_path.parts[:-1])
        holders.append((path, {"labels": template.labels, "annotations": template.annotations}))
    for path, metadata in holders:
        for holder, key in keys:
            if metadata[holder].get(key):
                return path / holder / key
    return unnamed


def offered(names: Iterable[str]) -> tuple[str, ...]:
    """The first few names, as many as are suggested."""
    return tuple(names)[:_OFFERED]


def missing_ancestor(
    parent: str | None, queues: Mapping[str, Queue], built_in: Container[str | None] = ()
) -> str | None:
    """The first of `parent` and its ancestors that does not exist and is not in `built_in`. In a cycle no queue is
    missing.
    """
    passed: set[str] = set()
    while parent and parent not in built_in and parent not in passed:
        if parent not in queues:
            return parent
        passed.add(parent)
        parent = queues[parent].parent
    return None


def repeated_ancestor(name: str, parent: str, queues: Mapping[str, Queue]) -> str | None:
    """The queue that is reached twice on the way up, if `parent` is the parent of `name`; None without a cycle."""
    passed = {name}
    above: str | None = parent
    while above and above not in passed:
        passed.add(above)
        found = queues.get(above)
        above = None if found is None else found.parent
    return above or None


def path_of(name: str, queues: Mapping[str, Q]) -> Iterator[tuple[str, Q]]:
    """A queue and the queues above it, as far as they exist. Each queue of a cycle is returned once."""
    above: str | None = name
    passed: set[str] = set()
    while above and above not in passed and (found := queues.get(above)) is not None:
        yield above, found
        passed.add(above)
        above = found.parent


def limits_of(name: str, queues: Mapping[str, Queue] | None, called: str, root: str | None = None) -> Iterator[Limit]:
    """A queue and its ancestors, as far as they have a limit. The `root` of all queues has that of the cluster."""
    for above, found in path_of(name, queues or {}):
        if above == root:
            return
        if found.limited:
            yield Limit(called, above, name)


def disagreeing(named: Iterable[Use], remedy: str) -> Iterator[Finding]:
    """One finding for each place that names another queue than the first place."""
    uses = list(named)
    for use in uses[1:]:
        first = uses[0]
        if use.value != first.value:
            yield Finding(
                at=use.path,
                found=use.value,
                why=f"all pods of a gang are in one queue, and {first.path} is {shown(first.value)}",
                remedy=remedy,
            )
