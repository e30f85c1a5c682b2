"""No review costs more than n log n of its object: counted for every list and map in the examples of all rules.

A new rule, or a new backend, is covered by its examples. The objects are small, because what is compared is how often
each line runs, and not how long all of them take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pytest

from tests.unit.growth.clusters import larger
from tests.unit.growth.growing_objects import Style
from tests.unit.growth.reviews import Grown, created, enlarged, judge, reordered, settings_for
from tests.unit.growth.step_counts import Cost, grows_too_fast
from tests.unit.validators.test_rule_examples import EVERY_RULE, SCHEDULERS
from webhook.backends.registry import installed_backends
from webhook.config.settings import Settings
from webhook.model.capabilities import QUOTA_ANNOTATION, VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Finding, Unjudged
from webhook.model.known_objects import (
    HyperNode,
    HyperNodes,
    KaiQueue,
    PodGangFacts,
    PodGangs,
    QueueTree,
    TopologyBinding,
    VolcanoQueue,
)
from webhook.validators.examples import clique, pod_clique_set, scaling_group
from webhook.validators.registry import MAX_FINDINGS, Example, Rule, Subject

SMALL, LARGE = 10, 40
BOUNDED = 150
COUNTS = 3
# What each is for: names that end alike and a denial, chains and the ratchet, duplicates, and a change of everything.
Way = Callable[[Example, int, Style], Grown]
WAYS: tuple[tuple[Way, Style], ...] = (
    (created, Style.SUFFIX),
    (reordered, Style.CHAIN),
    (created, Style.SAME),
    (enlarged, Style.PREFIX),
)
# These judge files, or pods and groups as another program sends them, which `judge` does not do.
NOT_JUDGED = {
    "fields/misplaced",
    "fields/unknown",
    "groups/minimum",
    "groups/missing",
    "groups/no-pods",
    "groups/scheduler-name",
    "groups/unread-key",
    "grove/foreign-pod",
    "grove/topology-levels",
    "kinds/no-gangs",
    "kinds/unknown",
    "kinds/version",
    "kueue/refused",
    "kueue/topology-keys",
    "owner/group-rollout",
    "owner/operator-group",
    "owner/runtime-steps",
    "resources/quantity",
    "resources/quota-range",
    "resources/quota-tree",
    "resources/request",
}
# A scale has two numbers and a name of at most 253 characters, and with longer names it is of no known set.
JUDGED_RULES = [rule for rule in EVERY_RULE if rule.id not in NOT_JUDGED and rule.subject is not Subject.SCALE]
# A rule about a PodCliqueSet, about a workload of another kind, and about a gang object.
MEMORY_RULES = ("lpx/topology", "koordinator/owner-topology", "kai/group-raised-unseen")


def is_in_the_loop(rule: Rule) -> bool:
    """Returns whether the rule holds for koord-scheduler: these are of every shape that the others have."""
    return SCHEDULERS.get(rule.id, rule.fails.scheduler or "koord-scheduler") == "koord-scheduler"


def settings_of(rule: Rule, example: Example) -> Settings:
    name = SCHEDULERS.get(rule.id, example.scheduler or "koord-scheduler")
    return settings_for((name,), example.config, example.version, example.kueue)


def too_fast(example: Example, way: Way, style: Style, settings: Settings, *, memory: bool) -> list[str]:
    """Returns the lines of which a large object costs more than its size says."""
    small, large = (way(example, length, style) for length in (SMALL, LARGE))
    # Values that are computed once and cached do not count.
    judge(way(example, 1, style), settings)
    few, many = (Cost(partial(judge, case, settings), memory=memory) for case in (small, large))
    return list(grows_too_fast(few, many, SMALL, times(small, large)))


def times(small: Grown, large: Grown) -> float:
    """Returns how many times as large the second object is."""
    return len(json.dumps(large.object)) / len(json.dumps(small.object))


def cost_within(rule: Rule, case: Grown, settings: Settings) -> Cost:
    """Returns the cost of the rule alone, in a review with all others."""
    cost, check = Cost(), rule.check

    def counted(*arguments: Any) -> Iterator[Finding | Unjudged]:
        return iter(cost.add(lambda: list(islice(check(*arguments), MAX_FINDINGS))))

    # A rule is frozen, and is the same object in every list of rules.
    object.__setattr__(rule, "check", counted)
    try:
        judge(case, settings)
    finally:
        object.__setattr__(rule, "check", check)
    return cost


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=() if is_in_the_loop(rule) else pytest.mark.exhaustive) for rule in JUDGED_RULES],
    ids=lambda rule: rule.id,
)
def test_a_rule_takes_no_more_than_n_log_n_steps(rule: Rule) -> None:
    settings = settings_of(rule, rule.fails)
    # Some rules judge only what is new.
    for way, style in ((reordered, Style.CHAIN), (created, Style.SUFFIX)):
        small, large = (way(rule.fails, length, style) for length in (SMALL, LARGE))
        few, many = (cost_within(rule, case, settings) for case in (small, large))
        if many.runs:
            break
    assert many.runs
    assert list(grows_too_fast(few, many, SMALL, times(small, large))) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_a_review_takes_no_more_than_n_log_n_steps(rule: Rule) -> None:
    for example in (rule.passes, rule.fails):
        settings = settings_of(rule, example)
        for way, style in WAYS:
            assert too_fast(example, way, style, settings, memory=False) == []


@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=() if rule.id in MEMORY_RULES else pytest.mark.exhaustive) for rule in EVERY_RULE],
    ids=lambda rule: rule.id,
)
def test_a_review_takes_no_more_than_n_log_n_memory(rule: Rule) -> None:
    """Copies within loops are no steps of Python, and memory that is taken and given back."""
    settings = settings_of(rule, rule.fails)
    # tracemalloc counts the whole process, so a collection or another thread may add to one count; a rule adds to each.
    for _ in range(COUNTS):
        lines = too_fast(rule.fails, reordered, Style.CHAIN, settings, memory=True)
        if not lines:
            break
    assert lines == []


EVERY_LIST = pod_clique_set(
    clique(
        "worker",
        replicas=4,
        minimum=2,
        labels={"app": "demo"},
        annotations={"grove.io/mnnvl-group": "train", QUOTA_ANNOTATION: "team-a", VOLCANO_QUEUE: "team-a"},
        requests={"nvidia.com/gpu": "8", "cpu": "4"},
        topologyConstraint={"packDomain": "rack"},
        resourceSharing=[{"name": "shared"}],
        pod={
            "initContainers": [{"name": "first", "image": "example.com/first", "restartPolicy": "Always"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "schedulingGates": [{"name": "example.com/gate"}],
            "nodeSelector": {"example.com/pool": "a"},
            "overhead": {"cpu": "1"},
        },
    ),
    clique("leader", pod={"schedulerName": "volcano"}, startsAfter=["worker"]),
    groups=[
        {
            **scaling_group("decode", "worker", topologyConstraint={"packDomain": "block"}),
            "replicas": 3,
            "minAvailable": 2,
            "annotations": {"grove.io/mnnvl-group": "train"},
            "resourceSharing": [{"name": "shared"}],
        }
    ],
    labels={"kai.scheduler/queue": "team-a", "app": "demo"},
    annotations={QUOTA_ANNOTATION: "team-b"},
    resourceClaimTemplates=[{"name": "gpu"}],
    resourceSharing=[{"name": "shared"}],
    topologyConstraint={"packDomain": "block"},
)
SCHEDULERS_THERE = tuple(installed_backends())
# What a set of every list may name is there, and each queue is another's parent.
A_CLUSTER = ClusterFacts(
    elastic_quotas={},
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})},
    network_topologies={},
    volcano_queues=QueueTree({"team-a": VolcanoQueue("root", "Open")}),
    kai_queues=QueueTree({"team-a": KaiQueue(None)}),
    kai_topologies={},
    kai_shards={},
    hyper_nodes=HyperNodes({"rack-1": HyperNode(1, "rack")}),
    pod_gangs=PodGangs({("default", "demo-0"): PodGangFacts("demo")}),
    bound_gangs=frozenset(),
    priority_classes={},
)


def every_list_grows(scheduler: str, ways: Iterable[tuple[Way, Style]]) -> None:
    settings = settings_for((scheduler, *(name for name in SCHEDULERS_THERE if name != scheduler)), {})
    for way, style in ways:
        assert too_fast(Example(EVERY_LIST, facts=A_CLUSTER), way, style, settings, memory=False) == []


@pytest.mark.parametrize(("way", "style"), WAYS, ids=lambda part: getattr(part, "__name__", part))
def test_all_lists_of_a_set_grow_together(way: Way, style: Style) -> None:
    every_list_grows("koord-scheduler", [(way, style)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheduler", SCHEDULERS_THERE)
def test_all_lists_of_a_set_grow_together_with_every_scheduler_enabled(scheduler: str) -> None:
    every_list_grows(scheduler, WAYS)


@pytest.mark.parametrize(
    "rule", [rule for rule in EVERY_RULE if larger(rule.fails.facts, 1) != rule.fails.facts], ids=lambda rule: rule.id
)
def test_the_steps_of_a_review_do_not_grow_with_the_objects_of_the_namespaces(rule: Rule) -> None:
    settings = settings_of(rule, rule.fails)

    def review(count: int) -> Cost:
        case = replace(created(rule.fails, 1, Style.PREFIX), facts=larger(rule.fails.facts, count))
        # What is worked out once between two changes of the cluster is kept.
        judge(case, settings)
        return Cost(lambda: judge(case, settings))

    few, many = review(SMALL), review(50 * SMALL)
    # Of neighbours, members and the like a bounded number is looked at.
    assert {str(line): runs for line, runs in many.runs.items() if runs > 2 * few.runs[line] + BOUNDED} == {}
