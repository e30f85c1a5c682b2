"""Limits for one text: documents, values, and copies that aliases make.

The limits apply to the whole text, YAML or JSON, with any number of documents. Those of the server limit the cost of a
megabyte from an unknown client. Those of the command line allow a file with all nodes of a large cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# A counted value is some microseconds of work.
_VALUES_BETWEEN_CALLS = 256


class Problem(Exception):
    """Content that a manifest must not have. `index` is its position in the text, None if unknown."""

    def __init__(self, index: int | None, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class Limits(NamedTuple):
    """`aliased` counts what aliases add: 20 for each value, and the length of each text."""

    documents: int
    values: int
    aliased: int


# A file may have 256 MiB. The nodes of a cluster have some 500 values in 15 KB each.
COMMAND_LINE = Limits(documents=1_000_000, values=20_000_000, aliased=64_000_000)
# A YAML value takes up to 450 bytes with its position, and a manifest of 1 MiB has some 40,000 values.
SERVER = Limits(documents=1000, values=100_000, aliased=2_000_000)


def go_on() -> None:
    """Do nothing: the default for `proceed`, when reading is never stopped."""


class Budget:
    """The remaining limits for one text. `proceed` is called now and then, and may raise."""

    def __init__(self, limits: Limits, proceed: Callable[[], None] = go_on) -> None:
        self.limits = limits
        self._proceed = proceed
        self._documents = self._values = self._aliased = 0
        self._next_call = _VALUES_BETWEEN_CALLS

    def document(self, index: int) -> None:
        """Count a document that begins at `index`. Raises `Problem`."""
        self._documents += 1
        if self._documents > self.limits.documents:
            raise Problem(index, f"has more than {self.limits.documents} documents; split it")

    def values(self, index: int, count: int = 1) -> None:
        """Count values. Raises `Problem`."""
        self._values += count
        if self._values >= self._next_call:
            self._next_call = self._values + _VALUES_BETWEEN_CALLS
            self._proceed()
            if self._values > self.limits.values:
                raise Problem(index, f"has more than {self.limits.values} values; split it")

    def aliased(self, index: int, cost: int) -> None:
        """Count what an alias adds. Raises `Problem`."""
        self._aliased += cost
        if self._aliased > self.limits.aliased:
            raise Problem(index, "its aliases make it too large")
