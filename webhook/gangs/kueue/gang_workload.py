"""Which Workload of Kueue stands for a gang.

Kueue makes one Workload for the top object of a workload, one for each group of a LeaderWorkerSet, and one for each
plain pod or group of pods. Its names contain a hash, so a Workload is found by the UID of its owner, or because the
owner or a pod names it. Only Workloads in the gang's namespace count.

Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework/reconciler.go (FindAncestorJobManagedByKueue),
pkg/controller/jobs/pod/pod_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from webhook.gangs.pod import GangPod
from webhook.gangs.pod_parts import KUEUE_NAMES
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.kueue import keys
from webhook.model.kueue.objects import KueueWorkload, KueueWorkloads
from webhook.model.reading import text
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import PodGang

# Workloads of one owner that are compared.
_MOST = 256


class GangWorkload(NamedTuple):
    """The Workload of a gang. `workload` is None if the gang names one that does not exist."""

    key: ObjectKey
    workload: KueueWorkload | None


def workload_of(podgang: PodGang, pods: Sequence[GangPod], facts: ClusterFacts) -> GangWorkload | None:
    """The Workload of a gang; of several, one that Kueue has not admitted. None if there is none."""
    known = facts.kueue_workloads
    if not isinstance(known, KueueWorkloads):
        return None
    if isinstance(podgang, OptedInGang) and (found := _of_owner(podgang, pods, known)) is not None:
        return found
    return _of_pods(pods, known)


def _of_owner(gang: OptedInGang, pods: Sequence[GangPod], known: KueueWorkloads) -> GangWorkload | None:
    """The Workload of the workload's controller, such as a TrainJob, or of the workload itself."""
    workload = gang.workload
    above = workload.controller
    # A group of a LeaderWorkerSet is named by its index and a revision.
    index = next((pod.group.partition("-")[0] for pod in pods if pod.group), None)
    for uid in (None if above is None else above.uid, workload.uid):
        found = () if uid is None else known.of_owner(workload.namespace, uid, index)
        if found:
            # An elastic Job has one for each size. Any user may make others that name this owner.
            newest = max(islice(found, _MOST), key=lambda key: (not known[key].finished, known[key].created, key))
            return GangWorkload(newest, known[newest])
    named = text(workload.annotations.get(keys.PREBUILT_WORKLOAD)) or text(workload.labels.get(keys.PREBUILT_WORKLOAD))
    return None if named is None else _named((workload.namespace, named), known)


def _of_pods(pods: Iterable[GangPod], known: KueueWorkloads) -> GangWorkload | None:
    first: GangWorkload | None = None
    for pod in pods:
        for found in _of_pod(pod, known):
            if found.workload is not None and not found.workload.admitted:
                return found
            first = found if first is None or first.workload is None else first
            break
    return first


def _of_pod(pod: GangPod, known: KueueWorkloads) -> Iterator[GangWorkload]:
    for key in KUEUE_NAMES:
        # Kueue reads the annotation before the label.
        if (named := text(pod.annotations.get(key)) or text(pod.labels.get(key))) is not None:
            yield _named((pod.namespace, named), known)
            return
    yield from (GangWorkload(key, known[key]) for key in known.of_owner(pod.namespace, pod.uid))


def _named(key: ObjectKey, known: KueueWorkloads) -> GangWorkload:
    return GangWorkload(key, known.get(key))
