"""A scheduler's version as an administrator states it: `1.8`, `1.8.0`, `v1.8.0`."""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-+].*)?\Z", re.ASCII)


class Version(NamedTuple):
    """Major, minor, patch; a pre-release counts as its release."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @classmethod
    def parse(cls, word: str) -> Version | None:
        """The version that `word` writes, or None."""
        found = _VERSION.match(word)
        return None if found is None else cls(*(int(part or 0) for part in found.groups()))
