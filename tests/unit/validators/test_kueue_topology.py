"""Gangs that Kueue and their scheduler both place, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import rules, settings_of, validate
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import KaiLevels, TopologyBinding, TopologyLayer
from webhook.model.kueue_objects import ClusterQueue, LocalQueue, ResourceFlavor
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, pod_template, replicated, runtimes, train_job

RACK, BLOCK = "example.com/rack", "example.com/block"
KUEUE = "kueue.x-k8s.io"
QUEUE = {f"{KUEUE}/queue-name": "free"}
PLACED = {f"{KUEUE}/queue-name": "team"}
KAI = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": RACK}
NEAR = {**KAI, "kai.scheduler/batch-min-member": "2"}
FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": BLOCK, "rack": RACK})},
    local_queues={("default", "team"): LocalQueue("placed"), ("default", "free"): LocalQueue("mixed")},
    cluster_queues={"placed": ClusterQueue(flavors=("racks",)), "mixed": ClusterQueue(flavors=("racks", "any"))},
    resource_flavors={"racks": ResourceFlavor("dc"), "any": ResourceFlavor()},
    kueue_topologies={"dc": (BLOCK, RACK)},
    kai_topologies={"dc": KaiLevels((BLOCK, RACK), {"rack": RACK})},
)


def asking(**values: str) -> Manifest:
    """A pod template that asks Kueue for these."""
    return pod_template(annotations={f"{KUEUE}/podset-{key.replace('_', '-')}": said for key, said in values.items()})


def found(manifest: Manifest, facts: ClusterFacts = FACTS, scheduler: str = "kai-scheduler") -> list[str]:
    verdict = validate(manifest, settings=settings_of(scheduler), facts=facts)
    return [rule.partition("/")[2] for rule in rules(verdict) if rule.startswith("kueue/")]


def kai(manifest: Manifest) -> Manifest:
    labels = {**manifest["metadata"]["labels"], "rollcall.dev/scheduler": "kai-scheduler"}
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


def one_job(template: Manifest, labels: dict[str, str] = QUEUE) -> Manifest:
    return kai(job(labels=labels, annotations=NEAR, template=template))


def steps(*templates: Manifest, labels: dict[str, str] = QUEUE) -> Manifest:
    jobs = [replicated(f"step-{index}", template=template) for index, template in enumerate(templates)]
    return kai(job_set(*jobs, labels=labels, annotations=KAI))


CASES: dict[str, tuple[Manifest, list[str]]] = {
    "nothing is asked of Kueue, and the queue has a flavor without Topology": (one_job(pod_template()), []),
    "nothing is asked of Kueue, and it places all pods of the queue": (
        one_job(pod_template(), PLACED),
        ["topology-unsaid"],
    ),
    "the same level twice": (one_job(asking(required_topology=RACK)), ["two-topologies"]),
    "a broader level": (one_job(asking(required_topology=BLOCK)), ["two-topologies"]),
    "a preferred level": (one_job(asking(preferred_topology=RACK)), ["topology-unsaid"]),
    "any nodes": (one_job(asking(unconstrained_topology="true")), ["topology-unsaid"]),
    "slices": (
        one_job(asking(slice_required_topology=RACK, slice_size="2")),
        ["topology-unsaid"],
    ),
    "two replicated Jobs, each in a rack": (
        steps(asking(required_topology=RACK), asking(required_topology=RACK)),
        ["topology-apart"],
    ),
    "two replicated Jobs as one group": (
        steps(asking(required_topology=RACK, group_name="all"), asking(required_topology=RACK, group_name="all")),
        ["pod-sets", "two-topologies"],
    ),
    "a group without a level is no group for Kueue": (
        steps(
            asking(unconstrained_topology="true", group_name="all"),
            asking(unconstrained_topology="true", group_name="all"),
        ),
        ["pod-sets", "topology-apart"],
    ),
    "one of two replicated Jobs is placed": (
        steps(asking(required_topology=RACK), pod_template()),
        ["two-topologies"],
    ),
    "one asks for a level, and Kueue places the other as well": (
        steps(asking(required_topology=RACK), pod_template(), labels=PLACED),
        ["topology-apart"],
    ),
    "a group of a LeaderWorkerSet with one template": (
        kai(leader_worker_set(labels=QUEUE, annotations=KAI, worker=asking(required_topology=RACK))),
        ["two-topologies"],
    ),
    "a leader with its own template": (
        kai(
            leader_worker_set(
                labels=QUEUE,
                annotations=KAI,
                leader=asking(required_topology=RACK),
                worker=asking(required_topology=RACK),
            )
        ),
        ["topology-apart"],
    ),
    "a leader and its workers as one group": (
        kai(
            leader_worker_set(
                labels=QUEUE,
                annotations=KAI,
                leader=asking(required_topology=RACK, group_name="all"),
                worker=asking(required_topology=RACK, group_name="all"),
            )
        ),
        ["two-topologies"],
    ),
    "a level by its alias": (
        kai(
            job(
                labels=QUEUE,
                annotations={**NEAR, "kai.scheduler/topology-required-placement": "rack"},
                template=asking(required_topology=RACK),
            )
        ),
        ["two-topologies"],
    ),
    "a level that KAI ignores": (
        kai(
            job(
                labels=QUEUE,
                annotations={"kai.scheduler/topology-required-placement": RACK, "kai.scheduler/batch-min-member": "2"},
                template=asking(required_topology=RACK),
            )
        ),
        [],
    ),
    "no gang topology": (kai(job(labels=PLACED, template=asking(required_topology=RACK))), []),
    "no queue": (one_job(asking(required_topology=RACK), {}), []),
}


@pytest.mark.parametrize("case", CASES)
def test_a_gang_that_is_placed_twice_is_reported(case: str) -> None:
    manifest, expected = CASES[case]
    assert found(manifest) == expected


SPEC = {
    "gang.scheduling.koordinator.sh/network-topology-spec": '{"gatherStrategy":[{"layer":"RackLayer","strategy":'
    '"MustGather"}]}'
}
TIER = {"volcano.sh/network-topology-mode": "hard", "volcano.sh/network-topology-highest-tier": "1"}
LAYERS = (TopologyLayer("RackLayer", None, (RACK,)), TopologyLayer("NodeTopologyLayer", "RackLayer", ()))


@pytest.mark.parametrize(
    ("scheduler", "annotations", "why"),
    [
        ("koord-scheduler", SPEC, Text(f"in one {BLOCK}, perhaps in several {RACK}")),
        ("volcano", TIER, Text(f"Kueue chooses the {BLOCK} before")),
    ],
)
def test_the_topology_that_rollcall_writes_into_a_pod_group(
    scheduler: str, annotations: dict[str, str], why: str
) -> None:
    asked = job(scheduler=scheduler, labels=QUEUE, annotations=annotations, template=asking(required_topology=BLOCK))
    facts = replace(FACTS, network_topologies={"default": LAYERS})
    verdict = validate(asked, settings=settings_of(scheduler), facts=facts)
    assert [one.why for one in verdict.findings if one.rule == "kueue/two-topologies"] == [why]


def test_the_jobs_of_one_part_may_require_their_own_rack() -> None:
    near = {"annotations": KAI}
    parts = [replicated(name, template=asking(required_topology=RACK), metadata=near) for name in ("a", "b")]
    assert found(kai(job_set(*parts, labels=QUEUE))) == ["two-topologies", "two-topologies"]


def test_a_scheduler_that_does_not_read_the_annotations_places_no_gang_twice() -> None:
    asked = job(labels=QUEUE, annotations=NEAR, template=asking(required_topology=RACK))
    assert found(asked, scheduler="koord-scheduler") == []


def test_kube_scheduler_reads_the_level_of_the_workload_s_own_gang() -> None:
    constraints = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    asked = job(
        scheduler="default-scheduler", labels=QUEUE, scheduling=constraints, template=asking(preferred_topology=RACK)
    )
    verdict = validate(asked, settings=settings_of("default-scheduler", {"gangScheduling": True}), facts=FACTS)
    places = [str(one.at) for one in verdict.findings if one.rule == "kueue/topology-unsaid"]
    assert places == ["spec.scheduling.schedulingConstraints.topology[0].key"]


@pytest.mark.parametrize(
    "scheduling", ["x", [], {"schedulingConstraints": 1}, {"schedulingConstraints": {"topology": {}}}]
)
def test_a_gang_of_the_workload_s_own_may_have_any_fields(scheduling: Any) -> None:
    asked = job(scheduler="default-scheduler", labels=PLACED, scheduling=scheduling)
    assert found(asked, scheduler="default-scheduler") == []


class TestTrainJobs:
    """The pods of a TrainJob are those of its runtime."""

    asking = replicated("node", template=asking(required_topology=RACK))

    def messages(self, manifest: Manifest, facts: ClusterFacts) -> list[str]:
        known = replace(FACTS, cluster_training_runtimes=facts.cluster_training_runtimes)
        verdict = validate(kai(manifest), settings=settings_of("kai-scheduler"), facts=known)
        return [str(one) for one in verdict.findings if one.rule.startswith("kueue/")]

    def test_the_train_job_asks_its_scheduler_and_the_runtime_asks_kueue(self) -> None:
        assert self.messages(train_job(labels=QUEUE, annotations=KAI), runtimes(self.asking)) == [
            Text(
                "kueue/two-topologies at metadata.annotations[kai.scheduler/topology-required-placement]: ",
                '"example.com/rack": Kueue chooses',
            )
        ]

    def test_the_runtime_asks_both(self) -> None:
        assert self.messages(train_job(labels=QUEUE), runtimes(self.asking, annotations=KAI)) == [
            Text(
                'kueue/two-topologies at spec.runtimeRef.name: "example.com/rack": ClusterTrainingRuntime torch, ',
                "spec.template.metadata.annotations[kai.scheduler/topology-required-placement]: Kueue",
            )
        ]

    def test_a_runtime_that_is_unknown_is_not_judged(self) -> None:
        assert self.messages(train_job(labels=QUEUE, annotations=KAI), ClusterFacts()) == []


@pytest.mark.parametrize(
    ("part", "unjudged"),
    [
        ("local_queues", "the LocalQueue"),
        ("cluster_queues", "the ClusterQueue"),
        ("resource_flavors", "the ResourceFlavor"),
    ],
)
def test_without_facts_about_the_queue_a_gang_that_asks_kueue_for_nothing_is_not_judged(
    part: str, unjudged: str
) -> None:
    facts = replace(FACTS, **{part: None})
    verdict = validate(one_job(pod_template(), PLACED), settings=settings_of("kai-scheduler"), facts=facts)
    assert [one.needs for one in verdict.unjudged if one.rule == "kueue/topology-unsaid"] == [unjudged]


def test_nothing_is_said_in_a_cluster_without_kueue() -> None:
    nothing = ClusterFacts(apis=frozenset({Api("batch", "v1", "Job")}), kai_topologies=FACTS.kai_topologies)
    assert found(one_job(asking(required_topology=RACK)), nothing) == []


def gated(manifest: Manifest, version: str | None, facts: ClusterFacts = FACTS) -> list[str]:
    """Where kueue/gated-pods warns, on a scheduler-plugins of this version."""
    scheduler = "scheduler-plugins-scheduler"
    labels = {**manifest["metadata"]["labels"], "rollcall.dev/scheduler": scheduler}
    stated: Manifest = {} if version is None else {"schedulerVersion": version}
    asked = {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}
    verdict = validate(asked, settings=settings_of(scheduler, **stated), facts=facts)
    return [str(one.at) for one in verdict.findings if one.rule == "kueue/gated-pods"]


QUEUE_NAME = f"metadata.labels[{KUEUE}/queue-name]"


@pytest.mark.parametrize(
    ("template", "labels", "version", "expected"),
    [
        (asking(required_topology=RACK), QUEUE, "0.33.5", [QUEUE_NAME]),
        (pod_template(), PLACED, "0.33.5", [QUEUE_NAME]),
        (pod_template(), QUEUE, "0.33.5", []),
        (asking(required_topology=RACK), QUEUE, "0.34.7", []),
        (asking(required_topology=RACK), QUEUE, None, []),
    ],
    ids=["asked for", "by the queue", "not placed", "a newer version", "no version"],
)
def test_an_old_scheduler_plugins_counts_pods_that_kueue_has_not_freed(
    template: Manifest, labels: dict[str, str], version: str | None, expected: list[str]
) -> None:
    assert gated(job(labels=labels, template=template), version) == expected


def test_an_old_scheduler_plugins_is_reported_once_for_a_train_job() -> None:
    asked = runtimes(replicated("node", template=asking(required_topology=RACK)))
    facts = replace(FACTS, cluster_training_runtimes=asked.cluster_training_runtimes)
    assert gated(train_job(labels=QUEUE), "0.33.5", facts) == [QUEUE_NAME]
