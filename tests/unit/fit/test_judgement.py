from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.fit.gangs import (
    AT,
    GPU,
    HOST,
    RACK,
    WORKER,
    ZONE,
    gang,
    never,
    nodes,
    packing,
    pods,
    role,
    room,
    single,
)
from webhook.fit.feasibility import judge
from webhook.fit.packing import OWN_VALUE, Ceiling
from webhook.fit.pod_needs import AntiAffinity, DeviceNeed, HostPort, SharedClaimNeed, SpreadLimit
from webhook.fit.verdict import FitAnswer, FitFamily, FitScope, Shortfall, Witness


def test_a_pod_larger_than_every_node_never_fits() -> None:
    witness = never(judge(packing(pods(role("worker", 16), 1)), room(nodes(5, 8))))
    assert (witness.family, witness.scope, witness.condition) == (FitFamily.NODE, FitScope.ON_THESE_NODES, "C1")
    assert witness.shortfalls == (Shortfall(GPU, 16, 8),)
    assert witness.at == AT / "worker"


def test_a_pod_that_no_node_admits_never_fits() -> None:
    witness = never(judge(packing(pods(WORKER, 1)), room(nodes(5, 8, "other"))))
    assert (witness.family, witness.condition, witness.shortfalls) == (
        FitFamily.NODE,
        "C1",
        (Shortfall("cpu", 1000, 0),),
    )
    assert "tolerations" in witness.why
    assert "tolerations" in witness.remedy


def test_a_pod_that_needs_what_no_single_node_has_never_fits() -> None:
    few_cores = nodes(3, 8, capacity={"cpu": 500})
    no_gpus = nodes(3, 0)
    witness = never(judge(packing(pods(role("worker", 4), 1)), room(few_cores, no_gpus)))
    assert (witness.family, witness.condition, witness.members) == (FitFamily.NODE, "C1", ("worker",))


def test_pods_that_leave_a_rest_on_each_node_are_counted_by_node() -> None:
    witness = never(judge(packing(pods(role("worker", 5), 8)), room(nodes(6, 8))))
    assert witness.why == "8 pods of 5 nvidia.com/gpu; 6 nodes of 8 take one each"
    assert (witness.condition, witness.family) == ("C2", FitFamily.TOTAL)
    assert witness.shortfalls == (Shortfall("pods", 8, 6),)
    assert witness.remedy == "lower the minimum of worker to 6 pods"


def test_roles_that_ask_for_more_than_all_nodes_have_never_fit() -> None:
    both = gang(pods(role("leader", 4), 4), pods(role("worker", 8), 3))
    witness = never(judge(packing(both), room(nodes(4, 8, "leader worker"))))
    assert (witness.condition, witness.shortfalls) == ("C3", (Shortfall(GPU, 40, 32),))
    assert "7 pods of leader and worker" in witness.why


def test_roles_that_share_few_nodes_are_counted_on_these() -> None:
    small, large = nodes(2, 8, "leader worker"), nodes(9, 8, "other")
    both = gang(pods(role("leader", 4), 2), pods(role("worker", 5), 2), pods(role("other", 8), 1))
    witness = never(judge(packing(both), room(small, large)))
    assert witness.condition == "C4"
    assert witness.members == ("leader", "worker")


def test_sums_that_no_node_can_reach_are_not_counted() -> None:
    # Of 8, 5 + 3 would be all, and 5 + 5 does not fit: with 5 and 6 at most 6 of 8 are used.
    both = gang(pods(role("leader", 5), 2), pods(role("worker", 6), 2))
    witness = never(judge(packing(both), room(nodes(3, 8, "leader worker"))))
    assert witness.condition == "C4"
    assert witness.shortfalls == (Shortfall("pods", 4, 3),)
    assert "4 pods of leader and worker" in witness.why


def test_pods_that_fit_in_no_way_never_fit_though_all_sums_do() -> None:
    # 4 + 4 and 6 leave nothing or 2 on nodes of 8; the 3s need a node of their own.
    three = gang(pods(role("a", 3), 3), pods(role("b", 4), 2), pods(role("c", 6), 1))
    witness = never(judge(packing(three), room(nodes(3, 8, "a b c"))))
    assert witness.condition == "C6"
    assert "6 pods of a, b and c" in witness.why


