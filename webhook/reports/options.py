"""What the caller asked a report to show, for all formats."""

from __future__ import annotations

from dataclasses import dataclass, field

from webhook import __version__, documentation
from webhook.offline.levels import FailOn

ONLY_ERRORS = frozenset({FailOn.ERROR})


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What fails the check and what is printed. `version` and `documentation` are those of this build."""

    fail_on: frozenset[FailOn] = ONLY_ERRORS
    quiet: bool = False
    statistics: bool = False
    list_ignored: bool = False
    version: str = __version__
    documentation: str = field(default_factory=documentation)
