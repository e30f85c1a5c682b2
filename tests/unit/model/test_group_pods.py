"""Facts about the pods that wait in groups: which pods they are, that they are found by their group at any number of
pods, and the finding about a pod that names another scheduler than the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worlds import rules, settings_of, validate
from webhook.admission.decision import doubtful_facts
from webhook.backends.kube.groups import (
    MOST_BELOW,
    GroupMembership,
    example_cluster,
    member,
    pod,
    read_group_pod,
    root,
    waiting,
)
from webhook.model.bounds import weight
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Needed, ObjectKey
from webhook.model.pod_groups import GroupPod, GroupPods, Groups, TreeGroup
from webhook.model.reading import Manifest

ON = settings_of("default-scheduler", {"gangScheduling": True})
KUBE, BATCH = "default-scheduler", "batch-scheduler"
RULE = "kube/pod-schedulers"


def keyed(name: str) -> ObjectKey:
    return "default", name


# Which pods count


def entry(group: str, replica: str | None = None, **spec: Any) -> Manifest:
    """A pod of 1.35."""
    key = {} if replica is None else {"podGroupReplicaKey": replica}
    return pod(workloadRef={"name": "demo", "podGroup": group, **key}, **spec)


def with_metadata(manifest: Manifest, **fields: Any) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **fields}}


OF_WORKER = GroupPod(("default", GroupMembership("worker")), KUBE)
WAITING: dict[str, tuple[Manifest, GroupPod | None]] = {
    "of a PodGroup": (member(), OF_WORKER),
    "of a PodGroup, for another scheduler": (member(schedulerName=BATCH), replace(OF_WORKER, scheduler=BATCH)),
    "with gates on it": (member(schedulingGates=[{"name": "example.com/hold"}]), OF_WORKER),
    "of an entry of a Workload": (entry("worker"), GroupPod(("default", GroupMembership("worker", "demo")), KUBE)),
    "of a replica of an entry": (
        entry("worker", "a"),
        GroupPod(("default", GroupMembership("worker", "demo", "a")), KUBE),
    ),
    "of another namespace": (
        with_metadata(member(), namespace="team-a"),
        GroupPod(("team-a", GroupMembership("worker")), KUBE),
    ),
    "of no group": (pod(), None),
    "on a node": (member(nodeName="node-0"), None),
    "at its end": ({**member(), "status": {"phase": "Failed"}}, None),
    "not at its end": ({**member(), "status": {"phase": "Pending"}}, OF_WORKER),
    "that is being deleted": (with_metadata(member(), deletionTimestamp="2026-01-01T00:00:00Z"), None),
    "without a name, in a file": (with_metadata(member(), name=None, generateName="worker-"), None),
}


@pytest.mark.parametrize(("manifest", "expected"), WAITING.values(), ids=WAITING)
def test_a_pod_that_waits_in_a_group_is_known(manifest: Manifest, expected: GroupPod | None) -> None:
    read = read_group_pod(manifest)
    if expected is None:
        assert read is None
    else:
        assert read == ((manifest["metadata"]["namespace"], "worker-0"), expected)


def test_a_scheduler_s_name_of_any_length_is_shortened_and_stays_unique() -> None:
    first, second = (read_group_pod(member(schedulerName="s" * 100_000 + last)) for last in "ab")
    assert first is not None
    assert second is not None
    assert first != second
    assert weight(first) < 2048


# How they are found

NAMES, GROUPS, SCHEDULERS = st.sampled_from("abcd"), st.sampled_from("xy"), st.sampled_from([KUBE, BATCH, "third"])
CHANGES = st.lists(st.tuples(NAMES, st.none() | st.builds(GroupPod, GROUPS, SCHEDULERS)), max_size=20)


@given(CHANGES, CHANGES, CHANGES)
def test_pods_with_conflicting_schedulers_are_found_after_every_change(
    first: list[tuple[str, GroupPod | None]],
    second: list[tuple[str, GroupPod | None]],
    third: list[tuple[str, GroupPod | None]],
) -> None:
    """In the index itself, and in two that lie over it."""
    pods, plain = GroupPods(), dict[str, GroupPod]()
    for name, found in first:
        if found is None:
            pods.pop(keyed(name), None)
        else:
            pods[keyed(name)] = found
    over = pods.overlaid({keyed(name): found for name, found in second})
    over = over.overlaid({keyed(name): found for name, found in third})
    for index, changes in ((pods, [first]), (over, [first, second, third])):
        plain.clear()
        for name, found in (change for some in changes for change in some):
            plain.pop(name, None)
            if found is not None:
                plain[name] = found
        for name in "abcd":
            assert (keyed(name) in index) == (name in plain)
            assert name not in plain or index[keyed(name)] == plain[name]
        for group, scheduler, besides in ((group, one, own) for group in "xy" for one in (KUBE, BATCH) for own in "ae"):
            others = {
                keyed(name)
                for name, found in plain.items()
                if found.group == group and found.scheduler != scheduler and name != besides
            }
            other = index.pod_of_another_scheduler(group, scheduler, keyed(besides))
            assert other in others if others else other is None


class Unwalked(GroupPods):
    """Pods that count the lookups, and forbid iteration."""

    def __init__(self, known: dict[ObjectKey, GroupPod]) -> None:
        self.asked = 0
        super().__init__(known)
        self.asked = 0

    def __getitem__(self, key: ObjectKey) -> GroupPod:
        self.asked += 1
        return super().__getitem__(key)

    def having(self, term: Hashable) -> Any:
        return Counted(self, super().having(term))

    def __iter__(self) -> Iterator[ObjectKey]:
        raise AssertionError("all pods that wait are gone through")

    keys = values = items = __iter__  # type: ignore[assignment]


class Counted:
    """Keys that count the lookups."""

    def __init__(self, pods: Unwalked, keys: Any) -> None:
        self._pods, self._keys = pods, keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __iter__(self) -> Iterator[ObjectKey]:
        for key in self._keys:
            self._pods.asked += 1
            yield key


@pytest.mark.parametrize("odd", [None, "worker-7"], ids=["all agree", "one disagrees"])
def test_a_lookup_in_a_group_of_five_thousand_pods_is_as_fast_as_in_a_small_one(odd: str | None) -> None:
    """In a tree of five thousand groups with a pod each, besides."""
    asked = []
    for number in (MOST_BELOW, 5000):
        groups = Groups({keyed(f"g{index}"): TreeGroup(False, 2, parent="root") for index in range(number)})
        groups[keyed("worker")] = TreeGroup(False, 2, parent="root")
        many = {keyed(f"worker-{index}"): waiting(KUBE) for index in range(number)}
        many |= {keyed(f"other-{index}"): waiting(KUBE, f"g{index}") for index in range(number)}
        if odd is not None:
            many[keyed(odd)] = waiting(BATCH)
        pods = Unwalked(many)
        facts = replace(example_cluster(composite_pod_groups={"root": root()}), pod_groups=groups, group_pods=pods)
        assert (RULE in rules(validate(member(), settings=ON, facts=facts))) is (odd is not None)
        asked.append(pods.asked)
    assert asked[0] == asked[1] <= 2


def test_one_live_read_copies_no_pods() -> None:
    facts = ClusterFacts(group_pods=Unwalked({keyed(f"p{index}"): waiting(BATCH) for index in range(100)}))
    needed = Needed("group_pods", keyed("p0"))
    learned = facts.learned({needed: None})
    assert learned.lacks(needed)
    assert learned.group_pods is not None
    group = waiting(KUBE).group
    assert learned.group_pods.pod_of_another_scheduler(group, KUBE, keyed("new")) == keyed("p1")
    assert not facts.lacks(needed)


# What is said

TREE_OF_TWO: dict[str, Any] = {
    "pod_groups": {"worker": TreeGroup(False, 2, parent="root"), "leader": TreeGroup(False, 1, parent="inner")},
    "composite_pod_groups": {"root": root(), "inner": root(parent="root")},
}
WORKER: dict[str, Any] = {"pod_groups": {"worker": TreeGroup(False, 2)}}


def entries(**pods: GroupPod) -> ClusterFacts:
    return replace(
        example_cluster(), workloads=None, group_pods=GroupPods({keyed(name): one for name, one in pods.items()})
    )


def of_entry(scheduler: str, replica: str | None = None) -> GroupPod:
    return GroupPod(("default", GroupMembership("worker", "demo", replica)), scheduler)


SAID: dict[str, tuple[Manifest, ClusterFacts, list[str]]] = {
    "the first of its group": (member(), example_cluster(**WORKER), []),
    "of the scheduler of the others": (member(), example_cluster(**WORKER, group_pods={"a": waiting(KUBE)}), []),
    "of the same other scheduler": (
        member(schedulerName=BATCH),
        example_cluster(**WORKER, group_pods={"a": waiting(BATCH)}),
        [],
    ),
    "of another scheduler": (member(), example_cluster(**WORKER, group_pods={"a": waiting(BATCH)}), [RULE]),
    "of another than the default that no pod names": (
        member(schedulerName=BATCH),
        example_cluster(**WORKER, group_pods={"a": waiting(KUBE)}),
        [RULE],
    ),
    "of a group that is in two already": (
        member(),
        example_cluster(**WORKER, group_pods={"a": waiting(KUBE), "b": waiting(BATCH)}),
        [RULE],
    ),
    "beside another group": (member(), example_cluster(**WORKER, group_pods={"a": waiting(BATCH, "other")}), []),
    "beside a group of that name elsewhere": (
        member(),
        replace(
            example_cluster(**WORKER),
            group_pods=GroupPods({("team-a", "a"): GroupPod(("team-a", GroupMembership("worker")), BATCH)}),
        ),
        [],
    ),
    "recreated with the same name": (member(), example_cluster(**WORKER, group_pods={"worker-0": waiting(BATCH)}), []),
    "of a scheduler that knows no groups, which another rule says": (
        member(schedulerName="volcano"),
        example_cluster(**WORKER, group_pods={"a": waiting(KUBE)}),
        ["kube/pod-scheduler"],
    ),
    "beside one that such a scheduler was left": (
        member(),
        example_cluster(**WORKER, group_pods={"a": waiting("volcano")}),
        [RULE],
    ),
    "in a tree whose other group agrees": (
        member(),
        example_cluster(**TREE_OF_TWO, group_pods={"a": waiting(KUBE, "leader")}),
        [],
    ),
    "in a tree whose other group does not": (
        member(),
        example_cluster(**TREE_OF_TWO, group_pods={"a": waiting(BATCH, "leader")}),
        [RULE],
    ),
    "in no group": (pod(), example_cluster(group_pods={"a": waiting(BATCH)}), []),
    "of an entry": (
        entry("worker"),
        entries(a=of_entry(BATCH)),
        [RULE],
    ),
    "of another replica of an entry": (entry("worker", "one"), entries(a=of_entry(BATCH, "two")), []),
    "of an entry that is called as a PodGroup": (entry("worker"), entries(a=waiting(BATCH)), []),
}


@pytest.mark.parametrize(("manifest", "facts", "said"), SAID.values(), ids=SAID)
def test_a_pod_of_a_group_gets_the_expected_findings(manifest: Manifest, facts: ClusterFacts, said: list[str]) -> None:
    verdict = validate(manifest, settings=ON, facts=facts)
    assert rules(verdict) == said
    assert all(finding.action is Action.DENY for finding in verdict.findings)


def test_a_search_in_a_circle_of_groups_ends() -> None:
    circle = {"a": root(parent="b"), "b": root(parent="a")}
    facts = example_cluster(pod_groups={"worker": TreeGroup(False, 2, parent="a")}, composite_pod_groups=circle)
    assert rules(validate(member(), settings=ON, facts=facts)) == ["kube/pod-cycle"]


def test_the_other_pod_is_read_live_before_a_refusal_and_named() -> None:
    facts = example_cluster(**TREE_OF_TWO, group_pods={"leader-0": waiting(BATCH, "leader")})
    verdict = validate(member(), settings=ON, facts=facts)
    (finding,) = verdict.findings
    assert (str(finding.at), finding.value) == ("spec.schedulerName", KUBE)
    assert finding.why.startswith("the pod leader-0 of PodGroup leader in its tree waits for batch-scheduler")
    (needed,) = doubtful_facts(verdict)
    assert (needed, str(needed)) == (Needed("group_pods", keyed("leader-0")), "Pod default/leader-0")
    assert rules(validate(member(), settings=ON, facts=facts.learned({needed: None}))) == []


def test_without_the_right_to_read_pods_a_note_replaces_the_refusal() -> None:
    facts = replace(example_cluster(**WORKER), group_pods=None)
    verdict = validate(member(schedulerName=BATCH), settings=ON, facts=facts)
    assert (verdict.allowed, [missing.rule for missing in verdict.unjudged]) == (True, [RULE])