def test_a_gang_that_fits_is_placed_node_by_node() -> None:
    verdict = judge(packing(pods(role("worker", 4), 3)), room(nodes(2, 8)))
    assert verdict.answer is FitAnswer.FITS
    assert [tuple(one) for one in verdict.placement] == [("worker", None, "node-0", 2), ("worker", None, "node-1", 1)]


def test_pods_with_one_host_port_need_a_node_each() -> None:
    port = role("worker", 1, ports=(HostPort(80, "TCP", ""),))
    witness = never(judge(packing(pods(port, 4)), room(nodes(3, 8))))
    assert (witness.family, witness.shortfalls) == (FitFamily.APART, (Shortfall("pods", 4, 3),))
    assert "host ports" in witness.why


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (HostPort(80, "TCP", ""), HostPort(80, "TCP", "10.0.0.1"), FitAnswer.NEVER),
        (HostPort(80, "TCP", "10.0.0.2"), HostPort(80, "TCP", "10.0.0.1"), FitAnswer.FITS),
        (HostPort(80, "TCP", ""), HostPort(80, "UDP", ""), FitAnswer.FITS),
        (HostPort(80, "TCP", ""), HostPort(81, "TCP", ""), FitAnswer.FITS),
    ],
)
def test_host_ports_conflict_by_number_protocol_and_address(one: HostPort, other: HostPort, answer: FitAnswer) -> None:
    both = gang(pods(role("a", ports=(one,)), 1), pods(role("b", ports=(other,)), 1))
    assert judge(packing(both), room(nodes(1, 8, "a b"))).answer is answer


def apart(key: str, *names: str) -> tuple[AntiAffinity, ...]:
    return (AntiAffinity(key, frozenset(names), AT),)


def test_pods_apart_by_zone_need_a_zone_each() -> None:
    alone = role("worker", 1, apart=apart(ZONE, "worker"))
    zones = [nodes(3, 8, labels={ZONE: zone}) for zone in "abc"]
    assert judge(packing(pods(alone, 3)), room(*zones)).answer is FitAnswer.FITS
    assert never(judge(packing(pods(alone, 4)), room(*zones))).family is FitFamily.APART


def test_nodes_without_the_label_do_not_keep_pods_apart() -> None:
    alone = role("worker", 1, apart=apart(ZONE, "worker"))
    some = room(nodes(3, 8, labels={ZONE: "a"}), nodes(1, 8))
    assert judge(packing(pods(alone, 9)), some).answer is FitAnswer.FITS
    assert judge(packing(pods(alone, 10)), some).answer is FitAnswer.NEVER


def test_pods_apart_by_node_need_a_node_each() -> None:
    alone = role("worker", 1, apart=apart(HOST, "worker"))
    assert judge(packing(pods(alone, 3)), room(nodes(3, 8, labels={HOST: OWN_VALUE}))).answer is FitAnswer.FITS
    assert judge(packing(pods(alone, 4)), room(nodes(3, 8, labels={HOST: OWN_VALUE}))).answer is FitAnswer.NEVER


def test_roles_that_exclude_one_another_need_a_zone_each() -> None:
    roles = [role(name, 1, apart=apart(ZONE, "a", "b", "c")) for name in "abc"]
    zones = [nodes(3, 8, "a b c", labels={ZONE: zone}) for zone in "xy"]
    witness = never(judge(packing(gang(*(pods(one, 1) for one in roles))), room(*zones)))
    assert witness.condition == "A"
    assert witness.shortfalls == (Shortfall("pods", 3, 2),)
    assert f"a different {ZONE} each" in witness.why


def test_the_term_of_either_pod_keeps_two_apart() -> None:
    first, second = role("a", 1, apart=apart(ZONE, "b")), role("b", 1)
    both = gang(pods(first, 2), pods(second, 2))
    one_zone = room(nodes(3, 8, "a b", labels={ZONE: "x"}))
    assert judge(packing(both), one_zone).answer is FitAnswer.NEVER
    two_zones = room(nodes(3, 8, "a b", labels={ZONE: "x"}), nodes(3, 8, "a b", labels={ZONE: "y"}))
    assert judge(packing(both), two_zones).answer is FitAnswer.FITS


