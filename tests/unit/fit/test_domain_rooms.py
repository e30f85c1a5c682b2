"""The domains that a gang may be in, with what each has and what is left of it."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.fit.gangs_in_racks import GPU, RACK, gang, nodes, racks, running
from webhook.fit.domains import (
    DomainRoom,
    domain_rooms_of,
    partitions_of,
    requested_resources,
    roles_of,
    sort_for_table,
)
from webhook.fit.feasibility import Usage, amount_reader, free_room
from webhook.fit.packing import KAI, OWN_VALUE, GroupNeed, Packing, Partition, Room
from webhook.model.node_pods import Reservation


def test_each_rack_is_a_row_with_what_its_nodes_have_together() -> None:
    found = domain_rooms_of(gang(4, 8), racks(a=2, b=3))
    assert found == (
        DomainRoom("rack", "a", 2, {GPU: 16, "pods": 220}),
        DomainRoom("rack", "b", 3, {GPU: 24, "pods": 330}),
    )


def test_without_a_required_domain_all_nodes_are_one_row() -> None:
    [found] = domain_rooms_of(gang(4, 8, None), racks(a=2, b=3))
    assert (found.called, found.nodes, found.total) == ("all nodes", 5, {GPU: 40, "pods": 550})


def test_what_pods_use_is_not_free() -> None:
    room = racks(a=2)
    usage = Usage(running({"team-a/old/p1": ("a1", 6), "team-b//p2": ("a2", 1)}))
    [found] = domain_rooms_of(gang(1, 8), room, free_room(room, usage))
    assert found.free == {GPU: 9, "pods": 218}


def test_a_full_rack_is_a_row_with_nothing_free() -> None:
    room = racks(a=1)
    usage = Usage(running({"team-a/old/p1": ("a1", 8)}), closed=frozenset({"a1"}))
    [found] = domain_rooms_of(gang(1, 8), room, free_room(room, usage))
    assert found.free == {GPU: 0, "pods": 0}


def test_nodes_that_no_role_may_use_are_in_no_row() -> None:
    room = racks(a=2)
    barred = replace(room, classes=tuple(one._replace(roles=frozenset()) for one in room.classes))
    assert domain_rooms_of(gang(1, 8), barred) == ()


def test_nodes_that_do_not_exist_yet_are_in_no_row() -> None:
    future = nodes("a", "x")._replace(number=None, nodes=(), future=True)
    assert domain_rooms_of(gang(1, 8), Room((future,))) == ()


def test_a_node_without_the_label_is_in_no_domain_or_in_its_own() -> None:
    bare = nodes("a", "n1", "n2")._replace(labels={})
    assert domain_rooms_of(gang(1, 8), Room((bare,))) == ()
    [first, second] = domain_rooms_of(gang(1, 8, RACK._replace(own_domain=True)), Room((bare,)))
    assert (first.name, first.nodes, second.name) == ("n1", 1, "n2")


def test_a_label_that_each_node_has_alone_makes_a_domain_of_each_node() -> None:
    host = Partition("host", ("kubernetes.io/hostname",))
    alone = nodes("a", "n1", "n2")._replace(labels={"kubernetes.io/hostname": OWN_VALUE})
    assert [one.called for one in domain_rooms_of(gang(1, 8, host), Room((alone,)))] == ["host n1", "host n2"]


def test_a_node_may_be_in_two_domains_that_are_objects() -> None:
    tier = Partition("hypernode", members={"s0": frozenset({"a1", "a2"}), "s1": frozenset({"a2", "a3"})})
    # The nodes of one class are in the same domains.
    (rack,) = racks(a=3).classes
    room = Room(tuple(rack._replace(nodes=(node,), number=1) for node in rack.nodes))
    found = domain_rooms_of(gang(1, 8, tier), room)
    assert [(one.name, one.nodes) for one in found] == [("s0", 2), ("s1", 2)]


def test_the_outer_domain_comes_before_the_inner_one() -> None:
    host = Partition("host", ("kubernetes.io/hostname",))
    [inner] = gang(4, 8, host).sets
    packing = Packing((GroupNeed("both", (inner,), 1, RACK),))
    assert partitions_of(packing) == (RACK, host)
    assert [one.name for one in roles_of(packing.sets)] == ["worker"]
    assert requested_resources(packing) == {GPU, "pods"}


def test_the_free_room_keeps_the_rest_of_reservations_and_leaves_out_closed_nodes() -> None:
    room = racks(a=3)
    kept = {"r": Reservation("a1", ((GPU, 5),))}
    free = free_room(room, Usage(running({}), kept, frozenset({"a3"})))
    assert [(one.capacity[GPU], one.nodes) for one in free.classes] == [(3, ("a1",)), (8, ("a2",))]


def test_a_gang_that_is_gone_uses_nothing() -> None:
    room = racks(a=1)
    usage = Usage(running({"team-a/old/p1": ("a1", 6), "team-b/old/p2": ("a1", 1)}))
    [left] = free_room(room, usage, [("team-a", "old")]).classes
    assert left.capacity == {GPU: 7, "pods": 109}


def test_kai_counts_every_gpu_as_one_of_the_nodes_and_in_parts() -> None:
    room = racks(a=1)
    usage = Usage(running({"team-a/old/p1": ("a1", 6)}), counted=amount_reader(KAI))
    capacity = {GPU: 8, "thousandths of nvidia.com/gpu": 8000}
    [left] = free_room(Room(tuple(one._replace(capacity=capacity) for one in room.classes)), usage).classes
    assert left.capacity == {GPU: 2, "thousandths of nvidia.com/gpu": 2000}


def test_a_device_that_is_broken_is_not_free() -> None:
    room = racks(a=1)
    [left] = free_room(room, Usage(running({}), lost={"a1": ((GPU, 1),)})).classes
    assert left.capacity[GPU] == 7


def test_devices_come_first_and_pod_slots_last() -> None:
    every = ["pods", "memory", "cpu", "nvidia.com/gpu", "hugepages-2Mi", "example.com/nic", "thousandths of x/gpu"]
    assert sort_for_table(every) == ["example.com/nic", "nvidia.com/gpu", "cpu", "memory", "hugepages-2Mi", "pods"]
