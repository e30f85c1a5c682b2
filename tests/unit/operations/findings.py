"""The findings of single checks about a snapshot."""

from __future__ import annotations

from webhook.operations.checks import EVERY_CHECK
from webhook.operations.diagnosis import Severity, examine
from webhook.operations.snapshot import Snapshot


def reported(snapshot: Snapshot, *ids: str) -> list[tuple[Severity, str, str]]:
    """The level, place and text of the findings of these checks."""
    wanted = [check for check in EVERY_CHECK if check.id in ids]
    assert len(wanted) == len(ids), f"of {ids} there are {[check.id for check in wanted]}"
    diagnosis = examine(snapshot, wanted)
    assert diagnosis.not_known == []
    return [(one.level, one.symptom.where, one.symptom.observation) for one in diagnosis.problems]


def unknown(snapshot: Snapshot, check_id: str) -> list[str]:
    """Why a check could not be evaluated."""
    return [one.why for one in examine(snapshot, [one for one in EVERY_CHECK if one.id == check_id]).not_known]


def remedies(snapshot: Snapshot, check_id: str) -> list[str]:
    """The remedies of a check."""
    found = examine(snapshot, [one for one in EVERY_CHECK if one.id == check_id]).problems
    return [one.symptom.remedy for one in found]
