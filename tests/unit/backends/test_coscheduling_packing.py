"""What the plugin Coscheduling places together."""

from __future__ import annotations

from tests.texts import Text
from tests.unit.fit.shapes import drawn, gang, member
from webhook.backends.coscheduling import CoschedulingBackend, CoschedulingSettings
from webhook.backends.lpx import LpxBackend, LpxSettings
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import NOTHING_STATED, Packing
from webhook.model.facts import NO_FACTS


def packed(shape: GangShape) -> Packing:
    return CoschedulingBackend(CoschedulingSettings()).packing(shape, NO_FACTS, NOTHING_STATED)


def test_all_pods_of_one_pod_group_are_placed_together() -> None:
    assert drawn(packed(gang(member("a"), member("b", 3)))) == [(2, [("a", 2), ("b", 3)])]
    assert drawn(packed(gang(member("a", 2, 7)))) == [(1, [("a", 2)])]


def test_several_members_with_pods_above_a_minimum_are_not_judged_because_any_pods_count() -> None:
    assert packed(gang(member("a", 2, 3), member("b"))).unknown != ()


def test_nothing_is_claimed_of_a_scheduler_whose_ways_are_not_known() -> None:
    found = LpxBackend(LpxSettings()).packing(gang(member("a")), NO_FACTS, NOTHING_STATED)
    assert found.unknown == (Text("how this scheduler"),)
