"""Shapes of gangs for the tests of what schedulers place together, in a short form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from webhook.fit.gang_shapes import GangShape, MemberShape, SubsetShape
from webhook.fit.packing import GroupNeed, Need, Packing, PodsNeed
from webhook.model.fields import SPEC
from webhook.model.keys import Record
from webhook.model.pod_template import PodTemplate
from webhook.workloads.opted_in_workload import TemplatePlace

RACK, ZONE, BLOCK = "example.com/rack", "example.com/zone", "example.com/block"


def template(**requests: str) -> PodTemplate:
    container = {"name": "main", "resources": {"requests": requests}}
    return PodTemplate({}, {"containers": [container]}, TemplatePlace(SPEC))


def member(name: str, minimum: int = 2, pods: int | None = None, **fields: Any) -> MemberShape:
    """A member whose pods ask for a cpu."""
    made = fields.pop("template", template(cpu="1"))
    return MemberShape(name, SPEC, made, minimum, minimum if pods is None else pods, **fields)


def gang(*members: MemberShape, subsets: Iterable[SubsetShape] = (), **fields: Any) -> GangShape:
    return GangShape("demo-0", "default", members, Record("any"), tuple(subsets), **fields)


def subset(name: str, *members: str, required: str = RACK) -> SubsetShape:
    return SubsetShape(name, members, required, SPEC)


def drawn(packing: Packing) -> list[Any]:
    """The sets of a packing as plain values: pods as (role, count), groups as (count, [needs]), and behind them the
    keys or the objects of their domain, if they need one.
    """
    return [_drawn(need) for need in packing.sets]


def _drawn(need: Need) -> Any:
    if isinstance(need, PodsNeed):
        found: tuple[Any, ...] = (need.role.name, need.count)
    else:
        found = (need.count, [_drawn(inner) for inner in need.needs])
    if need.within is None:
        return found
    return (*found, need.within.keys if need.within.members is None else dict(need.within.members))


__all__ = ["BLOCK", "RACK", "ZONE", "GroupNeed", "drawn", "gang", "member", "subset", "template"]
