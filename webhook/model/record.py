"""The record of a workload: what its pods are prepared from, read from the workload itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.capabilities import QUOTA_ANNOTATION, QUOTA_LABEL
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


def record_of(workload: PodCliqueSet, scheduler: str | None) -> Record:
    """The record of `workload`, whose scheduler is recorded or chosen as `scheduler`."""
    return Record(scheduler, recorded_quota(workload))
