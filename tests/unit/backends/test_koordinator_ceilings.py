"""The ElasticQuotas that limit a gang under koord-scheduler."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.limited_gangs import gang, member, roles, too_low
from tests.unit.growth.step_counts import Cost
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.backends.koordinator.quotas import ceilings_of
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import KOORDINATOR, Ceilings
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import ElasticQuotas, Quota

LABEL = "quota.scheduling.koordinator.sh/name"
GPU = "nvidia.com/gpu"
# 4 pods of 8 GPUs and 2 cores.
GANG = gang(member(requests={"cpu": "2", GPU: "8"}), quota="team-a")


def judged(shape: GangShape = GANG, config: dict[str, Any] | None = None, **quotas: Quota) -> Ceilings:
    known = {name.replace("_", "-"): quota for name, quota in quotas.items()}
    return ceilings_of(
        shape,
        roles(shape, KOORDINATOR),
        ClusterFacts(elastic_quotas=ElasticQuotas(known)),
        KoordinatorSettings(**(config or {})),
    )


def refused(shape: GangShape = GANG, config: dict[str, Any] | None = None, **quotas: Quota) -> list[str]:
    return too_low(judged(shape, config, **quotas), shape, KOORDINATOR)


def leaf(**most: Any) -> Quota:
    return Quota(
        is_parent=False, namespace="team", max={GPU if name == "gpu" else name: amount for name, amount in most.items()}
    )


@pytest.mark.parametrize(("gpus", "expected"), [(32, []), (31, ["team-a"]), (0, ["team-a"])])
def test_the_max_of_the_quota_limits_the_minimum_of_the_gang(gpus: int, expected: list[str]) -> None:
    assert refused(team_a=leaf(gpu=gpus)) == expected


def test_a_ceiling_says_what_it_is() -> None:
    (found,) = judged(team_a=leaf(gpu=8)).ceilings
    assert (found.called, found.name, found.amounts) == ("the ElasticQuota", "team-a", {GPU: 8})
    assert (found.family, found.scope) == (FitFamily.QUOTA, FitScope.EVER)


def test_a_resource_that_the_max_does_not_name_is_not_limited() -> None:
    assert refused(team_a=leaf(memory=1)) == []


def test_a_slot_of_a_node_is_no_resource_that_a_quota_counts() -> None:
    assert refused(team_a=leaf(pods=1)) == []


def test_more_than_the_max_is_given_up_to_the_min_and_what_is_guaranteed() -> None:
    assert refused(team_a=Quota(is_parent=False, max={GPU: 8}, min={GPU: 32})) == []
    assert refused(team_a=Quota(is_parent=False, max={GPU: 8}, guaranteed={GPU: 32})) == []
    assert refused(team_a=Quota(is_parent=False, max={GPU: 8}, min={GPU: 31})) == ["team-a"]


def test_what_a_quota_gives_at_the_moment_is_no_ceiling() -> None:
    runtime = {"quota.scheduling.koordinator.sh/runtime": '{"nvidia.com/gpu": "1"}'}
    raw = {
        "metadata": {"name": "team-a", "namespace": "kube-system", "annotations": runtime},
        "spec": {"max": {GPU: "64"}},
    }
    read = ELASTIC_QUOTAS.read(raw)
    assert read is not None
    assert refused(team_a=read[1]) == []


PARENTS = {
    "team_a": Quota(is_parent=False, max={GPU: 64}, parent="all"),
    "all": Quota(is_parent=True, namespace="team", max={GPU: 16}),
}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, []),
        ({"enableRuntimeQuota": False, "enableCheckParentQuota": False}, []),
        ({"enableRuntimeQuota": False}, []),
        ({"enableRuntimeQuota": True}, ["all"]),
        ({"enableCheckParentQuota": True}, ["all"]),
    ],
)
def test_a_parent_limits_only_where_the_operator_says_so(config: dict[str, Any], expected: list[str]) -> None:
    assert refused(GANG, config, **PARENTS) == expected


def test_that_a_parent_may_limit_is_told_unless_the_operator_says_that_it_does_not() -> None:
    (why,) = judged(GANG, {}, **PARENTS).unknown
    assert why == Text("enableRuntimeQuota", "enableCheckParentQuota")
    assert judged(GANG, {"enableRuntimeQuota": False, "enableCheckParentQuota": False}, **PARENTS).unknown == ()


def test_the_min_of_a_child_wins_over_the_max_of_its_parent() -> None:
    child = Quota(is_parent=False, max={GPU: 64}, min={GPU: 32}, parent="all")
    assert refused(GANG, {"enableRuntimeQuota": True}, team_a=child, all=PARENTS["all"]) == []


def test_a_parent_limits_only_resources_that_the_child_limits() -> None:
    child = Quota(is_parent=False, max={"cpu": 10**6}, parent="all")
    assert refused(GANG, {"enableCheckParentQuota": True}, team_a=child, all=PARENTS["all"]) == []


def test_a_parent_of_another_tree_and_a_cycle_of_parents_are_left_out() -> None:
    other = Quota(is_parent=True, max={GPU: 1}, tree="other")
    assert refused(GANG, {"enableRuntimeQuota": True}, team_a=PARENTS["team_a"], all=other) == []
    circle = replace(PARENTS["all"], parent="all")
    assert refused(GANG, {"enableRuntimeQuota": True}, team_a=PARENTS["team_a"], all=circle) == ["all"]


def test_pods_that_are_never_preempted_are_limited_by_the_min() -> None:
    quota = Quota(is_parent=False, max={GPU: 64}, min={GPU: 8})
    kept = gang(member(requests={GPU: "8"}, labels={"quota.scheduling.koordinator.sh/preemptible": "false"}), quota="q")
    assert [one.called for one in judged(kept, q=quota).ceilings] == ["the ElasticQuota", Text("min", "ElasticQuota")]
    assert refused(kept, q=quota) == ["q"]
    assert refused(GANG, team_a=quota) == []


def test_pods_of_an_unknown_quota_are_charged_to_the_default_one_which_has_no_limit() -> None:
    assert judged(GANG, {}, other=leaf(gpu=1)) == Ceilings()
    default = gang(member(requests={GPU: "8"}), quota="koordinator-default-quota")
    assert refused(default, {}, koordinator_default_quota=leaf(gpu=1)) == []


def test_unknown_quotas_are_told() -> None:
    found = ceilings_of(GANG, roles(GANG), ClusterFacts(), KoordinatorSettings())
    assert found == Ceilings(unknown=(Text("ElasticQuotas"),))


@pytest.mark.parametrize(
    "quota",
    [
        Quota(is_parent=False, max=None),
        Quota(is_parent=False, max={GPU: 1}, min=None),
        Quota(is_parent=False, max={GPU: 1}, guaranteed=None),
    ],
)
def test_a_quota_that_cannot_be_read_limits_nothing(quota: Quota) -> None:
    found = judged(GANG, {}, team_a=quota)
    assert (found.ceilings, len(found.unknown)) == ((), 1)


BARE = gang(member(requests={GPU: "8"}))
IN_NAMESPACE = Quota(is_parent=False, namespace="team", max={GPU: 8})
OF_NAMESPACE = Quota(is_parent=False, namespace="system", max={GPU: 8}, namespaces=frozenset({"team"}))


@pytest.mark.parametrize("quotas", [{"team": IN_NAMESPACE}, {"research": OF_NAMESPACE}])
def test_a_quota_of_the_namespace_limits_where_the_gate_is_known_to_be_off(quotas: dict[str, Quota]) -> None:
    assert refused(BARE, {"disableDefaultQuota": False}, **quotas) == list(quotas)
    assert judged(BARE, {"disableDefaultQuota": True}, **quotas) == Ceilings()
    found = judged(BARE, {}, **quotas)
    assert (found.ceilings, len(found.unknown)) == ((), 1)


def test_of_several_quotas_for_one_namespace_any_may_count() -> None:
    found = judged(BARE, {"disableDefaultQuota": False}, one=OF_NAMESPACE, two=OF_NAMESPACE)
    assert (found.ceilings, len(found.unknown)) == ((), 1)


def test_the_quotas_that_take_the_pods_of_a_namespace_follow_each_change() -> None:
    quotas = ElasticQuotas({"one": OF_NAMESPACE, "any": replace(OF_NAMESPACE, namespaces=None)})
    quotas["two"] = OF_NAMESPACE
    assert (quotas.takers("team"), quotas.takers("other")) == (["any", "one", "two"], ["any"])
    quotas["one"] = replace(OF_NAMESPACE, namespaces=frozenset({"other"}))
    # Of two of the same name the older one counts.
    quotas["two"] = replace(OF_NAMESPACE, namespace="late", created="2026-01-01T00:00:00Z", namespaces=None)
    del quotas["any"]
    assert (quotas.takers("team"), quotas.takers("other")) == (["two"], ["one"])
    assert quotas.copy().takers("team") == ["two"]
    assert quotas.overlaid({"two": None}).takers("team") == []


def test_the_quota_of_a_namespace_is_found_without_a_look_at_the_others() -> None:
    costs = []
    for others in (10, 1000):
        many = {f"q{index}": replace(OF_NAMESPACE, namespaces=frozenset({f"n{index}"})) for index in range(others)}
        quotas = ElasticQuotas({**many, "research": OF_NAMESPACE})
        facts, settings = ClusterFacts(elastic_quotas=quotas), KoordinatorSettings(disableDefaultQuota=False)
        work = partial(ceilings_of, BARE, roles(BARE, KOORDINATOR), facts, settings)
        assert [one.name for one in work().ceilings] == ["research"]
        costs.append(Cost(work))
    assert costs[0].runs == costs[1].runs


def test_roles_of_two_quotas_are_summed_apart() -> None:
    one = member("a", 2, requests={GPU: "8"}, labels={LABEL: "one"})
    two = member("b", 2, requests={GPU: "8"}, labels={LABEL: "two"})
    assert refused(gang(one, two), {}, one=leaf(gpu=16), two=leaf(gpu=16)) == []
    assert refused(gang(one, two), {}, one=leaf(gpu=16), two=leaf(gpu=15)) == ["two"]


def test_the_label_of_a_stored_pod_counts_and_not_the_recorded_quota() -> None:
    pods = member(requests={GPU: "8"}, labels={LABEL: "old"})
    assert refused(gang(pods, quota="new", stored=True), {}, old=leaf(gpu=64), new=leaf(gpu=1)) == []
    assert refused(gang(pods, quota="new"), {}, old=leaf(gpu=64), new=leaf(gpu=1)) == ["new"]


def test_the_overhead_of_a_pod_may_not_be_charged() -> None:
    shape = gang(member(requests={"cpu": "2"}, overhead={"cpu": "1"}), quota="team-a")
    assert refused(shape, {}, team_a=leaf(cpu=8000)) == []
    assert refused(shape, {}, team_a=leaf(cpu=7999)) == ["team-a"]


def test_fractions_of_a_byte_are_not_rounded_up_for_each_pod() -> None:
    shape = gang(member(minimum=1000, requests={"memory": "100500m"}), quota="team-a")
    assert refused(shape, {}, team_a=leaf(memory=100_500)) == []


def test_resources_that_the_scheduler_renames_are_not_judged() -> None:
    shape = gang(member(requests={"kubernetes.io/batch-cpu": "4000"}), quota="team-a")
    assert refused(shape, {}, team_a=Quota(is_parent=False, max={"kubernetes.io/batch-cpu": 1})) == []


def test_the_cure_names_another_quota_that_allows_the_gang() -> None:
    quotas = {"team_a": leaf(gpu=8), "small": leaf(gpu=16), "team_b": leaf(gpu=32)}
    assert {one.cure for one in judged(GANG, {}, **quotas).ceilings} == {
        'name the ElasticQuota "team-b", which allows it'
    }
    below = replace(leaf(gpu=64), parent="all")
    found = judged(GANG, {}, team_a=leaf(gpu=8), below=below, all=PARENTS["all"])
    assert [one.cure for one in found.ceilings] == [""]


def test_no_quota_of_another_namespace_is_named_that_the_gang_does_not_name() -> None:
    quotas = {"team_a": leaf(gpu=8), "secret": replace(leaf(gpu=64), namespace="other")}
    assert [one.cure for one in judged(GANG, {}, **quotas).ceilings] == [""]
    lent = replace(quotas["secret"], namespaces=frozenset({"team"}))
    (found,) = judged(GANG, {}, team_a=leaf(gpu=8), lent=lent).ceilings
    assert found.cure == 'name the ElasticQuota "lent", which allows it'
    above = {**PARENTS, "all": replace(PARENTS["all"], namespace="other")}
    _, found = judged(GANG, {"enableCheckParentQuota": True}, **above).ceilings
    assert (found.called, found.name) == ("the ElasticQuota above", "team-a")
    assert refused(GANG, {"enableCheckParentQuota": True}, **above) == ["team-a"]


def _stored(**annotations: str) -> Quota:
    prefix = "quota.scheduling.koordinator.sh/"
    metadata = {
        "name": "team-a",
        "namespace": "system",
        "labels": {prefix + "parent": "all", prefix + "tree-id": "gpus"},
        "annotations": {prefix + key: value for key, value in annotations.items()},
    }
    read = ELASTIC_QUOTAS.read({"metadata": metadata, "spec": {"max": {"cpu": "4"}, "min": {"cpu": "1500m"}}})
    assert read is not None
    found: Quota = read[1]
    return found


def test_what_a_quota_says_of_itself_is_kept() -> None:
    found = _stored(guaranteed='{"cpu": "2"}', namespaces='["team", "other"]')
    assert (found.max, found.min, found.guaranteed) == ({"cpu": 4000}, {"cpu": 1500}, {"cpu": 2000})
    assert (found.parent, found.tree, found.namespaces) == ("all", "gpus", frozenset({"team", "other"}))


@pytest.mark.parametrize("written", ["{", "[]", '{"cpu": "many"}', "{" * 20_000])
def test_what_cannot_be_read_as_guaranteed_is_unknown(written: str) -> None:
    assert _stored(guaranteed=written).guaranteed is None


@pytest.mark.parametrize(
    ("written", "kept"), [("no list", frozenset()), ('{"a": 1}', frozenset()), ("[1]", frozenset())]
)
def test_a_list_of_namespaces_that_koordinator_cannot_read_is_none(written: str, kept: frozenset[str]) -> None:
    assert _stored(namespaces=written).namespaces == kept


def test_too_many_namespaces_are_unknown() -> None:
    many = "[" + ",".join(f'"n{number}"' for number in range(65)) + "]"
    assert _stored(namespaces=many).namespaces is None
    quota = Quota(is_parent=False, max={GPU: 1}, namespaces=None)
    found = judged(BARE, {"disableDefaultQuota": False}, many=quota)
    assert (found.ceilings, len(found.unknown)) == ((), 1)


def test_of_quotas_with_one_name_koord_scheduler_may_take_any() -> None:
    """It keeps the first, then takes each that is updated, and the last of its list when it starts."""
    known = ElasticQuotas({"team-a": Quota(False, "koordinator-system", "2026-01-01", {GPU: 8})})
    known["team-a"] = Quota(False, "other", "2026-02-02", {GPU: 64})
    for facts in (ClusterFacts(elastic_quotas=known), ClusterFacts(elastic_quotas=ElasticQuotas(known))):
        found = ceilings_of(GANG, roles(GANG, KOORDINATOR), facts, KoordinatorSettings())
        assert found == Ceilings(unknown=(Text("another", '"team-a"'),))
    del known["team-a"]
    known["team-a"] = Quota(False, "koordinator-system", "2026-01-01", {GPU: 8})
    found = ceilings_of(GANG, roles(GANG, KOORDINATOR), ClusterFacts(elastic_quotas=known), KoordinatorSettings())
    assert [one.name for one in found.ceilings] == ["team-a"]


def test_the_parent_of_a_quota_may_be_one_of_two_as_well() -> None:
    known = ElasticQuotas({"team-a": PARENTS["team_a"], "all": PARENTS["all"]})
    known["all"] = Quota(True, "other", "2026-02-02", {GPU: 64})
    settings = KoordinatorSettings(enableCheckParentQuota=True)
    found = ceilings_of(GANG, roles(GANG, KOORDINATOR), ClusterFacts(elastic_quotas=known), settings)
    assert [one.name for one in found.ceilings] == ["team-a"]
    assert found.unknown == (Text("two", 'above "team-a"'),)
