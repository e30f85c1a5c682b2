"""The findings that follow from the verdicts on the gangs of a workload."""

from __future__ import annotations

from typing import Any

from webhook.fit.verdict import Family, Witness
from webhook.model.findings import Finding
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Context, Results

# The API server cuts a longer warning.
_MOST_BYTES = 256
_OR = ", or "


def never_fits(family: Family, workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Results:
    """Yield one finding for each proof of that family. Gangs that share a proof have one finding."""
    told: list[Witness] = []
    for found in context.fits(workload):
        witness = found.verdict.witness
        if witness is None or witness.family is not family or any(_says(witness, known) for known in told):
            continue
        told.append(witness)
        yield _short(witness)


def _says(witness: Witness, known: Witness) -> bool:
    """Return whether a proof says nothing that another did not: the same of fewer members."""
    same = (witness.condition, witness.domain, witness.shortfalls) == (known.condition, known.domain, known.shortfalls)
    return same and set(witness.members) <= set(known.members)


def _short(witness: Witness) -> Finding:
    """Return the finding of a proof, without the last remedies if it would be too long for a warning."""
    remedy = witness.remedy
    while True:
        found = Finding(at=witness.at, found=witness.found, why=witness.why, remedy=remedy)
        known, left_out, _ = remedy.rpartition(_OR)
        if not left_out or len(f"fit/{witness.family}{found}".encode()) <= _MOST_BYTES:
            return found
        remedy = known
