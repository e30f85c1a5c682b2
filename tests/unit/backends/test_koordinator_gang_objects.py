"""Findings about PodGroups that koord-scheduler reads and about pods that name a gang, and what is not judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import json_values
from tests.unit.backends.koordinator_gang_objects import CLUSTER, LAYERS, WORKER, found, judged
from tests.unit.worlds import rules
from webhook.backends.koordinator.gang_groups import annotated_pod, gather, pod, pod_group, pod_group_cluster
from webhook.backends.koordinator.keys import (
    ANNOTATION_MATCH_POLICY_ALIAS,
    ANNOTATION_NAME,
    GANG_PREFIX,
    GANG_SETTINGS,
)
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.testing.strategies import words

AT = "metadata.annotations[gang.scheduling.koordinator.sh/groups]"
SPINE = {"layer": "SpineLayer", "strategy": "MustGather"}


def setting(name: str, value: str) -> Manifest:
    return pod_group(settings={name: value})


def topology(written: str) -> Manifest:
    return setting("network-topology-spec", written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", []),
        ("null", []),
        ("[]", []),
        ('["default/leader"]', []),
        (' [ "default/leader" ] ', []),
        ("default/leader", ["gang-groups-unread"]),
        (" ", ["gang-groups-unread"]),
        ("['default/leader']", ["gang-groups-unread"]),
        ('["default/leader",]', ["gang-groups-unread"]),
        ("[NaN]", ["gang-groups-unread"]),
        ('{"groups":["default/leader"]}', ["gang-groups-unread"]),
        ('"default/leader"', ["gang-groups-unread"]),
        ("true", ["gang-groups-unread"]),
        ("[" * 100_000, ["gang-groups-unread"]),
        ("[" + "9" * 5_000 + "]", ["gang-groups-itself", "gang-groups-member"]),
        ('["default/leader", 1]', ["gang-groups-member"]),
        ('["default/leader", null]', ["gang-groups-member"]),
        ('["default/leader", {}]', ["gang-groups-member"]),
        ('["default/leader", ""]', ["gang-groups-member"]),
        ('["default/leader", "worker"]', ["gang-groups-member"]),
        ('["default/leader", "/worker"]', ["gang-groups-member"]),
        ('["default/leader", "default/"]', ["gang-groups-member"]),
        ('["leader"]', ["gang-groups-itself", "gang-groups-member"]),
        ('["other/leader"]', ["gang-groups-itself", "gang-member-missing"]),
        ('["Default/leader"]', ["gang-groups-itself", "gang-member-missing"]),
        ('["default/leader", "default/leader"]', ["gang-groups-twice"]),
        ('["default/leader", "default/worker"]', ["gang-member-missing"]),
        ('["default/leader", "\\ud800"]', ["gang-groups-member"]),
    ],
)
def test_a_list_of_groups_is_parsed_like_go_does(written: str, expected: list[str]) -> None:
    assert sorted(found(setting("groups", written))) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([pod_group("worker", "leader", "worker")], []),
        ([pod_group("worker", "worker", "leader")], []),
        ([pod_group("worker")], ["gang-groups-differ"]),
        ([pod_group("worker", "worker", "leader", "leader")], ["gang-groups-differ"]),
        ([pod_group("worker", "leader", "worker"), pod_group("other", "other", "leader")], ["gang-groups-differ"]),
        ([pod_group("worker", "leader", "worker"), pod_group("other", "other")], []),
    ],
)
def test_all_members_of_a_gang_group_must_have_the_same_list(members: list[Manifest], expected: list[str]) -> None:
    assert found(pod_group("leader", "leader", "worker"), pod_group_cluster(*members)) == expected


def test_a_listed_pod_group_must_list_the_others_even_without_other_koordinator_keys() -> None:
    plain = pod_group("worker")
    del plain["metadata"]["annotations"]
    assert found(plain, pod_group_cluster(pod_group("leader", "leader", "worker"))) == ["gang-groups-differ"]
    assert found(plain, pod_group_cluster(pod_group("leader", "leader"))) == []


def test_an_edit_of_a_list_gets_a_warning_and_does_not_block_the_next_edit() -> None:
    old, new = pod_group("leader", "leader"), pod_group("leader", "leader", "worker")
    verdict = judged(new, pod_group_cluster(old, pod_group("worker", "worker")), old)
    assert verdict.allowed
    assert rules(verdict) == ["koordinator/gang-groups-edited"]


def test_an_old_fault_is_a_warning_at_an_update() -> None:
    old = setting("mode", "strict")
    verdict = judged(old | {"spec": {"minMember": 3}}, CLUSTER, old)
    assert verdict.allowed
    assert [(finding.rule, finding.action) for finding in verdict.findings] == [("koordinator/gang-mode", Action.WARN)]


def test_of_a_list_of_ten_thousand_members_only_a_few_are_checked() -> None:
    names = [f"gang-{index}" for index in range(10_000)]
    verdict = judged(
        pod_group(names[0], *names), pod_group_cluster(*(pod_group(name, *names[:2]) for name in names[:3]))
    )
    assert set(rules(verdict)) == {"koordinator/gang-groups-differ", "koordinator/gang-member-missing"}
    assert len(verdict.findings) == 2
    missing = next(finding for finding in verdict.findings if finding.rule.endswith("missing"))
    assert missing.value == "default/gang-3"


@pytest.mark.parametrize("order", ["strict", "any"])
def test_a_missing_member_is_only_a_warning_because_one_object_must_come_first(order: str) -> None:
    facts = pod_group_cluster(namespaces={"default": Namespace({"rollcall.dev/creation-order": order})})
    verdict = judged(pod_group("leader", "leader", "worker"), facts)
    assert verdict.allowed
    assert rules(verdict) == ["koordinator/gang-member-missing"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mode", "Strict", []),
        ("mode", "NonStrict", []),
        ("mode", "", []),
        ("mode", "strict", ["gang-mode"]),
        ("mode", "Strict ", ["gang-mode"]),
        ("match-policy", "once-satisfied", []),
        ("match-policy", "waiting-and-running", []),
        ("match-policy", "only-waiting", ["gang-only-waiting"]),
        ("match-policy", "Once-Satisfied", ["gang-match-policy"]),
        ("match-policy", "waitingAndRunning", ["gang-match-policy"]),
        ("total-number", "2", []),
        ("total-number", "+2", []),
        ("total-number", "007", []),
        ("total-number", "0", []),
        ("total-number", "-0", []),
        ("total-number", "2147483647", []),
        ("total-number", "1", ["gang-total-number"]),
        ("total-number", "-1", ["gang-total-number"]),
        ("total-number", "2147483648", ["gang-total-number"]),
        ("total-number", "9" * 5_000, ["gang-total-number"]),
        ("total-number", "3.0", ["gang-total-number"]),
        ("total-number", " 3", ["gang-total-number"]),
        ("total-number", "1_000", ["gang-total-number"]),
        ("total-number", "0x3", ["gang-total-number"]),
        ("total-number", "٣", ["gang-total-number"]),
    ],
)
def test_a_setting_must_be_known_to_koord_scheduler(name: str, value: str, expected: list[str]) -> None:
    assert found(setting(name, value)) == expected
    assert found(annotated_pod(**{name.replace("-", "_"): value})) == expected


def test_the_alias_of_the_match_policy_is_read_if_the_main_key_is_empty() -> None:
    group = setting("match-policy", "")
    group["metadata"]["annotations"][ANNOTATION_MATCH_POLICY_ALIAS] = "only-waiting"
    assert found(group) == ["gang-only-waiting"]
    group["metadata"]["annotations"][ANNOTATION_MATCH_POLICY_ALIAS] = "ever"
    assert found(group) == ["gang-match-policy"]
    group["metadata"]["annotations"][GANG_PREFIX + "match-policy"] = "once-satisfied"
    assert found(group) == ["gang-match-policy-alias"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minMember": 1}, []),
        ({"minMember": 0}, ["gang-minimum"]),
        ({"minMember": -1}, ["gang-minimum"]),
        ({"minMember": None}, ["gang-minimum"]),
        ({"scheduleTimeoutSeconds": 1}, []),
        ({"scheduleTimeoutSeconds": 900}, []),
        ({"scheduleTimeoutSeconds": 901}, ["gang-timeout"]),
        ({"scheduleTimeoutSeconds": 0}, ["gang-timeout"]),
        ({"scheduleTimeoutSeconds": -1}, ["gang-timeout"]),
        ({"priorityClassName": "high"}, []),
    ],
)
def test_the_spec_of_a_pod_group_defines_a_gang(spec: Mapping[str, Any], expected: list[str]) -> None:
    assert found(pod_group(**spec)) == expected


def test_a_pod_group_without_koordinator_keys_is_not_judged() -> None:
    """Trainer and scheduler-plugins have the same kind."""
    metadata = {"name": "train", "namespace": "default", "annotations": {"example.com/mode": "any"}}
    plain = {**pod_group(minMember=0, scheduleTimeoutSeconds=3600), "metadata": metadata}
    assert found(plain) == []
    assert found({**setting("mode", "any"), "apiVersion": "scheduling.x-k8s.io/v1alpha1"}) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", []),
        ("null", []),
        ("{}", []),
        ('{"gatherStrategy":null}', []),
        ('{"gatherStrategy":[]}', []),
        ('{"GATHERSTRATEGY":[{"Layer":"SpineLayer","STRATEGY":"MustGather"}],"more":{}}', []),
        ('{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather","podCountMultiple":4}]}', []),
        ('{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather","podCountMultiple":null}]}', []),
        ('{"gatherStrategy":[{"layer":"spine","strategy":"PreferGather"}]}', []),
        ('{"gatherStrategy":[{"layer":"SpineLayer","layer":null,"strategy":"MustGather"}]}', []),
        ("invalid", ["gang-topology-unread"]),
        ("[]", ["gang-topology-unread"]),
        ("4", ["gang-topology-unread"]),
        ('"SpineLayer"', ["gang-topology-unread"]),
        ('{"gatherStrategy":{}}', ["gang-topology-unread"]),
        ('{"gatherStrategy":"MustGather"}', ["gang-topology-unread"]),
        ('{"gatherStrategy":["MustGather"]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"layer":1}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"strategy":["MustGather"]}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"podCountMultiple":"4"}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"podCountMultiple":4.0}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"podCountMultiple":4e0}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"podCountMultiple":9223372036854775808}]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"podCountMultiple":"4"}],"gatherStrategy":[]}', ["gang-topology-unread"]),
        ('{"gatherStrategy":[{"layer":"SpineLayer","strategy":"mustGather"}]}', ["gang-topology-strategy"]),
        ('{"gatherStrategy":[null]}', ["gang-topology-strategy"]),
        ('{"gatherStrategy":[{"layer":"spineLayer","strategy":"MustGather"}]}', ["gang-topology-layer"]),
        ('{"gatherStrategy":[{"strategy":"MustGather"}]}', ["gang-topology-layer"]),
        ('{"gatherStrategy":[{"layer":"ClusterTopologyLayer","strategy":"MustGather"}]}', []),
    ],
)
def test_a_network_topology_is_parsed_like_go_does(written: str, expected: list[str]) -> None:
    assert found(topology(written)) == expected


def test_the_finding_of_an_annotation_that_is_not_a_list_has_a_short_distinct_text() -> None:
    before, same, other = (setting("groups", "x" * 200_000 + last) for last in ("", "", "y"))
    (first,), (second,), (third,) = (judged(one).findings for one in (before, same, other))
    assert len(first.value) < 253
    assert first.identity == second.identity != third.identity
    assert sum(map(len, first.identity)) < 1024
    assert str(first).startswith(f'koordinator/gang-groups-unread at {AT}: "{"x" * 77}...": it is not JSON, so')
    # An update is not blamed for what was there.
    assert judged(same, old=before).allowed
    assert not judged(other, old=before).allowed


def test_a_gang_s_name_of_any_length_is_shortened_in_messages() -> None:
    named = pod(annotations={ANNOTATION_NAME: "w" * 200_000})
    (finding,) = judged(named, pod_group_cluster()).findings
    assert finding.rule == "koordinator/gang-min-available"
    assert finding.absent is not None
    assert len(str(finding.absent.key)) < 253


def test_a_network_topology_annotation_needs_a_cluster_topology() -> None:
    group = pod_group(settings=gather(SPINE))
    assert found(group, pod_group_cluster(network_topologies={})) == ["gang-topology-missing"]
    assert found(group, awareNetworkTopology=False) == ["gang-topology-missing"]
    # A tree that koord-scheduler does not build.
    broken = {"default": LAYERS["default"][:2]}
    assert found(group, pod_group_cluster(network_topologies=broken)) == ["gang-topology-missing"]
    unjudged = judged(group, pod_group_cluster()).unjudged
    assert [(one.rule, one.needs) for one in unjudged] == [
        ("koordinator/gang-topology-missing", "the ClusterNetworkTopology")
    ]


def test_a_layer_that_differs_only_in_case_is_suggested() -> None:
    finding = judged(pod_group(settings=gather({**SPINE, "layer": "spinelayer"}))).findings[0]
    assert finding.remedy.endswith(": SpineLayer")


def test_two_topologies_with_the_same_meaning_are_equal() -> None:
    def group(name: str, *strategy: Mapping[str, str]) -> Manifest:
        return pod_group(name, "leader", "worker", settings=gather(*strategy))

    prefer = {"layer": "BlockLayer", "strategy": "PreferGather"}
    other = pod_group_cluster(group("worker", prefer, SPINE), network_topologies=LAYERS)
    assert found(group("leader", SPINE, prefer), other) == []
    assert found(group("leader", SPINE), other) == ["gang-topology-differs"]
    assert found(pod_group("leader", "leader", "worker"), other) == ["gang-topology-differs"]


def test_with_unknown_pod_groups_the_rule_is_not_judged() -> None:
    for manifest, rule in (
        (pod(labels=WORKER), "pod-group-missing"),
        (pod(annotations={ANNOTATION_NAME: "worker"}), "gang-min-available"),
        (pod_group("leader", "leader", "worker"), "gang-member-missing"),
        (pod_group("leader", "leader", "worker"), "gang-groups-differ"),
    ):
        verdict = judged(manifest, ClusterFacts())
        assert verdict.allowed
        assert f"koordinator/{rule}" in [one.rule for one in verdict.unjudged]


texts = words | json_values.map(json.dumps) | st.text(st.sampled_from('0123456789+-.hmsµn[]{}",/: abE'), max_size=30)
settings = st.dictionaries(st.sampled_from([*GANG_SETTINGS, ANNOTATION_NAME]), texts, max_size=6)


@given(settings, settings)
@example({ANNOTATION_NAME: "\U0001f600" * 400, GANG_PREFIX + "groups": '["default/worker"]'}, {})
def test_every_annotation_gets_a_verdict(these: dict[str, str], those: dict[str, str]) -> None:
    group, other, alone = pod_group("leader"), pod_group("worker"), pod(annotations=these)
    group["metadata"]["annotations"] = these
    other["metadata"]["annotations"] = {**those, GANG_PREFIX + "groups": these.get(GANG_PREFIX + "groups", "")}
    facts = pod_group_cluster(deepcopy(other), network_topologies=LAYERS)
    for manifest, old in ((group, None), (group, other), (alone, None)):
        for finding in judged(manifest, facts, old).findings:
            # It can be sent, whatever was in it.
            assert len(str(finding).encode()) < 1024


@given(st.integers(-(2**40), 2**40), st.sampled_from(["", "+", "0", "00"]))
def test_a_number_with_leading_zeros_is_read(number: int, prefix: str) -> None:
    written = f"{'-' if number < 0 else ''}{prefix if number >= 0 or prefix != '+' else ''}{abs(number)}"
    unread = not -(2**31) <= number < 2**31 or (number < 2 and number != 0)
    assert found(setting("total-number", written)) == (["gang-total-number"] if unread else [])
