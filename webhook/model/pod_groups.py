"""Groups of pods that schedulers read: the trees of the Workload API, Koordinator's PodGroups with their GangGroups,
and pods that wait as members of a group.

A tree is walked up from any of its groups and down through its composites, never over all its leaves: a namespace may
have thousands. Groups in a cycle have no root. The request that closes a cycle is refused if the rest of the cycle is
known; requests at the same instant do not see each other. Of waiting pods only the group and the scheduler name are
kept, and a group of thousands is checked as fast as a group of two. Source: k8s.io/api scheduling (1.35 to 1.37),
KEP-6012; koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go,
apis/extension/network_topology.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from webhook.model.bounds import is_cut
from webhook.model.capabilities import Disruption
from webhook.model.keys import ObjectKey, SharedClaim
from webhook.model.known_objects import Indexed, Overlay
from webhook.model.projections import Resource
from webhook.model.reading import mapping, text

K = TypeVar("K", bound=tuple[Any, ...])


def circles(starts: Iterable[K], above: Callable[[K], K | None]) -> list[tuple[K, ...]]:
    """Returns the cycles that the ways up from `starts` end in: each once, in the order of the way, beginning with the
    smallest key.

    Each key is visited once, so the cost is the number of ancestors of the starts.
    """
    # By key: the number of the way that visited it first. A way that meets itself is a cycle.
    met: dict[K, int] = {}
    cycles = []
    for number, start in enumerate(starts):
        way: list[K] = []
        key: K | None = start
        while key is not None and key not in met:
            met[key] = number
            way.append(key)
            key = above(key)
        if key is not None and met[key] == number:
            around = way[way.index(key) :]
            first = around.index(min(around))
            cycles.append((*around[first:], *around[:first]))
    return cycles


# The levels of a tree, including its leaves, that a Workload can declare (WorkloadMaxTreeDepth, k8s.io/api
# scheduling/v1beta1).
MAX_DEPTH = 4


class Trees(NamedTuple):
    """The kind of groups that can form a tree, and the spec field that names a group's parent."""

    resource: Resource
    parent: str


@dataclass(frozen=True, slots=True)
class TreeGroup:
    """A PodGroup or a CompositePodGroup, or a template of one. `minimum` is the number of pods, or child groups, that
    it starts with; None for a group that is not a gang. `workload` and `template` name what it was made from.
    `preemption` is its preemption policy, and `claims` has the first of its claims, up to a limit.
    """

    composite: bool
    minimum: int | None
    parent: str | None = None
    workload: str | None = None
    template: str | None = None
    disruption: Disruption = Disruption.SINGLE
    topology: str | None = None
    priority_class: str | None = None
    priority: int | None = None
    preemption: str | None = None
    claims: tuple[SharedClaim, ...] = ()


class WorkloadTemplates(NamedTuple):
    """A Workload's templates by name; the `parent` of each names the template above it."""

    templates: Mapping[str, TreeGroup]

    def below(self, name: str) -> int:
        """Returns the number of templates directly below a template."""
        return sum(template.parent == name for template in self.templates.values())


class Groups(Indexed[ObjectKey, TreeGroup]):
    """Groups by namespace and name, indexed by their parent as well, whether the parent exists or not."""

    @staticmethod
    def terms(key: ObjectKey, value: TreeGroup) -> Iterable[Hashable]:
        """Returns the parent of the group."""
        return () if value.parent is None else ((key[0], value.parent),)

    def below(self, parent: ObjectKey) -> Iterable[ObjectKey]:
        """Returns the groups directly below a group, whether that group exists or not."""
        return self.having(parent)

    def overlaid(self, changes: Mapping[ObjectKey, TreeGroup | None]) -> Groups:
        """Returns these groups with some changed (None for a removed one), without a copy of all."""
        return _OverlaidGroups(self, changes)


class _OverlaidGroups(Overlay[ObjectKey, TreeGroup], Groups):
    """Groups with a few changes."""


def ancestors(
    key: ObjectKey, group: TreeGroup, composites: Mapping[ObjectKey, TreeGroup]
) -> Iterator[tuple[ObjectKey, TreeGroup]]:
    """Yields the known ancestors of a group, nearest first, up to the greatest height of a tree, so that the walk also
    ends in a cycle. The last one may be the group itself, which is then its own ancestor.
    """
    for _ in range(MAX_DEPTH):
        if group.parent is None:
            return
        above = (key[0], group.parent)
        parent = composites.get(above)
        if parent is None:
            return
        yield above, parent
        group = parent


@dataclass(frozen=True, slots=True, order=True)
class GatherRule:
    """One entry of a network-topology-spec's `gatherStrategy`."""

    layer: str
    strategy: str
    pod_count_multiple: int


class KoordinatorPodGroup(NamedTuple):
    """A PodGroup as koord-scheduler reads it. `groups` are the ids (`namespace/name`) of its GangGroup, sorted, as
    `list_kept` keeps them; only its own id if it lists none that can be read. `topology` is None if it has none that
    can be read.
    """

    minimum: int
    groups: tuple[str, ...]
    topology: tuple[GatherRule, ...] | None = None


