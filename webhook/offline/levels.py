"""How grave the findings in files are, and which of them fail a check.

The command line declares its options with these words, so this module imports nothing of what judges.
"""

from __future__ import annotations

from enum import StrEnum


class FailOn(StrEnum):
    """What fails a check."""

    ERROR = "error"
    WARNING = "warning"
    UNJUDGED = "unjudged"


class Level(StrEnum):
    """The weight of a finding, in the words of a report."""

    ERROR = "error"
    WARNING = "warning"
    AUDIT = "audit"
