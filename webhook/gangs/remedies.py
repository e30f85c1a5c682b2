"""What can be done for a gang that its scheduler or its cluster left behind (no I/O): one remedy for each cause.

The gentlest remedy comes first. A scheduler that forgot a gang is woken by a change of the gang's own PodGroup; a pod
is replaced only if that did not help. A pod on a node is never touched, and only pods that Grove makes are deleted: a
Job counts a deleted pod as a failure, and a LeaderWorkerSet recreates its whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from webhook.backends.base import Wake
from webhook.config.settings import Profile
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.gangs.escapes import Escape
from webhook.gangs.health import GangHealth, GangState, Observed
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import POD_GANG
from webhook.gangs.members import GangPod
from webhook.gangs.object_plan import PROTECTION, SkipReason, left_behind, other_owner
from webhook.gangs.pod_reasons import tallies
from webhook.model import grove
from webhook.model.keys import Api
from webhook.model.place import POD_CLIQUES, label_value
from webhook.model.reading import Manifest, integer, mapping

# A gang is woken so often before one of its pods is replaced.
WAKES_BEFORE_REPLACING = 2
# koord-scheduler may still count pods that are gone, so that one more than there are is not enough.
_FAR_ABOVE = 1000
# How many names a text lists before "and N more".
_NAMED = 3
# What schedulers say of a pod that found no node.
_OF_NODES = "nodes are available"
# The reasons of a gang that lacks nothing but its scheduler's attention, as far as it is known.
_LACKS_NOTHING = frozenset(
    {GangReason.LOST_MEMBERS, GangReason.IN_PART, GangReason.NO_ROOM, GangReason.SILENT, GangReason.UNOWNED}
)


class RemedyCause(StrEnum):
    """Why a gang needs a remedy: a value of the configuration, and a metric's label."""

    # Its pods and objects are right, and its scheduler does not try them.
    FORGOTTEN = "forgotten"
    # An object of an earlier gang is in the place of its own.
    OBJECT_LEFT = "objectLeft"
    # A pod names a group that is no longer its own.
    OLD_MEMBERSHIP = "oldMembership"
    # Grove has not noticed pods that it made, and keeps its gate on them until it reconciles their set.
    GROVE_GATE = "groveGate"


class Act(StrEnum):
    """What a remedy does; the action of an event."""

    WAKE = "wake"
    REPLACE = "replace"
    RELEASE = "release"
    DELETE = "delete"
    TRIGGER = "trigger"


class Remedy(NamedTuple):
    """One remedy: what was `found`, and what is `done` about it.

    `target` is the object that is changed or deleted. `pods` are on no node: those that a wake marks, or those that are
    replaced; `later` are the pods over the limit, which the next remedy deletes. `raised` is the minimum of the target
    during a wake: more than any number of pods.
    """

    cause: RemedyCause
    act: Act
    problem: str
    done: str
    target: Manifest | None = None
    pods: tuple[GangPod, ...] = ()
    wake: Wake | None = None
    raised: int = 0
    later: tuple[GangPod, ...] = ()

    @property
    def weight(self) -> int:
        """What it counts for in the limit on remedies: each deleted pod counts."""
        return len(self.pods) if self.act is Act.REPLACE else 1

    def limit_weight(self, weight: int) -> Remedy:
        """Returns the same remedy with at most that weight, at least 1."""
        if self.weight <= weight:
            return self
        pods = self.pods[:weight]
        return self._replace(done=_deleted(pods), pods=pods, later=self.pods[weight:])

    @property
    def api(self) -> Api | None:
        """The kind of the target."""
        if self.target is None:
            return None
        group, _, version = str(self.target["apiVersion"]).rpartition("/")
        return Api(group, version, str(self.target["kind"]))


# Whether a pod is excepted from deletion.
Excepted = Callable[[GangPod], bool]


def nothing_excepted(_: GangPod) -> bool:
    return False


