"""What an entry of the tables in this folder is."""

from __future__ import annotations

from typing import NamedTuple

from tests.unit.cli.agreement import Case

WITHOUT_OPTIONS = Case()


class Mistake(NamedTuple):
    """Manifests with one typical mistake, and what a person expects to be told about them.

    `says` has all errors and warnings, each as line, level and rule. It has also the rules that are not judged, and the
    notes, that are about the mistake.
    """

    manifests: str
    says: tuple[str, ...]
    # The public issue that reports the mistake.
    source: str | None = None
    case: Case = WITHOUT_OPTIONS
