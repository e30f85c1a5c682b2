"""What is remembered of a gang that had started and lost pods, so that it has fewer on nodes than it needs (no I/O).

A record holds the lost pods, not those that are left: what these hold, and how much of it is idle, is counted again
from the pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from webhook.gangs.bound_members import BoundMembers
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.loss_causes import LossCause

# How many lost pods of one gang are remembered by name. Of the others only the number is.
MOST_PODS = 32
# How many of them a text names.
_NAMED = 5
_SECONDS = 3600.0
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class LostPod(NamedTuple):
    """A lost pod: why and when it was lost (UTC, as Kubernetes writes times), and the node that it was on, if known."""

    name: str
    cause: LossCause
    at: str
    node: str = ""

    def as_json(self) -> dict[str, str]:
        """The pod as plain JSON values."""
        return {
            "pod": self.name,
            "cause": self.cause.value,
            "at": self.at,
            **({"node": self.node} if self.node else {}),
        }


class Loss(NamedTuple):
    """The record of one gang: the uid of its PodGang or workload, since when it has too few pods on nodes, and the pods
    that it lost, the first first. `more` is the number of lost pods without a name.
    """

    uid: str
    since: str
    pods: tuple[LostPod, ...]
    more: int = 0

    @property
    def causes(self) -> tuple[LossCause, ...]:
        """The causes of the lost pods, each once, that of the first pod first."""
        found = dict.fromkeys(pod.cause for pod in self.pods)
        return tuple(found or (LossCause.UNKNOWN,))

    @property
    def names(self) -> frozenset[str]:
        """The names of the lost pods."""
        return frozenset(pod.name for pod in self.pods)

    def with_pods(self, pods: Iterable[LostPod]) -> Loss:
        """The record with more lost pods. A pod that it has already is not added."""
        known = self.names
        fresh = [pod for pod in pods if pod.name not in known]
        if not fresh:
            return self
        every = (*self.pods, *fresh)
        return self._replace(
            since=min(self.since, *(pod.at for pod in fresh)),
            pods=every[:MOST_PODS],
            more=self.more + max(len(every) - MOST_PODS, 0),
        )


class LostMembers(NamedTuple):
    """The record of a gang, and what is left to it: how many pods are on nodes now, and the GPUs that they hold."""

    loss: Loss
    bound: int
    gpus: int
    now: datetime

    @classmethod
    def of(cls, loss: Loss, members: BoundMembers, now: datetime) -> LostMembers:
        """The record together with what is left."""
        return cls(loss, members.bound, members.gpus, now)

    @property
    def gpu_hours(self) -> float:
        """The hours that the GPUs of the pods that are left have been idle, added up."""
        return self.gpus * hours_since(self.loss.since, self.now)

    def as_json(self) -> dict[str, Any]:
        """The loss as plain JSON values."""
        return {
            "since": self.loss.since,
            "causes": [cause.value for cause in self.loss.causes],
            "pods": [pod.as_json() for pod in self.loss.pods],
            **({"more": self.loss.more} if self.loss.more else {}),
            "idle": {"pods": self.bound, "gpus": self.gpus, "gpuHours": round(self.gpu_hours, 2)},
        }

    @property
    def reason(self) -> HoldReason:
        """The loss as a hold reason."""
        return HoldReason(Reason.LOST_MEMBERS, f"{self._lost}{self._idle}", _REMEDIES[self.loss.causes[0]])

    @property
    def _lost(self) -> str:
        named = ", ".join(_told(pod) for pod in self.loss.pods[:_NAMED])
        others = len(self.loss.pods) - _NAMED + self.loss.more if len(self.loss.pods) > _NAMED else self.loss.more
        if not named:
            pods = "a pod" if others == 1 else f"{others} pods"
            return f"it has lacked {pods} since {self.loss.since}, {LossCause.UNKNOWN.words}"
        return f"it has lost pods since {self.loss.since}: {named}{f' and {others} more' if others > 0 else ''}"

    @property
    def _idle(self) -> str:
        if not self.bound:
            return ""
        held = f" with {self.gpus} GPUs, {self.gpu_hours:.1f} GPU hours so far," if self.gpus else ""
        pods = "1 pod" if self.bound == 1 else f"{self.bound} pods"
        return f"; meanwhile {pods}{held} {'is' if self.bound == 1 else 'are'} idle"


_REMEDIES = {
    LossCause.PREEMPTION: (
        "give the gang a higher priority, or the disruption mode all, so that it is preempted as a whole"
    ),
    LossCause.NODE_LOSS: "it starts again when its scheduler finds room for the pods that replace these",
    LossCause.EVICTION: "find out who evicted the pods; a PodDisruptionBudget protects a gang from drains",
    LossCause.DELETION: "the API server's audit log says who deleted the pods",
    LossCause.FAILURE: "read the logs of the pods",
    LossCause.UNKNOWN: "the API server's audit log says what became of the pods",
}


def _told(pod: LostPod) -> str:
    node = f", {pod.node}" if pod.node else ""
    return f"{pod.name} ({pod.cause.value}{node})"


def stamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it, in whole seconds of UTC."""
    return moment.astimezone(UTC).strftime(_FORMAT)


def hours_since(at: str, now: datetime) -> float:
    """The hours since a moment that `stamp` wrote; 0 for one that is yet to come. Raises `ValueError`."""
    # Not by `strptime`, which takes fifty times as long: there may be a hundred thousand lost pods.
    begun = datetime.fromisoformat(at)
    if begun.isoformat() != f"{at.removesuffix('Z')}+00:00":
        raise ValueError(at)
    return max((now - begun).total_seconds(), 0.0) / _SECONDS
