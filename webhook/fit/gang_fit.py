"""GangFit: a gang and whether it can ever start."""

from __future__ import annotations

from typing import NamedTuple

from webhook.fit.packing import Packing
from webhook.fit.room import Room
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Verdict


class GangFit(NamedTuple):
    """A gang, and the verdict on it under one scheduler. `packing` and `room` are what was judged: None if that was not
    looked at, `room` also if no node is known.
    """

    shape: GangShape
    verdict: Verdict
    packing: Packing | None = None
    room: Room | None = None
