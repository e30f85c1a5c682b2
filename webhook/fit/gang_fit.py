"""GangFit: a gang and whether it can ever start."""

from __future__ import annotations

from typing import NamedTuple

from webhook.fit.shape import GangShape
from webhook.fit.verdict import Verdict


class GangFit(NamedTuple):
    """A gang, and the verdict on it under one scheduler."""

    shape: GangShape
    verdict: Verdict
