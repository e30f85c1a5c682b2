"""Why Kueue holds a Workload: its conditions, read from the one that decides most (no I/O).

Conditions outlive their cause, so their status and order count, never their presence. Kueue's own words are quoted
where they say more than a reason.

Source: kubernetes-sigs/kueue v0.19 and its main branch before v0.20, pkg/controller/core/workload_controller.go,
pkg/scheduler/scheduler.go, pkg/scheduler/flavorassigner/flavorassigner.go, pkg/workload/admissionchecks.go;
CHANGELOG-0.20 (pull request 16123, DRAResourcesUnresolved).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.kueue.moments import moment, until
from webhook.gangs.kueue.pending import pending
from webhook.model.keys import ObjectKey
from webhook.model.kueue import keys
from webhook.model.kueue.objects import ClusterQueue, Condition, KueueWorkload, LocalQueue

# Checks that a text lists.
_CHECKS = 3
# Reasons of Finished that the owner's own end explains.
_ENDED = frozenset({keys.SUCCEEDED, keys.FAILED})


class Waiting(NamedTuple):
    """A Workload with its queues, as far as they are known. `kind` is the kind of the gang's workload, and `quoted`
    makes a message of Kueue fit for the gang's namespace. `ahead` says who is ahead, empty if that is unknown.
    """

    key: ObjectKey
    workload: KueueWorkload
    kind: str
    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    now: datetime
    quoted: Callable[[str], str]
    ahead: str = ""

    @property
    def cluster_queue_name(self) -> str:
        """The ClusterQueue, for a text."""
        name = self.workload.cluster_queue or (None if self.local_queue is None else self.local_queue.cluster_queue)
        return "its ClusterQueue" if name is None else f"ClusterQueue {name}"


def standing(waiting: Waiting) -> HoldReason | None:
    """Why Kueue holds a Workload; None if Kueue does not, or if a user has deactivated it."""
    workload = waiting.workload
    if workload.finished:
        return _finished(waiting)
    if not workload.active:
        return _deactivated(waiting)
    if workload.is_true(keys.QUOTA_RESERVED):
        return _reserved(waiting)
    told = workload.condition(keys.QUOTA_RESERVED)
    return _blocked(waiting, told) or _backoff(waiting) or pending(waiting, told)


def _finished(waiting: Waiting) -> HoldReason | None:
    said = waiting.workload.condition(keys.FINISHED)
    if said is None or said.reason in _ENDED:
        return None
    why = f"Kueue has ended its Workload {waiting.key[1]} ({said.reason}): {waiting.quoted(said.message)}"
    return HoldReason(
        Reason.KUEUE_FINISHED, why, f"fix the cause, and recreate the {waiting.kind}: Kueue does not retry"
    )


def _deactivated(waiting: Waiting) -> HoldReason | None:
    evicted = waiting.workload.condition(keys.EVICTED)
    if evicted is None or not evicted.status or evicted.reason == keys.DEACTIVATED:
        return None
    namespace, name = waiting.key
    activate = '--type merge -p \'{"spec":{"active":true}}\''
    return HoldReason(
        Reason.KUEUE_DEACTIVATED,
        f"Kueue has deactivated its Workload: {waiting.quoted(evicted.message)}",
        f"fix the cause, then: kubectl patch workloads.kueue.x-k8s.io {name} -n {namespace} {activate}",
    )


def _reserved(waiting: Waiting) -> HoldReason | None:
    """Of a Workload with quota: its admission checks, or that it is stopped again."""
    workload = waiting.workload
    evicted = workload.condition(keys.EVICTED)
    if evicted is not None and evicted.status:
        why = f"Kueue stops it: {waiting.quoted(evicted.message)}"
        return HoldReason(Reason.KUEUE_BACKOFF, why, "Kueue queues it again when its pods are gone")
    if workload.admitted:
        return None
    told = workload.condition(keys.ADMITTED)
    if told is not None and told.reason == keys.PENDING_DELAYED_TOPOLOGY_REQUESTS:
        why = f"{waiting.cluster_queue_name} has reserved its quota, and Kueue still has to choose its nodes"
        return HoldReason(Reason.KUEUE_CHECKS, why, "wait; if it stays, read the log of Kueue's controller")
    return _checks(waiting, f"{waiting.cluster_queue_name} has reserved its quota, and it waits for")


def _checks(waiting: Waiting, has: str) -> HoldReason:
    """The admission checks that are not ready. `has` introduces them."""
    open_ = [one for one in waiting.workload.checks if one.state != keys.CHECK_READY]
    said = [
        f"admission check {one.name} ({one.state}{f': {waiting.quoted(one.message)}' if one.message else ''})"
        for one in open_[:_CHECKS]
    ]
    more = f" and {len(open_) - _CHECKS} more" if len(open_) > _CHECKS else ""
    names = " ".join(one.name for one in open_[:_CHECKS])
    look = f": kubectl describe admissionchecks {names}" if names else ""
    why = f"{has} {', '.join(said) or 'its admission'}{more}"
    return HoldReason(Reason.KUEUE_CHECKS, why, f"wait; if it stays, read the log of the check's controller{look}")


def _blocked(waiting: Waiting, told: Condition | None) -> HoldReason | None:
    """What keeps a Workload out of its queue's order."""
    if told is None:
        return None
    message = told.message
    if told.reason in {keys.INADMISSIBLE, keys.SUSPENDED} or _is_of_queue(message):
        return _queue_unusable(waiting, message)
    if told.reason in {keys.MISCONFIGURED, keys.DRA_RESOURCES_UNRESOLVED}:
        why = f"Kueue cannot admit it as it is: {waiting.quoted(message)}"
        remedy = f"correct what the message names; if that is in the pod templates, recreate the {waiting.kind}"
        return HoldReason(Reason.KUEUE_MISCONFIGURED, why, remedy)
    if told.reason in {keys.ADMISSION_GATED, keys.ON_HOLD}:
        remedy = (
            f"who is named there removes itself from the annotation {keys.ADMISSION_GATED_BY} of the {waiting.kind} "
            "when it is done; read its log"
        )
        return HoldReason(Reason.KUEUE_GATED, f"Kueue holds it: {waiting.quoted(message)}", remedy)
    if told.reason in {keys.WAITING, keys.WAITING_FOR_PODS_READY}:
        why = "Kueue admits nothing until the pods of all admitted workloads are ready (blockAdmission)"
        remedy = "find the admitted gang that does not start: rollcall gangs -A --held; or set blockAdmission to false"
        return HoldReason(Reason.KUEUE_BLOCKED, why, remedy)
    if any(one.state in {keys.CHECK_RETRY, keys.CHECK_REJECTED} for one in waiting.workload.checks):
        return _checks(waiting, "Kueue does not look at it because of")
    return None


