"""Pods for the Workload API: the group of each pod, by API version, and what a pod needs to be admitted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.backends.kube_gangs import (
    COORDINATED,
    NEITHER,
    RECORD,
    TREE,
    V1ALPHA1,
    V1ALPHA2,
    V1BETA1,
    backend,
    member,
    podgang,
)
from tests.unit.worlds import gang_pod, request, settings_of
from webhook import admission
from webhook.backends.base import GangMember, PodPriority
from webhook.backends.kube.workload_api import GROUP, Generation, KubeSettings, generation
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import Manifest

STANDING = GangMember("default", "demo-0", "demo-0-wrk", RECORD)
MEMBERSHIPS: dict[str, tuple[Generation, dict[str, Any], Manifest]] = {
    "1.35, merged": (Generation.V1ALPHA1, {}, {"workloadRef": {"name": "demo-0", "podGroup": "gang"}}),
    "1.35": (
        Generation.V1ALPHA1,
        {"flat": "allow"},
        {"workloadRef": {"name": "demo-0", "podGroup": "demo-0-wrk"}},
    ),
    "1.36, merged": (Generation.V1ALPHA2, {}, {"schedulingGroup": {"podGroupName": "demo-0"}}),
    "1.36": (Generation.V1ALPHA2, {"flat": "refuse"}, {"schedulingGroup": {"podGroupName": "demo-0-wrk"}}),
    "1.37, merged": (Generation.V1BETA1, {}, {"schedulingGroup": {"podGroupName": "demo-0"}}),
    "1.37, a tree": (Generation.TREE, {}, {"schedulingGroup": {"podGroupName": "demo-0-wrk"}}),
}


@pytest.mark.parametrize(("spoken", "config", "expected"), MEMBERSHIPS.values(), ids=MEMBERSHIPS)
def test_a_pod_names_its_group(spoken: Generation, config: dict[str, Any], expected: Manifest) -> None:
    assert backend(**config).prepare_pod(STANDING._replace(dialect=spoken)).default_fields == expected


NAMES = ["demo-0-wrk", "demo-0-a.b", "x" * 64, "y" * 300, "root", "Ä"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_the_group_that_a_pod_names_is_written(name: str, apis: frozenset[Api]) -> None:
    used, facts = backend(flat="allow"), ClusterFacts(apis=apis)
    objects = used.gang_objects(podgang(member(name, 1)), RECORD, facts)
    spoken = used.dialect(facts)
    assert spoken is not None
    fields = used.prepare_pod(GangMember("default", "demo-0", name, RECORD, spoken)).default_fields
    if apis is V1ALPHA1:
        entries = [entry["name"] for entry in objects[0]["spec"]["podGroups"]]
        assert fields["workloadRef"] == {"name": objects[0]["metadata"]["name"], "podGroup": entries[0]}
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", entries[0])
    else:
        group = objects[-1]
        assert (group["kind"], group["metadata"]["name"]) == ("PodGroup", fields["schedulingGroup"]["podGroupName"])
        assert len(group["metadata"]["name"]) <= 253


@pytest.mark.parametrize(("apis", "config"), [(V1BETA1, {"flat": "allow"}), (TREE, {})])
def test_the_second_gang_of_a_podclique_has_a_group_of_its_own(apis: frozenset[Api], config: dict[str, Any]) -> None:
    used, facts = backend(**config), ClusterFacts(apis=apis)
    raw = podgang(member("demo-0-wrk", 1), member("demo-0-lead", 1)).raw
    objects = used.gang_objects(PodGang(raw, gang="demo-0-7", divided=frozenset({"demo-0-wrk"})), RECORD, facts)
    groups = [found["metadata"]["name"] for found in objects if found["kind"] == "PodGroup"]
    assert groups == ["demo-0-7-demo-0-wrk", "demo-0-lead"]
    assert objects[0]["metadata"]["annotations"]["rollcall.dev/divided"] == "demo-0-wrk"
    spoken = used.dialect(facts)
    assert spoken is not None
    mine = GangMember("default", "demo-0-7", "demo-0-wrk", RECORD, spoken, divided=True)
    assert used.prepare_pod(mine).default_fields == {"schedulingGroup": {"podGroupName": "demo-0-7-demo-0-wrk"}}


def on(apis: frozenset[Api] | None, **facts: Any) -> ClusterFacts:
    owner = {("default", "demo"): Record("default-scheduler", priority_class="high")}
    return ClusterFacts(apis=apis, pod_clique_sets=owner, **facts)


def test_a_pod_gets_its_group_and_its_priority_together() -> None:
    classes = {"high": PriorityClass(1000, is_default=False, preemption_policy="Never")}
    asked = request(gang_pod(priority=0, preemptionPolicy="PreemptLowerPriority"))
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    verdict = admission.mutate(asked, on(TREE, priority_classes=classes), settings)
    assert asked.object is not None
    spec = asked.object["spec"]
    assert spec["schedulingGroup"] == {"podGroupName": "demo-0-worker"}
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("high", 1000, "Never")
    assert verdict.patch
    again = request(asked.object)
    assert admission.mutate(again, on(TREE, priority_classes=classes), settings).patch == ()


def test_an_existing_membership_is_kept() -> None:
    asked = request(gang_pod(schedulingGroup={"podGroupName": "mine"}))
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    admission.mutate(asked, on(TREE), settings)
    assert asked.object is not None
    assert asked.object["spec"]["schedulingGroup"] == {"podGroupName": "mine"}
    assert asked.object["metadata"]["annotations"]["rollcall.dev/stamp"].startswith("default-scheduler/")


@pytest.mark.parametrize("apis", [None, NEITHER, frozenset({COORDINATED})])
def test_a_pod_whose_membership_the_api_server_would_drop_is_refused(apis: frozenset[Api] | None) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    with pytest.raises(FactsUnavailable, match="serves no version"):
        admission.mutate(request(gang_pod()), on(apis), settings)


def test_the_stamp_changes_with_the_inputs_of_preparation() -> None:
    used = backend()
    member_of = STANDING._replace(dialect=Generation.TREE)
    priority = PodPriority("high", 1, "Never")
    inputs = {
        used.prepare_pod(member_of).inputs,
        used.prepare_pod(member_of._replace(podclique="demo-0-lead")).inputs,
        used.prepare_pod(member_of._replace(priority=priority)).inputs,
    }
    assert len(inputs) == 3


GENERATIONS: dict[str, tuple[frozenset[Api] | None, dict[str, Any], Generation | None]] = {
    "1.35": (V1ALPHA1, {}, Generation.V1ALPHA1),
    "1.36": (V1ALPHA2, {}, Generation.V1ALPHA2),
    "1.37 without composites": (V1BETA1, {}, Generation.V1BETA1),
    "1.37": (TREE, {}, Generation.TREE),
    "1.37, trees off": (TREE, {"hierarchical": "off"}, Generation.V1BETA1),
    "1.37, the scheduler's gate off": (TREE, {"schedulerGates": ["GenericWorkload"]}, Generation.V1BETA1),
    "another one is wanted": (TREE, {"apiGeneration": "v1alpha2"}, None),
    "nothing": (NEITHER, {}, None),
    "only the kinds of CRDs in files": (frozenset({COORDINATED}), {}, None),
    "only the kinds of CRDs in files, and a statement": (
        frozenset({COORDINATED}),
        {"apiGeneration": "v1alpha2"},
        Generation.V1ALPHA2,
    ),
    "only PodGroup": (frozenset({Api(GROUP, "v1alpha2", "PodGroup")}), {}, None),
    "unknown": (None, {}, None),
    "unknown, but stated": (None, {"apiGeneration": "v1alpha2"}, Generation.V1ALPHA2),
    "unknown, stated, with trees": (None, {"apiGeneration": "v1beta1"}, Generation.TREE),
    "unknown, stated, without": (None, {"apiGeneration": "v1beta1", "hierarchical": "off"}, Generation.V1BETA1),
}


@pytest.mark.parametrize(("apis", "config", "expected"), GENERATIONS.values(), ids=GENERATIONS)
def test_the_workload_api_version_is_detected_by_the_served_kinds(
    apis: frozenset[Api] | None, config: dict[str, Any], expected: Generation | None
) -> None:
    assert generation(KubeSettings(gangScheduling=True, **config), apis) is expected


def test_missing_kinds_are_reported_once_discovery_has_run() -> None:
    assert backend().init(NO_FACTS) == ()
    assert backend().init(ClusterFacts(apis=frozenset({COORDINATED}))) == ()
    assert backend().init(ClusterFacts(apis=TREE)) == ()
    (told,) = backend().init(ClusterFacts(apis=NEITHER))
    assert told == Text("default-scheduler: ", "not serve", "v1beta1 Workload and PodGroup")