def may_need_remedy(health: GangHealth) -> bool:
    """Returns whether `needed_remedy` may find a remedy; cheap, for each judgement."""
    reasons = {obstacle.reason for obstacle in health.obstacles}
    if GangReason.OBJECT_LEAVING in reasons or any(escaped.escape is Escape.FOREIGN for escaped in health.escaped):
        return True
    return health.unnamed > 0 or _lacks_nothing(health)


def _lacks_nothing(health: GangHealth) -> bool:
    """Returns whether a gang lacks nothing but its scheduler's attention, as far as it is known."""
    held = health.state in {GangState.HELD, GangState.IN_PART} and bool(health.obstacles)
    return held and all(obstacle.reason in _LACKS_NOTHING for obstacle in health.obstacles) and _has_room(health)


def needed_remedy(
    health: GangHealth,
    seen: Observed,
    tried: int = 0,
    excepted: Excepted = nothing_excepted,
    causes: Collection[str] = frozenset(RemedyCause),
) -> Remedy | None:
    """Returns the first remedy of a gang for one of `causes`; None if it needs none, or none is known. `tried` is how
    often it was woken in vain. Raises `Malformed`.
    """
    return next((remedy for remedy in _remedies(health, seen, tried, excepted) if remedy.cause in causes), None)


def _remedies(health: GangHealth, seen: Observed, tried: int, excepted: Excepted) -> Iterator[Remedy]:
    profile = seen.settings.profiles.get(health.scheduler or "")
    if profile is None:
        return
    yield from _left_objects(seen)
    yield from _old_members(health, profile, excepted)
    if _lacks_nothing(health):
        yield from _forgotten(health, seen, profile, tried, excepted)
    yield from _unnamed_pods(seen)


def _left_objects(seen: Observed) -> Iterator[Remedy]:
    """Yields remedies for objects in the place of the gang's own: one of an earlier gang of the name, and a PodGroup
    that is being deleted and that its running pods keep.
    """
    for live in _live_objects(seen):
        metadata, name = live["metadata"], f"{live['kind']} {live['metadata']['name']}"
        if metadata.get("deletionTimestamp") is not None:
            if metadata.get("finalizers") == [PROTECTION]:
                problem = f"{name} is being deleted, and its finalizer {PROTECTION} keeps it while its pods run"
                done = f"removed the finalizer of {name}, so that it is written again; running pods are not affected"
                yield Remedy(RemedyCause.OBJECT_LEFT, Act.RELEASE, problem, done, live)
        elif left_behind(live, seen.podgang):
            problem = f"{name} still belongs to an earlier {seen.podgang.owner.kind} of this name"
            yield Remedy(
                RemedyCause.OBJECT_LEFT, Act.DELETE, problem, f"deleted {name}, so that it is written again", live
            )


def _old_members(health: GangHealth, profile: Profile, excepted: Excepted) -> Iterator[Remedy]:
    """Yields a remedy for pods that name a group by a mark of their scheduler, and not that of their gang."""
    if health.kind != POD_GANG:
        return
    keys = {mark.key for marks in profile.backend.membership for mark in marks}
    pods = tuple(
        escaped.pod
        for escaped in health.escaped
        if escaped.escape is Escape.FOREIGN
        and any(key in field for key in keys for field in escaped.fields)
        and _is_replaceable(escaped.pod, excepted)
    )
    if pods:
        problem = f"{_names(pods)}: on no node, and marked for a group that is not that of the gang"
        yield Remedy(RemedyCause.OLD_MEMBERSHIP, Act.REPLACE, problem, _deleted(pods), None, pods)


def _unnamed_pods(seen: Observed) -> Iterator[Remedy]:
    """Yields a remedy for pods with Grove's gate that the PodGang does not name: Grove names them, and then removes the
    gate, when it reconciles their PodCliqueSet.
    """
    owner = seen.podgang.pod_clique_set
    pods = seen.roster.unnamed_with_gate
    if pods and owner is not None and owner.uid is not None:
        problem = f"{_names(pods)}: made by Grove, and not named by the PodGang yet, so that Grove's gate stays"
        done = f"annotated PodCliqueSet {owner.name} with {grove.RECONCILE_TRIGGER}, so that Grove reconciles it"
        metadata = {"name": owner.name, "namespace": seen.podgang.namespace, "uid": owner.uid}
        target = {"apiVersion": owner.api_version, "kind": owner.kind, "metadata": metadata}
        yield Remedy(RemedyCause.GROVE_GATE, Act.TRIGGER, problem, done, target)


