"""Kueue's hold on a gang: its Workload, why Kueue holds it, behind whom it waits, and when Kueue takes it back (no
I/O).

Kueue makes one Workload for the top object of a workload, one for each group of a LeaderWorkerSet, and one for each
plain pod or group of pods. Its names contain a hash, so a Workload is found by the UID of its owner, or because the
owner or a pod names it. Conditions outlive their cause, so their status and order count, never their presence. With
the gate UnadmittedWorkloadsObservability (on by default from 0.20 on) the reason of the condition says why a Workload
waits; without it only the message does. A message is quoted short, and without objects of other namespaces.

Source: kubernetes-sigs/kueue v0.19 and its main branch before v0.20, pkg/controller/jobframework/reconciler.go
(FindAncestorJobManagedByKueue), pkg/controller/jobs/pod/pod_controller.go, pkg/controller/core/workload_controller.go
(admittedNotReadyWorkload), pkg/scheduler/scheduler.go, pkg/scheduler/flavorassigner/flavorassigner.go
(fitsResourceQuota, resolveNoFitReason), tas_flavorassigner.go, pkg/cache/scheduler/tas_flavor_snapshot.go
(notFitMessage), pkg/workload/admissionchecks.go; of 0.20, keps/13502-unscheduled-pods-timeout (Timeout interaction)
and CHANGELOG-0.20 (pull request 16123, DRAResourcesUnresolved).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.kueue_queue import Ahead, QueuePlaces
from webhook.gangs.members import KUEUE_NAMES, GangPod
from webhook.model import kueue
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import ObjectKey
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import ClusterQueue, KueueCondition, KueueWorkload, KueueWorkloads, LocalQueue
from webhook.model.reading import text
from webhook.workloads.kueue_integration import held
from webhook.workloads.opted_in_gang import OptedInGang

_MINUTE, _HOUR = 60, 3600


def moment(timestamp: str | None) -> datetime | None:
    """Returns a time of the Kubernetes API, in UTC; None if there is none, or if it cannot be read."""
    if timestamp is None:
        return None
    try:
        time = datetime.fromisoformat(timestamp)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        # Also a legal time at an end of the calendar, which is outside of it in UTC.
        return None


def later(begun: datetime, seconds: int) -> datetime:
    """Returns the time so many seconds later; the last one of the calendar if that is beyond it."""
    last = datetime.max.replace(tzinfo=UTC)
    return last if (last - begun).total_seconds() <= seconds else begun + timedelta(seconds=seconds)


def span(seconds: float) -> str:
    """Returns a span of time, in one unit: `45s`, `12m`, `3h`."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    return f"{whole // _MINUTE}m" if whole < 2 * _HOUR else f"{whole // _HOUR}h"


def describe_time(then: datetime, now: datetime) -> str:
    """Returns when something will happen, in UTC: that stays true in an event that is read later."""
    left = max(then - now, timedelta())
    return f"at {then:%H:%M:%S} UTC, in {span(left.total_seconds())}"


# A message about a topology lists every reason that excludes a node.
_LONGEST = 300
# Kueue names the workload that preempts another by its UIDs, and both by their cohorts. A long message is cut.
# Source: pkg/scheduler/preemption/preemption.go, preemptionMessage.
_UIDS = re.compile(r" \((?:UID|JobUID): [^)]*(?:\)|$)")
_PATHS = re.compile(r"; preemptor path: [^;]*; preemptee path: \S*")
# A namespace has no dot, so `example.com/gpu` is not an object.
_OBJECT = re.compile(r"(?<![\w./-])([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/([a-z0-9][-.a-z0-9]*[a-z0-9]|[a-z0-9])(?![\w/])")
_ELSEWHERE = "an object of another namespace"


def quoted(message: str, namespace: str, namespaces: Container[str] | None) -> str:
    """Returns a message of Kueue as `namespace` may see it. `namespaces` are all namespaces; None if unknown."""

    def shown(match: re.Match[str]) -> str:
        other = match[1] != namespace and (namespaces is None or match[1] in namespaces)
        return _ELSEWHERE if other else match[0]

    words = " ".join(_PATHS.sub("", _UIDS.sub("", message)).split())
    quote = _OBJECT.sub(shown, words).rstrip(".")
    return quote if len(quote) <= _LONGEST else f"{quote[: _LONGEST - 3]}..."


# Workloads of one owner that are compared.
_MOST = 256


class KueueGangWorkload(NamedTuple):
    """The Workload of a gang. `workload` is None if the gang names one that does not exist."""

    key: ObjectKey
    workload: KueueWorkload | None


def workload_of(podgang: PodGang, pods: Sequence[GangPod], facts: ClusterFacts) -> KueueGangWorkload | None:
    """Returns the Workload of a gang; of several, one that Kueue has not admitted. None if there is none."""
    kueue_workloads = facts.kueue_workloads
    if not isinstance(kueue_workloads, KueueWorkloads):
        return None
    if (
        isinstance(podgang, OptedInGang)
        and (gang_workload := _find_by_owner(podgang, pods, kueue_workloads)) is not None
    ):
        return gang_workload
    return _find_by_pods(pods, kueue_workloads)


def _find_by_owner(
    gang: OptedInGang, pods: Sequence[GangPod], kueue_workloads: KueueWorkloads
) -> KueueGangWorkload | None:
    """Returns the Workload of the workload's controller, such as a TrainJob, or of the workload itself."""
    workload = gang.workload
    above = workload.controller
    # A group of a LeaderWorkerSet is named by its index and a revision.
    index = next((pod.group.partition("-")[0] for pod in pods if pod.group), None)
    for uid in (None if above is None else above.uid, workload.uid):
        keys = () if uid is None else kueue_workloads.workloads_of_owner(workload.namespace, uid, index)
        if keys:
            # An elastic Job has one for each size. Any user may make others that name this owner.
            newest = max(
                islice(keys, _MOST),
                key=lambda key: (not kueue_workloads[key].finished, kueue_workloads[key].created, key),
            )
            return KueueGangWorkload(newest, kueue_workloads[newest])
    name = text(workload.annotations.get(kueue.PREBUILT_WORKLOAD)) or text(workload.labels.get(kueue.PREBUILT_WORKLOAD))
    if name is None:
        return None
    key = (workload.namespace, name)
    return KueueGangWorkload(key, kueue_workloads.get(key))


def _find_by_pods(pods: Iterable[GangPod], kueue_workloads: KueueWorkloads) -> KueueGangWorkload | None:
    first: KueueGangWorkload | None = None
    for pod in pods:
        for gang_workload in _find_by_pod(pod, kueue_workloads):
            if gang_workload.workload is not None and not gang_workload.workload.admitted:
                return gang_workload
            first = gang_workload if first is None or first.workload is None else first
            break
    return first


def _find_by_pod(pod: GangPod, kueue_workloads: KueueWorkloads) -> Iterator[KueueGangWorkload]:
    for key in KUEUE_NAMES:
        # Kueue reads the annotation before the label.
        if (name := text(pod.annotations.get(key)) or text(pod.labels.get(key))) is not None:
            yield KueueGangWorkload((pod.namespace, name), kueue_workloads.get((pod.namespace, name)))
            return
    yield from (
        KueueGangWorkload(key, kueue_workloads[key])
        for key in kueue_workloads.workloads_of_owner(pod.namespace, pod.uid)
    )


def countdown(workload: KueueWorkload, settings: KueueSettings, now: datetime) -> str:
    """Returns when Kueue takes an admitted Workload back; empty if it does not."""
    ready = workload.condition(kueue.PODS_READY)
    if not workload.admitted or workload.is_true(kueue.EVICTED) or ready is None or ready.status:
        # Without `waitForPodsReady` Kueue does not write the condition.
        return ""
    lost = ready.reason == kueue.WAIT_FOR_RECOVERY
    admitted = workload.condition(kueue.ADMITTED)
    begun = moment(ready.at if lost or admitted is None else admitted.at)
    times = settings.ready_times(workload.stated_times)
    seconds, goal = times.recovery if lost else times.ready, "ready"
    if times.scheduled is not None and not lost and _is_unscheduled(workload):
        seconds, goal = times.scheduled, "on nodes"
    if begun is None or seconds is None:
        return ""
    pods = sum(pod_set.count if pod_set.admitted is None else pod_set.admitted for pod_set in workload.pods)
    every = "its pod is" if pods == 1 else f"all {pods} pods are"
    return f"Kueue takes it back {describe_time(later(begun, seconds), now)}, unless {every} {goal}"


def _is_unscheduled(workload: KueueWorkload) -> bool:
    """Returns whether Kueue saw since the last admission that pods are on no nodes: older conditions stay."""
    ready, admitted = workload.condition(kueue.PODS_READY), workload.condition(kueue.ADMITTED)
    scheduled = workload.condition(kueue.PODS_SCHEDULED)
    if ready is None or admitted is None or scheduled is None or scheduled.status:
        return False
    if not ready.reason == scheduled.reason == kueue.WAIT_FOR_SCHEDULING:
        return False
    seen, begun = moment(scheduled.at), moment(admitted.at)
    return seen is not None and begun is not None and seen > begun


def taken_back(workload: KueueWorkload, settings: KueueSettings, scheduler: str) -> HoldReason | None:
    """Returns that Kueue took a Workload back because its pods were not ready in time; None if it did not."""
    late = [eviction for eviction in workload.evictions if eviction.reason == kueue.PODS_READY_TIMEOUT]
    count = sum(eviction.count for eviction in late)
    if count < 1:
        return None
    times, causes = settings.ready_times(workload.stated_times), {eviction.cause for eviction in late}
    goal, seconds, setting = "running and ready", times.ready, "waitForPodsReady.timeout of Kueue"
    if causes == {kueue.WAIT_FOR_SCHEDULING}:
        goal, seconds, setting = "on nodes", times.scheduled, "waitForPodsReady.unscheduledTimeout of Kueue"
    elif times.stated:
        setting = f"timeoutSeconds of its annotation {kueue.WAIT_FOR_PODS_READY}"
    is_one = causes <= {kueue.WAIT_FOR_START, ""} or causes == {kueue.WAIT_FOR_SCHEDULING}
    within = f"within {span(seconds)}" if is_one and seconds is not None else "in time"
    often = "once" if count == 1 else f"{count} times"
    why = f"Kueue took it back {often}, because {scheduler} did not get all of its pods {goal} {within}"
    remedy = (
        f"find out what {scheduler} lacks for the whole gang, or raise {setting} above the time that the gang needs"
    )
    return HoldReason(GangReason.KUEUE_TOOK_BACK, why, remedy)


_POD_SET = "couldn't assign flavors to pod set "
_SHORT = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_TOO_BIG = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests \((\S+)\) \+ current podset "
    r"request \((\S+)\) > maximum capacity \((\S+)\)"
)
_NO_TOPOLOGY = re.compile(r'topology "[^"]*" (?:allows to fit only|doesn\'t allow to fit)')
_UNKNOWN_TOPOLOGY = re.compile(
    r"does not support TopologyAwareScheduling|does not contain the requested level|no requested topology level|"
    r"profile not found for scheduler name|information missing in TAS cache|supports only TopologyAwareScheduling"
)
_PREEMPTS = re.compile(r"Pending the preemption of (\d+) workload", re.ASCII)
# What a text lists of several.
_LISTED = 3


