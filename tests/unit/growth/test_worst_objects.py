"""Objects that once made a review slow, each at sizes that would show it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import cycle

import pytest

from tests.unit.growth.reviews import Grown, judge, settings_for
from tests.unit.growth.step_counts import Cost, grows_too_fast
from webhook.backends.registry import installed_backends
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PodGangFacts, PodGangs, TopologyBinding, TopologyLayer
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, job_set, pod_clique_set, pod_template, replicated, scaling_group
from webhook.validators.registry import MAX_FINDINGS

SCHEDULERS = ("koord-scheduler", "volcano", "kai-scheduler")
LAYERS = {"default": (TopologyLayer("NodeTopologyLayer", None, ("example.com/rack",)),)}
FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"rack": "example.com/rack"})},
    network_topologies=LAYERS,
    pod_gangs=PodGangs({("default", "demo-0"): PodGangFacts("demo")}),
)


def _names(count: int) -> list[str]:
    return [f"c{index}x" for index in range(count)]


def one_suffix_pair(count: int) -> Manifest:
    return pod_clique_set(*map(clique, ("worker", "pworker", *_names(count))))


def nested_suffixes(count: int) -> Manifest:
    return pod_clique_set(*(clique("a" * (1 + index % 20) + "b" * (index // 20)) for index in range(count)))


def groups_of_unknown_cliques(count: int) -> Manifest:
    groups = [scaling_group(f"g{index}", f"{name}-wrong") for index, name in enumerate(_names(count))]
    return pod_clique_set(*map(clique, _names(count)), groups=groups)


def groups_with_topology(count: int) -> Manifest:
    near = {"topologyName": "dc", "pack": {"required": "rack"}}
    groups = [scaling_group(f"g{index}", name, topologyConstraint=near) for index, name in enumerate(_names(count))]
    return pod_clique_set(*map(clique, _names(count)), groups=groups)


def domains_without_a_topology(count: int) -> Manifest:
    return pod_clique_set(*(clique(name, topologyConstraint={"packDomain": "rack"}) for name in _names(count)))


def a_queue_key_for_each_clique(count: int) -> Manifest:
    return pod_clique_set(*(clique(name, labels={f"example.com/{name}-queue": "a"}) for name in _names(count)))


def steps_that_share_groups(count: int) -> Manifest:
    """A chain of parts, of which the first half shares a group each with one of the second."""
    key, half = "pod-group.scheduling.sigs.k8s.io", max(1, count // 2)
    names = _names(count)
    parts = [
        replicated(name, template=pod_template(labels={key: f"group-{index % half}"}), dependsOn=[{"name": before}])
        for index, (name, before) in enumerate(zip(names, ["", *names], strict=False))
    ]
    return job_set(*parts)


WORST = (
    one_suffix_pair,
    nested_suffixes,
    groups_of_unknown_cliques,
    groups_with_topology,
    domains_without_a_topology,
    a_queue_key_for_each_clique,
    steps_that_share_groups,
)
# The size from which on a limit ends the work.
LIMITED: dict[Callable[[int], Manifest], int] = {steps_that_share_groups: 40}


def too_fast(worst: Callable[[int], Manifest], scheduler: str, size: int) -> list[str]:
    """Returns the lines that cost more than the object says, where it grows to four times that size."""
    settings = settings_for((scheduler,), {})
    small, large = (Grown(worst(count), None, FACTS) for count in (size, size * 4))
    judge(Grown(worst(1), None, FACTS), settings)
    few, many = (Cost(partial(judge, case, settings)) for case in (small, large))
    times = len(json.dumps(large.object)) / len(json.dumps(small.object))
    return list(grows_too_fast(few, many, size, times))


@pytest.mark.parametrize(
    ("worst", "scheduler"),
    list(zip(WORST, cycle(SCHEDULERS), strict=False)),
    ids=lambda part: getattr(part, "__name__", part),
)
def test_no_line_runs_more_often_than_the_object_grows(worst: Callable[[int], Manifest], scheduler: str) -> None:
    assert too_fast(worst, scheduler, LIMITED.get(worst, 20)) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("worst", WORST, ids=lambda part: getattr(part, "__name__", part))
def test_no_line_runs_more_often_than_a_large_object_grows(worst: Callable[[int], Manifest], scheduler: str) -> None:
    assert too_fast(worst, scheduler, 60) == []


def test_a_change_of_ten_thousand_replicas_costs_no_more_than_one_of_two() -> None:
    def changed(replicas: int) -> Cost:
        groups = [{**scaling_group("decode", "worker"), "replicas": 20_000, "minAvailable": replicas}]
        before = pod_clique_set(clique("worker"), groups=[{**groups[0], "minAvailable": 1}])
        case = Grown(pod_clique_set(clique("worker"), groups=groups), before, FACTS)
        return Cost(lambda: judge(case, settings_for(("koord-scheduler",), {})))

    assert changed(10_000).runs.total() <= changed(2).runs.total() + 100


def test_the_number_of_findings_of_a_rule_is_bounded() -> None:
    cliques = [clique(f"c{index}", replicas=1, minimum=2) for index in range(MAX_FINDINGS + 100)]
    settings = settings_for(tuple(installed_backends()), {})
    verdict = judge(Grown(pod_clique_set(*cliques), None, ClusterFacts()), settings)
    assert not verdict.allowed
    assert len([one for one in verdict.findings if one.rule == "grove/min-available"]) == MAX_FINDINGS


def test_a_set_with_more_faults_than_are_reported_can_still_be_reordered() -> None:
    cliques = [clique(f"c{index}", replicas=1, minimum=2) for index in range(2 * MAX_FINDINGS)]
    now, before = pod_clique_set(*reversed(cliques)), pod_clique_set(*cliques)
    assert judge(Grown(now, before, ClusterFacts()), settings_for(("koord-scheduler",), {})).allowed


def test_the_other_schedulers_are_not_judged_for_a_very_large_set() -> None:
    assert notes_on(1, 10) == []
    assert ["too large" in note for note in notes_on(1, 2_000)] == [True]


def test_the_other_schedulers_are_not_judged_for_a_set_with_very_many_faults() -> None:
    assert notes_on(50, 10) == []
    assert notes_on(51, 10) == [
        "the set has too many faults to say which other scheduler could run it; rollcall explain does"
    ]


def notes_on(wrong: int, right: int) -> list[str]:
    """What a refusal says besides its findings, of a set with so many cliques of each kind."""
    faults = [clique(f"wrong{index}", replicas=1, minimum=2) for index in range(wrong)]
    settings = settings_for(tuple(installed_backends()), {})
    return list(
        judge(Grown(pod_clique_set(*faults, *map(clique, _names(right))), None, ClusterFacts()), settings).notes
    )
