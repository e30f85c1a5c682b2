"""The gang of a PodGang: the name under which its gang objects are made (no I/O).

It is the PodGang's name when its objects were first made. After Grove has renamed the PodGang, the pods that live
decide, then the objects that live, and last the PodGang's own name. The webhook decides for a pod in the same way,
without the other pods: `webhook.model.living_gang.gang_joined`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from webhook.backends.base import PodChanges
from webhook.errors import FactsUnavailable
from webhook.gangs.pod import GangPod
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.living_gang import LivingGang, gang_joined, is_divided, map_key
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang, Present, no_count


class Named(NamedTuple):
    """The name of a gang. `present` is that of `PodGang`."""

    gang: str
    present: Present = no_count


class Known(NamedTuple):
    """What the name of a gang is decided from.

    `holders` are the gangs that contain one of its members. `pods` returns its pods, and is only called if the objects
    leave a doubt. It raises `FactsUnavailable` if the pods are not read. `prepared` returns what preparation would
    write on a pod in a gang of that name, None if its scheduler is not known. `workload` returns its PodCliqueSet.
    """

    holders: Sequence[LivingGang]
    pods: Callable[[], Sequence[GangPod]]
    prepared: Callable[[GangPod, str], PodChanges] | None
    facts: ClusterFacts
    workload: Callable[[], PodCliqueSet | None]


def gang_of(podgang: PodGang, known: Known) -> PodGang:
    """The PodGang with the name of its gang. Raises `Malformed`, and `FactsUnavailable` as `Known.pods` does."""
    named = _named(podgang, known)
    return podgang.named(named.gang, divided=_divided(podgang, named.gang, known), present=named.present)


def _named(podgang: PodGang, known: Known) -> Named:
    gangs = {one.gang for one in known.holders}
    if len(gangs) == 1 and all(one.podgang == podgang.name for one in known.holders):
        return Named(gangs.pop())
    if grove.LABEL_EPOCH in podgang.labels and known.facts.pod_gang_maps is None:
        raise FactsUnavailable("the PodGangMaps are not read yet")
    joined = gang_joined(podgang.name, known.holders, known.facts.pod_gang_map(podgang.namespace, podgang.labels))
    if known.prepared is None:
        return Named(joined or podgang.name)
    pods = sorted(
        (pod for pod in known.pods() if pod.counts), key=lambda pod: (pod.node is None, pod.created, pod.name)
    )
    workload = known.workload() if pods else None
    for pod in pods:
        candidates = dict.fromkeys((joined or podgang.name, podgang.name, *_earlier(pod, workload)))
        found = next((gang for gang in candidates if _is_in(pod, gang, known.prepared)), None)
        if found is not None:
            counted = partial(_present, podgang, pods, found, known.prepared)
            return Named(found) if pod.node is None else Named(found, counted)
    return Named(joined or podgang.name)


def _present(
    podgang: PodGang, pods: Sequence[GangPod], gang: str, prepared: Callable[[GangPod, str], PodChanges]
) -> Mapping[str, int] | None:
    found = Counter(pod.podclique for pod in pods if pod.node is not None and _is_in(pod, gang, prepared))
    return found if any(found[member.name] < member.min_replicas for member in podgang.members) else None


def _divided(podgang: PodGang, gang: str, known: Known) -> frozenset[str]:
    """The members whose pods are divided over several gangs."""
    where = known.facts.pod_gang_map(podgang.namespace, podgang.labels)
    holders: dict[str, list[LivingGang]] = {}
    for one in known.holders:
        for member in one.members:
            holders.setdefault(member, []).append(one)
    names = (member.name for member in podgang.members)
    return frozenset(name for name in names if is_divided(gang, podgang.name, name, holders.get(name, ()), where))


def _earlier(pod: GangPod, workload: PodCliqueSet | None) -> Iterator[str]:
    """The names that Grove up to v0.1.0-alpha.11 gave the PodGang of a pod."""
    base = map_key(pod.namespace, pod.labels)
    if base is None:
        return
    group, index = (
        str(pod.labels.get(label) or "") for label in (grove.LABEL_SCALING_GROUP, grove.LABEL_SCALING_GROUP_REPLICA)
    )
    least = {} if workload is None else {f"{base[1]}-{one.name}": one.min_available for one in workload.scaling_groups}
    above = int(index) - least[group] if group in least and index.isascii() and index.isdecimal() else -1
    yield base[1] if above < 0 else f"{group}-{above}"


def _is_in(pod: GangPod, gang: str, prepared: Callable[[GangPod, str], PodChanges]) -> bool:
    """Whether a pod was prepared as a member of a gang: it has everything that would differ in another gang."""
    try:
        mine, other = (prepared(pod, name) for name in (gang, f"{gang}-other"))
    except FactsUnavailable:
        return False
    return all(
        holder.get(key) == value
        for holder, ours, theirs in _parts(pod, mine, other)
        for key, value in ours.items()
        if theirs.get(key) != value
    )


def _parts(
    pod: GangPod, mine: PodChanges, other: PodChanges
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]]:
    yield pod.labels, mine.labels, other.labels
    yield pod.annotations, mine.annotations, other.annotations
    yield pod.spec, mine.default_fields, other.default_fields
