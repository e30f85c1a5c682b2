from __future__ import annotations

import pytest

from tests.unit.fit.gangs import AT, GPU, HOST, RACK, ZONE, gang, nodes, pods, role, room
from webhook.fit.packing import OWN_VALUE
from webhook.fit.placement import Spot, holds, placement_of
from webhook.fit.pod_needs import AntiAffinity, DeviceNeed, HostPort, SpreadLimit
from webhook.fit.verdict import PlacedPods

WORKER = role("worker", 4)


def test_a_placement_holds_and_says_where_each_pod_is() -> None:
    racks = room(nodes(2, 8, labels={"rack": "r"}))
    need = gang(pods(WORKER, 3), within=RACK)
    spots = [Spot((0,), 0, 0, 1, 2), Spot((0,), 0, 1, 1, 1)]
    assert holds(spots, need, racks)
    assert placement_of(spots, need, racks) == (
        PlacedPods("worker", "r", "r-0", 2),
        PlacedPods("worker", "r", "r-1", 1),
    )


@pytest.mark.parametrize(
    "spots",
    [
        [],
        [Spot((), 0, 0, 1, 2)],
        [Spot((), 0, 0, 1, 3)],
        [Spot((), 0, 0, 1, 2), Spot((), 0, 0, 1, 1)],
        [Spot((), 0, 1, 2, 2)],
        [Spot((), 0, 0, 3, 1)],
        [Spot((), 1, 0, 1, 3)],
        [Spot((), 2, 0, 1, 3)],
    ],
    ids=["nothing", "too few", "too many on a node", "twice", "no such node", "3 of 2", "not its nodes", "no class"],
)
def test_a_placement_that_does_not_hold(spots: list[Spot]) -> None:
    assert not holds(spots, pods(WORKER, 3), room(nodes(2, 8), nodes(2, 16, "other")))


def test_equal_nodes_are_checked_for_what_each_has() -> None:
    need = gang(pods(WORKER, 2), pods(role("other", 8), 1))
    some = room(nodes(3, 8, "worker other"))
    assert holds([Spot((0,), 0, 0, 2, 1), Spot((1,), 0, 2, 1, 1)], need, some)
    assert not holds([Spot((0,), 0, 0, 2, 1), Spot((1,), 0, 1, 1, 1)], need, some)


def test_two_racks_are_not_one() -> None:
    racks = room(nodes(1, 8, labels={"rack": "a"}), nodes(1, 8, labels={"rack": "b"}), nodes(1, 8))
    need = pods(WORKER, 2, RACK)
    assert holds([Spot((), 0, 0, 1, 2)], need, racks)
    assert not holds([Spot((), 0, 0, 1, 1), Spot((), 1, 0, 1, 1)], need, racks)
    assert not holds([Spot((), 2, 0, 1, 2)], need, racks)


def test_pods_that_must_be_apart_are() -> None:
    alone = role("worker", 1, apart=(AntiAffinity(ZONE, frozenset({"worker"}), AT),))
    zones = room(nodes(2, 8, labels={ZONE: "a"}), nodes(1, 8, labels={ZONE: "b"}), nodes(2, 8))
    assert holds([Spot((), 0, 0, 1, 1), Spot((), 1, 0, 1, 1)], pods(alone, 2), zones)
    assert not holds([Spot((), 0, 0, 2, 1)], pods(alone, 2), zones)
    assert holds([Spot((), 2, 0, 1, 2)], pods(alone, 2), zones)


def test_nodes_with_a_value_of_their_own_keep_pods_apart_each() -> None:
    alone = role("worker", 1, apart=(AntiAffinity(HOST, frozenset({"worker"}), AT),))
    hosts = room(nodes(2, 8, labels={HOST: OWN_VALUE}))
    assert holds([Spot((), 0, 0, 2, 1)], pods(alone, 2), hosts)
    assert not holds([Spot((), 0, 0, 1, 2)], pods(alone, 2), hosts)


def test_ports_devices_and_spreads_are_checked() -> None:
    port = role("worker", ports=(HostPort(80, "TCP", ""),))
    assert not holds([Spot((), 0, 0, 1, 2)], pods(port, 2), room(nodes(1, 8)))
    claim = role("worker", devices=(DeviceNeed("c", 2, AT, "x"),))
    assert holds([Spot((), 0, 0, 1, 2)], pods(claim, 2), room(nodes(1, 8, devices={"": 4, "x": 4})))
    assert not holds([Spot((), 0, 0, 1, 2)], pods(claim, 2), room(nodes(1, 8, devices={"": 4, "x": 3})))
    spread = role("worker", spread=(SpreadLimit(ZONE, 9, 1, AT),))
    assert not holds([Spot((), 0, 0, 1, 2)], pods(spread, 2), room(nodes(1, 8, labels={ZONE: "a"})))
    assert not holds([Spot((), 0, 0, 1, 1)], pods(spread, 1), room(nodes(1, 8)))


def test_enough_groups_must_be_complete() -> None:
    need = gang(pods(WORKER, 2), pods(WORKER, 2), count=1)
    some = room(nodes(2, 8))
    assert holds([Spot((1,), 0, 0, 1, 2)], need, some)
    assert not holds([Spot((0,), 0, 0, 1, 1), Spot((1,), 0, 1, 1, 1)], need, some)


def test_unsure_resources_are_not_checked() -> None:
    assert holds([Spot((), 0, 0, 1, 1)], pods(WORKER, 1), room(nodes(1, 0), unsure=frozenset({GPU})))
