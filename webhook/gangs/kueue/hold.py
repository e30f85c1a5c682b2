"""What Kueue adds to the health of a gang (no I/O): why Kueue holds it, behind whom it waits, and when Kueue takes it
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.kueue.gang_workload import GangWorkload, workload_of
from webhook.gangs.kueue.queue_places import Ahead, QueuePlaces
from webhook.gangs.kueue.quotes import quoted
from webhook.gangs.kueue.readiness import countdown, taken_back
from webhook.gangs.kueue.standing import Waiting, standing
from webhook.gangs.pod import GangPod
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.kueue import keys
from webhook.model.kueue.holding import held
from webhook.model.kueue.objects import KueueWorkload
from webhook.model.kueue.settings import KueueSettings
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import PodGang


class KueueSight(NamedTuple):
    """What is known of Kueue when a gang is judged: the facts, how Kueue is installed, its queues, and the time."""

    facts: ClusterFacts
    settings: KueueSettings
    places: QueuePlaces
    now: datetime


class QueuedAs(NamedTuple):
    """The Workload of a gang that Kueue holds, its queues, and who is ahead. The names are of any namespace, so this is
    only shown to a user whose rights have read them.
    """

    workload: str
    local_queue: str | None
    cluster_queue: str | None
    ahead: Ahead | None

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        ahead = self.ahead
        return {
            "workload": self.workload,
            "localQueue": self.local_queue,
            "clusterQueue": self.cluster_queue,
            "ahead": None if ahead is None else ahead.number,
            "next": [] if ahead is None else ["/".join(key) for key in ahead.first],
        }


class KueueHold(NamedTuple):
    """What Kueue says of a gang. `gang` is its Workload, `why` the reason why Kueue holds it (None if it does not),
    `loop` that Kueue took it back, and `deadline` when it will.
    """

    gang: GangWorkload | None = None
    why: HoldReason | None = None
    loop: HoldReason | None = None
    deadline: str = ""
    queued: QueuedAs | None = None

    @property
    def reasons(self) -> list[HoldReason]:
        """Every reason of Kueue's."""
        return [one for one in (self.why, self.loop) if one is not None]


def kueue_hold(podgang: PodGang, pods: Sequence[GangPod], scheduler: str, sight: KueueSight) -> KueueHold:
    """What Kueue says of a gang with these pods."""
    suspended = isinstance(podgang, OptedInGang) and podgang.workload.suspended
    found = workload_of(podgang, pods, sight.facts)
    if found is None or found.workload is None:
        return KueueHold(found, _no_workload(podgang, pods, sight))
    workload = found.workload
    waiting = _waiting(podgang, found.key, workload, sight)
    ahead = sight.places.ahead_of(found.key, sight.facts.local_queues)
    why = standing(waiting._replace(ahead=_ahead(ahead, sight)))
    if why is None and workload.admitted and suspended:
        remedy = "if it lasts, read the log of Kueue's controller: a webhook may refuse that Kueue resumes it"
        why = HoldReason(Reason.KUEUE_NOT_RESUMED, "Kueue has admitted it, and it is still suspended", remedy)
    above = None if waiting.local_queue is None else waiting.local_queue.cluster_queue
    return KueueHold(
        found,
        why,
        taken_back(workload, sight.settings, scheduler),
        "" if suspended else countdown(workload, sight.settings, sight.now),
        None if why is None else QueuedAs(found.key[1], workload.queue, workload.cluster_queue or above, ahead),
    )


def _waiting(podgang: PodGang, key: ObjectKey, workload: KueueWorkload, sight: KueueSight) -> Waiting:
    facts, namespace = sight.facts, podgang.namespace
    local = (facts.local_queues or {}).get((namespace, workload.queue or ""))
    name = workload.cluster_queue or (None if local is None else local.cluster_queue)
    above = (facts.cluster_queues or {}).get(name or "")
    shown = partial(quoted, namespace=namespace, namespaces=facts.namespaces)
    return Waiting(key, workload, podgang.workload_kind, local, above, sight.now, shown)


def _no_workload(podgang: PodGang, pods: Sequence[GangPod], sight: KueueSight) -> HoldReason | None:
    """That Kueue is to admit a gang, and has made no Workload for it."""
    if sight.facts.kueue_workloads is None:
        return None
    if any(keys.ADMISSION_GATE in pod.gates for pod in pods if pod.counts):
        why = "its pods have Kueue's gate, and Kueue has made no Workload for them"
        remedy = "read the events of the pods: a pod group needs as many pods as its pod-group-total-count says"
        return HoldReason(Reason.KUEUE_NO_WORKLOAD, why, remedy)
    if not isinstance(podgang, OptedInGang) or not podgang.workload.suspended:
        return None
    if held(podgang.workload, sight.facts, sight.settings) is None:
        return None
    why = "Kueue is to admit it, and has made no Workload for it"
    look = f"kubectl describe {podgang.workload_kind.lower()} {podgang.workload.name} -n {podgang.namespace}"
    return HoldReason(Reason.KUEUE_NO_WORKLOAD, why, f"read its events, and the log of Kueue's controller: {look}")


def _ahead(ahead: Ahead | None, sight: KueueSight) -> str:
    """Who is ahead, for a text in the gang's namespace: others are counted, not named."""
    if ahead is None:
        return ""
    if not ahead.number:
        return "; it is the next in its queue"
    names = [_named(key, sight) for key in ahead.own]
    is_all = len(names) == ahead.number
    who = f" ({'' if is_all else 'among them '}{', '.join(names)})" if names else ""
    return f"; about {ahead.number} {'workload is' if ahead.number == 1 else 'workloads are'} ahead of it{who}"


def _named(key: ObjectKey, sight: KueueSight) -> str:
    known = sight.facts.kueue_workloads
    owner = None if known is None or key not in known else known[key].owner
    return f"Workload {key[1]}" if owner is None else f"{owner.kind} {owner.name}"
