"""The products that are upgraded under living gangs, and their releases."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import total_ordering

# `1.37`, `v0.16.2`, `v0.1.0-alpha.13`, and Grove's candidates of a pre-release, `v0.1.0-alpha.12-rc1`. Vendors append
# their own words: `v1.37.2+k3s1`.
_RELEASE = re.compile(
    r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?"
    r"(?:-(alpha|beta|rc)\.?(\d{1,4})(?:-rc\.?(\d{1,4}))?)?"
    r"(?:[-+][0-9A-Za-z.+_-]*)?",
    re.ASCII,
)
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, None: 3}
# After every candidate.
_FINAL = 10_000


class Product(StrEnum):
    """What can be upgraded, in the order in which it is upgraded.

    KAI comes before Grove, because Grove's own KAI backend needs an annotation that an old KAI ignores
    (KAI-Scheduler#2117).
    """

    KOORDINATOR = "koordinator"
    VOLCANO = "volcano"
    KAI = "kai"
    KUBERNETES = "kubernetes"
    GROVE = "grove"

    @property
    def example(self) -> str:
        """A release of it, as a user would write it."""
        return _EXAMPLES[self]


_EXAMPLES = {
    Product.KOORDINATOR: "1.8",
    Product.VOLCANO: "1.15",
    Product.KAI: "0.17.1",
    Product.KUBERNETES: "1.37",
    Product.GROVE: "v0.1.0-alpha.13",
}


@total_ordering
class Release:
    """A release of a product. Without a patch number it is the first of its series: `0.17` is `0.17.0`."""

    def __init__(self, written: str) -> None:
        """Raises `ValueError` if `written` is not a version."""
        found = _RELEASE.fullmatch(written)
        if found is None:
            raise ValueError(written)
        major, minor, patch, stage, number, candidate = found.groups()
        numbers = int(major), int(minor), int(patch or 0)
        before = _STAGES[stage], int(number or 0), _FINAL if candidate is None else int(candidate)
        self._order = (*numbers, *before)
        self._written = written

    @property
    def series(self) -> tuple[int, int]:
        """Its major and minor number."""
        return self._order[:2]

    def __str__(self) -> str:
        return self._written

    def __repr__(self) -> str:
        return f"Release({self._written!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: Release) -> bool:
        return self._order < other._order
