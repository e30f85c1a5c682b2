"""What preemption leaves of gangs, counted at the API server: one watch on the pods of a namespace, and a sample of its
state each second.

An *episode* of a gang begins when one of its pods on a node is preempted. It ends when the gang runs whole again, or
when none of the pods that ran at its beginning runs any more. The gang was *left in part* in an episode if one of these
pods was not preempted, or if no single preemptor took them all and the last went much later than the first. Otherwise
it was preempted as a whole: between the deletion of its first and its last pod it is in part, too, and a sample may
show that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_operator import Played, pod_index
from tests.e2e.pod_watch import pods_seen, repeated, running

GANG = "grove.io/podgang"
CLIQUE = "grove.io/podclique"
PART_OF = "app.kubernetes.io/part-of"
# The condition with which the scheduler marks a victim before it deletes it.
_MARK = ("DisruptionTarget", "PreemptionByScheduler")
# Two preemptors may choose the same gang at one moment: each then deletes some of its pods. A preemption deletes its
# victims within a fraction of a second, also on a busy machine.
_ONE_MOMENT = 10.0


@dataclass
class Episode:
    """What preemption did to one gang. `seconds` are the samples at which it was in part."""

    gang: str
    pods: frozenset[str]
    taken: dict[str, float] = field(default_factory=dict)
    seconds: list[int] = field(default_factory=list)

    @property
    def lasted(self) -> float:
        """The time between its first and its last victim."""
        return max(self.taken.values()) - min(self.taken.values())

    def left(self, preemptors: Mapping[str, set[str]]) -> bool:
        """Whether the gang was left in part. `preemptors` are those of each victim."""
        if not self.pods <= self.taken.keys():
            return True
        by_one = set.intersection(*(preemptors.get(pod, set()) for pod in self.pods))
        return not by_one and self.lasted > _ONE_MOMENT


@dataclass
class _Gang:
    running: set[str] = field(default_factory=set)
    episode: Episode | None = None
    # What was seen of it: when, and what became of which pod.
    history: list[str] = field(default_factory=list)


class PreemptionWatch:
    """The gangs of a namespace as a watch shows them; all have the same minimum, which is also their size."""

    def __init__(self, minimum: int) -> None:
        self.episodes: list[Episode] = []
        # By uid of a victim, the uids of its preemptors. The scheduler's events say it.
        self.preemptors: dict[str, set[str]] = {}
        self.seconds = 0
        # The pods of gangs that are gone, for an operator to replace.
        self.gone: SimpleQueue[Manifest] = SimpleQueue()
        self._minimum = minimum
        self._gangs: dict[str, _Gang] = {}
        self._victims: set[str] = set()
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    def see(self, kind: str, pod: Manifest) -> None:
        """One event of the watch."""
        name = pod["metadata"].get("labels", {}).get(GANG)
        if name is None:
            return
        going = kind == "DELETED" or "deletionTimestamp" in pod["metadata"]
        with self._lock:
            gang = self._gangs.setdefault(name, _Gang())
            uid, runs = pod["metadata"]["uid"], "nodeName" in pod["spec"] and not going
            if _is_victim(pod) and uid not in self._victims:
                self._victims.add(uid)
                self._tell(gang, pod, "is preempted")
                if gang.episode is None and uid in gang.running:
                    gang.episode = Episode(name, frozenset(gang.running))
                    self.episodes.append(gang.episode)
                if gang.episode is not None:
                    gang.episode.taken[uid] = time.monotonic()
            if runs and uid not in gang.running:
                gang.running.add(uid)
                self._tell(gang, pod, f"is on {pod['spec']['nodeName']}")
            elif not runs and uid in gang.running:
                gang.running.remove(uid)
                self._tell(gang, pod, "is going")
            if (found := gang.episode) is not None and (
                not found.pods & gang.running or len(gang.running - found.taken.keys()) >= self._minimum
            ):
                gang.episode = None
        if kind == "DELETED":
            self.gone.put(pod)

    def _tell(self, gang: _Gang, pod: Manifest, what: str) -> None:
        gang.history.append(f"{time.monotonic() - self._begun:7.2f}  {pod['metadata']['name']} {what}")

    def sample(self) -> None:
        """Write down the state of this second."""
        with self._lock:
            self.seconds += 1
            for gang in self._gangs.values():
                if gang.episode is not None and 0 < len(gang.running) < self._minimum:
                    gang.episode.seconds.append(self.seconds)

    def whole(self, prefix: str = "") -> int:
        """How many gangs whose names begin so run whole."""
        with self._lock:
            return sum(
                name.startswith(prefix) and len(gang.running) >= self._minimum for name, gang in self._gangs.items()
            )

    @property
    def victims(self) -> int:
        """How many pods were preempted."""
        return len(self._victims)

    @property
    def left(self) -> list[Episode]:
        """The episodes in which a gang was left in part."""
        return [one for one in self.episodes if one.left(self.preemptors)]

    @property
    def left_at(self) -> list[int]:
        """How many gangs were left in part at each second."""
        found = [0] * (self.seconds + 1)
        for one in self.left:
            for second in one.seconds:
                found[second] += 1
        return found[1:]

    @property
    def history(self) -> str:
        """What was seen of the gangs that were left in part."""
        names = dict.fromkeys(one.gang for one in self.left)
        return "\n".join(line for name in names for line in (name, *self._gangs[name].history))

    def __str__(self) -> str:
        at, whole = self.left_at, [one for one in self.episodes if not one.left(self.preemptors)]
        longest = max((one.lasted for one in whole), default=0.0)
        seen = sum(len(one.seconds) for one in whole)
        return (
            f"{self.seconds} s, {self.victims} victims; preempted as a whole: {len(whole)} times, the longest in "
            f"{longest:.1f} s, seen on the way at {seen} samples; left in part: {len(self.left)} times, "
            f"{max(at, default=0)} gangs at the worst second, {sum(at)} gang seconds"
        )


def _is_victim(pod: Manifest) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any((one["type"], one.get("reason")) == _MARK for one in conditions)


def preemptors_in(plane: ControlPlane, namespace: str) -> dict[str, set[str]]:
    """By uid of a victim, the uids of its preemptors, as the scheduler's events say it."""
    found: dict[str, set[str]] = {}
    for one in plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"):
        if one["reason"] == "Preempted" and "related" in one:
            found.setdefault(one["regarding"]["uid"], set()).add(one["related"]["uid"])
    return found


@contextmanager
def watched(plane: ControlPlane, namespace: str, minimum: int) -> Iterator[PreemptionWatch]:
    """Watch and sample while the block runs."""
    found = PreemptionWatch(minimum)
    with pods_seen(plane, namespace, found.see), repeated(found.sample, 1):
        yield found
    found.preemptors = preemptors_in(plane, namespace)


@contextmanager
def replacing(found: PreemptionWatch, *sets: Played) -> Iterator[None]:
    """Create a pod in the place of each one that is gone, without a gate, as Grove's operator does, while the block
    runs.
    """
    stopped = threading.Event()
    by_name = {played.name: played for played in sets}
    cliques = {clique.name: clique for played in sets for clique in played.cliques}

    def replace() -> None:
        while not stopped.is_set():
            try:
                labels = (pod := found.gone.get(timeout=0.2))["metadata"]["labels"]
            except Empty:
                continue
            played = by_name[labels[PART_OF]]
            created = played.create_pod(cliques[labels[CLIQUE]], pod_index(pod))
            played.patch("pods", created["metadata"]["name"], {"spec": {"schedulingGates": None}})

    with running(replace, stopped):
        yield