def test_a_spread_limits_the_pods_of_each_value() -> None:
    spread = role("worker", 1, spread=(SpreadLimit(ZONE, 5, 2, AT),))
    zones = room(*(nodes(3, 8, labels={ZONE: zone}) for zone in "ab"), nodes(9, 8))
    assert judge(packing(pods(spread, 4)), zones).answer is FitAnswer.FITS
    assert judge(packing(pods(spread, 5)), zones).answer is FitAnswer.NEVER


def test_a_spread_over_as_many_values_as_there_are_proves_nothing() -> None:
    spread = role("worker", 1, spread=(SpreadLimit(ZONE, 2, 2, AT),))
    zones = room(*(nodes(3, 8, labels={ZONE: zone}) for zone in "ab"))
    assert judge(packing(pods(spread, 5)), zones).answer is FitAnswer.UNKNOWN


def test_devices_are_counted_by_driver_and_together() -> None:
    some = nodes(2, 8, devices={"": 6, "x": 4, "y": 2})
    by_driver = role("worker", devices=(DeviceNeed("class", 3, AT, "x"),))
    assert judge(packing(pods(by_driver, 2)), room(some)).answer is FitAnswer.FITS
    assert never(judge(packing(pods(by_driver, 3)), room(some))).family is FitFamily.TOTAL
    too_many = role("worker", devices=(DeviceNeed("class", 7, AT, None),))
    witness = never(judge(packing(pods(too_many, 1)), room(some)))
    assert (witness.family, witness.shortfalls) == (FitFamily.DEVICES, (Shortfall("devices", 7, 6),))


def test_a_claim_that_pods_share_must_be_on_the_node_of_each_of_them() -> None:
    some = room(nodes(2, 8, devices={"": 6, "x": 6}))
    claim = SharedClaimNeed("shared", (DeviceNeed("class", 4, AT, "x"),))
    assert judge(packing(pods(role("worker", shared_devices=(claim,)), 9)), some).answer is FitAnswer.UNKNOWN
    both = role("worker", shared_devices=(claim,), devices=(DeviceNeed("class", 2, AT, "x"),))
    assert judge(packing(pods(both, 2)), some).answer is FitAnswer.UNKNOWN
    assert judge(packing(pods(both, 3)), some).answer is FitAnswer.NEVER
    large = SharedClaimNeed("shared", (DeviceNeed("class", 7, AT, "x"),))
    assert judge(packing(pods(role("worker", shared_devices=(large,)), 1)), some).answer is FitAnswer.NEVER


def test_pod_slots_are_a_resource() -> None:
    witness = never(judge(packing(pods(role("worker"), 7)), room(nodes(3, 0, capacity={"pods": 2}))))
    assert witness.why == "7 pods; 3 nodes take 2 each"


QUOTA = Ceiling(
    "ElasticQuota", "team", {GPU: 64}, FitFamily.QUOTA, FitScope.EVER, AT / "queue", cure="name another queue"
)


def test_a_quota_below_the_request_holds_for_ever_without_any_node() -> None:
    witness = never(judge(packing(pods(WORKER, 12), ceilings=(QUOTA,)), None))
    assert "ElasticQuota team" in witness.why
    assert witness.shortfalls == (Shortfall(GPU, 96, 64),)
    assert witness.remedy == "lower the minimum of worker to 8 pods, or name another queue"
    assert (witness.scope, witness.family, witness.condition) == (FitScope.EVER, FitFamily.QUOTA, "C0")


def test_the_cheapest_groups_count_against_a_quota() -> None:
    groups = [gang(pods(role(name, gpus), 4)) for name, gpus in (("a", 8), ("b", 8), ("c", 16))]
    assert judge(packing(gang(*groups, count=2), ceilings=(QUOTA,)), None).answer is FitAnswer.UNKNOWN
    assert judge(packing(gang(*groups, count=3), ceilings=(QUOTA,)), None).answer is FitAnswer.NEVER


