"""The command line in this process."""

from __future__ import annotations

from tests.unit.cli.conftest import rollcall

__all__ = ["rollcall"]
