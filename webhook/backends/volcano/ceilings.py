"""The Queues that limit a gang under Volcano: its own, and with hierarchical queues those above it.

A Queue limits what its `capability` names. A cpu or memory of 0 is no limit, but a device of 0 is. A Queue has its
`guarantee` in any case. `deserved` is no ceiling: it follows the requests of other queues. What the nodes have in total
is judged with the nodes.

Source: volcano-sh/volcano v1.15.1, pkg/scheduler/plugins/proportion/proportion.go, plugins/capacity/capacity.go
(`buildQueueAttrs`, `checkHierarchicalQueue`), pkg/scheduler/api/resource_info.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.backends.queue_tree import leaves, path_of, place_of
from webhook.backends.volcano.gangs import queue_named
from webhook.backends.volcano.keys import DEFAULT_QUEUE, OPEN, ROOT_QUEUE
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.fit.demand import MOST_TRIED, allows, requested
from webhook.fit.packing import Ceiling, Ceilings, Role
from webhook.fit.reading import VOLCANO
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Family, Scope
from webhook.model.amounts import Amounts
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.findings import shown
from webhook.model.known_objects import VolcanoQueue
from webhook.model.workloads.workload import QUEUE_ANNOTATIONS

_UNKNOWN_QUEUES = "the Volcano Queues are unknown"
_UNKNOWN_QUEUE = "the Volcano Queue {} is unknown"
_UNREADABLE = "an amount of the Volcano Queue {} cannot be read"
_DEFAULT = f"Volcano's webhook may put a gang in the queue {DEFAULT_QUEUE} into the queue of its namespace"
_PARENTS = "a Volcano Queue above {} may limit the gang; the profile's enableHierarchy says whether it does"
_KEYS = tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)
# 0 is no limit of these.
_NEVER_ZERO = frozenset({"cpu", "memory"})


def ceilings_of(
    shape: GangShape,
    roles: Mapping[str, Role],
    facts: ClusterFacts,
    settings: VolcanoSettings,
    queue: str | None = None,
) -> Ceilings:
    """Return the queues that limit a gang with these roles. `queue` is that of its PodGroup, where that is known."""
    name = queue or queue_named(shape.record, opted_in=shape.opted_in is not None) or settings.defaultQueue
    known = facts.volcano_queues
    if known is None:
        return Ceilings(unknown=(_UNKNOWN_QUEUES,))
    if queue == shape.queue and name == DEFAULT_QUEUE:
        return Ceilings(unknown=(_DEFAULT,))
    path = [(one, found) for one, found in path_of(name, known) if one != ROOT_QUEUE]
    unknown = [] if name in known else [_UNKNOWN_QUEUE.format(shown(name))]
    if not settings.enableHierarchy:
        if settings.enableHierarchy is None and any(found.limited for _, found in path[1:]):
            unknown.append(_PARENTS.format(shown(name)))
        path = path[:1]
    unknown += [_UNREADABLE.format(shown(one)) for one, found in path if _limit(found) is None]
    at = place_of(shape, _KEYS, ANNOTATIONS / VOLCANO_QUEUE)
    found = [_ceiling(name, one, _limit(queue) or {}, at) for one, queue in path]
    if all(allows(one, shape, roles) for one in found):
        return Ceilings(tuple(found), tuple(unknown))
    cure = _cure(name, shape, roles, known)
    return Ceilings(tuple(one._replace(cure=cure) for one in found), tuple(unknown))


def _ceiling(own: str, name: str, amounts: Amounts, at: FieldPath | None = None) -> Ceiling:
    called = "the Volcano Queue" if name == own else "the parent Volcano Queue"
    return Ceiling(called, name, amounts, Family.QUEUE, Scope.EVER, at=at, counted=requested)


def _limit(queue: VolcanoQueue) -> Amounts | None:
    """Return the most that a queue gives of what it limits; None if it cannot be read."""
    if queue.capability is None or queue.guarantee is None:
        return None
    return {
        resource: max(amount, queue.guarantee.get(resource, 0))
        for resource, amount in queue.capability.items()
        if (amount > 0 or resource not in _NEVER_ZERO) and not resource.startswith(VOLCANO.requests.unsure)
    }


def _cure(name: str, shape: GangShape, roles: Mapping[str, Role], known: Mapping[str, VolcanoQueue]) -> str:
    """Return the advice to name another queue that allows the gang, if one is known."""
    for other in leaves(known)[:MOST_TRIED]:
        if other in {name, ROOT_QUEUE, DEFAULT_QUEUE} or known[other].state != OPEN:
            continue
        if all(allows(one, shape, roles) for one in _every(other, known)):
            return f"name the Queue {shown(other)}, which allows it"
    return ""


def _every(name: str, known: Mapping[str, VolcanoQueue]) -> Iterator[Ceiling]:
    """Yield the ceilings of a queue and of all above it, whether these bind or not."""
    for one, queue in path_of(name, known):
        yield _ceiling(name, one, queue.capability or {})
