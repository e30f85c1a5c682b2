"""What Kubernetes 1.38 (read: 1.38.0-beta.0) accepts and refuses of groups, and 1.37 does not: the API server's
`ValidateWorkloadSpec`, its Priority plugin, and kube-scheduler's `validatePodGroupHierarchy`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.backends.kube_gangs import NEITHER, RECORD, TREE, TWO, V1BETA1, backend, podgang
from tests.unit.backends.kube_gangs import member as gang_member
from tests.unit.worlds import settings_of, validate
from webhook.backends.kube.groups import (
    ALL,
    BASIC,
    OF_1_38,
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
from webhook.backends.kube.workload_api import GROUP
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.gang_objects import Stage
from webhook.model.known_objects import PriorityClass
from webhook.model.pod_groups import TreeGroup
from webhook.model.reading import Manifest
from webhook.validators.examples import pod_clique_set

SYSTEM = {"system-node-critical": PriorityClass(2_000_001_000, is_default=False)}
MEEK = {
    "low": PriorityClass(10, is_default=False),
    "meek": PriorityClass(10, is_default=False, preemption_policy="Never"),
}
# 1.37 and 1.38 serve the same kinds without the gate CompositePodGroup.
EITHER = ClusterFacts(apis=V1BETA1 | NEITHER)
OF_1_37 = ClusterFacts(apis=TREE | NEITHER)
CRITICAL = pod_clique_set(priorityClassName="system-node-critical")
_BASIC_CHILD = workload(branch("root", leaf("a"), {**leaf("b"), **BASIC}))
_WORKLOAD = "spec.compositePodGroupTemplates[0]"
_IN_TREE = {"composite_pod_groups": {"root": root()}}

# What is judged, the rule, its place, and the action in 1.37 and in 1.38.
JUDGED: dict[str, tuple[Manifest, dict[str, Any], str, str, Action | None, Action | None]] = {
    "a basic template below a gang": (
        _BASIC_CHILD,
        {},
        "kube/tree-gang",
        f"{_WORKLOAD}.podGroupTemplates[1].schedulingPolicy",
        Action.WARN,
        Action.DENY,
    ),
    "a gang below a gang": (workload(branch("root", leaf("a"))), {}, "kube/tree-gang", "", None, None),
    "a gang below a basic composite": (
        workload({**branch("root", leaf("a")), **BASIC}),
        {},
        "kube/tree-gang",
        "",
        None,
        None,
    ),
    "a basic group below a gang": (
        pod_group(**parent_fields("root"), **BASIC),
        _IN_TREE,
        "kube/tree-gang",
        "spec.schedulingPolicy",
        Action.WARN,
        Action.DENY,
    ),
    "a single template below all": (
        workload(branch("root", leaf("a"), **ALL)),
        {},
        "kube/disruption-single",
        f"{_WORKLOAD}.podGroupTemplates[0].disruptionMode",
        Action.WARN,
        Action.DENY,
    ),
    "all for a basic group": (
        pod_group(**ALL, **BASIC),
        {},
        "kube/disruption-all",
        "spec.disruptionMode",
        Action.DENY,
        Action.DENY,
    ),
    "all for a basic composite": (
        composite(**ALL, **BASIC),
        {},
        "kube/disruption-all",
        "spec.disruptionMode",
        Action.WARN,
        Action.DENY,
    ),
    "all for a basic composite in a Workload": (
        workload({**branch("root", leaf("a", **ALL), **ALL), **BASIC}),
        {},
        "kube/disruption-all",
        f"{_WORKLOAD}.disruptionMode",
        Action.WARN,
        Action.DENY,
    ),
    "templates with two preemption policies": (
        workload(branch("root", leaf("a", preemptionPolicy="Never"))),
        {},
        "kube/group-preemption-policy",
        f"{_WORKLOAD}.podGroupTemplates[0].preemptionPolicy",
        Action.WARN,
        Action.DENY,
    ),
    "templates with one preemption policy": (
        workload(branch("root", leaf("a", preemptionPolicy="Never"), preemptionPolicy="Never")),
        {},
        "kube/group-preemption-policy",
        "",
        None,
        None,
    ),
    "a policy that is not of the class": (
        pod_group(priorityClassName="low", preemptionPolicy="Never"),
        {"priority_classes": MEEK},
        "kube/group-preemption-policy",
        "spec.preemptionPolicy",
        Action.WARN,
        Action.DENY,
    ),
    "a pod with another policy than its group": (
        member(priorityClassName="low"),
        {
            "pod_groups": {"worker": TreeGroup(composite=False, minimum=2, priority_class="meek")},
            "priority_classes": MEEK,
        },
        "kube/pod-preemption-policy",
        "spec.preemptionPolicy",
        Action.WARN,
        Action.DENY,
    ),
    "a group with the name of the composite above it": (
        pod_group("root", **parent_fields("root")),
        _IN_TREE,
        "kube/tree-name",
        "metadata.name",
        Action.DENY,
        Action.WARN,
    ),
    "a group with the name of another composite": (
        pod_group("root"),
        _IN_TREE,
        "kube/tree-name",
        "metadata.name",
        Action.WARN,
        Action.WARN,
    ),
    "a composite with the name of a group": (
        composite("worker"),
        {"pod_groups": {"worker": TreeGroup(composite=False, minimum=2)}},
        "kube/tree-name",
        "metadata.name",
        Action.WARN,
        Action.WARN,
    ),
    "a priority above those of users": (
        workload(branch("root", leaf("a", priority=2_000_001_000), priority=2_000_001_000)),
        {},
        "kube/group-shape",
        f"{_WORKLOAD}.priority",
        Action.DENY,
        None,
    ),
}


def _judged(manifest: Manifest, facts: ClusterFacts, rule: str) -> list[tuple[str, Action]]:
    verdict = validate(manifest, settings=settings_of("default-scheduler", {"gangScheduling": True}), facts=facts)
    return [(str(one.at), one.action) for one in verdict.findings if one.rule == rule]


@pytest.mark.parametrize("case", JUDGED)
def test_what_1_38_refuses_is_a_warning_before(case: str) -> None:
    manifest, parts, rule, place, before, after = JUDGED[case]
    for apis, action in ((example_cluster().apis, before), (OF_1_38.apis, after)):
        found = _judged(manifest, replace(example_cluster(**parts), apis=apis), rule)
        assert found[:1] == ([] if action is None else [(place, action)])


def test_a_composite_in_v1beta1_shows_that_the_cluster_is_of_1_38() -> None:
    late = {**composite(**ALL, **BASIC), "apiVersion": f"{GROUP}/v1beta1"}
    assert _judged(late, replace(example_cluster(), apis=None), "kube/disruption-all") == [
        ("spec.disruptionMode", Action.DENY)
    ]


@pytest.mark.parametrize(
    ("facts", "refused"),
    [(OF_1_37, True), (OF_1_38, False), (EITHER, True), (ClusterFacts(kubernetes="1.38"), False)],
    ids=["1.37", "1.38", "either of them", "1.38, of files"],
)
def test_a_gang_may_have_a_class_of_the_system_from_1_38_on(facts: ClusterFacts, refused: bool) -> None:
    facts = replace(facts, priority_classes=SYSTEM)
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
    verdict = validate(CRITICAL, settings=settings, facts=facts)
    rule, place = "kube/priority-class", "spec.template.priorityClassName"
    assert [str(one.at) for one in verdict.findings if one.rule == rule] == [place] * refused
    assert [one for one in verdict.unjudged if one.rule == rule] == []
    record = replace(RECORD, priority_class="system-node-critical")
    if refused:
        with pytest.raises(Inexpressible):
            backend().gang_objects(podgang(*TWO), record, facts)
        return
    groups = [one for one in backend().gang_objects(podgang(*TWO), record, facts) if one["kind"] != "Workload"]
    assert {one["spec"]["priorityClassName"] for one in groups} == {"system-node-critical"}


def test_a_tree_that_grows_keeps_its_composite() -> None:
    """The minimum of the groups is changed in place, and its Workload alone is recreated, even under running pods."""
    facts = ClusterFacts(apis=OF_1_38.apis)
    live = backend().gang_objects(podgang(*TWO), RECORD, facts)
    desired = backend().gang_objects(podgang(*TWO, gang_member("demo-0-help", 1, 1)), RECORD, facts)
    frozen = backend().frozen(desired, live)
    assert frozen is not None
    assert (frozen.until, [one["kind"] for one in frozen.recreated]) == (Stage.BOUND, ["Workload"])
    written = [backend().adopt(one, live[index] if index < 2 else None) for index, one in enumerate(desired)]
    assert written[1]["kind"] == "CompositePodGroup"
    assert written[1]["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 3}}
