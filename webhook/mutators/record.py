"""The record on a workload: which scheduler it was admitted for, as the label `rollcall.dev/scheduler`.

Written to the workload's own metadata and never to its pod templates, whose hashes Grove compares. Grove mirrors a
PodCliqueSet's labels onto its PodGangs, where the reconciler reads it.
"""

from __future__ import annotations

from webhook.model.admission_request import Operation
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.mutators.json_patch import PatchBuilder


def record_scheduler(workload: PodCliqueSet, scheduler: str) -> tuple[Operation, ...]:
    """The patch that records `scheduler`; none where it is there. The workload's dict is changed in place."""
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return tuple(patch.operations)