# What Kueue says of a queue that admits nothing, whichever reason it gives.
_OF_QUEUE = (" is inactive", " is stopped", " doesn't exist", " not found", " is terminating or missing")
_SELECTOR = "doesn't match ClusterQueue selector"
_INVALID_SELECTOR = "invalid namespace selector: "


def _is_of_queue(message: str) -> bool:
    queue = message.startswith(("LocalQueue ", "ClusterQueue ")) and message.endswith(_OF_QUEUE)
    return queue or message.endswith(_SELECTOR) or message.startswith(_INVALID_SELECTOR)


def _queue_unusable(waiting: Waiting, message: str) -> HoldReason:
    why = f"Kueue holds it: {waiting.quoted(message)}"
    namespace, queue = waiting.key[0], waiting.workload.queue
    above, local = waiting.cluster_queue, waiting.local_queue
    if above is not None and above.active is False and above.message:
        why = f"{why}: {waiting.quoted(above.message)}"
    if local is None and message.startswith("LocalQueue "):
        remedy = f"create LocalQueue {queue} in {namespace}, or name another one in the label {keys.QUEUE_NAME}"
    elif local is not None and local.stopped:
        remedy = f"set spec.stopPolicy of LocalQueue {queue} to None"
    elif above is not None and above.stopped:
        remedy = f"set spec.stopPolicy of {waiting.cluster_queue_name} to None"
    elif message.endswith(_SELECTOR):
        remedy = (
            f"let the namespaceSelector of {waiting.cluster_queue_name} select {namespace}, or use another LocalQueue"
        )
    else:
        remedy = f"read the condition Active: kubectl describe localqueues.kueue.x-k8s.io {queue} -n {namespace}"
    return HoldReason(Reason.KUEUE_QUEUE_UNUSABLE, why, remedy)


def _backoff(waiting: Waiting) -> HoldReason | None:
    """Whether a Workload that Kueue evicted is not in its queue again."""
    workload = waiting.workload
    again = moment(workload.requeue_at)
    requeued = workload.condition(keys.REQUEUED)
    if again is not None and again > waiting.now:
        why = f"Kueue queues it again {until(again, waiting.now)}"
    elif requeued is not None and not requeued.status:
        why = "Kueue has not queued it again"
    else:
        return None
    evicted = workload.condition(keys.EVICTED)
    if evicted is not None and evicted.status and evicted.reason != keys.PODS_READY_TIMEOUT:
        # That its pods were not ready in time is a reason by itself.
        why = f"{why} after it was evicted ({evicted.reason}): {waiting.quoted(evicted.message)}"
    return HoldReason(Reason.KUEUE_BACKOFF, why, "wait; each eviction makes the next wait longer")