def pending(waiting: WaitingWorkload, condition: KueueCondition | None) -> HoldReason:
    """Returns why a Workload waits in its queue. `condition` is its condition QuotaReserved."""
    message, reason = ("", "") if condition is None else (condition.message, condition.reason)
    unknown_topology = _NO_TOPOLOGY.search(message) is None and _UNKNOWN_TOPOLOGY.search(message) is not None
    match reason:
        case kueue.EXCEEDS_MAX_QUOTA:
            return _too_big(waiting, message)
        case kueue.NO_MATCHING_FLAVOR | kueue.TOPOLOGY_PLACEMENT_FAILED if unknown_topology:
            return _topology_unknown(waiting, message)
        case kueue.NO_MATCHING_FLAVOR:
            return _no_flavor(waiting, message)
        case kueue.TOPOLOGY_PLACEMENT_FAILED:
            return _no_topology(waiting, message)
        case kueue.WAITING_FOR_QUOTA | kueue.WAITING_FOR_PREEMPTED_WORKLOADS | kueue.PENDING_EVALUATION:
            return _waits(waiting, message, preempts=reason == kueue.WAITING_FOR_PREEMPTED_WORKLOADS)
    if _exceeded(message) is not None:
        return _too_big(waiting, message)
    if unknown_topology or (not message.startswith(_POD_SET) and _UNKNOWN_TOPOLOGY.search(message) is not None):
        return _topology_unknown(waiting, message)
    return _waits(waiting, message) if _NO_TOPOLOGY.search(message) is None else _no_topology(waiting, message)


