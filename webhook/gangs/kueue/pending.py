"""Why Kueue's scheduler has not admitted a Workload that waits in its queue (no I/O).

The reason of the condition says it, with the gate UnadmittedWorkloadsObservability, which is on by default from 0.20
on. Without the gate, only the message does: it says what each flavor lacks for each pod set.

Source: kubernetes-sigs/kueue v0.19 and its main branch before v0.20, pkg/scheduler/flavorassigner/flavorassigner.go
(fitsResourceQuota, resolveNoFitReason), tas_flavorassigner.go, pkg/cache/scheduler/tas_flavor_snapshot.go
(notFitMessage).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.model.kueue import keys
from webhook.model.kueue.objects import Condition

if TYPE_CHECKING:
    from webhook.gangs.kueue.standing import Waiting

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


def pending(waiting: Waiting, told: Condition | None) -> HoldReason:
    """Why a Workload waits in its queue. `told` is its condition QuotaReserved."""
    message, reason = ("", "") if told is None else (told.message, told.reason)
    unknown_topology = _NO_TOPOLOGY.search(message) is None and _UNKNOWN_TOPOLOGY.search(message) is not None
    match reason:
        case keys.EXCEEDS_MAX_QUOTA:
            return _too_big(waiting, message)
        case keys.NO_MATCHING_FLAVOR | keys.TOPOLOGY_PLACEMENT_FAILED if unknown_topology:
            return _topology_unknown(waiting, message)
        case keys.NO_MATCHING_FLAVOR:
            return _no_flavor(waiting, message)
        case keys.TOPOLOGY_PLACEMENT_FAILED:
            return _no_topology(waiting, message)
        case keys.WAITING_FOR_QUOTA | keys.WAITING_FOR_PREEMPTED_WORKLOADS | keys.PENDING_EVALUATION:
            return _waits(waiting, message, preempts=reason == keys.WAITING_FOR_PREEMPTED_WORKLOADS)
    if _exceeded(message) is not None:
        return _too_big(waiting, message)
    if unknown_topology or (not message.startswith(_POD_SET) and _UNKNOWN_TOPOLOGY.search(message) is not None):
        return _topology_unknown(waiting, message)
    return _waits(waiting, message) if _NO_TOPOLOGY.search(message) is None else _no_topology(waiting, message)


def _exceeded(message: str) -> re.Match[str] | None:
    """What a pod set can never have: no flavor has enough, even if it were empty."""
    for of_set in message.split(_POD_SET) if message.startswith(_POD_SET) else ():
        if _SHORT.search(of_set) is None and _NO_TOPOLOGY.search(of_set) is None:
            exceeded = _TOO_BIG.search(of_set)
            if exceeded is not None:
                return exceeded
    return None


def _too_big(waiting: Waiting, message: str) -> HoldReason:
    """That a Workload asks for more than there is. The message may name other flavors, too, and then it is quoted."""
    exceeded = _exceeded(message)
    if exceeded is None:
        why = f"it asks for more than {waiting.cluster_queue_name} can ever have: {_said(message)}"
    else:
        resource, flavor, before, asked, most = exceeded.groups()
        wants = asked if before in {"0", ""} else f"{before} and {asked}"
        why = f"{waiting.cluster_queue_name} has at most {most} {resource} in flavor {flavor}, and it asks for {wants}"
    remedy = f"ask for less, or raise the quota of {waiting.cluster_queue_name}: it is never admitted as it is"
    return HoldReason(Reason.KUEUE_TOO_BIG, waiting.quoted(why), remedy)


def _no_flavor(waiting: Waiting, message: str) -> HoldReason:
    why = f"no flavor of {waiting.cluster_queue_name} takes its pods: {waiting.quoted(_said(message))}"
    remedy = (
        f"let its node selectors, tolerations and resources match a flavor of {waiting.cluster_queue_name}, or use "
        "another LocalQueue"
    )
    return HoldReason(Reason.KUEUE_NO_FLAVOR, why, remedy)


def _no_topology(waiting: Waiting, message: str) -> HoldReason:
    why = f"{waiting.cluster_queue_name} has no place for it: {waiting.quoted(_said(message))}{waiting.ahead}"
    remedy = "wait for the nodes that it needs; if there are too few in all, ask for fewer pods or a wider topology"
    return HoldReason(Reason.KUEUE_NO_TOPOLOGY, why, remedy)


def _topology_unknown(waiting: Waiting, message: str) -> HoldReason:
    why = f"{waiting.cluster_queue_name} cannot place it: {waiting.quoted(_said(message))}"
    remedy = "ask for a topology level that a flavor of the ClusterQueue has, or for none"
    return HoldReason(Reason.KUEUE_TOPOLOGY_UNKNOWN, why, remedy)


def _waits(waiting: Waiting, message: str, *, preempts: bool = False) -> HoldReason:
    """That a Workload waits for quota; with `preempts`, until the workloads that Kueue preempts for it have ended."""
    short = [f"{amount} {resource} in flavor {flavor}" for resource, flavor, amount in _SHORT.findall(message)]
    ends = "wait until these have ended"
    remedy = f"wait for quota, raise the quota of {waiting.cluster_queue_name}, or ask for less"
    if short:
        shown = list(dict.fromkeys(short))
        more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
        why = f"{waiting.cluster_queue_name} is short of {', '.join(shown[:_LISTED])}{more}"
        if (preempted := _PREEMPTS.search(message)) is not None:
            why, remedy = f"{why}; Kueue preempts {preempted[1]} of its workloads", ends
        return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, f"{waiting.quoted(why)}{waiting.ahead}", remedy)
    if not message or waiting.workload.condition(keys.QUOTA_RESERVED) is None:
        queue = waiting.workload.queue
        # Kueue passes over a workload that equals one that it has just refused, without a word.
        why = f"it waits in LocalQueue {queue}, and Kueue has said nothing about it yet{waiting.ahead}"
        remedy = "wait for those ahead; if it stays, read the log of Kueue's controller"
        return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, why, remedy)
    if preempts:
        why, remedy = f"Kueue preempts other workloads for it: {waiting.quoted(_said(message))}", ends
    else:
        why = f"{waiting.cluster_queue_name} does not admit it yet: {waiting.quoted(_said(message))}{waiting.ahead}"
    return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, why, remedy)


def _said(message: str) -> str:
    return message.removeprefix(_POD_SET)
