"""Verdicts on gangs that need a domain of the nodes: one for the gang, one for each group, or one in another."""

from __future__ import annotations

from tests.unit.fit.gangs import AT, HOST, RACK, WORKER, ZONE, ZONES, gang, never, nodes, packing, pods, role, room
from webhook.fit.feasibility import judge
from webhook.fit.packing import OWN_VALUE, Partition
from webhook.fit.verdict import FitAnswer, FitFamily, Shortfall


def test_a_required_rack_must_hold_all_pods() -> None:
    racks = room(*(nodes(number, 8, labels={"rack": f"r{number}"}) for number in (3, 9, 7)))
    witness = never(judge(packing(pods(WORKER, 12, RACK)), racks))
    assert witness.why == "12 pods of 8 nvidia.com/gpu need one rack; the largest rack r9 has room for 9"
    assert (witness.family, witness.domain, witness.at) == (FitFamily.TOPOLOGY, "r9", AT / "rack")
    assert witness.remedy == "lower the minimum of worker to 9 pods, or do not require one rack"


def test_the_broader_domain_that_fits_is_named() -> None:
    racks = room(*(nodes(9, 8, labels={"rack": f"r{rack}", ZONE: "a"}) for rack in range(2)))
    rack = RACK._replace(broader=ZONES)
    witness = never(judge(packing(pods(WORKER, 12, rack)), racks))
    assert witness.remedy == "lower the minimum of worker to 9 pods, or require one zone instead of one rack"


def test_nodes_without_the_label_are_in_no_domain() -> None:
    witness = never(judge(packing(pods(WORKER, 2, RACK)), room(nodes(9, 8))))
    assert (witness.condition, witness.members, witness.domain) == ("D", ("worker",), None)


def test_a_node_without_the_label_may_be_a_domain_of_its_own() -> None:
    own = RACK._replace(own_domain=True)
    two_on_one = packing(pods(role("worker", 4), 2, own))
    assert judge(two_on_one, room(nodes(9, 8))).answer is FitAnswer.FITS
    assert judge(packing(pods(WORKER, 2, own)), room(nodes(9, 8))).answer is FitAnswer.NEVER


def test_own_domains_hold_one_group_each() -> None:
    own = RACK._replace(own_domain=True)
    pair = gang(pods(role("worker", 4), 2), within=own)
    assert judge(packing(gang(*[pair] * 3)), room(nodes(3, 8))).answer is FitAnswer.FITS
    assert judge(packing(gang(*[pair] * 4)), room(nodes(3, 8))).answer is FitAnswer.NEVER


def test_a_node_with_a_label_value_of_its_own_is_a_domain_of_its_own() -> None:
    host = Partition("node", (HOST,))
    assert judge(packing(pods(role("worker", 4), 2, host)), room(nodes(3, 8, labels={HOST: OWN_VALUE}))).answer is (
        FitAnswer.FITS
    )
    assert judge(packing(pods(WORKER, 2, host)), room(nodes(3, 8, labels={HOST: OWN_VALUE}))).answer is FitAnswer.NEVER


def test_domains_may_be_lists_of_nodes_that_overlap() -> None:
    left = nodes(2, 8)._replace(nodes=("a", "b"))
    middle = nodes(2, 8)._replace(nodes=("c", "d"))
    right = nodes(2, 8)._replace(nodes=("e", "f"))
    members = {"one": frozenset("abcd"), "two": frozenset("cdef")}
    switches = Partition("switch", members=members)
    assert judge(packing(pods(WORKER, 4, switches)), room(left, middle, right)).answer is FitAnswer.FITS
    assert judge(packing(pods(WORKER, 5, switches)), room(left, middle, right)).answer is FitAnswer.NEVER


def test_a_domain_by_a_path_of_labels_is_told_by_the_joined_values() -> None:
    path = Partition("rack", ("block", "rack"))
    parts = room(nodes(2, 8, labels={"block": "a.b", "rack": "c"}), nodes(2, 8, labels={"block": "a", "rack": "b.c"}))
    # KAI joins the values by dots, so both are one domain for it.
    assert judge(packing(pods(WORKER, 4, path)), parts).answer is FitAnswer.FITS


def test_a_wanted_label_excludes_nodes_without_it() -> None:
    strict = RACK._replace(required_keys=("host",))
    some = room(nodes(2, 8, labels={"rack": "r", "host": "x"}), nodes(2, 8, labels={"rack": "r"}))
    assert judge(packing(pods(WORKER, 2, strict)), some).answer is FitAnswer.FITS
    assert judge(packing(pods(WORKER, 3, strict)), some).answer is FitAnswer.NEVER


def test_groups_that_need_a_rack_each_share_racks_only_where_there_is_room() -> None:
    racks = room(*(nodes(3, 8, labels={"rack": f"r{index}"}) for index in range(4)))
    pair = gang(pods(WORKER, 2), within=RACK, name="replica")
    assert judge(packing(gang(*[pair] * 4)), racks).answer is FitAnswer.FITS
    witness = never(judge(packing(gang(*[pair] * 5)), racks))
    assert "groups like replica" in witness.why
    assert [(short.needed, short.there) for short in witness.shortfalls] == [(5, 4)]


def test_a_rack_inside_of_a_zone_must_be_in_that_zone() -> None:
    # Each zone has two racks of two nodes: three pairs do not fit into one zone.
    racks = room(
        *(nodes(2, 8, labels={"rack": f"r{index}", ZONE: f"z{index // 2}"}) for index in range(4)),
    )
    pair = gang(pods(WORKER, 2), within=RACK)
    assert judge(packing(gang(*[pair] * 2, within=ZONES)), racks).answer is FitAnswer.FITS
    assert never(judge(packing(gang(*[pair] * 3, within=ZONES)), racks)).family is FitFamily.TOPOLOGY


def test_some_of_several_groups_are_enough() -> None:
    groups = [gang(pods(role(name, gpus), 2)) for name, gpus in (("small", 2), ("middle", 8), ("large", 16))]
    three_nodes = room(nodes(3, 8, "small middle large"))
    assert judge(packing(gang(*groups, count=1)), three_nodes).answer is FitAnswer.FITS
    assert judge(packing(gang(*groups, count=2)), three_nodes).answer is FitAnswer.FITS
    witness = never(judge(packing(gang(*groups, count=3)), three_nodes))
    assert witness.condition == "C1"


def test_too_few_groups_can_be_placed() -> None:
    groups = [gang(pods(role(name, gpus), 1)) for name, gpus in (("small", 2), ("large", 16), ("huge", 32))]
    witness = never(judge(packing(gang(*groups, count=2)), room(nodes(3, 8, "small large huge"))))
    assert witness.condition == "T"
    assert (witness.members, witness.shortfalls) == (("small", "large", "huge"), (Shortfall("pods", 2, 1),))
