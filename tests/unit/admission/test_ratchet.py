"""The faults that refuse an UPDATE: every new one, and none that the old object was admitted with."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from tests.unit.worlds import koordinator, rules, settings_of, validate
from webhook.backends.koordinator.gang_groups import gather, pod_group, pod_group_cluster
from webhook.backends.volcano import pod_clique_sets as volcano
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import Quota, TopologyBinding, TopologyLayer
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group

KOORD = {"rollcall.dev/scheduler": "koord-scheduler"}
NVLINK = {"grove.io/mnnvl-group": "train"}
QUOTA_LABEL = "quota.scheduling.koordinator.sh/name"
GPU = clique("worker", requests={"nvidia.com/gpu": "8"})
NO_GANGS = ClusterFacts(pod_gangs={}, bound_gangs=frozenset())
MNNVL, GROUP_TOPOLOGY = "koordinator/mnnvl", "koordinator/scaling-group-topology"


def labelled(manifest: Manifest) -> Manifest:
    found = deepcopy(manifest)
    found["metadata"]["labels"] = dict(KOORD)
    return found


def actions(verdict: Verdict) -> list[tuple[str, Action]]:
    return [(finding.rule, finding.action) for finding in verdict.findings]


OLDER: dict[str, tuple[Manifest, list[str]]] = {
    "an NVLink group over the set": (pod_clique_set(GPU, annotations=NVLINK), [MNNVL]),
    "an NVLink group of one clique": (
        pod_clique_set(clique("leader"), {**GPU, "annotations": NVLINK}),
        [MNNVL],
    ),
    "a scaling group's topology": (
        pod_clique_set(groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))]),
        [GROUP_TOPOLOGY],
    ),
    "both of them": (
        pod_clique_set(
            GPU, annotations=NVLINK, groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))]
        ),
        [GROUP_TOPOLOGY, MNNVL],
    ),
}


@pytest.mark.parametrize(("older", "found"), OLDER.values(), ids=OLDER)
def test_the_adoption_of_a_set_does_not_excuse_its_faults(older: Manifest, found: list[str]) -> None:
    cluster = koordinator(standalone=False)
    verdict = validate(labelled(older), older, settings=cluster, facts=NO_GANGS)
    assert not verdict.allowed
    assert actions(verdict) == [(rule, Action.DENY) for rule in found]


@pytest.mark.parametrize(("older", "found"), OLDER.values(), ids=OLDER)
def test_after_the_adoption_the_same_faults_are_old_faults(older: Manifest, found: list[str]) -> None:
    cluster = koordinator(standalone=False)
    verdict = validate(labelled(older), labelled(older), settings=cluster, facts=NO_GANGS)
    assert verdict.allowed
    assert actions(verdict) == [(rule, Action.WARN) for rule in found]


def test_a_valid_set_is_adopted_without_a_warning() -> None:
    verdict = validate(
        labelled(pod_clique_set(GPU)), pod_clique_set(GPU), settings=koordinator(standalone=False), facts=NO_GANGS
    )
    assert (verdict.allowed, verdict.scheduler, verdict.findings) == (True, "koord-scheduler", ())


def claiming(*names: str) -> Manifest:
    claims = [{"name": name, "resourceClaimTemplateName": name} for name in names]
    return pod_clique_set(clique("worker", pod={"resourceClaims": claims}), labels=KOORD)


def claim_template(template: Manifest) -> Manifest:
    requests = {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}
    return pod_clique_set(labels=KOORD, resourceClaimTemplates=[{**template, "templateSpec": requests}])


def grouped(name: str) -> Manifest:
    return pod_clique_set(GPU, labels=KOORD, annotations={"grove.io/mnnvl-group": name})


# 79 letters: what follows is past everything that a message shows.
LONG = "x" * 79
VALUES: dict[str, tuple[Manifest, Manifest, bool]] = {
    "the same claim": (claiming("gpu"), claiming("gpu"), True),
    "another claim in its place": (claiming("gpu"), claiming("nic"), False),
    "the second claim replaced": (claiming("gpu", "nic"), claiming("gpu", "rdma"), False),
    "a claim more": (claiming("gpu"), claiming("gpu", "nic"), False),
    "the same template, with its fields in another order": (
        claim_template({"name": "gpu", "note": 1}),
        claim_template({"note": 1, "name": "gpu"}),
        True,
    ),
    "another template under the old one's name": (
        claim_template({"name": "gpu", "note": 1}),
        claim_template({"name": "gpu", "note": 2}),
        False,
    ),
    "the same long name": (grouped(f"{LONG}-train"), grouped(f"{LONG}-train"), True),
    "a long name that differs late": (grouped(f"{LONG}-train"), grouped(f"{LONG}-infer"), False),
}


@pytest.mark.parametrize(("old", "new", "allowed"), VALUES.values(), ids=VALUES)
def test_a_fault_is_old_only_if_its_whole_value_is_unchanged(old: Manifest, new: Manifest, allowed: bool) -> None:
    verdict = validate(new, old, settings=koordinator(standalone=False))
    # The rule about the form of the name finds the long names, too.
    findings = [finding for finding in verdict.findings if finding.rule != "grove/mnnvl-name"]
    assert [finding.action for finding in findings] == [Action.WARN if allowed else Action.DENY]
    assert verdict.allowed is allowed


BINDINGS = {"dc": TopologyBinding({"block": "example.com/block", "spine": "example.com/spine"})}
LAYERS = (
    TopologyLayer("SpineLayer", None, ("example.com/spine",)),
    TopologyLayer("BlockLayer", "SpineLayer", ("example.com/block",)),
    TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
)
WORLD = ClusterFacts(
    topology_bindings=BINDINGS,
    network_topologies={"default": LAYERS},
    elastic_quotas={"team-a": Quota(is_parent=False), "team-b": Quota(is_parent=False)},
    pod_gangs={},
)
NO_LAYERS = ClusterFacts(topology_bindings=BINDINGS, network_topologies={})
DIVERGENT, UNAVAILABLE, LAYER, DISAGREE = (
    "koordinator/divergent-topology",
    "koordinator/topology-unavailable",
    "koordinator/topology-layer",
    "koordinator/quota-disagree",
)
REORDERED: dict[str, tuple[list[Manifest], ClusterFacts, list[str]]] = {
    "one clique requires a domain": (
        [clique("leader"), clique("worker", topologyConstraint=required("block"))],
        WORLD,
        [DIVERGENT],
    ),
    "the one that requires it is the first by name": (
        [clique("leader", topologyConstraint=required("block")), clique("worker")],
        WORLD,
        [DIVERGENT],
    ),
    "three cliques of which two require different domains": (
        [
            clique("leader", topologyConstraint=required("spine")),
            clique("router"),
            clique("worker", topologyConstraint=required("block")),
        ],
        WORLD,
        [DIVERGENT, DIVERGENT],
    ),
    "quota labels that disagree": (
        [clique("leader", labels={QUOTA_LABEL: "team-a"}), clique("worker", labels={QUOTA_LABEL: "team-b"})],
        WORLD,
        [DISAGREE],
    ),
    "a required topology that is not there": (
        [
            clique("leader", topologyConstraint=required("block")),
            clique("worker", topologyConstraint=required("block")),
        ],
        NO_LAYERS,
        [UNAVAILABLE, LAYER, LAYER, "koordinator/clique-topology-widened"],
    ),
}


@pytest.mark.parametrize(("cliques", "facts", "found"), REORDERED.values(), ids=REORDERED)
@pytest.mark.parametrize("backwards", [False, True], ids=["into reverse", "back from reverse"])
def test_reordering_cliques_does_not_turn_an_old_fault_into_a_new_one(
    cliques: list[Manifest], facts: ClusterFacts, found: list[str], backwards: bool
) -> None:
    one, other = pod_clique_set(*cliques, labels=KOORD), pod_clique_set(*reversed(cliques), labels=KOORD)
    old, new = (other, one) if backwards else (one, other)
    assert not validate(new, facts=facts).allowed
    verdict = validate(new, old, settings=koordinator(standalone=False), facts=facts)
    assert verdict.allowed
    assert actions(verdict) == [(rule, Action.WARN) for rule in found]


def test_an_old_scheduler_conflict_hides_no_new_fault() -> None:
    astray = clique("worker", requests={"nvidia.com/gpu": "8"}, pod={"schedulerName": "volcano"})
    old = pod_clique_set(astray, labels=KOORD)
    new = pod_clique_set(astray, labels=KOORD, annotations=NVLINK)
    verdict = validate(new, old, settings=koordinator(standalone=False))
    assert not verdict.allowed
    assert actions(verdict) == [(MNNVL, Action.DENY), ("rollcall/scheduler-disagree", Action.WARN)]
    unchanged = validate(new, new, settings=koordinator(standalone=False))
    assert unchanged.allowed
    assert rules(unchanged) == ["rollcall/scheduler-disagree", MNNVL]


def test_a_new_set_gets_scheduler_conflicts_and_all_other_findings_at_once() -> None:
    astray = clique("worker", requests={"nvidia.com/gpu": "8"}, pod={"schedulerName": "volcano"})
    verdict = validate(pod_clique_set(astray, labels=KOORD, annotations=NVLINK))
    assert actions(verdict) == [("rollcall/scheduler-disagree", Action.DENY), (MNNVL, Action.DENY)]


def listing(*members: object) -> Manifest:
    return pod_group("leader", settings={"groups": json.dumps(["default/leader", *members])})


def gathering(*strategies: str) -> Manifest:
    return pod_group("leader", settings=gather(*({"layer": "SpineLayer", "strategy": word} for word in strategies)))


NEW_ITEMS: dict[str, tuple[Manifest, Manifest, list[tuple[object, Action]]]] = {
    "another wrong member in the place of the old one": (
        listing("worker"),
        listing("router"),
        [("router", Action.DENY)],
    ),
    "a wrong member beside the old one": (
        listing("worker"),
        listing("worker", "router"),
        [("router", Action.DENY), ("worker", Action.WARN)],
    ),
    "a wrong member before the old one": (
        listing("worker"),
        listing("router", "worker"),
        [("router", Action.DENY), ("worker", Action.WARN)],
    ),
    "the same wrong members in another order": (
        listing("worker", "router"),
        listing("router", "worker"),
        [("worker", Action.WARN), ("router", Action.WARN)],
    ),
    "a right member beside the old wrong one": (
        listing("worker"),
        listing("default/worker", "worker"),
        [("worker", Action.WARN)],
    ),
    "a strategy that is unknown beside one that was": (
        gathering("mustgather"),
        gathering("mustgather", "gather"),
        [("gather", Action.DENY), ("mustgather", Action.WARN)],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), NEW_ITEMS.values(), ids=NEW_ITEMS)
def test_no_list_item_of_an_annotation_hides_the_fault_of_another(
    old: Manifest, new: Manifest, expected: list[tuple[object, Action]]
) -> None:
    facts = pod_group_cluster(network_topologies={"default": LAYERS})
    verdict = validate(new, old, settings=koordinator(), facts=facts)
    about_items = {"koordinator/gang-groups-member", "koordinator/gang-topology-strategy"}
    found = [(one.value, one.action) for one in verdict.findings if one.rule in about_items]
    assert found == expected
    assert verdict.allowed is all(action is Action.WARN for _, action in expected)


def test_a_long_list_of_old_faults_hides_no_new_one_and_causes_no_refusal() -> None:
    many = [f"member-{index}" for index in range(2000)]
    settings = koordinator()
    fewer = validate(listing(*many[500:]), listing(*many), settings=settings, facts=pod_group_cluster())
    assert fewer.allowed
    one_more = validate(listing(*many, "new"), listing(*many), settings=settings, facts=pod_group_cluster())
    assert [finding.value for finding in one_more.denials] == ["new"]
    assert len(one_more.findings) <= 33


def policies(*sizes: int) -> Manifest:
    """A PodGroup of Volcano's with so many subgroup policies, none of which has a name or a key."""
    group = volcano.pod_group(minMember=1)
    group["spec"]["subGroupPolicy"] = [{"subGroupSize": size} for size in sizes]
    return group


@pytest.mark.parametrize(
    ("before", "after", "denied"), [((1, 2), (2, 1), 0), ((1,), (1, 2), 1), ((1, 2), (2,), 0), ((1,), (1, 1, 1), 2)]
)
def test_items_without_a_name_are_counted(before: tuple[int, ...], after: tuple[int, ...], denied: int) -> None:
    verdict = validate(policies(*after), policies(*before), settings=settings_of("volcano"))
    assert [one.rule for one in verdict.denials].count("volcano/subgroup-keys") == denied