def _exceeded(message: str) -> re.Match[str] | None:
    """Returns what a pod set can never have: no flavor has enough, even if it were empty."""
    for of_set in message.split(_POD_SET) if message.startswith(_POD_SET) else ():
        if _SHORT.search(of_set) is None and _NO_TOPOLOGY.search(of_set) is None:
            exceeded = _TOO_BIG.search(of_set)
            if exceeded is not None:
                return exceeded
    return None


def _too_big(waiting: WaitingWorkload, message: str) -> HoldReason:
    """Returns that a Workload asks for more than there is. If the message names other flavors, too, it is quoted."""
    exceeded = _exceeded(message)
    if exceeded is None:
        why = f"it asks for more than {waiting.cluster_queue_name} can ever have: {_shortened(message)}"
    else:
        resource, flavor, before, amount, most = exceeded.groups()
        wants = amount if before in {"0", ""} else f"{before} and {amount}"
        why = f"{waiting.cluster_queue_name} has at most {most} {resource} in flavor {flavor}, and it asks for {wants}"
    remedy = f"ask for less, or raise the quota of {waiting.cluster_queue_name}: it is never admitted as it is"
    return HoldReason(GangReason.KUEUE_TOO_BIG, waiting.quoted(why), remedy)


def _no_flavor(waiting: WaitingWorkload, message: str) -> HoldReason:
    why = f"no flavor of {waiting.cluster_queue_name} takes its pods: {waiting.quoted(_shortened(message))}"
    remedy = (
        f"let its node selectors, tolerations and resources match a flavor of {waiting.cluster_queue_name}, or use "
        "another LocalQueue"
    )
    return HoldReason(GangReason.KUEUE_NO_FLAVOR, why, remedy)


