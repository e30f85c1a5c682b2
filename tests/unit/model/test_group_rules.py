"""The rules about Workloads, PodGroups, CompositePodGroups and their pods: their findings, and what is not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import rules, settings_of, validate
from webhook.backends.kube.groups import (
    ALL,
    BASIC,
    RACK,
    TREE,
    ZONE,
    branch,
    composite,
    example_cluster,
    leaf,
    member,
    parent_fields,
    pod,
    pod_group,
    root,
    template_reference,
    topology_constraint,
    workload,
)
from webhook.model.capabilities import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import Namespace, PriorityClass, TopologyBinding
from webhook.model.pod_groups import TreeGroup, WorkloadTemplates
from webhook.model.reading import Manifest

ON = settings_of("default-scheduler", {"gangScheduling": True})
STRICT = {"default": Namespace({"rollcall.dev/creation-order": "strict"})}

WORKER = pod_group(**parent_fields("root"))
ROOT = example_cluster(workloads={"demo": TREE}, composite_pod_groups={"root": root()})
ALONE = example_cluster(workloads={"demo": TREE})
IN_ONE = root(disruption=Disruption.ALL)
# A chain of three composites: a PodGroup is the fourth level.
CHAIN = {"a": root(), "b": root(parent="a"), "c": root(parent="b")}
CIRCLE = {"a": root(parent="b"), "b": root(parent="a")}
# Objects here are as small as their subject allows. What the API server refuses of them has tests of its own.
OF_SHAPE = {"kube/group-shape"}
FREE: dict[str, Any] = {"workloadRef": None}


def loose(name: str, parent: str | None = None, **spec: Any) -> Manifest:
    """A CompositePodGroup whose Workload no rule knows."""
    return composite(name, **FREE, parentCompositePodGroupName=parent, **spec)


def leaf_group(**fields: Any) -> dict[str, TreeGroup]:
    return {"worker": TreeGroup(**{"composite": False, "minimum": 2, **fields})}


Case = tuple[Manifest, ClusterFacts, list[str]]

REFERENCES: dict[str, Case] = {
    "a group below its parent": (WORKER, ROOT, []),
    "the root of a tree": (composite(), ALONE, []),
    "a parent that is not there": (WORKER, ALONE, ["kube/parent-missing"]),
    "a grandparent that is not there": (
        pod_group(**{**parent_fields("b"), **FREE}),
        example_cluster(composite_pod_groups={"b": root(parent="a")}),
        ["kube/parent-missing"],
    ),
    "a Workload that is not there": (composite(), example_cluster(), ["kube/workload-missing"]),
    "neither parent nor Workload": (WORKER, example_cluster(), ["kube/workload-missing", "kube/parent-missing"]),
    "a PodGroup by itself, as Jobs of 1.36 have it": (pod_group(version="v1alpha2"), example_cluster(), []),
    "a PodGroup by itself": (pod_group(), example_cluster(), []),
    "a Workload that is not there, which 1.36 says itself": (
        pod_group(
            version="v1alpha2",
            podGroupTemplateRef={"workload": {"workloadName": "demo", "podGroupTemplateName": "worker"}},
        ),
        example_cluster(),
        [],
    ),
    "a copy of 1.36 that differs": (
        pod_group(
            version="v1alpha2",
            minimum=3,
            podGroupTemplateRef={"workload": {"workloadName": "demo", "podGroupTemplateName": "worker"}},
        ),
        example_cluster(workloads={"demo": WorkloadTemplates({"worker": TreeGroup(composite=False, minimum=2)})}),
        ["kube/template-policy"],
    ),
    "an unknown template": (composite(template="rot"), ALONE, ["kube/template-unknown"]),
    "the template of another kind": (pod_group(**template_reference("root")), ALONE, ["kube/template-kind"]),
    "another minimum than the template's": (
        pod_group(minimum=3, **parent_fields("root")),
        ROOT,
        ["kube/template-policy"],
    ),
    "no gang, where the template is one": (
        pod_group(**parent_fields("root"), **BASIC),
        ROOT,
        ["kube/template-policy", "kube/tree-gang"],
    ),
    "another Workload than the parent's": (
        WORKER,
        example_cluster(workloads={"demo": TREE}, composite_pod_groups={"root": root(workload="other")}),
        ["kube/tree-workload"],
    ),
    "below the wrong template": (
        pod_group(**parent_fields("a")),
        example_cluster(workloads={"demo": TREE}, composite_pod_groups={"a": root("other")}),
        ["kube/template-parent"],
    ),
    "at the root, where the template is not": (
        pod_group(**template_reference("worker")),
        ALONE,
        ["kube/template-parent"],
    ),
    "fewer templates than the minimum wants": (
        workload(branch("root", leaf("a"), minimum=2)),
        example_cluster(),
        ["kube/min-group-count"],
    ),
    "of the one that is wanted": (workload(branch("root", leaf("a"))), example_cluster(), []),
    "a copy that wants more groups than are declared": (
        composite(minimum=2),
        example_cluster(
            workloads={
                "demo": WorkloadTemplates(
                    {
                        "root": TreeGroup(composite=True, minimum=2),
                        "a": TreeGroup(composite=False, minimum=1, parent="root"),
                    }
                )
            }
        ),
        ["kube/min-group-count"],
    ),
}

TREES: dict[str, Case] = {
    "itself above it": (loose("a", "a"), example_cluster(), ["kube/tree-cycle"]),
    "two above each other": (loose("a", "b"), example_cluster(composite_pod_groups=CIRCLE), ["kube/tree-cycle"]),
    "the second of a circle of three": (
        loose("a", "c"),
        example_cluster(composite_pod_groups={"b": root(parent="a"), "c": root(parent="b")}),
        ["kube/tree-cycle"],
    ),
    "a circle above it": (
        pod_group(**{**parent_fields("a"), **FREE}),
        example_cluster(composite_pod_groups=CIRCLE),
        ["kube/tree-cycle"],
    ),
    "a PodGroup called as the composite above it": (
        pod_group("a", **{**parent_fields("a"), **FREE}),
        example_cluster(composite_pod_groups=CHAIN),
        ["kube/tree-name"],
    ),
    "the fourth level": (pod_group(**{**parent_fields("c"), **FREE}), example_cluster(composite_pod_groups=CHAIN), []),
    "a composite as the third": (loose("d", "b"), example_cluster(composite_pod_groups=CHAIN), []),
    "a composite as the fourth": (loose("d", "c"), example_cluster(composite_pod_groups=CHAIN), ["kube/tree-depth"]),
    "a root that comes after three levels": (
        loose("top"),
        example_cluster(composite_pod_groups={**CHAIN, "a": root(parent="top")}),
        ["kube/tree-depth"],
    ),
    "a root that comes after two": (
        loose("a"),
        example_cluster(composite_pod_groups={"b": root(parent="a"), "c": root(parent="b")}),
        [],
    ),
    "a parent that is named and not there, above three levels": (
        loose("b", "a"),
        example_cluster(composite_pod_groups={"c": root(parent="b"), "d": root(parent="c")}),
        ["kube/parent-missing", "kube/tree-depth"],
    ),
    "a middle between two and one": (
        loose("m", "b"),
        example_cluster(composite_pod_groups={"a": root(), "b": root(parent="a"), "c": root(parent="m")}),
        ["kube/tree-depth"],
    ),
}

AGREEMENTS: dict[str, Case] = {
    "another class than the parent's": (
        loose("b", "a", priorityClassName="low"),
        example_cluster(composite_pod_groups={"a": root(priority_class="high")}),
        ["kube/group-priority"],
    ),
    "the same by class and by number": (
        loose("b", "a", priorityClassName="high"),
        example_cluster(composite_pod_groups={"a": root(priority_class="high", priority=1000)}),
        [],
    ),
    "no class, where the parent has the default one": (
        loose("b", "a"),
        replace(
            example_cluster(composite_pod_groups={"a": root(priority_class="usual", priority=5)}),
            priority_classes={"usual": PriorityClass(5, is_default=True)},
        ),
        [],
    ),
    "a parent that comes after a child of another class": (
        loose("a"),
        example_cluster(pod_groups=leaf_group(parent="a", priority_class="high")),
        ["kube/group-priority"],
    ),
    "another class than the template's": (
        pod_group(**template_reference("worker"), priorityClassName="low"),
        example_cluster(
            workloads={
                "demo": WorkloadTemplates({"worker": TreeGroup(composite=False, minimum=2, priority_class="high")})
            }
        ),
        ["kube/group-priority"],
    ),
    "a class, where the template leaves it open": (
        pod_group(**template_reference("worker"), priorityClassName="high"),
        example_cluster(workloads={"demo": WorkloadTemplates({"worker": TreeGroup(composite=False, minimum=2)})}),
        [],
    ),
    "single below all": (
        loose("b", "a"),
        example_cluster(composite_pod_groups={"a": IN_ONE}),
        ["kube/disruption-single"],
    ),
    "all below all": (loose("b", "a", **ALL), example_cluster(composite_pod_groups={"a": IN_ONE}), []),
    "all below single": (loose("b", "a", **ALL), example_cluster(composite_pod_groups={"a": root()}), []),
    "all, come after single below it": (
        loose("a", **ALL),
        example_cluster(pod_groups=leaf_group(parent="a")),
        ["kube/disruption-single"],
    ),
    "templates, single below all": (
        workload(branch("root", leaf("a"), **ALL)),
        example_cluster(),
        ["kube/disruption-single"],
    ),
    "templates, all below all": (workload(branch("root", leaf("a", **ALL), **ALL)), example_cluster(), []),
    "all, and no gang": (pod_group(**ALL, **BASIC), example_cluster(), ["kube/disruption-all"]),
    "PodGroup, and no gang, as 1.36 says it": (
        pod_group(version="v1alpha2", disruptionMode="PodGroup", **BASIC),
        example_cluster(),
        ["kube/disruption-all"],
    ),
    "Pod, and no gang, as 1.36 says it": (
        pod_group(version="v1alpha2", disruptionMode="Pod", **BASIC),
        example_cluster(),
        [],
    ),
    "a template with all, and no gang": (
        workload(podGroupTemplates=[{"name": "a", **BASIC, **ALL}]),
        example_cluster(),
        ["kube/disruption-all"],
    ),
    "a key that no binding has": (pod_group(**topology_constraint("rakc")), example_cluster(), ["kube/topology-key"]),
    "the host": (pod_group(**topology_constraint("kubernetes.io/hostname")), example_cluster(), []),
    "a key, and no binding to know it by": (
        pod_group(**topology_constraint("rakc")),
        replace(example_cluster(), topology_bindings={}),
        [],
    ),
    "a template's key that no binding has": (
        workload(podGroupTemplates=[leaf(**topology_constraint("rakc"))]),
        example_cluster(),
        ["kube/topology-key"],
    ),
    "a zone in a rack": (
        loose("b", "a", **topology_constraint(ZONE)),
        example_cluster(composite_pod_groups={"a": root(topology=RACK)}),
        ["kube/topology-order"],
    ),
    "a rack in a zone": (
        loose("b", "a", **topology_constraint(RACK)),
        example_cluster(composite_pod_groups={"a": root(topology=ZONE)}),
        [],
    ),
    "a zone in a rack, two levels above": (
        loose("c", "b", **topology_constraint(ZONE)),
        example_cluster(composite_pod_groups={"a": root(topology=RACK), "b": root(parent="a")}),
        ["kube/topology-order"],
    ),
    "keys of two bindings, which have no order": (
        loose("b", "a", **topology_constraint(ZONE)),
        replace(
            example_cluster(composite_pod_groups={"a": root(topology=RACK)}),
            topology_bindings={"x": TopologyBinding({"zone": ZONE}), "y": TopologyBinding({"rack": RACK})},
        ),
        [],
    ),
    "templates, a zone in a rack": (
        workload(branch("root", leaf("a", **topology_constraint(ZONE)), **topology_constraint(RACK))),
        example_cluster(),
        ["kube/topology-order"],
    ),
}

MEMBERS: dict[str, Case] = {
    "of a group that is there": (member(), example_cluster(pod_groups=leaf_group()), []),
    "of one that is not": (member(), example_cluster(), ["kube/pod-group-missing"]),
    "of a composite": (member("root"), example_cluster(composite_pod_groups={"root": root()}), ["kube/pod-composite"]),
    "of a group called as a composite": (
        member("worker"),
        example_cluster(composite_pod_groups={"worker": root()}, pod_groups=leaf_group()),
        [],
    ),
    "of a group below a circle": (
        member(),
        example_cluster(composite_pod_groups=CIRCLE, pod_groups=leaf_group(parent="a")),
        ["kube/pod-cycle"],
    ),
    "of an entry of a Workload, in 1.35": (
        pod(workloadRef={"name": "demo", "podGroup": "worker", "podGroupReplicaKey": "0"}),
        ALONE,
        [],
    ),
    "of a Workload that is not there": (
        pod(workloadRef={"name": "demo", "podGroup": "worker"}),
        example_cluster(),
        ["kube/pod-group-missing"],
    ),
    "of an entry that is not there": (pod(workloadRef={"name": "demo", "podGroup": "x"}), ALONE, ["kube/pod-entry"]),
    "of another priority": (
        member(priorityClassName="low", priority=10),
        example_cluster(pod_groups=leaf_group(priority_class="high", priority=1000)),
        ["kube/pod-priority"],
    ),
    "of a class, in a group of none": (
        member(priorityClassName="high"),
        example_cluster(pod_groups=leaf_group()),
        ["kube/pod-priority"],
    ),
    "of another scheduler": (
        member(schedulerName="koord-scheduler"),
        example_cluster(pod_groups=leaf_group()),
        ["kube/pod-scheduler"],
    ),
    "of a second kube-scheduler": (member(schedulerName="mine"), example_cluster(pod_groups=leaf_group()), []),
    "of no group": (pod(schedulerName="koord-scheduler"), example_cluster(), []),
}
EVERY = {**REFERENCES, **TREES, **AGREEMENTS, **MEMBERS}
# What they name may come later, and a namespace can make refusals of them.
MAY_FOLLOW = {"kube/parent-missing", "kube/workload-missing", "kube/pod-group-missing"}


@pytest.mark.parametrize(("manifest", "facts", "expected"), EVERY.values(), ids=EVERY)
def test_a_group_object_gets_the_expected_findings(
    manifest: Manifest, facts: ClusterFacts, expected: list[str]
) -> None:
    verdict = validate(manifest, settings=ON, facts=facts)
    assert sorted(set(rules(verdict)) - OF_SHAPE) == sorted(set(expected))
    assert verdict.unjudged == ()


@pytest.mark.parametrize(
    ("manifest", "facts", "expected"),
    [case for case in EVERY.values() if case[2] and set(case[2]) <= MAY_FOLLOW],
    ids=[name for name, case in EVERY.items() if case[2] and set(case[2]) <= MAY_FOLLOW],
)
def test_an_object_that_may_follow_is_a_warning_unless_the_namespace_is_strict(
    manifest: Manifest, facts: ClusterFacts, expected: list[str]
) -> None:
    loose = validate(manifest, settings=ON, facts=facts)
    assert {finding.rule for finding in loose.denials} <= OF_SHAPE
    strict = validate(manifest, settings=ON, facts=replace(facts, namespaces=STRICT))
    assert not strict.allowed
    assert {finding.rule for finding in strict.denials} - OF_SHAPE == set(expected)
    assert all(finding.absent is not None for finding in strict.denials if finding.rule not in OF_SHAPE)


@pytest.mark.parametrize(("manifest", "facts", "expected"), EVERY.values(), ids=EVERY)
def test_nothing_is_found_while_gang_scheduling_is_off(
    manifest: Manifest, facts: ClusterFacts, expected: list[str]
) -> None:
    verdict = validate(manifest, settings=settings_of("default-scheduler"), facts=facts)
    assert (verdict.allowed, rules(verdict)) == (True, [])


def test_an_update_of_a_faulty_object_causes_a_warning() -> None:
    labelled = {**WORKER, "metadata": {**WORKER["metadata"], "labels": {"a": "b"}}}
    facts = example_cluster(workloads={"demo": TREE}, composite_pod_groups={"root": root(workload="other")})
    assert [finding.action for finding in validate(labelled, WORKER, settings=ON, facts=facts).findings] == [
        Action.WARN
    ]


def test_a_resize_in_two_steps_is_never_refused() -> None:
    """The Job controller changes the template and then its group; others may do it the other way round."""
    larger = pod_group(minimum=4, **parent_fields("root"))
    first = validate(larger, WORKER, settings=ON, facts=ROOT)
    assert (first.allowed, rules(first)) == (True, ["kube/template-drift"])
    resized = WorkloadTemplates({**TREE.templates, "worker": replace(TREE.templates["worker"], minimum=4)})
    second = validate(larger, WORKER, settings=ON, facts=replace(ROOT, workloads={("default", "demo"): resized}))
    assert rules(second) == []
    trees = workload(branch("root", leaf("worker", minimum=2))), workload(branch("root", leaf("worker", minimum=4)))
    assert rules(validate(trees[1], trees[0], settings=ON, facts=ROOT)) == []


def test_without_facts_the_rules_that_need_them_are_not_judged() -> None:
    verdict = validate(WORKER, settings=ON)
    assert (verdict.allowed, rules(verdict)) == (True, [])
    assert {missing.rule for missing in verdict.unjudged} == {"kube/workload-missing", "kube/parent-missing"}
    assert [missing.rule for missing in validate(member(), settings=ON).unjudged] == [
        "kube/pod-group-missing",
        "kube/pod-schedulers",
    ]


def test_in_1_36_a_pod_can_have_another_priority_than_its_group() -> None:
    """kube-scheduler 1.36 goes by the group's."""
    settings = settings_of("default-scheduler", {"gangScheduling": True, "apiGeneration": "v1alpha2"})
    facts = replace(example_cluster(pod_groups=leaf_group(priority_class="high")), apis=None)
    assert rules(validate(member(), settings=settings, facts=facts)) == []