def test_a_quota_below_zero_holds_back_only_what_requests_some_of_it() -> None:
    below = QUOTA._replace(amounts={GPU: -1})
    assert judge(packing(pods(role("worker", 0), 4), ceilings=(below,)), None).answer is FitAnswer.UNKNOWN
    assert judge(packing(pods(WORKER, 1), ceilings=(below,)), None).answer is FitAnswer.NEVER


def test_a_quota_of_other_roles_does_not_count() -> None:
    of_others = QUOTA._replace(roles=frozenset({"other"}))
    assert judge(packing(pods(WORKER, 12), ceilings=(of_others,)), None).answer is FitAnswer.UNKNOWN


def test_a_quota_counts_in_its_own_way() -> None:
    counted = QUOTA._replace(counted=lambda one: {GPU: 2 * one.pods.request[GPU]})
    assert judge(packing(pods(WORKER, 4), ceilings=(counted,)), None).answer is FitAnswer.UNKNOWN
    assert judge(packing(pods(WORKER, 5), ceilings=(counted,)), None).answer is FitAnswer.NEVER


def test_a_quota_that_follows_the_nodes_needs_fixed_nodes() -> None:
    of_nodes = QUOTA._replace(scope=FitScope.ON_THESE_NODES)
    too_many = packing(pods(WORKER, 12), ceilings=(of_nodes,))
    assert judge(too_many, room(nodes(20, 8))).answer is FitAnswer.NEVER
    assert judge(too_many, room(nodes(20, 8), grows=True)).answer is FitAnswer.UNKNOWN
    assert judge(too_many, None).answer is FitAnswer.UNKNOWN


def test_a_proof_of_the_packing_is_the_verdict() -> None:
    proof = Witness(FitFamily.DEVICES, FitScope.EVER, AT, 40, "a claim has 32 devices at most", "split it", "C0")
    assert judge(packing(pods(WORKER, 1), witnesses=(proof,)), room(nodes(3, 8))).witness == proof


def test_each_set_must_fit_and_each_alone() -> None:
    fits, does_not = pods(WORKER, 3), pods(WORKER, 4)
    assert judge(packing(fits, fits), room(nodes(3, 8))).answer is FitAnswer.FITS
    assert judge(packing(fits, does_not), room(nodes(3, 8))).answer is FitAnswer.NEVER


def test_a_cluster_that_grows_is_not_judged_by_its_nodes() -> None:
    verdict = judge(packing(pods(WORKER, 4)), room(nodes(3, 8), grows=True))
    assert verdict.answer is FitAnswer.UNKNOWN
    assert single(verdict.causes).endswith(": 4 pods of 8 nvidia.com/gpu; 3 nodes of 8 take one each")
    assert judge(packing(pods(WORKER, 3)), room(nodes(3, 8), grows=True)).answer is FitAnswer.FITS


def test_a_node_group_without_limit_takes_any_number() -> None:
    assert judge(packing(pods(WORKER, 4_000)), room(nodes(None, 8, future=True))).answer is FitAnswer.FITS
    assert judge(packing(pods(role("worker", 16), 1)), room(nodes(None, 8, future=True))).answer is FitAnswer.NEVER


def test_future_nodes_may_join_any_domain() -> None:
    # Two nodes in the rack, and two more that may come: four pods are not refused, five are.
    some = room(nodes(2, 8, labels={"rack": "r"}), nodes(2, 8, future=True))
    assert judge(packing(pods(WORKER, 4, RACK)), some).answer is FitAnswer.UNKNOWN
    assert judge(packing(pods(WORKER, 5, RACK)), some).answer is FitAnswer.NEVER


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": ("the gate is not known",)},
        {"left_out": ("the topology may be required",)},
    ],
)
def test_what_is_unknown_of_the_packing_is_never_a_fit(change: dict[str, tuple[str, ...]]) -> None:
    verdict = judge(replace(packing(pods(WORKER, 1)), **change), room(nodes(3, 8)))  # type: ignore[arg-type]
    assert verdict.answer is FitAnswer.UNKNOWN
    assert verdict.causes == next(iter(change.values()))