def _no_topology(waiting: WaitingWorkload, message: str) -> HoldReason:
    why = f"{waiting.cluster_queue_name} has no place for it: {waiting.quoted(_shortened(message))}{waiting.ahead}"
    remedy = "wait for the nodes that it needs; if there are too few in all, ask for fewer pods or a wider topology"
    return HoldReason(GangReason.KUEUE_NO_TOPOLOGY, why, remedy)


def _topology_unknown(waiting: WaitingWorkload, message: str) -> HoldReason:
    why = f"{waiting.cluster_queue_name} cannot place it: {waiting.quoted(_shortened(message))}"
    remedy = "ask for a topology level that a flavor of the ClusterQueue has, or for none"
    return HoldReason(GangReason.KUEUE_TOPOLOGY_UNKNOWN, why, remedy)


def _waits(waiting: WaitingWorkload, message: str, *, preempts: bool = False) -> HoldReason:
    """Returns that a Workload waits for quota; with `preempts`, for the end of the workloads that Kueue preempts."""
    short = [f"{amount} {resource} in flavor {flavor}" for resource, flavor, amount in _SHORT.findall(message)]
    ends = "wait until these have ended"
    remedy = f"wait for quota, raise the quota of {waiting.cluster_queue_name}, or ask for less"
    if short:
        shown = list(dict.fromkeys(short))
        more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
        why = f"{waiting.cluster_queue_name} is short of {', '.join(shown[:_LISTED])}{more}"
        if (preempted := _PREEMPTS.search(message)) is not None:
            why, remedy = f"{why}; Kueue preempts {preempted[1]} of its workloads", ends
        return HoldReason(GangReason.KUEUE_WAITS_FOR_QUOTA, f"{waiting.quoted(why)}{waiting.ahead}", remedy)
    if not message or waiting.workload.condition(kueue.QUOTA_RESERVED) is None:
        queue = waiting.workload.queue
        # Kueue passes over a workload that equals one that it has just refused, without a word.
        why = f"it waits in LocalQueue {queue}, and Kueue has said nothing about it yet{waiting.ahead}"
        remedy = "wait for those ahead; if it stays, read the log of Kueue's controller"
        return HoldReason(GangReason.KUEUE_WAITS_FOR_QUOTA, why, remedy)
    if preempts:
        why, remedy = f"Kueue preempts other workloads for it: {waiting.quoted(_shortened(message))}", ends
    else:
        why = (
            f"{waiting.cluster_queue_name} does not admit it yet: {waiting.quoted(_shortened(message))}{waiting.ahead}"
        )
    return HoldReason(GangReason.KUEUE_WAITS_FOR_QUOTA, why, remedy)


