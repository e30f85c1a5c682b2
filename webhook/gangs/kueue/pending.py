"""Why Kueue's scheduler has not admitted a Workload that waits in its queue, from the message that it wrote (no I/O).

The message says what each flavor lacks for each pod set. Source: kubernetes-sigs/kueue v0.19,
pkg/scheduler/flavorassigner/flavorassigner.go (fitsResourceQuota), tas_flavorassigner.go,
pkg/cache/scheduler/tas_flavor_snapshot.go (notFitMessage).
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
    message = "" if told is None else told.message
    sets = [one for one in message.split(_POD_SET) if one.strip()]
    if message.startswith(_POD_SET):
        if (found := next((one for one in map(_exceeded, sets) if one), None)) is not None:
            return _too_big(waiting, found)
        if _NO_TOPOLOGY.search(message) is None and _UNKNOWN_TOPOLOGY.search(message) is not None:
            return _topology_unknown(waiting, message)
    elif _UNKNOWN_TOPOLOGY.search(message) is not None:
        return _topology_unknown(waiting, message)
    if _NO_TOPOLOGY.search(message) is not None:
        why = f"{waiting.cluster_queue_name} has no place for it: {waiting.quoted(_said(message))}{waiting.ahead}"
        remedy = "wait for the nodes that it needs; if there are too few in all, ask for fewer pods or a wider topology"
        return HoldReason(Reason.KUEUE_NO_TOPOLOGY, why, remedy)
    return _waits(waiting, message)


def _exceeded(of_set: str) -> re.Match[str] | None:
    """What a pod set can never have: no flavor has enough, even if it were empty."""
    if _SHORT.search(of_set) is not None or _NO_TOPOLOGY.search(of_set) is not None:
        return None
    return _TOO_BIG.search(of_set)


def _too_big(waiting: Waiting, found: re.Match[str]) -> HoldReason:
    resource, flavor, before, asked, most = found.groups()
    wants = asked if before in {"0", ""} else f"{before} and {asked}"
    why = f"{waiting.cluster_queue_name} has at most {most} {resource} in flavor {flavor}, and it asks for {wants}"
    remedy = f"ask for less, or raise the quota of {waiting.cluster_queue_name}: it is never admitted as it is"
    return HoldReason(Reason.KUEUE_TOO_BIG, waiting.quoted(why), remedy)


def _topology_unknown(waiting: Waiting, message: str) -> HoldReason:
    why = f"{waiting.cluster_queue_name} cannot place it: {waiting.quoted(_said(message))}"
    remedy = "ask for a topology level that a flavor of the ClusterQueue has, or for none"
    return HoldReason(Reason.KUEUE_TOPOLOGY_UNKNOWN, why, remedy)


def _waits(waiting: Waiting, message: str) -> HoldReason:
    short = [f"{amount} {resource} in flavor {flavor}" for resource, flavor, amount in _SHORT.findall(message)]
    remedy = f"wait for quota, raise the quota of {waiting.cluster_queue_name}, or ask for less"
    if short:
        shown = list(dict.fromkeys(short))
        more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
        why = f"{waiting.cluster_queue_name} is short of {', '.join(shown[:_LISTED])}{more}"
        if (preempts := _PREEMPTS.search(message)) is not None:
            why = f"{why}; Kueue preempts {preempts[1]} of its workloads"
            remedy = "wait until these have ended"
        return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, f"{waiting.quoted(why)}{waiting.ahead}", remedy)
    if not message or waiting.workload.condition(keys.QUOTA_RESERVED) is None:
        queue = waiting.workload.queue
        # Kueue passes over a workload that equals one that it has just refused, without a word.
        why = f"it waits in LocalQueue {queue}, and Kueue has said nothing about it yet{waiting.ahead}"
        remedy = "wait for those ahead; if it stays, read the log of Kueue's controller"
        return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, why, remedy)
    why = f"{waiting.cluster_queue_name} does not admit it yet: {waiting.quoted(_said(message))}{waiting.ahead}"
    return HoldReason(Reason.KUEUE_WAITS_FOR_QUOTA, why, remedy)


def _said(message: str) -> str:
    return message.removeprefix(_POD_SET)
