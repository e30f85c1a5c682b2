"""PodCliqueSets whose pods Kueue holds, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import koordinator, settings_of, validate
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Api
from webhook.model.known_objects import Namespace
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import AdmissionCheck, ClusterQueue, LocalQueue
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, scaling_group

QUEUE, GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
TOTAL, FAST = "kueue.x-k8s.io/pod-group-total-count", "kueue.x-k8s.io/pod-group-fast-admission"
NONE = ClusterFacts()
DEFAULT = ClusterFacts(local_queues={("default", "default"): LocalQueue("research")})
ELSEWHERE = ClusterFacts(local_queues={("other", "default"): LocalQueue("research")})
SERVED = ClusterFacts(apis=frozenset({Api("kueue.x-k8s.io", "v1beta2", "LocalQueue")}))


def in_queue(name: str = "worker", replicas: int = 2, **fields: Any) -> Manifest:
    return clique(name, replicas=replicas, labels={QUEUE: "team"}, **fields)


def in_group(name: str, replicas: int, total: str | None, group: str = "demo", **said: str) -> Manifest:
    annotations = {GROUP: group, **({} if total is None else {TOTAL: total}), **said}
    return clique(name, replicas=replicas, labels={QUEUE: "team"}, annotations=annotations)


def with_replicas(replicas: int, *cliques: Manifest, **fields: Any) -> Manifest:
    found = pod_clique_set(*cliques, **fields)
    found["spec"]["replicas"] = replicas
    return found


def found(
    manifest: Manifest, facts: ClusterFacts = NONE, kueue: KueueSettings | None = None
) -> list[tuple[str, Action, str]]:
    settings = koordinator() if kueue is None else replace(koordinator(), kueue=kueue)
    verdict = validate(manifest, settings=settings, facts=facts)
    return [
        (one.rule.partition("/")[2], one.action, str(one.at))
        for one in verdict.findings
        if one.rule.startswith("kueue/")
    ]


LABEL = f"spec.template.cliques[0].labels[{QUEUE}]"
COUNT = f"spec.template.cliques[0].annotations[{TOTAL}]"
NAME = f"spec.template.cliques[0].annotations[{GROUP}]"

QUEUED_IN: dict[str, tuple[ClusterFacts, list[str]]] = {
    "a LocalQueue of the namespace": (ClusterFacts(local_queues={("default", "team"): LocalQueue("research")}), []),
    "one of another namespace": (ClusterFacts(local_queues={("other", "team"): LocalQueue("research")}), [LABEL]),
    "a stopped one": (
        ClusterFacts(local_queues={("default", "team"): LocalQueue("research", stop_policy="Hold")}),
        [LABEL],
    ),
}


@pytest.mark.parametrize("case", QUEUED_IN)
def test_a_queue_of_cliques_that_admits_nothing_is_named_once(case: str) -> None:
    facts, expected = QUEUED_IN[case]
    manifest = pod_clique_set(in_group("leader", 1, "3"), in_group("worker", 2, "3"))
    assert found(manifest, facts) == [("local-queue", Action.WARN, at) for at in expected]


ONE_BY_ONE: dict[str, tuple[Manifest, ClusterFacts, list[str]]] = {
    "a queue in a clique": (pod_clique_set(in_queue()), NONE, [LABEL]),
    "a queue in each clique": (
        pod_clique_set(in_queue("leader", 1), in_queue("worker")),
        NONE,
        [LABEL, LABEL.replace("0", "1")],
    ),
    "a LocalQueue default": (pod_clique_set(clique("leader"), clique("worker")), DEFAULT, ["metadata.namespace"]),
    "a LocalQueue default in another namespace": (pod_clique_set(), ELSEWHERE, []),
    "nothing of Kueue's": (pod_clique_set(), SERVED, []),
    "a queue in a cluster without Kueue": (
        pod_clique_set(in_queue()),
        ClusterFacts(apis=frozenset({Api("batch", "v1", "Job")})),
        [],
    ),
    "a gang of one pod": (pod_clique_set(in_queue(replicas=1)), NONE, []),
    "several gangs of one pod": (with_replicas(3, in_queue(replicas=1)), NONE, []),
    "two scaled replicas in the first gang": (
        pod_clique_set(in_queue(replicas=1), groups=[scaling_group("decode", "worker", replicas=2, minAvailable=2)]),
        NONE,
        [LABEL],
    ),
    "scaled gangs of one pod": (
        pod_clique_set(in_queue(replicas=1), groups=[scaling_group("decode", "worker", replicas=4)]),
        NONE,
        [],
    ),
    "scaled gangs of two pods, and a first gang of two": (
        pod_clique_set(in_queue(), groups=[scaling_group("decode", "worker", replicas=2)]),
        NONE,
        [LABEL],
    ),
}


@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_pods_that_kueue_admits_one_at_a_time(case: str) -> None:
    manifest, facts, places = ONE_BY_ONE[case]
    assert found(manifest, facts) == [("pod-by-pod", Action.WARN, place) for place in places]


MANAGED = KueueSettings(managed_namespaces={"matchLabels": {"team": "yes"}})
EVERYTHING = KueueSettings(manage_without_queue_name=True)
LABELLED = ClusterFacts(namespaces={"default": Namespace({"team": "yes"})})
UNLABELLED = ClusterFacts(namespaces={"default": Namespace({})})


@pytest.mark.parametrize(
    ("kueue", "facts", "told"),
    [
        (MANAGED, LABELLED, True),
        (MANAGED, UNLABELLED, False),
        # The labels of the namespace are unknown, and the clique names a queue.
        (MANAGED, NONE, True),
        (KueueSettings(frameworks=frozenset({"batch/job"})), NONE, False),
    ],
)
def test_a_queue_counts_where_kueue_manages_pods(kueue: KueueSettings, facts: ClusterFacts, told: bool) -> None:
    assert bool(found(pod_clique_set(in_queue()), facts, kueue)) is told


@pytest.mark.parametrize(("facts", "told"), [(SERVED, True), (NONE, False)])
def test_kueue_may_hold_pods_without_a_queue(facts: ClusterFacts, told: bool) -> None:
    assert bool(found(pod_clique_set(), facts, EVERYTHING)) is told


GROUPS: dict[str, tuple[Manifest, list[tuple[str, Action, str]]]] = {
    "the pods of all cliques": (pod_clique_set(in_group("leader", 1, "3"), in_group("worker", 2, "3")), []),
    "the pods of a scaling group": (
        pod_clique_set(
            in_group("worker", 2, "4"), groups=[scaling_group("decode", "worker", replicas=2, minAvailable=2)]
        ),
        [],
    ),
    "a set that is scaled to zero": (with_replicas(0, in_group("worker", 2, "2")), []),
    "a number with zeros before it": (pod_clique_set(in_group("worker", 2, "02")), []),
    "too many": (pod_clique_set(in_group("worker", 2, "3")), [("pod-group-size", Action.DENY, COUNT)]),
    "too few": (pod_clique_set(in_group("worker", 2, "1")), [("pod-group-size", Action.DENY, COUNT)]),
    "far too many": (pod_clique_set(in_group("worker", 2, "9" * 5000)), [("pod-group-size", Action.DENY, COUNT)]),
    "too many, and Kueue does not wait for them": (
        pod_clique_set(in_group("worker", 2, "3", **{FAST: "true"})),
        [("pod-group-size", Action.WARN, COUNT)],
    ),
    "no number": (pod_clique_set(in_group("worker", 2, None)), [("pod-group-size", Action.DENY, COUNT)]),
    "a word": (pod_clique_set(in_group("worker", 2, "two")), [("pod-group-size", Action.DENY, COUNT)]),
    "zero": (pod_clique_set(in_group("worker", 2, "0")), [("pod-group-size", Action.DENY, COUNT)]),
    "cliques that count differently": (
        pod_clique_set(in_group("leader", 1, "3"), in_group("worker", 2, "2")),
        [("pod-group-size", Action.DENY, COUNT.replace("[0]", "[1]"))],
    ),
    "two groups": (
        pod_clique_set(in_group("leader", 1, "1", "one"), in_group("worker", 2, "2", "other")),
        [("pod-group-name", Action.WARN, NAME.replace("[0]", "[1]"))],
    ),
    "a clique without the group": (
        pod_clique_set(in_group("leader", 1, "1"), in_queue("worker")),
        [("pod-by-pod", Action.WARN, LABEL.replace("[0]", "[1]"))],
    ),
    "two replicas": (with_replicas(2, in_group("worker", 2, "4")), [("pod-group-name", Action.WARN, NAME)]),
    "two replicas, and the pods of one": (
        with_replicas(2, in_group("worker", 2, "2")),
        [("pod-group-size", Action.DENY, COUNT), ("pod-group-name", Action.WARN, NAME)],
    ),
    "scaled gangs": (
        pod_clique_set(in_group("worker", 2, "6"), groups=[scaling_group("decode", "worker", replicas=3)]),
        [("pod-group-name", Action.WARN, NAME)],
    ),
    "an autoscaler of gangs": (
        pod_clique_set(
            in_group("worker", 2, "2"), groups=[scaling_group("decode", "worker", scaleConfig={"maxReplicas": 3})]
        ),
        [("pod-group-name", Action.WARN, NAME)],
    ),
}


@pytest.mark.parametrize("case", GROUPS)
def test_pods_of_a_group(case: str) -> None:
    manifest, expected = GROUPS[case]
    assert found(manifest) == expected


def test_an_autoscaler_changes_the_number_of_pods() -> None:
    worker = in_group("worker", 2, "2")
    worker["spec"]["autoScalingConfig"] = {"minReplicas": 2, "maxReplicas": 4}
    assert found(pod_clique_set(worker)) == [("pod-group-name", Action.WARN, NAME)]


def test_a_group_that_a_label_names() -> None:
    worker = clique("worker", labels={QUEUE: "team", GROUP: "demo"}, annotations={TOTAL: "4"})
    assert found(with_replicas(2, worker)) == [("pod-group-name", Action.WARN, NAME.replace("annotations", "labels"))]


@pytest.mark.parametrize(("kueue", "told"), [(KueueSettings(), True), (KueueSettings(pods_ready_seconds=None), False)])
def test_kueue_stops_a_gang_that_runs_with_its_minimum_if_it_waits_for_pods(kueue: KueueSettings, told: bool) -> None:
    worker = in_group("worker", 4, "4")
    worker["spec"]["minAvailable"] = 2
    place = ("ready-minimum", Action.WARN, "spec.template.cliques[0].spec.minAvailable")
    assert found(pod_clique_set(worker), kueue=kueue) == ([place] if told else [])


@pytest.mark.parametrize(
    ("spared", "gate", "told"), [("2", True, False), ("1", True, True), ("two", True, True), ("2", False, True)]
)
def test_a_gang_may_run_with_its_minimum_if_kueue_may_miss_so_many_pods(spared: str, gate: bool, told: bool) -> None:
    worker = in_group("worker", 4, "4")
    worker["spec"]["minAvailable"] = 2
    worker["annotations"]["kueue.x-k8s.io/pod-group-max-not-ready-count"] = spared
    kueue = KueueSettings(max_not_ready=gate)
    assert [rule for rule, _, _ in found(pod_clique_set(worker), kueue=kueue)] == (["ready-minimum"] if told else [])


COUNTED: dict[str, tuple[str, dict[str, Any], bool, Manifest, bool]] = {
    "kube-scheduler's gangs": ("default-scheduler", {"gangScheduling": True}, True, {}, True),
    "without the gate": ("default-scheduler", {"gangScheduling": True}, False, {}, False),
    "without gangs": ("default-scheduler", {}, True, {}, False),
    "another scheduler": ("koord-scheduler", {}, True, {}, False),
    "Kueue's own pod group": (
        "default-scheduler",
        {"gangScheduling": True},
        True,
        {"annotations": {GROUP: "demo", TOTAL: "4"}},
        False,
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_a_minimum_that_kueue_would_count_is_told_for_kube_scheduler_with_the_gate(case: str) -> None:
    scheduler, config, gate, more, expected = COUNTED[case]
    worker = clique("worker", replicas=4, minimum=2, labels={QUEUE: "team"}, **more)
    manifest = pod_clique_set(worker, labels={"rollcall.dev/scheduler": scheduler})
    settings = replace(settings_of(scheduler, config), kueue=KueueSettings(counts_minimums=gate))
    verdict = validate(manifest, settings=settings)
    told = [str(one.at) for one in verdict.findings if one.rule == "kueue/counted-minimum"]
    assert told == (["spec.template.cliques[0].spec.minAvailable"] if expected else [])


def test_an_old_size_does_not_refuse_an_update() -> None:
    old = pod_clique_set(in_group("worker", 2, "3"), labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(old, old)
    assert verdict.allowed
    assert [(one.rule, one.action) for one in verdict.findings if one.rule.startswith("kueue/")] == [
        ("kueue/pod-group-size", Action.WARN)
    ]


def test_a_check_that_books_nodes_is_said_once_to_a_set() -> None:
    facts = ClusterFacts(
        local_queues={("default", "team"): LocalQueue("booked")},
        cluster_queues={"booked": ClusterQueue(checks=("other", "nodes"))},
        admission_checks={"nodes": AdmissionCheck("kueue.x-k8s.io/provisioning-request")},
    )
    manifest = pod_clique_set(in_group("leader", 1, "3"), in_group("worker", 2, "3"))
    assert found(manifest, facts) == [("provisioning", Action.WARN, LABEL)]


def test_a_warning_fits_into_what_the_api_server_passes_on() -> None:
    workloads = (with_replicas(2, in_group("worker", 4, "8")), pod_clique_set(in_queue()))
    told = [str(one) for each in workloads for one in validate(each).findings if one.rule.startswith("kueue/")]
    assert [one.partition(" ")[0] for one in told] == ["kueue/pod-group-name", "kueue/pod-by-pod"]
    assert all(len(one.encode()) <= 256 for one in told), told
