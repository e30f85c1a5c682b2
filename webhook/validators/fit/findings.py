"""The findings that follow from the verdicts on the gangs of a workload."""

from __future__ import annotations

from typing import Any

from webhook.fit.verdict import Family
from webhook.model.findings import Finding
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Context, Results


def never_fits(family: Family, workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Yield one finding for each proof of that family. Gangs that share a proof have one finding."""
    told: set[tuple[str, str]] = set()
    for _, verdict in context.fits(workload):
        witness = verdict.witness
        if witness is None or witness.family is not family or (str(witness.at), witness.why) in told:
            continue
        told.add((str(witness.at), witness.why))
        yield Finding(at=witness.at, found=witness.found, why=witness.why, remedy=witness.remedy)
