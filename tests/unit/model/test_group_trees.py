"""Trees of groups that users write by hand: how they are shown, and whether they can ever start."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.model.group_worlds import Manifests, composite, gang, gang_pods, group, pods, trees_of
from webhook.offline.satisfiability import BranchFault, judge_tree, walk


def verdicts(manifests: Manifests) -> dict[str, list[str]]:
    """Each tree by its top: the answer, then the causes."""
    found = {}
    for tree in trees_of(manifests):
        verdict = judge_tree(tree)
        found[f"{tree.kind} {tree.full_name}"] = [str(verdict.standing), *(str(cause) for cause in verdict.causes)]
    return found


PAIR = [composite("job", 2), group("leader", 1, "job"), group("worker", 2, "job")]
CASES: dict[str, tuple[Manifests, dict[str, list[str]]]] = {
    "every minimum is met": (
        [*PAIR, *pods("leader", 1), *pods("worker", 2)],
        {"CompositePodGroup team-a/job": ["can"]},
    ),
    "no pods are told of": (PAIR, {"CompositePodGroup team-a/job": ["notTold"]}),
    "too few pods in one": (
        [*PAIR, *pods("leader", 1), *pods("worker", 1)],
        {
            "CompositePodGroup team-a/job": [
                "cannot",
                "PodGroup worker needs 2 pods to start, and one is there",
            ]
        },
    ),
    "pods are told of, and one group has none": (
        [*PAIR, *pods("worker", 2)],
        {"CompositePodGroup team-a/job": ["cannot", "PodGroup leader needs 1 pod to start, and none is there"]},
    ),
    "one group is enough": (
        [composite("job", 1), group("leader", 1, "job"), group("worker", 2, "job"), *pods("leader", 1)],
        {"CompositePodGroup team-a/job": ["can"]},
    ),
    "a composite that is no gang starts with any group": (
        [composite("job"), group("leader", 1, "job"), group("worker", 2, "job"), *pods("leader", 1)],
        {"CompositePodGroup team-a/job": ["can"]},
    ),
    "a group that is no gang starts with any pod": (
        [group("loose"), *pods("loose", 1)],
        {"PodGroup team-a/loose": ["can"]},
    ),
    "a minimum above the groups that there are, whatever their pods": (
        [composite("job", 3), group("leader", 1, "job"), group("worker", 2, "job")],
        {"CompositePodGroup team-a/job": ["cannot", "CompositePodGroup job needs 3 groups to start, and 2 are "
                                                    "below it"]},
    ),
    "the deepest cause comes first": (
        [
            composite("job", 2), composite("ring", 2, "job"), group("a", 1, "ring"), group("b", 4, "ring"),
            *pods("a", 1), *pods("b", 3),
        ],
        {
            "CompositePodGroup team-a/job": [
                "cannot",
                "PodGroup b needs 4 pods to start, and 3 are there",
                "CompositePodGroup job needs 2 groups to start, and one is below it",
            ]
        },
    ),
    "a parent that is not there": (
        [group("a", 1, "job"), group("b", 1, "job")],
        {
            "CompositePodGroup team-a/job": [
                "cannot",
                "CompositePodGroup job is missing, and PodGroup a and PodGroup b name it as their parent",
            ]
        },
    ),
    "a PodGroup is no parent": (
        [group("a", 1), group("b", 1, "a"), *pods("a", 1), *pods("b", 1)],
        {
            "PodGroup team-a/a": ["can"],
            "CompositePodGroup team-a/a": [
                "cannot",
                "CompositePodGroup a is missing, and PodGroup b names it as its parent",
            ],
        },
    ),
    "a cycle": (
        [composite("b", 1, "a"), composite("a", 1, "c"), composite("c", 1, "b"), group("p", 1, "b"), *pods("p", 1)],
        {"CompositePodGroup team-a/a": ["cannot", "CompositePodGroup a is its own ancestor: a -> c -> b -> a"]},
    ),
    "its own parent": (
        [composite("a", 1, "a")],
        {"CompositePodGroup team-a/a": ["cannot", "CompositePodGroup a is its own ancestor: a -> a"]},
    ),
    "four levels": (
        [composite("a", 1), composite("b", 1, "a"), composite("c", 1, "b"), group("p", 1, "c"), *pods("p", 1)],
        {"CompositePodGroup team-a/a": ["can"]},
    ),
    "five levels": (
        [
            composite("a", 1), composite("b", 1, "a"), composite("c", 1, "b"), composite("d", 1, "c"),
            group("p", 1, "d"), *pods("p", 1),
        ],
        {"CompositePodGroup team-a/a": ["cannot", "PodGroup p is at level 5, and a tree has at most 4"]},
    ),
    "pods of a group that is not there": (
        pods("job", 3),
        {"PodGroup team-a/job": ["cannot", "PodGroup job is missing, and 3 pods name it"]},
    ),
    "the parent is in another namespace": (
        [("scheduling.k8s.io", "v1alpha3", {"kind": "CompositePodGroup", "metadata": {"name": "job"}}),
         group("a", 1, "job")],
        {
            "CompositePodGroup default/job": [
                "cannot",
                "CompositePodGroup job needs 1 group to start, and none is below it",
            ],
            "CompositePodGroup team-a/job": [
                "cannot",
                "CompositePodGroup job is missing, and PodGroup a names it as its parent",
            ],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("manifests", "expected"), CASES.values(), ids=list(CASES))
def test_a_tree_can_start_or_has_a_reason(manifests: Manifests, expected: dict[str, list[str]]) -> None:
    assert verdicts(manifests) == expected
    assert verdicts(manifests[::-1]).keys() == expected.keys()


# The generations


def workload(name: str, version: str, **spec: Any) -> tuple[str, str, dict[str, Any]]:
    manifest = {"kind": "Workload", "metadata": {"name": name, "namespace": "team-a"}, "spec": spec}
    return "scheduling.k8s.io", version, manifest


def first_pods(name: str, entry: str, count: int, replica: str | None = None) -> Manifests:
    reference = {"name": name, "podGroup": entry, "podGroupReplicaKey": replica}
    metadata = {"namespace": "team-a"}
    return [("", "v1", {"kind": "Pod", "metadata": metadata, "spec": {"workloadRef": reference}})] * count


ENTRIES = [
    {"name": "leader", "policy": {"basic": {}}},
    {"name": "worker", "policy": {"gang": {"minCount": 2}}},
]
TEMPLATES = [
    {"name": "leader", "schedulingPolicy": {"basic": {}}},
    {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}},
]
GENERATIONS: dict[str, tuple[Manifests, dict[str, list[str]]]] = {
    "1.35: every entry is a gang, and each of its replicas one": (
        [
            workload("job", "v1alpha1", podGroups=ENTRIES),
            *first_pods("job", "leader", 1), *first_pods("job", "worker", 2, "0"), *first_pods("job", "worker", 1, "1"),
        ],
        {"Workload team-a/job": ["cannot", "group worker, replica 1 needs 2 pods to start, and one is there"]},
    ),
    "1.35: no pods": ([workload("job", "v1alpha1", podGroups=ENTRIES)], {"Workload team-a/job": ["notTold"]}),
    "1.35: an entry that is not there": (
        [
            workload("job", "v1alpha1", podGroups=ENTRIES[:1]),
            *first_pods("job", "leader", 1), *first_pods("job", "worker", 2),
        ],
        {"Workload team-a/job": ["cannot", "group worker is missing, and 2 pods name it"]},
    ),
    "1.35: a Workload that is not there": (
        first_pods("job", "worker", 1),
        {"Workload team-a/job": ["cannot", "Workload job is missing, and one pod names it"]},
    ),
    "1.36: PodGroups are made from templates": (
        [
            workload("job", "v1alpha2", podGroupTemplates=TEMPLATES),
            (
                "scheduling.k8s.io",
                "v1alpha2",
                {
                    "kind": "PodGroup",
                    "metadata": {"name": "job-worker", "namespace": "team-a"},
                    "spec": {
                        "podGroupTemplateRef": {"workload": {"workloadName": "job", "podGroupTemplateName": "worker"}},
                        "schedulingPolicy": {"gang": {"minCount": 2}},
                    },
                },
            ),
            *pods("job-worker", 2),
        ],
        {"PodGroup team-a/job-worker": ["can"]},
    ),
    "1.36: nothing is made from the templates": (
        [workload("job", "v1alpha2", podGroupTemplates=TEMPLATES)],
        {"Workload team-a/job": ["notTold"]},
    ),
    "1.37: nothing is made from the templates": (
        [
            workload(
                "job", "v1beta1",
                compositePodGroupTemplates=[
                    {"name": "top", "schedulingPolicy": {"gang": {"minGroupCount": 9}}, "podGroupTemplates": TEMPLATES}
                ],
            )
        ],
        {"Workload team-a/job": ["notTold"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("manifests", "expected"), GENERATIONS.values(), ids=list(GENERATIONS))
def test_every_version_of_the_workload_api_is_read(manifests: Manifests, expected: dict[str, list[str]]) -> None:
    assert verdicts(manifests) == expected


def test_the_templates_of_a_workload_are_drawn_nested() -> None:
    (tree,) = trees_of(GENERATIONS["1.37: nothing is made from the templates"][0])
    assert [(str(branch.kind), branch.name, branch.minimum, level) for branch, level in walk(tree)] == [
        ("Workload", "job", None, 1),
        ("composite template", "top", 9, 2),
        ("template", "leader", None, 3),
        ("template", "worker", 2, 3),
    ]


def test_pods_are_also_known_through_their_controllers() -> None:
    template = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    made: list[tuple[str, str, dict[str, Any], int]] = [
        ("batch", "Job", {"parallelism": 4}, 4),
        ("batch", "Job", {"parallelism": 4, "completions": 3}, 3),
        ("batch", "Job", {}, 1),
        ("apps", "Deployment", {"replicas": 3}, 3),
        ("apps", "StatefulSet", {}, 1),
        ("apps", "ReplicaSet", {"replicas": 0}, 0),
    ]
    for api_group, kind, spec, count in made:
        manifest = {
            "kind": kind,
            "metadata": {"name": "x", "namespace": "team-a"},
            "spec": spec | {"template": template},
        }
        (tree,) = trees_of([group("g", 9), (api_group, "v1", manifest)])
        assert tree.pods == count, (kind, spec)


def test_a_pod_in_two_files_counts_once() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulingGroup": {"podGroupName": "g"}}}
    (tree,) = trees_of([("", "v1", pod), ("", "v1", pod)])
    assert tree.pods == 1


# Koordinator


BOTH = '["team-a/a","team-a/b"]'
GANGS: dict[str, tuple[Manifests, dict[str, list[str]]]] = {
    "two that list each other": (
        [gang("a", 1, BOTH), gang("b", 2, BOTH), *gang_pods("a", 1), *gang_pods("b", 2)],
        {"GangGroup team-a/a": ["can"]},
    ),
    "no pods": ([gang("a", 1, BOTH), gang("b", 2, BOTH)], {"GangGroup team-a/a": ["notTold"]}),
    "no pods, and none are needed": ([gang("a", 0)], {"GangGroup team-a/a": ["can"]}),
    "too few pods": (
        [gang("a", 1, BOTH), gang("b", 2, BOTH), *gang_pods("a", 1)],
        {"GangGroup team-a/a": ["cannot", "gang team-a/b needs 2 pods to start, and none is there"]},
    ),
    "a listed gang that is not there": (
        [gang("a", 1, BOTH), *gang_pods("a", 1)],
        {"GangGroup team-a/a": ["cannot", "gang team-a/b is missing, and team-a/a lists it"]},
    ),
    "a name without a namespace": (
        [gang("a", 1, '["team-a/a","b"]'), gang("b", 1), *gang_pods("a", 1), *gang_pods("b", 1)],
        {
            "GangGroup team-a/a": ["cannot", "gang b is ... without a namespace, ...: team-a/a lists it"],
            "GangGroup team-a/b": ["can"],
        },
    ),
    "what is no text in a list is a gang without a name": (
        [gang("a", 1, '["team-a/a",1]'), *gang_pods("a", 1)],
        {"GangGroup team-a/a": ["cannot", 'gang "" is ... without a namespace, ...: team-a/a lists it']},
    ),
    "what is no list is none": (
        [gang("a", 1, "team-a/b"), gang("c", 1, "[]"), gang("d", 1, '{"a": 1}')],
        {"GangGroup team-a/a": ["notTold"], "GangGroup team-a/c": ["notTold"], "GangGroup team-a/d": ["notTold"]},
    ),
    "a gang that its pods describe": (
        [
            gang("a", 1, BOTH),
            *gang_pods("a", 1),
            (
                "",
                "v1",
                {
                    "kind": "Pod",
                    "metadata": {
                        "namespace": "team-a",
                        "annotations": {
                            "gang.scheduling.koordinator.sh/name": "b",
                            "gang.scheduling.koordinator.sh/min-available": "1",
                        },
                    },
                },
            ),
        ],
        {"GangGroup team-a/a": ["can"]},
    ),
    "pods that name a gang without an object": (
        gang_pods("a", 2),
        {"GangGroup team-a/a": ["cannot", "gang team-a/a is missing, and 2 pods name it"]},
    ),
}


@pytest.mark.parametrize(("manifests", "expected"), GANGS.values(), ids=list(GANGS))
def test_gangs_that_list_each_other_start_together_or_not_at_all(
    manifests: Manifests, expected: dict[str, list[str]]
) -> None:
    found = verdicts(manifests)
    assert list(found) == list(expected)
    for tree, words in found.items():
        require_like(words, expected[tree])


def test_lists_that_differ_or_omit_their_own_gang_are_noted() -> None:
    (tree,) = trees_of([gang("a", 1, BOTH), gang("b", 1, '["team-a/a"]')])
    notes = {branch.name: branch.notes for branch in tree.below}
    require_like(notes["team-a/a"], ["...differs from theirs"])
    require_like(notes["team-a/b"], ["leaves itself out ...", "...differs from theirs"])
    assert len(notes) == 2


def test_chains_and_cycles_of_thousands_are_reported_in_short_form() -> None:
    chain = [composite(f"c{index}", 1, f"c{index - 1}" if index else None) for index in range(3000)]
    (tree,) = trees_of(chain)
    assert [str(cause) for cause in judge_tree(tree).causes if cause.branch.fault] == [
        "CompositePodGroup c4 is at level 5, and a tree has at most 4"
    ]
    assert len(list(walk(tree))) == 8
    assert sum(branch.hidden for branch, _ in walk(tree)) == 2992
    around = [composite(f"c{index}", 1, f"c{(index - 1) % 3000}") for index in range(3000)]
    (tree,) = trees_of(around)
    (cause,) = judge_tree(tree).causes
    assert cause.branch.fault is BranchFault.CYCLE
    assert len(str(cause)) < 200
