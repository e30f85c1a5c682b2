"""Whether a packed gang can ever be placed: ceilings, then the nodes, from the cheap conditions to the strong ones."""

from __future__ import annotations

from webhook.fit.budget import STEPS
from webhook.fit.packing import Packing
from webhook.fit.room import Room
from webhook.fit.verdict import Verdict


def judge(packing: Packing, room: Room | None, steps: int = STEPS) -> Verdict:
    """Return the verdict on a gang. Without a room only ceilings are judged."""
    raise NotImplementedError
