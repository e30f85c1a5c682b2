"""The record on a workload: the scheduler that it was admitted for, as the label `rollcall.dev/scheduler`.

It is written to the workload's own metadata and never to its pod templates, because Grove compares their hashes. Grove
copies a PodCliqueSet's labels to its PodGangs, where the reconciler reads the record.
"""

from __future__ import annotations

from webhook.model.admission_request import Operation
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.mutators.json_patch import PatchBuilder


def record_scheduler(workload: PodCliqueSet, scheduler: str) -> tuple[Operation, ...]:
    """The patch that records `scheduler`; empty if it is already recorded. The workload's dict is changed in place."""
    patch = PatchBuilder(workload.raw)
    patch.set(("metadata", "labels"), SCHEDULER_LABEL, scheduler)
    return tuple(patch.operations)
