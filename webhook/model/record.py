"""The record of a workload: what its pods are prepared from, read from the workload itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.capabilities import KAI_QUEUE, QUOTA_ANNOTATION, QUOTA_LABEL, VOLCANO_QUEUE
from webhook.model.facts import Record
from webhook.model.podcliqueset import PodCliqueSet
from webhook.model.reading import mapping, text

# On a workload: the choice of its scheduler, and from CREATE on its record. On a namespace: the choice for its new
# workloads.
SCHEDULER_LABEL = "rollcall.dev/scheduler"


def recorded_quota(workload: PodCliqueSet) -> str | None:
    """The quota of a set: its own annotation, else the first clique's (rules refuse cliques that differ)."""
    own = text(workload.annotations.get(QUOTA_ANNOTATION))
    if own is not None:
        return own
    return next((found for clique in workload.cliques if (found := quota_of_template(clique.raw)) is not None), None)


def quota_of_template(metadata: Mapping[str, Any]) -> str | None:
    """The quota that one pod template, or a pod, names: Grove's annotation, else Koordinator's label."""
    annotation = text(mapping(metadata.get("annotations")).get(QUOTA_ANNOTATION))
    return annotation or text(mapping(metadata.get("labels")).get(QUOTA_LABEL))


def volcano_queue_of(metadata: Mapping[str, Any]) -> str | None:
    """The Volcano queue that a set, a template or a PodGang names."""
    name = text(mapping(metadata.get("annotations")).get(VOLCANO_QUEUE))
    return None if name is None else name.strip() or None


def kai_queue_of(metadata: Mapping[str, Any]) -> str | None:
    """The KAI queue that a set, a template, a PodGang or a pod names: the label, else the annotation."""
    label = text(mapping(metadata.get("labels")).get(KAI_QUEUE))
    return label or text(mapping(metadata.get("annotations")).get(KAI_QUEUE))


def record_of(workload: PodCliqueSet, scheduler: str | None) -> Record:
    """The record of `workload`, whose scheduler is recorded or chosen as `scheduler`.

    A queue is the set's own, else the first that a clique names (rules refuse cliques that differ).
    """
    metadata = [mapping(workload.raw.get("metadata")), *(clique.raw for clique in workload.cliques)]
    return Record(
        scheduler,
        recorded_quota(workload),
        next(filter(None, map(volcano_queue_of, metadata)), None),
        next(filter(None, map(kai_queue_of, metadata)), None),
        workload.priority_class,
    )
