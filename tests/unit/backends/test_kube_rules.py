"""The rules of the Workload API: the findings about a set in each API version, and what is not judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.kube_gangs import BETA_TREE, NEITHER, TREE, V1ALPHA1, V1ALPHA2, V1BETA1
from tests.unit.worlds import rules, settings_of, validate
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import PodGangFacts, PriorityClass
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

Case = tuple[Manifest, frozenset[Api] | None, dict[str, Any], list[str]]

ONE = pod_clique_set(clique("worker", replicas=4, minimum=2))
TWO = pod_clique_set(clique("leader", replicas=1), clique("worker"))
SPARE = pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2))
SCALING = pod_clique_set(clique("leader", replicas=1), clique("worker"))
SCALING["spec"]["template"]["cliques"][1]["spec"]["autoScalingConfig"] = {"maxReplicas": 4}
IN_RACKS = pod_clique_set(
    clique("leader", replicas=1),
    clique("worker"),
    groups=[scaling_group("decode", "leader", "worker", topologyConstraint=required("rack"))],
)


# One clique, and two PodCliques in the base gang: one a replica of the scaling group.
REPEATED = pod_clique_set(
    clique("worker", replicas=4, minimum=2), groups=[scaling_group("decode", "worker", replicas=2, minAvailable=2)]
)
NEAR = pod_clique_set(groups=[scaling_group("decode", "worker", topologyConstraint=preferred("rack"))])


def grouped(replicas: int, **fields: Any) -> Manifest:
    """Two cliques in a scaling group, all replicas of which are in the base gang."""
    group = scaling_group("decode", "leader", "worker", replicas=replicas, minAvailable=replicas, **fields)
    return pod_clique_set(clique("leader", replicas=1), clique("worker"), groups=[group])


def one_grouped(replicas: int, **fields: Any) -> Manifest:
    """One clique in a scaling group, all replicas of which are in the base gang."""
    group = scaling_group("decode", "worker", replicas=replicas, minAvailable=replicas, **fields)
    return pod_clique_set(clique("worker"), groups=[group])


CASES: dict[str, Case] = {
    "a gang of one clique, merged": (ONE, V1ALPHA2, {}, []),
    "two cliques, merged": (TWO, V1ALPHA1, {}, []),
    "two cliques in a tree": (TWO, TREE, {}, []),
    "spare pods, merged": (SPARE, V1ALPHA2, {}, ["kube/flat-gang"]),
    "spare pods in a tree": (SPARE, TREE, {}, []),
    "a clique that scales by itself, merged": (SCALING, V1BETA1, {}, ["kube/flat-gang"]),
    "two cliques, refused": (TWO, V1ALPHA2, {"flat": "refuse"}, ["kube/flat-gang"]),
    "spare pods in two replicas of one clique, merged": (REPEATED, V1ALPHA2, {}, ["kube/flat-gang"]),
    "two replicas of one clique, refused": (REPEATED, V1ALPHA2, {"flat": "refuse"}, ["kube/flat-gang"]),
    "two replicas of one clique, allowed": (REPEATED, V1ALPHA2, {"flat": "allow"}, ["kube/flat-allowed"]),
    "nine replicas of one clique in one list": (
        pod_clique_set(groups=[scaling_group("decode", "worker", replicas=9, minAvailable=9)]),
        TREE,
        {},
        ["kube/too-many-groups"],
    ),
    "a preference of a scaling group in a tree": (NEAR, TREE, {}, ["kube/preferred-topology"]),
    "a preference of a scaling group while gang scheduling is off": (
        NEAR,
        TREE,
        {"gangScheduling": False},
        ["kube/no-gang"],
    ),
    "two cliques, allowed": (TWO, V1ALPHA2, {"flat": "allow"}, ["kube/flat-allowed"]),
    "no API": (TWO, NEITHER, {}, ["kube/workload-api"]),
    "another generation than is served": (TWO, V1ALPHA2, {"apiGeneration": "v1beta1"}, ["kube/workload-api"]),
    "trees required, and flat served": (
        TWO,
        V1BETA1,
        {"hierarchical": "required"},
        ["kube/workload-api"],
    ),
    "topology of a scaling group in a tree": (IN_RACKS, TREE, {}, []),
    "topology of a scaling group without": (IN_RACKS, V1ALPHA2, {}, ["kube/topology"]),
    "topology while the scheduler's gate is off": (
        IN_RACKS,
        TREE,
        {"schedulerGates": ["GenericWorkload", "CompositePodGroup"]},
        ["kube/topology"],
    ),
    "four replicas of two cliques in one list": (grouped(4), TREE, {}, []),
    "five replicas of two cliques in one list": (grouped(5), TREE, {}, ["kube/too-many-groups"]),
    "eight replicas with a composite each": (grouped(8, topologyConstraint=required("rack")), TREE, {}, []),
    "nine replicas with a composite each": (
        grouped(9, topologyConstraint=required("rack")),
        TREE,
        {},
        ["kube/too-many-groups"],
    ),
    "nine replicas of one clique, a composite each": (
        one_grouped(9, topologyConstraint=required("rack")),
        TREE,
        {},
        ["kube/too-many-groups"],
    ),
    "one replica of one clique": (one_grouped(1), V1ALPHA2, {"flat": "refuse"}, []),
    "nine cliques below a composite": (
        pod_clique_set(
            *(clique(f"c{index}") for index in range(9)),
            groups=[scaling_group("g", *(f"c{index}" for index in range(9)), topologyConstraint=required("rack"))],
        ),
        TREE,
        {},
        ["kube/too-many-groups"],
    ),
    "nine cliques, merged": (pod_clique_set(*(clique(f"c{index}") for index in range(9))), V1ALPHA2, {}, []),
    "an external owner's membership": (
        pod_clique_set(clique("worker", pod={"schedulingGroup": {"podGroupName": "mine"}})),
        TREE,
        {},
        [],
    ),
    "gang scheduling off": (SPARE, V1ALPHA2, {"gangScheduling": False}, ["kube/no-gang"]),
}


@pytest.mark.parametrize(("workload", "apis", "config", "expected"), CASES.values(), ids=CASES)
def test_the_kube_rules_give_the_expected_findings(
    workload: Manifest, apis: frozenset[Api] | None, config: dict[str, Any], expected: list[str]
) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True, **config})
    assert rules(validate(workload, settings=settings, facts=ClusterFacts(apis=apis))) == expected


def test_an_unknown_cluster_is_not_judged() -> None:
    verdict = validate(TWO, settings=settings_of("default-scheduler", {"gangScheduling": True}))
    assert (rules(verdict), [missing.rule for missing in verdict.unjudged]) == ([], ["kube/workload-api"])


HIGH = PriorityClass(1000, is_default=False)
SYSTEM = PriorityClass(2_000_001_000, is_default=False)
CLASSES: dict[str, tuple[frozenset[Api], PriorityClass | None, list[str]]] = {
    "one that is there": (TREE, HIGH, []),
    "one that is not": (TREE, None, ["kube/priority-class"]),
    "one of the system's own": (TREE, SYSTEM, ["kube/priority-class"]),
    "one of the system's own, in 1.37 or 1.38": (V1BETA1, SYSTEM, ["kube/priority-class"]),
    "one of the system's own, in 1.38": (BETA_TREE, SYSTEM, []),
    "one of the system's own, before groups had a class": (V1ALPHA2, SYSTEM, []),
}


@pytest.mark.parametrize(("apis", "found", "expected"), CLASSES.values(), ids=CLASSES)
def test_a_priority_class_must_be_allowed_for_groups(
    apis: frozenset[Api], found: PriorityClass | None, expected: list[str]
) -> None:
    facts = ClusterFacts(apis=apis, priority_classes={} if found is None else {"asked": found})
    settings = settings_of("default-scheduler", {"gangScheduling": True})
    verdict = validate(pod_clique_set(priorityClassName="asked"), settings=settings, facts=facts)
    assert rules(verdict) == expected
    # Only a missing one may just not have been read yet.
    assert [finding.absent is None for finding in verdict.findings] == ([found is not None] if expected else [])


LIVING = {("default", "demo-0"): PodGangFacts("demo")}
HIGHER = pod_clique_set(clique("worker", replicas=4, minimum=3))
CHANGES: dict[str, tuple[Manifest, frozenset[Api], Any, list[str]]] = {
    "a minimum up to 1.36": (HIGHER, V1ALPHA2, LIVING, ["kube/frozen-shape"]),
    "a minimum from 1.37 on": (HIGHER, TREE, LIVING, []),
    "a minimum without a living gang": (HIGHER, V1ALPHA2, {}, []),
    "a minimum with unknown gangs": (HIGHER, V1ALPHA2, None, ["kube/frozen-shape"]),
    "a clique more": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), clique("helper")),
        TREE,
        LIVING,
        ["kube/frozen-shape"],
    ),
    "a clique more, from 1.38 on": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), clique("helper")),
        BETA_TREE,
        LIVING,
        [],
    ),
    "a scaling group in a rack more, from 1.38 on": (
        pod_clique_set(
            clique("worker", replicas=4, minimum=2),
            clique("helper"),
            groups=[scaling_group("g", "helper", topologyConstraint=required("rack"))],
        ),
        BETA_TREE,
        LIVING,
        [],
    ),
    "other cliques, from 1.38 on": (
        pod_clique_set(clique("helper", replicas=4, minimum=2)),
        BETA_TREE,
        LIVING,
        ["kube/frozen-shape"],
    ),
    "a priority class": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), priorityClassName="high"),
        TREE,
        LIVING,
        ["kube/frozen-shape"],
    ),
    "topology": (
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("rack")),
        TREE,
        LIVING,
        ["kube/frozen-shape"],
    ),
    "replicas alone": (pod_clique_set(clique("worker", replicas=8, minimum=2)), TREE, LIVING, []),
}


@pytest.mark.parametrize(("after", "apis", "gangs", "expected"), CHANGES.values(), ids=CHANGES)
def test_the_shape_of_a_gang_with_pods_is_frozen(
    after: Manifest, apis: frozenset[Api], gangs: Any, expected: list[str]
) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True})
    facts = ClusterFacts(apis=apis, pod_gangs=gangs)
    verdict = validate(after, ONE, settings=settings, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


def pair(leader: int = 1, worker: int = 3, **template: Any) -> Manifest:
    return pod_clique_set(clique("leader", replicas=leader), clique("worker", replicas=worker), **template)


def in_group(replicas: int, minimum: int, *, members: tuple[str, ...] = ("leader", "worker"), **group: Any) -> Manifest:
    cliques = (clique("frontend", replicas=1), clique("leader", replicas=1), clique("worker", replicas=3))
    groups = [scaling_group("g", *members, replicas=replicas, minAvailable=minimum, **group)]
    return pod_clique_set(*cliques, groups=groups)


def shifted(workload: Manifest) -> Manifest:
    """With a pod less in the frontend's place and one more in the worker's."""
    frontend, _, worker = workload["spec"]["template"]["cliques"]
    frontend["spec"]["replicas"], worker["spec"]["replicas"] = 2, 2
    return workload


MERGED = {"hierarchical": "off"}
APART = {"flat": "allow", "hierarchical": "off"}
BY_GENERATION: dict[str, tuple[Manifest, Manifest, frozenset[Api], dict[str, Any], bool]] = {
    "a replica that moves into the base gang": (in_group(3, 1), in_group(3, 2), BETA_TREE, {}, True),
    "a replica that moves out of the base gang": (in_group(3, 2), in_group(3, 1), BETA_TREE, {}, True),
    "other cliques in a scaling group": (in_group(3, 1), in_group(3, 1, members=("worker",)), BETA_TREE, {}, True),
    "scaled gangs more, from 1.38 on": (in_group(2, 1), in_group(3, 1), BETA_TREE, {}, False),
    "a scaling group less, from 1.38 on": (
        in_group(3, 1),
        pod_clique_set(clique("frontend", replicas=1)),
        BETA_TREE,
        {},
        False,
    ),
    "a class up to 1.36": (pair(), pair(priorityClassName="high"), V1ALPHA2, {}, False),
    "a class from 1.37 on": (pair(), pair(priorityClassName="high"), V1BETA1, {}, True),
    "topology that goes, and was never written": (
        pair(topologyConstraint=required("rack")),
        pair(),
        V1ALPHA2,
        {},
        False,
    ),
    "topology that moves from the set to its cliques": (
        pair(topologyConstraint=required("rack")),
        pod_clique_set(
            clique("leader", replicas=1, topologyConstraint=required("rack")),
            clique("worker", replicas=3, topologyConstraint=required("rack")),
        ),
        TREE,
        {},
        True,
    ),
    "topology of a scaling group": (
        in_group(2, 1),
        in_group(2, 1, topologyConstraint=required("rack")),
        TREE,
        {},
        True,
    ),
    "minimums of the same sum, merged": (pair(1, 3), pair(2, 2), V1ALPHA2, {}, False),
    "minimums of the same sum, each a gang": (pair(1, 3), pair(2, 2), V1ALPHA2, APART, True),
    "minimums of the same sum, and not in a scaled gang": (in_group(2, 1), shifted(in_group(2, 1)), V1ALPHA2, {}, True),
    "minimums of the same sum without a scaled gang": (in_group(1, 1), shifted(in_group(1, 1)), V1ALPHA2, {}, False),
    "a clique more, merged, from 1.37 on": (
        pair(),
        pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=3), clique("helper")),
        V1BETA1,
        MERGED,
        False,
    ),
    "more replicas of a scaling group at once": (in_group(2, 1), in_group(2, 2), TREE, {}, True),
    "more replicas of a scaling group at once, merged": (in_group(2, 1), in_group(2, 2), V1ALPHA2, {}, True),
    "more replicas of a scaling group at once, merged, from 1.37 on": (
        in_group(2, 1),
        in_group(2, 2),
        V1BETA1,
        MERGED,
        False,
    ),
    "more replicas of a scaling group": (in_group(1, 1), in_group(3, 1), TREE, {}, False),
}


@pytest.mark.parametrize(("before", "after", "apis", "config", "frozen"), BY_GENERATION.values(), ids=BY_GENERATION)
def test_exactly_the_fields_that_the_api_server_freezes_are_frozen(
    before: Manifest, after: Manifest, apis: frozenset[Api], config: dict[str, Any], frozen: bool
) -> None:
    settings = settings_of("default-scheduler", {"gangScheduling": True, **config})
    classes = {"high": HIGH}
    facts = ClusterFacts(apis=apis, pod_gangs=LIVING, priority_classes=classes)
    verdict = validate(after, before, settings=settings, facts=facts)
    assert set(rules(verdict)) - {"kube/flat-allowed"} == ({"kube/frozen-shape"} if frozen else set())