def _shortened(message: str) -> str:
    return message.removeprefix(_POD_SET)


# Checks that a text lists.
_CHECKS = 3
# Reasons of Finished that the owner's own end explains.
_ENDED = frozenset({kueue.SUCCEEDED, kueue.FAILED})


class WaitingWorkload(NamedTuple):
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


def standing(waiting: WaitingWorkload) -> HoldReason | None:
    """Returns why Kueue holds a Workload; None if Kueue does not, or if a user has deactivated it."""
    workload = waiting.workload
    if workload.finished:
        return _finished(waiting)
    if not workload.active:
        return _deactivated(waiting)
    if workload.is_true(kueue.QUOTA_RESERVED):
        return _reserved(waiting)
    condition = workload.condition(kueue.QUOTA_RESERVED)
    return _blocked(waiting, condition) or _backoff(waiting) or pending(waiting, condition)


def _finished(waiting: WaitingWorkload) -> HoldReason | None:
    condition = waiting.workload.condition(kueue.FINISHED)
    if condition is None or condition.reason in _ENDED:
        return None
    why = f"Kueue has ended its Workload {waiting.key[1]} ({condition.reason}): {waiting.quoted(condition.message)}"
    return HoldReason(
        GangReason.KUEUE_FINISHED, why, f"fix the cause, and recreate the {waiting.kind}: Kueue does not retry"
    )


def _deactivated(waiting: WaitingWorkload) -> HoldReason | None:
    evicted = waiting.workload.condition(kueue.EVICTED)
    if evicted is None or not evicted.status or evicted.reason == kueue.DEACTIVATED:
        return None
    namespace, name = waiting.key
    activate = '--type merge -p \'{"spec":{"active":true}}\''
    return HoldReason(
        GangReason.KUEUE_DEACTIVATED,
        f"Kueue has deactivated its Workload: {waiting.quoted(evicted.message)}",
        f"fix the cause, then: kubectl patch workloads.kueue.x-k8s.io {name} -n {namespace} {activate}",
    )


def _reserved(waiting: WaitingWorkload) -> HoldReason | None:
    """Returns what a Workload with quota waits for: its admission checks, or to be queued again."""
    workload = waiting.workload
    evicted = workload.condition(kueue.EVICTED)
    if evicted is not None and evicted.status:
        why = f"Kueue stops it: {waiting.quoted(evicted.message)}"
        return HoldReason(GangReason.KUEUE_BACKOFF, why, "Kueue queues it again when its pods are gone")
    if workload.admitted:
        return None
    condition = workload.condition(kueue.ADMITTED)
    if condition is not None and condition.reason == kueue.PENDING_DELAYED_TOPOLOGY_REQUESTS:
        why = f"{waiting.cluster_queue_name} has reserved its quota, and Kueue still has to choose its nodes"
        return HoldReason(GangReason.KUEUE_CHECKS, why, "wait; if it stays, read the log of Kueue's controller")
    return _checks(waiting, f"{waiting.cluster_queue_name} has reserved its quota, and it waits for")


def _checks(waiting: WaitingWorkload, has: str) -> HoldReason:
    """Returns the admission checks that are not ready. `has` introduces them."""
    open_ = [check for check in waiting.workload.checks if check.state != kueue.CHECK_READY]
    states = [
        f"admission check {check.name} ({check.state}{f': {waiting.quoted(check.message)}' if check.message else ''})"
        for check in open_[:_CHECKS]
    ]
    more = f" and {len(open_) - _CHECKS} more" if len(open_) > _CHECKS else ""
    names = " ".join(check.name for check in open_[:_CHECKS])
    look = f": kubectl describe admissionchecks {names}" if names else ""
    why = f"{has} {', '.join(states) or 'its admission'}{more}"
    return HoldReason(GangReason.KUEUE_CHECKS, why, f"wait; if it stays, read the log of the check's controller{look}")


