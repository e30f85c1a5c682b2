"""Changes of an existing gang that its scheduler cannot apply at every stage of the gang.

A backend names such a change; the reconciler compares its stage with the stage of the gang.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from webhook.model.reading import Manifest


class Stage(IntEnum):
    """The stage of a gang: it has no pods, or its pods all wait, or at least one pod is on a node."""

    EMPTY = 0
    WAITING = 1
    BOUND = 2


class Frozen(NamedTuple):
    """A change of an existing gang that its scheduler cannot apply at every stage.

    Up to the stage `until`, the change can be made: first the objects in `recreated` (as they are in the cluster) are
    deleted, then the desired objects are written. After that stage, no object of the gang is written.
    """

    # What changed, in words: "the minimum of demo-0-worker goes from 2 to 3".
    what: str
    # Why the scheduler cannot follow, as the end of a sentence.
    why: str
    until: Stage
    recreated: tuple[Manifest, ...] = ()
