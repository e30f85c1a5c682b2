"""What KAI places together, in which domains of its Topologies, and what the groups of its podgrouper require."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.shapes import BLOCK, RACK, ZONE, drawn, gang, member, subset
from webhook.backends.kai.backend import KaiBackend
from webhook.backends.kai.keys import KaiSettings
from webhook.fit.gang_shapes import GangShape, shape_of_templates, shapes_of_workload
from webhook.fit.packing import NOTHING_STATED, Packing
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import KaiLevels, TopologyBinding
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, replicated
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.known_workloads import VIEWS
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import gangs_of

LEVELS = (ZONE, BLOCK, RACK)
KNOWN = ClusterFacts(
    kai_topologies={"dc": KaiLevels(LEVELS, {"rack": RACK})},
    topology_bindings={"dc": TopologyBinding({"zone": ZONE, "block": BLOCK, "rack": RACK})},
)
_MINIMUM = "kai.scheduler/batch-min-member"
_IN_RACK = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "rack"}


def packed(shape: GangShape, facts: ClusterFacts = KNOWN, version: str | None = None) -> Packing:
    backend = KaiBackend(KaiSettings(), None if version is None else Version.parse(version))
    return backend.packing(shape, facts, NOTHING_STATED)


def of_job_set(*parts: Manifest, version: str | None = None, **fields: Any) -> list[Any]:
    (shape,) = shapes_of_workload(JobSet(job_set(*parts, **fields)))
    return drawn(packed(shape, version=version))


def test_every_leaf_and_every_set_is_placed_together_in_the_domain_that_it_requires() -> None:
    shape = gang(
        member("a", required=RACK),
        member("b", 3),
        member("c", 1),
        subsets=[subset("group", "b", "c", required=BLOCK)],
        required=ZONE,
        topology_name="dc",
    )
    found = packed(shape)
    group = (2, [("b", 3), ("c", 1)], (ZONE, BLOCK))
    assert drawn(found) == [(2, [("a", 2, LEVELS), group], (ZONE,))]


def test_a_domain_is_the_path_of_values_and_a_node_needs_the_label_of_every_level() -> None:
    (need,) = packed(gang(member("a"), required=BLOCK, topology_name="dc")).sets
    assert need.within is not None
    assert (need.within.keys, need.within.required_keys) == ((ZONE, BLOCK), LEVELS)
    assert need.within.broader is not None
    assert need.within.broader.keys == (ZONE,)


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        (gang(member("a"), required=RACK), KNOWN),
        (gang(member("a"), required="example.com/row", topology_name="dc"), KNOWN),
        (gang(member("a"), required=RACK, topology_name="dc"), NO_FACTS),
        (gang(member("a"), required=RACK, topology_name="other"), KNOWN),
    ],
)
def test_a_level_of_an_unknown_topology_is_left_out_and_said_to_be(shape: GangShape, facts: ClusterFacts) -> None:
    found = packed(shape, facts)
    assert drawn(found) == [(1, [("a", 2)])]
    assert found.left_out == (Text("KAI Topology"),)


def test_the_group_of_a_job_needs_one_pod_unless_an_annotation_says_more() -> None:
    def of(**annotations: str) -> list[Any]:
        (shape,) = shapes_of_workload(Job(job(parallelism=4, completions=4, annotations=annotations)))
        return drawn(packed(shape))

    assert of() == [(1, [("demo", 1)])]
    assert of(**{_MINIMUM: "3"}) == [(1, [("demo", 3)])]
    assert of(**{_MINIMUM: "2"}, **_IN_RACK) == [(1, [("demo", 2)], LEVELS)]


def test_the_group_of_a_job_set_needs_all_pods_of_as_many_parts_as_it_says() -> None:
    leader, worker = replicated("leader", 1), replicated("worker", 4, replicas=3)
    assert of_job_set(leader, worker) == [(2, [("leader", 1), ("worker", 12)])]
    assert of_job_set(leader, worker, annotations={_MINIMUM: "1"}) == [(1, [("leader", 1), ("worker", 12)])]
    fewer = replicated("worker", 4, replicas=3, metadata={"annotations": {_MINIMUM: "1"}})
    assert of_job_set(leader, fewer) == [(2, [("leader", 1), ("worker", 3)])]


@pytest.mark.parametrize(
    "manifest",
    [
        job(parallelism=4, completions=4, annotations={_MINIMUM: "9"}),
        job(parallelism=4, completions=4, annotations={_MINIMUM: "all"}),
        job_set(replicated("worker", 2, replicas=3, metadata={"annotations": {_MINIMUM: "5"}})),
        job_set(replicated("a", 1), replicated("b", 1, dependsOn=[{"name": "a", "status": "Ready"}])),
        leader_worker_set(annotations={"kai.scheduler/segment-size": "9"}),
    ],
)
def test_nothing_is_claimed_of_a_group_that_podgrouper_does_not_make_or_that_never_starts(manifest: Manifest) -> None:
    group = manifest["apiVersion"].partition("/")[0]
    shape, *_ = shapes_of_workload(VIEWS[group, manifest["kind"]](manifest))
    found = packed(shape)
    assert (drawn(found), len(found.unknown)) == ([], 1)


def test_stored_pods_of_a_job_set_are_placed_together_as_those_of_its_templates() -> None:
    leader, worker = replicated("leader", 1), replicated("worker", 4, replicas=2, metadata={"annotations": _IN_RACK})
    (own,) = gangs_of(JobSet(job_set(leader, worker)))
    pods = {name: [part.template] * part.pods for name, (part,) in own.parts.items()}
    shape = shape_of_templates(own, pods, Record("kai-scheduler"))
    jobs = [("demo-worker", 4, LEVELS), ("demo-worker", 4, LEVELS)]
    assert drawn(packed(shape)) == [(2, [("demo-leader", 1), (2, jobs)])]


@pytest.mark.parametrize(("version", "expected"), [(None, [(1, [("demo-leader", 1)])]), ("0.15.2", [])])
def test_parts_whose_pods_are_not_known_may_be_those_that_are_enough(version: str | None, expected: list[Any]) -> None:
    def of(minimum: str) -> list[Any]:
        parts = replicated("leader", 1), replicated("worker", 4)
        (own,) = gangs_of(JobSet(job_set(*parts, annotations={_MINIMUM: minimum})))
        pods = {"demo-leader": [own.parts["demo-leader"][0].template]}
        return drawn(packed(shape_of_templates(own, pods, Record("kai-scheduler")), version=version))

    assert of("2") == expected
    assert of("1") == ([(0, [("demo-leader", 1)])] if expected else [])


def test_before_the_trees_the_group_of_a_job_set_needs_one_pod() -> None:
    leader, worker = replicated("leader", 1), replicated("worker", 4)
    assert of_job_set(leader, worker, version="0.15.2") == [(1, [("leader", 1), ("worker", 1)])]
    assert of_job_set(worker, version="0.15.2", annotations={_MINIMUM: "3"}) == [(1, [("worker", 3)])]


def test_jobs_that_require_a_domain_each_have_one_of_their_own() -> None:
    worker = replicated("worker", 4, replicas=2, metadata={"annotations": _IN_RACK})
    assert of_job_set(worker) == [(1, [(2, [("worker", 4, LEVELS), ("worker", 4, LEVELS)])])]


def test_a_group_of_a_leader_worker_set_needs_all_its_pods() -> None:
    (shape,) = shapes_of_workload(LeaderWorkerSet(leader_worker_set(annotations=_IN_RACK)))
    ((count, needs, domain),) = drawn(packed(shape))
    assert (count, sum(number for _, number in needs), domain) == (1, 3, LEVELS)
