"""The estimate of now: where there is room, what is short, and which running gangs would have to go."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.fit.gangs_in_racks import gang, nodes, racks, running
from webhook.fit.feasibility import GangsToEvict, RoomAnswer, RoomEstimate, Usage, now_of
from webhook.fit.packing import Packing, Room
from webhook.fit.verdict import Shortfall

TRAIN = ("team-a", "train")


def now(packing: Packing, room: Room, **pods: tuple[str, int]) -> RoomEstimate:
    """The estimate for the gang team-a/train. A pod is named namespace__gang__name, with __ for /, and a - is a _."""
    found = {path.replace("__", "/").replace("_", "-"): place for path, place in pods.items()}
    return now_of(packing, room, Usage(running(found)), TRAIN)


def test_an_empty_rack_has_room() -> None:
    found = now(gang(2, 8), racks(a=2, b=1), **{"team_b__old__p1": ("b1", 8)})
    assert (found.answer, found.domains, found.leaving) == (RoomAnswer.ROOM, ("rack a",), None)
    assert [(placed.role, placed.domain, placed.pods) for placed in found.placement] == [
        ("worker", "a", 1),
        ("worker", "a", 1),
    ]


def test_without_a_required_domain_the_nodes_are_named() -> None:
    found = now(gang(2, 8, None), racks(a=3), **{"team_b__old__p1": ("a1", 1)})
    assert (found.answer, sorted(found.domains)) == (RoomAnswer.ROOM, ["a2", "a3"])


def test_a_full_rack_is_short_and_names_the_gang_of_its_own_namespace() -> None:
    found = now(gang(2, 8), racks(a=2), **{"team_a__old__p1": ("a1", 8)})
    assert (found.answer, found.nearest, found.short) == (RoomAnswer.SHORT, "rack a", (Shortfall("pods", 2, 1),))
    assert found.leaving == GangsToEvict(("old",), 0)


def test_gangs_of_other_namespaces_are_counted_and_not_named() -> None:
    found = now(gang(2, 8), racks(a=2), **{"secret__one__p1": ("a1", 8), "secret__two__p1": ("a2", 8)})
    assert found.leaving == GangsToEvict((), 2)
    assert "secret" not in str(found)
    assert "one" not in str(found.as_json()).replace("None", "")


def test_the_smallest_set_of_gangs_has_to_go() -> None:
    # Rack a lacks one node; to free rack b, two gangs would have to go.
    pods = {
        "team_a__small__p1": ("a1", 4),
        "team_a__large__p1": ("a2", 8),
        "team_a__large__p2": ("a3", 8),
        "team_a__b1__p1": ("b1", 8),
        "team_a__b2__p1": ("b2", 8),
    }
    found = now(gang(2, 8), racks(a=3, b=2), **pods)
    assert (found.nearest, found.leaving) == ("rack a", GangsToEvict(("large",), 0))


def test_of_two_gangs_that_are_enough_the_smaller_one_has_to_go() -> None:
    pods = {"team_a__tiny__p1": ("a1", 1), "team_a__huge__p1": ("a2", 8)}
    found = now(gang(1, 8), racks(a=2), **pods)
    assert (found.answer, found.leaving) == (RoomAnswer.SHORT, GangsToEvict(("tiny",), 0))


def test_if_pods_of_no_gang_use_too_much_nobody_is_named() -> None:
    found = now(gang(2, 8), racks(a=2), **{"team_a____daemon": ("a1", 1), "team_a__old__p1": ("a2", 8)})
    assert (found.answer, found.leaving) == (RoomAnswer.SHORT, None)


def test_what_its_own_pods_use_counts_as_free() -> None:
    found = now(gang(2, 8), racks(a=2), **{"team_a__train__p1": ("a1", 8)})
    assert found.answer is RoomAnswer.ROOM


def test_a_closed_node_takes_no_pods_now() -> None:
    found = now_of(gang(2, 8), racks(a=2), Usage(running({}), closed=frozenset({"a2"})), TRAIN)
    assert (found.answer, found.leaving) == (RoomAnswer.SHORT, None)


def test_nodes_that_do_not_exist_yet_have_no_room_now() -> None:
    future = nodes("a", "x")._replace(number=None, nodes=(), future=True)
    found = now_of(gang(2, 8, None), Room((*racks(a=1).classes, future), grows=True), Usage(running({})), TRAIN)
    assert found.answer is RoomAnswer.SHORT


def test_a_partial_list_of_nodes_gives_no_estimate() -> None:
    partial = replace(racks(a=2), unknown="partial")
    found = now_of(gang(2, 8), partial, Usage(running({})), TRAIN)
    assert (found.answer, found.why) == (RoomAnswer.UNKNOWN, "partial")


def test_the_estimate_says_in_json_that_it_is_one() -> None:
    found = now(gang(2, 8), racks(a=1)).as_json()
    assert found["estimate"] is True
    assert found["short"] == [{"resource": "pods", "needed": 2, "there": 1}]