class KoordinatorPodGroups(Indexed[ObjectKey, KoordinatorPodGroup]):
    """PodGroups by namespace and name, indexed by the ids that they list, so that no search is needed."""

    @staticmethod
    def terms(key: ObjectKey, value: KoordinatorPodGroup) -> Iterable[Hashable]:
        """Returns the ids of the others that it lists, separately for its own and for other namespaces, and the
        namespace of one whose list is too long to keep.
        """
        cut = {_too_long_in(key[0])} if is_cut(value.groups) else set()
        home = f"{key[0]}/"
        return {id_ if id_.startswith(home) else _abroad(id_) for id_ in value.groups} - {gang_id(key)} | cut

    def listing(self, key: ObjectKey) -> Set[ObjectKey]:
        """Returns the other PodGroups of its namespace that list this one, whether this one exists or not."""
        return self.having(gang_id(key))

    def listing_from_abroad(self, key: ObjectKey) -> Set[ObjectKey]:
        """Returns the PodGroups of other namespaces that list this one, whether this one exists or not."""
        return self.having(_abroad(gang_id(key)))

    def too_long(self, namespace: str) -> Set[ObjectKey]:
        """Returns the PodGroups of a namespace whose lists are too long to keep and may name further gangs."""
        return self.having(_too_long_in(namespace))

    def overlaid(self, changes: Mapping[ObjectKey, KoordinatorPodGroup | None]) -> KoordinatorPodGroups:
        """Returns these PodGroups with some of them changed (None for a removed one), without a copy."""
        return _OverlaidGangGroups(self, changes)


class _OverlaidGangGroups(Overlay[ObjectKey, KoordinatorPodGroup], KoordinatorPodGroups):
    """PodGroups with a few changes."""


def _abroad(listed: str) -> Hashable:
    return "abroad", listed


def _too_long_in(namespace: str) -> Hashable:
    return "too long", namespace


def gang_id(key: ObjectKey) -> str:
    """Returns the id of a gang in koord-scheduler."""
    return "/".join(key)


@dataclass(frozen=True, slots=True)
class GroupPod:
    """One waiting pod. `group` is named as its backend names groups, and is different in each namespace."""

    group: Hashable
    scheduler: str


class GroupPods(Indexed[ObjectKey, GroupPod]):
    """Pods by namespace and name, indexed by their group and scheduler as well."""

    def __init__(self, pods: Mapping[ObjectKey, GroupPod] | None = None) -> None:
        # By group: the schedulers that its pods name, in the order in which they were added.
        self._schedulers: dict[Hashable, dict[str, None]] = {}
        super().__init__(pods)

    @staticmethod
    def terms(_: ObjectKey, value: GroupPod) -> Iterable[Hashable]:
        """Returns the group and the scheduler of the pod, which are the value itself."""
        return (value,)

    def pod_of_another_scheduler(self, group: Hashable, scheduler: str, besides: ObjectKey) -> ObjectKey | None:
        """Returns one pod of a group that names another scheduler and is not `besides`; None if all agree."""
        return self._other(group, scheduler, frozenset({besides}))

    def overlaid(self, changes: Mapping[ObjectKey, GroupPod | None]) -> GroupPods:
        """Returns these pods with some changed (None for one that no longer waits), without a copy of all."""
        return _OverlaidPods(self, changes)

    def _other(self, group: Hashable, scheduler: str, without: frozenset[ObjectKey]) -> ObjectKey | None:
        for name in self._schedulers.get(group, ()):
            if name != scheduler:
                # Of an overlay the changed pods alone.
                pods = Indexed.having(self, GroupPod(group, name))
                other = next((key for key in pods if key not in without), None)
                if other is not None:
                    return other
        return None

    def __setitem__(self, key: ObjectKey, value: GroupPod) -> None:
        super().__setitem__(key, value)
        self._schedulers.setdefault(value.group, {})[value.scheduler] = None

    def _forget(self, key: ObjectKey) -> None:
        before = self.get(key)
        super()._forget(key)
        if before is not None and not self.having(before):
            names = self._schedulers[before.group]
            del names[before.scheduler]
            if not names:
                del self._schedulers[before.group]


class _OverlaidPods(Overlay[ObjectKey, GroupPod], GroupPods):
    """Pods with a few changes."""

    _base: GroupPods

    def _other(self, group: Hashable, scheduler: str, without: frozenset[ObjectKey]) -> ObjectKey | None:
        other = super()._other(group, scheduler, without)
        return other if other is not None else self._base._other(group, scheduler, without | self._changed)


def waits(raw: Mapping[str, Any]) -> bool:
    """Returns whether a pod has no node, has not ended and is not being deleted. Raises `Malformed`."""
    status, metadata = mapping(raw.get("status")), mapping(raw.get("metadata"))
    over = text(status.get("phase")) in {"Succeeded", "Failed"} or metadata.get("deletionTimestamp") is not None
    return not over and not text(mapping(raw.get("spec")).get("nodeName"))
