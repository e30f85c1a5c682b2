"""What a ClusterQueue of Kueue can give a workload at most: a workload that requests more is never admitted.

Kueue admits a workload as a whole, with all its pods, and gives each pod set one flavor of each resource. So a pod set
has at most the largest quota of a flavor, and all of them the sum. A cohort lends up to the borrowingLimit; without one
how much it may lend is not known. Source: kubernetes-sigs/kueue v0.19, pkg/scheduler/flavorassigner/flavorassigner.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from webhook.fit.amounts import amount, amount_of
from webhook.fit.demand import exact_requests, floors
from webhook.fit.verdict import Family, Scope, Shortfall, Witness
from webhook.model.amounts import LARGEST_AMOUNT, rounded_up
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS
from webhook.model.findings import shown
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, HeldBy, PodSet
from webhook.model.kueue.objects import ClusterQueue
from webhook.model.quantity import parse_quantity

# The number of the condition: a limit on a sum.
_CONDITION = "C0"
_UNKNOWN = "the ClusterQueue of the LocalQueue {} is unknown"
_UNREADABLE = "the quota of {} in the ClusterQueue {} cannot be read"
_LENT = "how much {} the cohort {} lends is not known"
_UNCOVERED = (
    "the ClusterQueue {} does not cover {}, and Kueue admits no such workload unless its configuration leaves it out"
)
ASSUMED = "the configuration of Kueue leaves out and transforms no resource that the workload requests"


class KueueLimits(NamedTuple):
    """The proofs that Kueue never admits a workload, what they rely on, and what is not known of its quotas, in
    words.
    """

    refusals: tuple[Witness, ...] = ()
    unknown: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = (ASSUMED,)


def kueue_limits(by_kueue: Held, namespace: str, facts: ClusterFacts) -> KueueLimits:
    """Return what the quotas of Kueue say of a workload that it holds. Raises `Malformed`."""
    local = (facts.local_queues or {}).get((namespace, by_kueue.queue or ""))
    name = None if local is None else local.cluster_queue
    queue = (facts.cluster_queues or {}).get(name or "")
    if queue is None or queue.quotas is None or name is None:
        return KueueLimits(unknown=(_UNKNOWN.format(shown(by_kueue.queue)),))
    if by_kueue.by is HeldBy.ELASTIC:
        return KueueLimits()
    requested = [_requested(pods) for pods in by_kueue.pod_sets]
    resources = dict.fromkeys(resource for one in requested for resource, needed in one.items() if needed)
    refusals: list[Witness] = []
    unknown: list[str] = []
    for resource in resources:
        limits, why = _limits(resource, name, queue)
        if why:
            unknown.append(why)
        elif witness := _refusal(resource, [one.get(resource, 0) for one in requested], limits, name, by_kueue):
            refusals.append(witness)
    return KueueLimits(tuple(refusals), tuple(unknown))


def _requested(pods: PodSet) -> Mapping[str, int]:
    """Return what a pod set requests at least, with the least number of pods that Kueue may start."""
    count = pods.count if pods.min_count is None else pods.min_count
    return {resource: needed * count for resource, needed in floors(exact_requests(pods.template)).items()}


def _limits(resource: str, name: str, queue: ClusterQueue) -> tuple[Sequence[int], str]:
    """Return the most that each flavor gives of a resource, or why that is not known."""
    quotas = [quota for quota in queue.quotas or () if quota.resource == resource]
    if not quotas:
        return (), _UNCOVERED.format(shown(name), resource[:80])
    found: list[int] = []
    for quota in quotas:
        stated = [quota.nominal]
        if queue.cohort is not None:
            if quota.borrowing is None:
                return (), _LENT.format(resource[:80], shown(queue.cohort))
            stated.append(quota.borrowing)
        amounts = list(_amounts(resource, stated))
        if len(amounts) < len(stated):
            return (), _UNREADABLE.format(resource[:80], shown(name))
        found.append(sum(amounts))
    return found, ""


def _amounts(resource: str, stated: Sequence[str]) -> Iterator[int]:
    """Yield the amounts that can be read and do not overflow."""
    for one in stated:
        number = parse_quantity(one)
        if number is not None and 0 <= (found := rounded_up(resource, number)) <= LARGEST_AMOUNT:
            yield found


def _refusal(
    resource: str, requested: Sequence[int], limits: Sequence[int], name: str, by_kueue: Held
) -> Witness | None:
    """Return the proof that the quota is too small: for all pods, or for those of one pod set."""
    needed, most, what = sum(requested), sum(limits), "the workload requests"
    if needed <= most:
        needed, most, what = max(requested), max(limits), "the pods of one part request"
    if needed <= most:
        return None
    return Witness(
        family=Family.QUEUE,
        scope=Scope.EVER,
        at=by_kueue.path or LABELS / keys.QUEUE_NAME,
        found=amount_of(resource, needed),
        why=f"{what} {amount_of(resource, needed)}, and the ClusterQueue {shown(name)} gives {amount(resource, most)} "
        "at most, so Kueue never admits it",
        remedy="request less, raise the quota, or name a LocalQueue of a larger ClusterQueue",
        condition=_CONDITION,
        shortfalls=(Shortfall(resource, needed, most),),
    )
