"""Rules about the preemption of groups that other programs store, for kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.kube.groups import (
    branch,
    composite,
    example_cluster,
    leaf,
    member,
    parent_fields,
    pod_group,
    root,
    workload,
)
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PriorityClass
from webhook.model.pod_groups import TreeGroup
from webhook.model.reading import Manifest
from webhook.validators.examples import job

ON = settings_of("default-scheduler", {"gangScheduling": True})
CLASSES = {
    "low": PriorityClass(10, is_default=False),
    "meek": PriorityClass(10, is_default=False, preemption_policy="Never"),
}
WORKER = TreeGroup(composite=False, minimum=2, priority_class="meek")


def facts(**parts: Any) -> ClusterFacts:
    return example_cluster(priority_classes=CLASSES, **parts)


VALUES: dict[str, tuple[Manifest, bool]] = {
    "1.37, all": (pod_group(disruptionMode={"all": {}}), True),
    "1.37, single": (composite(disruptionMode={"single": {}}), True),
    "1.37, the form of 1.36": (pod_group(disruptionMode="PodGroup"), False),
    "1.37, both": (pod_group(disruptionMode={"all": {}, "single": {}}), False),
    "1.37, neither": (pod_group(disruptionMode={}), False),
    "1.37, an unknown member": (pod_group(disruptionMode={"pods": {}}), False),
    "1.37, a member that is not empty": (pod_group(disruptionMode={"all": {"pods": 2}}), False),
    "1.37, in a template": (workload(branch("root", leaf(disruptionMode="Pod"))), False),
    "1.36, together": (pod_group(version="v1alpha2", disruptionMode="PodGroup"), True),
    "1.36, one by one": (pod_group(version="v1alpha2", disruptionMode="Pod"), True),
    "1.36, an unknown one": (pod_group(version="v1alpha2", disruptionMode="All"), False),
    "1.36, the form of 1.37": (pod_group(version="v1alpha2", disruptionMode={"all": {}}), False),
    "none": (pod_group(), True),
}


@pytest.mark.parametrize(("manifest", "is_right"), VALUES.values(), ids=VALUES)
def test_the_mode_has_the_form_of_its_version(manifest: Manifest, is_right: bool) -> None:
    found = "kube/disruption-value" in rules(validate(manifest, settings=ON, facts=facts()))
    assert found is not is_right


GROUP, POD = "kube/group-preemption-policy", "kube/pod-preemption-policy"
POLICIES: dict[str, tuple[Manifest, ClusterFacts, list[str]]] = {
    "of its class": (pod_group(priorityClassName="meek", preemptionPolicy="Never"), facts(), []),
    "another than its class": (pod_group(priorityClassName="low", preemptionPolicy="Never"), facts(), [GROUP]),
    "without a class": (pod_group(preemptionPolicy="Never"), facts(), [GROUP]),
    "an unknown one": (pod_group(preemptionPolicy="Sometimes"), facts(), [GROUP]),
    "an unknown class": (pod_group(priorityClassName="new", preemptionPolicy="Never"), facts(), []),
    "unknown classes": (pod_group(preemptionPolicy="Never"), example_cluster(priority_classes=None), []),
    "1.36 has none": (pod_group(version="v1alpha2", priorityClassName="low"), facts(), []),
    "as its parent": (
        pod_group(**parent_fields("root"), priorityClassName="meek"),
        facts(composite_pod_groups={"root": root(priority_class="meek")}),
        [],
    ),
    "unlike its parent": (
        pod_group(**parent_fields("root"), priorityClassName="low"),
        facts(composite_pod_groups={"root": root(priority_class="meek")}),
        [GROUP],
    ),
    "unlike its child": (
        composite("root", priorityClassName="low"),
        facts(pod_groups={"worker": TreeGroup(False, 2, "root", priority_class="meek")}),
        [GROUP],
    ),
    "a pod as its group": (member(priorityClassName="meek"), facts(pod_groups={"worker": WORKER}), []),
    "a pod unlike its group": (member(priorityClassName="low"), facts(pod_groups={"worker": WORKER}), [POD]),
    "a pod that states its policy": (
        member(priorityClassName="new", preemptionPolicy="Never"),
        facts(pod_groups={"worker": WORKER}),
        [],
    ),
    "a pod as its group, unlike the root": (
        member(priorityClassName="meek"),
        facts(
            pod_groups={"worker": TreeGroup(False, 2, "root", priority_class="meek")},
            composite_pod_groups={"root": root(priority_class="low")},
        ),
        [POD],
    ),
    "what the group has counts before its class": (
        member(priorityClassName="low"),
        facts(pod_groups={"worker": TreeGroup(False, 2, priority_class="meek", preemption="PreemptLowerPriority")}),
        [],
    ),
}


@pytest.mark.parametrize(("manifest", "world", "expected"), POLICIES.values(), ids=POLICIES)
def test_a_tree_has_one_preemption_policy(manifest: Manifest, world: ClusterFacts, expected: list[str]) -> None:
    found = rules(validate(manifest, settings=ON, facts=world))
    assert [rule for rule in found if rule in {GROUP, POD}] == expected


GANG: Manifest = {"schedulingPolicy": {"gang": {}}}
ALL: Manifest = {"disruptionMode": {"all": {}}}
LABEL = {"rollcall.dev/disruption-mode": "all"}
NATIVE: dict[str, tuple[Manifest, str | None]] = {
    "needs every pod": (job(scheduling=GANG), "spec.scheduling.disruptionMode"),
    "needs every pod, and says so": (job(scheduling={**GANG, **ALL}), None),
    "has spare pods": (
        job(parallelism=4, completions=4, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}),
        None,
    ),
    "is no gang": (job(scheduling={"schedulingPolicy": {"basic": {}}}), None),
    "makes its gang by Rollcall": (job(), None),
    "has one pod": (job(parallelism=1, completions=1, scheduling=GANG), None),
    "has a label that its controller does not read": (
        job(labels=LABEL, parallelism=4, completions=4, scheduling={"schedulingPolicy": {"gang": {"minCount": 2}}}),
        "metadata.labels[rollcall.dev/disruption-mode]",
    ),
    "chooses single pods": (job(labels={"rollcall.dev/disruption-mode": "single"}, scheduling=GANG), None),
}


@pytest.mark.parametrize(("manifest", "at"), NATIVE.values(), ids=NATIVE)
def test_a_job_whose_controller_makes_its_gang_states_the_mode_itself(manifest: Manifest, at: str | None) -> None:
    manifest["metadata"]["labels"]["rollcall.dev/scheduler"] = "default-scheduler"
    verdict = validate(manifest, settings=ON, facts=facts())
    found = [str(finding.at) for finding in verdict.findings if finding.rule == "kube/owner-native-mode"]
    assert found == ([] if at is None else [at])