def test_what_is_left_out_leaves_a_proof_as_it_is() -> None:
    left_out = packing(pods(WORKER, 4), left_out=("the topology may be required",))
    assert judge(left_out, room(nodes(3, 8))).answer is FitAnswer.NEVER


def test_an_unknown_packing_is_not_judged_at_all() -> None:
    assert judge(packing(pods(WORKER, 4), unknown=("no",)), room(nodes(3, 8))).answer is FitAnswer.UNKNOWN


def test_nodes_that_prove_nothing_are_not_judged() -> None:
    verdict = judge(packing(pods(WORKER, 4)), room(nodes(3, 8), unknown="the list of nodes is partial"))
    assert (verdict.answer, verdict.causes) == (FitAnswer.UNKNOWN, ("the list of nodes is partial",))


def test_a_resource_that_may_still_come_proves_nothing_and_is_no_fit() -> None:
    verdict = judge(packing(pods(WORKER, 4)), room(nodes(3, 0), unsure=frozenset({GPU})))
    assert verdict.answer is FitAnswer.UNKNOWN
    assert GPU in single(verdict.causes)


def test_what_is_not_judged_of_a_pod_is_no_fit() -> None:
    odd = role("worker", 1, unjudged=("vGPU memory is not compared",))
    assert judge(packing(pods(odd, 1)), room(nodes(3, 8))).causes == ("vGPU memory is not compared",)
    assert judge(packing(pods(odd, 99)), room(nodes(3, 8))).answer is FitAnswer.NEVER


def test_an_empty_cluster_fits_nothing() -> None:
    assert never(judge(packing(pods(WORKER, 1)), room())).condition == "C1"


def test_a_request_of_zero_is_not_compared() -> None:
    no_cpu = role("worker", cpu=0)
    assert judge(packing(pods(no_cpu, 1)), room(nodes(1, 0, capacity={"cpu": 0}))).answer is FitAnswer.FITS


def test_roles_that_differ_in_name_only_are_one_kind_of_pod() -> None:
    names = [f"role{index}" for index in range(40)]
    many = gang(*(pods(role(name, 5), 1) for name in names))
    assert judge(packing(many), room(nodes(40, 8, " ".join(names)))).answer is FitAnswer.FITS
    assert judge(packing(many), room(nodes(39, 8, " ".join(names)))).answer is FitAnswer.NEVER


def test_a_thousand_single_pods_of_which_some_are_enough() -> None:
    # As Volcano has it: a minimum over all roles.
    any_of = gang(*[pods(role("a", 4), 1)] * 500, *[pods(role("b", 8), 1)] * 500, count=300)
    assert judge(packing(any_of), room(nodes(150, 8, "a b"))).answer is FitAnswer.FITS
    assert judge(packing(any_of), room(nodes(149, 8, "a b"))).answer is FitAnswer.NEVER


def test_groups_of_a_thousand_pods_are_judged_within_the_steps_of_admission() -> None:
    # 300 racks of 17 nodes in two shapes; each group needs a rack for a pod of each role.
    names = [f"role{index}" for index in range(5)]
    roles = [role(name, gpus) for name, gpus in zip(names, (8, 4, 2, 1, 0), strict=True)]
    racks = [
        nodes(number, gpus, " ".join(names), labels={"rack": f"r{rack}"})
        for rack in range(300)
        for number, gpus in ((9 + rack % 3, 8), (8, 4))
    ]
    group = gang(*(pods(one, 4) for one in roles), within=RACK)
    assert judge(packing(gang(*[group] * 50)), room(*racks)).answer is FitAnswer.FITS
    # A rack of 11 nodes of 8 and 8 of 4 GPUs has room for two groups, so 601 are too many.
    assert judge(packing(gang(*[group] * 601)), room(*racks)).answer is FitAnswer.NEVER
    whole = gang(*(pods(one, 200) for one in roles), within=RACK)
    witness = never(judge(packing(whole), room(*racks)))
    assert witness.why == "200 pods of 8 nvidia.com/gpu need one rack; the largest rack r101 has room for 11"
