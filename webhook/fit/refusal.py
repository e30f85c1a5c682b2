"""Refusal: why pods cannot be in an area, as integers that anybody can add up."""

from __future__ import annotations

from typing import NamedTuple

from webhook.fit.domains import Domain
from webhook.fit.ground import Area
from webhook.fit.packing import Partition
from webhook.fit.parts import Part


class Refusal(NamedTuple):
    """A condition that fails. The pods of `kinds` need at least `needed` of a resource, and the nodes of the area can
    give them at most `there`. Without a resource, pods are counted.

    For a required domain `domain` is the one that comes nearest, and `inner` why the part does not fit there.
    """

    condition: str
    part: Part
    area: Area
    kinds: tuple[int, ...] = ()
    resource: int | None = None
    needed: int = 0
    there: int = 0
    partition: Partition | None = None
    domain: Domain | None = None
    inner: Refusal | None = None
    key: str | None = None