def _blocked(waiting: WaitingWorkload, condition: KueueCondition | None) -> HoldReason | None:
    """Returns what keeps a Workload out of its queue's order."""
    if condition is None:
        return None
    message = condition.message
    names_queue = message.startswith(("LocalQueue ", "ClusterQueue ")) and message.endswith(_OF_QUEUE)
    is_selector = message.endswith(_SELECTOR) or message.startswith(_INVALID_SELECTOR)
    if condition.reason in {kueue.INADMISSIBLE, kueue.SUSPENDED} or names_queue or is_selector:
        return _queue_unusable(waiting, message)
    if condition.reason in {kueue.MISCONFIGURED, kueue.DRA_RESOURCES_UNRESOLVED}:
        why = f"Kueue cannot admit it as it is: {waiting.quoted(message)}"
        remedy = f"correct what the message names; if that is in the pod templates, recreate the {waiting.kind}"
        return HoldReason(GangReason.KUEUE_MISCONFIGURED, why, remedy)
    if condition.reason in {kueue.ADMISSION_GATED, kueue.ON_HOLD}:
        remedy = (
            f"who is named there removes itself from the annotation {kueue.ADMISSION_GATED_BY} of the {waiting.kind} "
            "when it is done; read its log"
        )
        return HoldReason(GangReason.KUEUE_GATED, f"Kueue holds it: {waiting.quoted(message)}", remedy)
    if condition.reason in {kueue.WAITING, kueue.WAITING_FOR_PODS_READY}:
        why = "Kueue admits nothing until the pods of all admitted workloads are ready (blockAdmission)"
        remedy = "find the admitted gang that does not start: rollcall gangs -A --held; or set blockAdmission to false"
        return HoldReason(GangReason.KUEUE_BLOCKED, why, remedy)
    if any(check.state in {kueue.CHECK_RETRY, kueue.CHECK_REJECTED} for check in waiting.workload.checks):
        return _checks(waiting, "Kueue does not look at it because of")
    return None


# What Kueue says of a queue that admits nothing, whichever reason it gives.
_OF_QUEUE = (" is inactive", " is stopped", " doesn't exist", " not found", " is terminating or missing")
_SELECTOR = "doesn't match ClusterQueue selector"
_INVALID_SELECTOR = "invalid namespace selector: "


def _queue_unusable(waiting: WaitingWorkload, message: str) -> HoldReason:
    why = f"Kueue holds it: {waiting.quoted(message)}"
    namespace, queue = waiting.key[0], waiting.workload.queue
    above, local = waiting.cluster_queue, waiting.local_queue
    if above is not None and above.active is False and above.message:
        why = f"{why}: {waiting.quoted(above.message)}"
    if local is None and message.startswith("LocalQueue "):
        remedy = f"create LocalQueue {queue} in {namespace}, or name another one in the label {kueue.QUEUE_NAME}"
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
    return HoldReason(GangReason.KUEUE_QUEUE_UNUSABLE, why, remedy)


def _backoff(waiting: WaitingWorkload) -> HoldReason | None:
    """Returns that a Workload that Kueue evicted is not in its queue again; None if it is."""
    workload = waiting.workload
    again = moment(workload.requeue_at)
    requeued = workload.condition(kueue.REQUEUED)
    if again is not None and again > waiting.now:
        why = f"Kueue queues it again {describe_time(again, waiting.now)}"
    elif requeued is not None and not requeued.status:
        why = "Kueue has not queued it again"
    else:
        return None
    evicted = workload.condition(kueue.EVICTED)
    if evicted is not None and evicted.status and evicted.reason != kueue.PODS_READY_TIMEOUT:
        # That its pods were not ready in time is a reason by itself.
        why = f"{why} after it was evicted ({evicted.reason}): {waiting.quoted(evicted.message)}"
    return HoldReason(GangReason.KUEUE_BACKOFF, why, "wait; each eviction makes the next wait longer")


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
        """Returns the place as plain JSON values."""
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

    gang: KueueGangWorkload | None = None
    why: HoldReason | None = None
    loop: HoldReason | None = None
    deadline: str = ""
    queued: QueuedAs | None = None

    @property
    def reasons(self) -> list[HoldReason]:
        """Every reason of Kueue's."""
        return [reason for reason in (self.why, self.loop) if reason is not None]


