"""The gangs of stored objects, found by their members."""

from __future__ import annotations

from webhook.backends.koordinator.keys import POD_GROUP
from webhook.gangs.object_plan import MemberGangs
from webhook.model.gang_objects import LivingGang

BOTH = LivingGang("demo-0", "demo-0", ("demo-0-a", "demo-0-b"), moved=True)


def alone(member: str, gang: str = "demo-0") -> LivingGang:
    return LivingGang(gang, gang, (member,), moved=True)


def names(found: MemberGangs, *members: str, namespace: str = "team") -> list[str]:
    return [one.gang for one in found.having(namespace, list(members))]


def test_a_gang_is_found_by_the_object_that_has_the_name_of_its_member() -> None:
    found = MemberGangs(POD_GROUP)
    found.put(("team", "demo-0-a"), alone("demo-0-a"))
    assert names(found, "demo-0-a") == ["demo-0"]
    assert names(found, "demo-0-b") == names(found, "demo-0-a", namespace="other") == []


def test_a_gang_is_found_by_an_object_of_another_name() -> None:
    found = MemberGangs(POD_GROUP)
    found.put(("team", "demo-0-a-1"), alone("demo-0-a", "demo-0"))
    found.put(("team", "demo-0-a"), alone("demo-0-a", "demo-1"))
    found.put(("team", "whole"), BOTH._replace(gang="demo-2"))
    assert sorted(names(found, "demo-0-a", "demo-0-b", "demo-0-a")) == ["demo-0", "demo-1", "demo-2"]


def test_an_object_is_found_by_what_it_says_now() -> None:
    found, key = MemberGangs(POD_GROUP), ("team", "demo-0-a")
    found.put(key, alone("demo-0-a"))
    found.put(key, BOTH)
    assert names(found, "demo-0-a", "demo-0-b") == ["demo-0"]
    found.put(key, alone("demo-0-a", "demo-1"))
    assert names(found, "demo-0-b") == []
    assert names(found, "demo-0-a") == ["demo-1"]
    found.put(key, None)
    assert names(found, "demo-0-a", "demo-0-b") == []


def test_what_the_objects_of_a_gang_have_in_common_is_kept_once() -> None:
    found = MemberGangs(POD_GROUP)
    for member in ("demo-0-a", "demo-0-b"):
        found.put(("team", member), alone(member))
    one, other = found._by_name.values()
    assert one is other
    assert [gang.members for gang in found.having("team", ["demo-0-a", "demo-0-b"])] == [("demo-0-a",), ("demo-0-b",)]