def _forgotten(
    health: GangHealth, seen: Observed, profile: Profile, tried: int, excepted: Excepted
) -> Iterator[Remedy]:
    """Yields a remedy for a complete gang that its scheduler does not try, although there seems to be room."""
    wake = profile.backend.wake
    if wake is None:
        return
    short = [tally for tally in tallies(seen.podgang, seen.roster.members) if not tally.started]
    waiting = tuple(pod for tally in short for pod in tally.pods if pod.node is None)
    members = {None, *(label_value(tally.member.name) for tally in short)}
    # One group at a time: a raised minimum would take the pods of the others out of the scheduler's cycle.
    targets = [
        live
        for live in _live_objects(seen)
        if mapping(live["metadata"].get("labels")).get(seen.podgang.member_label) in members
    ]
    if not waiting or not targets or any(pod.gates for pod in waiting):
        return
    problem = f"{profile.name} does not try {_names(waiting)}, although nothing is missing"
    if tried >= WAKES_BEFORE_REPLACING and health.kind == POD_GANG and _may_replace(health):
        pods = tuple(pod for pod in waiting if _is_replaceable(pod, excepted))[:1]
        if pods:
            done = f"{_deleted(pods)}; it had been woken {tried} times"
            yield Remedy(RemedyCause.FORGOTTEN, Act.REPLACE, problem, done, None, pods)
            return
    target = targets[tried % len(targets)]
    name = f"{target['kind']} {target['metadata']['name']}"
    if wake is Wake.ANNOTATE:
        yield Remedy(RemedyCause.FORGOTTEN, Act.WAKE, problem, f"annotated {name}", target, (), wake)
        return
    minimum = integer(mapping(target.get("spec")).get("minMember")) or 0
    raised = max(minimum, len(seen.roster.pods)) + _FAR_ABOVE
    done = f"annotated the waiting pods; raised minMember of {name} from {minimum} to {raised}, and set it back"
    yield Remedy(RemedyCause.FORGOTTEN, Act.WAKE, problem, done, target, waiting, wake, raised)


def _has_room(health: GangHealth) -> bool:
    """Returns whether there seems to be room: by the estimate, or because the scheduler says nothing of nodes."""
    if health.has_room is not None:
        return health.has_room
    return all(_OF_NODES not in obstacle.why for obstacle in health.obstacles if obstacle.reason is GangReason.NO_ROOM)


def _may_replace(health: GangHealth) -> bool:
    """Returns whether its scheduler is known to work, and there to be room: else a new pod would not help."""
    is_silent = any(obstacle.reason is GangReason.SILENT for obstacle in health.obstacles)
    return health.has_room is True or (health.state is GangState.IN_PART and is_silent)


def _is_replaceable(pod: GangPod, excepted: Excepted) -> bool:
    """Returns whether a pod may be deleted: Grove recreates it, and it is on no node."""
    is_groves = pod.controller is not None and pod.controller.kind == POD_CLIQUES.api.kind
    return is_groves and pod.counts and pod.node is None and not excepted(pod)


def _live_objects(seen: Observed) -> list[Manifest]:
    """Returns the existing objects in the places of those that the gang should have, without those of other owners."""
    try:
        planned = seen.plan()
        if isinstance(planned, SkipReason):
            return []
        live_objects = [live for desired in planned.objects if (live := seen.live(desired)) is not None]
    except (FactsUnavailable, Inexpressible):
        return []
    return [live for live in live_objects if left_behind(live, seen.podgang) or other_owner(live, seen.podgang) is None]


def _deleted(pods: Sequence[GangPod]) -> str:
    return f"deleted {_names(pods)}, which Grove recreates"


def _names(pods: Sequence[GangPod]) -> str:
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"{'pod' if len(pods) == 1 else 'pods'} {', '.join(pod.name for pod in pods[:_NAMED])}{more}"