def kueue_hold(podgang: PodGang, pods: Sequence[GangPod], scheduler: str, sight: KueueSight) -> KueueHold:
    suspended = isinstance(podgang, OptedInGang) and podgang.workload.suspended
    gang_workload = workload_of(podgang, pods, sight.facts)
    if gang_workload is None or gang_workload.workload is None:
        return KueueHold(gang_workload, _no_workload(podgang, pods, sight))
    workload = gang_workload.workload
    waiting = _waiting(podgang, gang_workload.key, workload, sight)
    ahead = sight.places.ahead_of(gang_workload.key, sight.facts.local_queues)
    why = standing(waiting._replace(ahead=_ahead(ahead, sight)))
    if why is None and workload.admitted and suspended:
        remedy = "if it lasts, read the log of Kueue's controller: a webhook may refuse that Kueue resumes it"
        why = HoldReason(GangReason.KUEUE_NOT_RESUMED, "Kueue has admitted it, and it is still suspended", remedy)
    above = None if waiting.local_queue is None else waiting.local_queue.cluster_queue
    return KueueHold(
        gang_workload,
        why,
        taken_back(workload, sight.settings, scheduler),
        "" if suspended else countdown(workload, sight.settings, sight.now),
        None if why is None else QueuedAs(gang_workload.key[1], workload.queue, workload.cluster_queue or above, ahead),
    )


def _waiting(podgang: PodGang, key: ObjectKey, workload: KueueWorkload, sight: KueueSight) -> WaitingWorkload:
    facts, namespace = sight.facts, podgang.namespace
    local = (facts.local_queues or {}).get((namespace, workload.queue or ""))
    name = workload.cluster_queue or (None if local is None else local.cluster_queue)
    above = (facts.cluster_queues or {}).get(name or "")
    shown = partial(quoted, namespace=namespace, namespaces=facts.namespaces)
    return WaitingWorkload(key, workload, podgang.workload_kind, local, above, sight.now, shown)


def _no_workload(podgang: PodGang, pods: Sequence[GangPod], sight: KueueSight) -> HoldReason | None:
    """Returns that Kueue is to admit a gang and has made no Workload for it."""
    if sight.facts.kueue_workloads is None:
        return None
    if any(kueue.ADMISSION_GATE in pod.gates for pod in pods if pod.counts):
        why = "its pods have Kueue's gate, and Kueue has made no Workload for them"
        remedy = "read the events of the pods: a pod group needs as many pods as its pod-group-total-count says"
        return HoldReason(GangReason.KUEUE_NO_WORKLOAD, why, remedy)
    if not isinstance(podgang, OptedInGang) or not podgang.workload.suspended:
        return None
    if held(podgang.workload, sight.facts, sight.settings) is None:
        return None
    why = "Kueue is to admit it, and has made no Workload for it"
    look = f"kubectl describe {podgang.workload_kind.lower()} {podgang.workload.name} -n {podgang.namespace}"
    return HoldReason(GangReason.KUEUE_NO_WORKLOAD, why, f"read its events, and the log of Kueue's controller: {look}")


def _ahead(ahead: Ahead | None, sight: KueueSight) -> str:
    """Returns who is ahead, for a text in the gang's namespace: others are counted, not named."""
    if ahead is None:
        return ""
    if not ahead.number:
        return "; it is the next in its queue"
    names = [_owner_name(key, sight) for key in ahead.same_namespace]
    is_all = len(names) == ahead.number
    who = f" ({'' if is_all else 'among them '}{', '.join(names)})" if names else ""
    return f"; about {ahead.number} {'workload is' if ahead.number == 1 else 'workloads are'} ahead of it{who}"


def _owner_name(key: ObjectKey, sight: KueueSight) -> str:
    kueue_workloads = sight.facts.kueue_workloads
    owner = None if kueue_workloads is None or key not in kueue_workloads else kueue_workloads[key].owner
    return f"Workload {key[1]}" if owner is None else f"{owner.kind} {owner.name}"
