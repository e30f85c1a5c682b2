"""The Queues that limit a gang under KAI."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.limited_gangs import gang, member, roles, too_low
from tests.unit.workloads.workloads import ray_cluster, template, view, worker_group
from webhook.backends.kai.backend import ceilings_of
from webhook.backends.kai.gangs import project_queue
from webhook.backends.kai.keys import QUEUE_FACTS, KaiSettings
from webhook.fit.gang_shapes import GangShape, shapes_of_workload
from webhook.fit.packing import KAI, Ceilings
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import KaiQueue, PriorityClass, QueueTree

GPU = "nvidia.com/gpu"
QUEUE = {"kai.scheduler/queue": "team-a"}
# 4 pods of 8 GPUs, 2 cores and 1 GB.
GANG = gang(member(requests={"cpu": "2", "memory": "1G", GPU: "8"}), queues=QUEUE)
FREE = {"limit": -1, "quota": -1}


def queue(parent: str | None = None, **resources: Any) -> KaiQueue:
    stated = {name: {"quota": -1, **one} for name, one in resources.items()}
    raw = {"metadata": {"name": "q"}, "spec": {"parentQueue": parent, "resources": stated}}
    read = QUEUE_FACTS.read(raw)
    assert read is not None
    found: KaiQueue = read[1]
    return found


def open_queue(parent: str | None = None, **resources: Any) -> KaiQueue:
    """A queue without a limit on what is not stated."""
    return queue(parent, **{"gpu": FREE, "cpu": FREE, "memory": FREE, **resources})


def judged(shape: GangShape = GANG, **queues: KaiQueue) -> Ceilings:
    known = QueueTree({name.replace("_", "-"): one for name, one in queues.items()})
    facts = ClusterFacts(kai_queues=known, priority_classes=CLASSES)
    return ceilings_of(shape, roles(shape, KAI), facts, KaiSettings())


def refused(shape: GangShape = GANG, **queues: KaiQueue) -> list[str]:
    return too_low(judged(shape, **queues), shape, KAI)


CLASSES = {"build": PriorityClass(100, is_default=False), "train": PriorityClass(50, is_default=False)}
LIMITS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "enough": ({"gpu": {"limit": 32}, "cpu": {"limit": 8000}, "memory": {"limit": 4000}}, []),
    "too few GPUs": ({"gpu": {"limit": 31}}, ["team-a"]),
    "part of a GPU too few": ({"gpu": {"limit": 31.9}}, ["team-a"]),
    "cpu counts millicores": ({"cpu": {"limit": 7999}}, ["team-a"]),
    "memory counts millions of bytes and not mebibytes": ({"memory": {"limit": 3999}}, ["team-a"]),
    "0 is nothing": ({"gpu": {"limit": 0}}, ["team-a"]),
    "-1 is no limit": ({"gpu": {"limit": -1}}, []),
    "another negative number of GPUs proves nothing": ({"gpu": {"limit": -2}}, []),
    "another negative number of cores proves nothing": ({"cpu": {"limit": -0.5}}, []),
    "a number that overflows proves nothing": ({"gpu": {"limit": "99E"}}, []),
    "any negative memory is no limit": ({"memory": {"limit": -2}}, []),
    "a missing limit is nothing": ({"gpu": {}}, ["team-a"]),
}


@pytest.mark.parametrize(("resources", "expected"), LIMITS.values(), ids=LIMITS)
def test_the_limit_of_the_queue_limits_the_gang(resources: dict[str, Any], expected: list[str]) -> None:
    assert refused(team_a=open_queue(**resources)) == expected


def test_a_queue_gives_nothing_that_it_does_not_state() -> None:
    assert refused(team_a=queue(gpu=FREE)) == ["team-a"]
    assert refused(team_a=queue()) == ["team-a"]


def test_a_queue_without_gpus_takes_a_gang_that_requests_none() -> None:
    plain = gang(member(requests={"cpu": "2"}), queues=QUEUE)
    assert refused(plain, team_a=queue(cpu=FREE)) == []


def test_a_ceiling_says_what_it_is() -> None:
    (found,) = judged(team_a=open_queue(gpu={"limit": 8})).ceilings
    assert (found.called, found.name, found.amounts) == ("the KAI Queue", "team-a", {GPU: 8})
    assert (found.family, found.scope) == (FitFamily.QUEUE, FitScope.EVER)


@pytest.mark.parametrize(("limit", "expected"), [(8, ["all"]), (0, ["all"]), (-1, [])])
def test_every_queue_above_limits_as_well(limit: int, expected: list[str]) -> None:
    assert refused(team_a=open_queue("all"), all=open_queue(gpu={"limit": limit})) == expected
    assert refused(team_a=open_queue("mid"), mid=open_queue("all"), all=open_queue(gpu={"limit": limit})) == expected


def test_a_queue_without_limit_below_one_with_a_limit_is_limited() -> None:
    found = judged(team_a=open_queue("all"), all=open_queue(gpu={"limit": 8}))
    assert [(one.called, one.amounts) for one in found.ceilings] == [
        ("the KAI Queue", {}),
        ("the parent KAI Queue", {GPU: 8}),
    ]


def test_queues_in_a_circle_are_each_counted_once() -> None:
    assert refused(team_a=open_queue("all"), all=open_queue("team-a", gpu={"limit": 8})) == ["all"]


PARTS: dict[str, tuple[dict[str, str], dict[str, str], float, list[str]]] = {
    "a part of a GPU counts as its part": ({"gpu-fraction": "0.25"}, {}, 1, []),
    "parts add up": ({"gpu-fraction": "0.25"}, {}, 0.99, ["team-a"]),
    "parts of several GPUs": ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, {}, 3.9, ["team-a"]),
    "a part replaces whole GPUs": ({"gpu-fraction": "0.5"}, {GPU: "8"}, 2, []),
    "an invalid part counts as none": ({"gpu-fraction": "1.5"}, {GPU: "1"}, 3, ["team-a"]),
    "GPU memory is a part of an unknown size": ({"gpu-memory": "4096"}, {}, 0, []),
    "GPUs of another vendor are of the same pool": ({}, {"amd.com/gpu": "1"}, 3, ["team-a"]),
    "MIG instances count their slices": ({}, {"nvidia.com/mig-3g.20gb": "1"}, 12, []),
    "MIG instances add up": ({}, {"nvidia.com/mig-3g.20gb": "1"}, 11, ["team-a"]),
}


@pytest.mark.parametrize(("annotations", "requests", "limit", "expected"), PARTS.values(), ids=PARTS)
def test_gpus_count_as_kai_counts_them(
    annotations: dict[str, str], requests: dict[str, str], limit: float, expected: list[str]
) -> None:
    shape = gang(member(annotations=annotations, requests=requests), queues=QUEUE)
    assert refused(shape, team_a=open_queue(gpu={"limit": limit})) == expected


def test_what_a_pod_requests_as_a_whole_is_not_counted() -> None:
    shape = gang(member(requests={"cpu": "1"}, resources={"requests": {"cpu": "8"}}), queues=QUEUE)
    assert refused(shape, team_a=open_queue(cpu={"limit": 4000})) == []


KEPT = {"kai.scheduler/preemptibility": "non-preemptible"}
PREEMPTIBLE = {"kai.scheduler/preemptibility": "preemptible"}


@pytest.mark.parametrize(
    ("labels", "priority_class", "expected"),
    [
        ({}, None, []),
        (KEPT, None, ["team-a"]),
        (KEPT, "train", ["team-a"]),
        ({}, "build", ["team-a"]),
        (PREEMPTIBLE, "build", []),
        ({}, "train", []),
        ({}, "unknown", []),
    ],
)
def test_the_quota_limits_only_a_gang_that_is_never_preempted(
    labels: dict[str, str], priority_class: str | None, expected: list[str]
) -> None:
    shape = gang(member(requests={GPU: "8"}), queues=QUEUE, labels=labels, priority_class=priority_class)
    quota = open_queue(gpu={"limit": -1, "quota": 8})
    assert refused(shape, team_a=quota) == expected


CLASS = "priorityClassName"
OF_RAY = "ray.io/priority-class-name"


@pytest.mark.parametrize(
    ("labels", "of_pods", "in_spec", "expected"),
    [
        ({}, {}, "build", ["team-a"]),
        ({}, {}, "train", []),
        ({}, {CLASS: "build"}, "train", ["team-a"]),
        ({CLASS: "build"}, {CLASS: "train"}, "train", ["team-a"]),
        # Of a name that is no class, podgrouper takes a class of its configuration, and not the next name.
        ({CLASS: "unknown"}, {}, "build", []),
        ({}, {CLASS: ""}, "build", []),
        ({OF_RAY: "train"}, {}, "build", []),
        ({OF_RAY: "unknown"}, {}, "build", []),
        ({OF_RAY: "build", CLASS: "train"}, {}, "train", ["team-a"]),
    ],
)
def test_podgrouper_takes_the_class_that_is_named_first(
    labels: dict[str, str], of_pods: dict[str, str], in_spec: str, expected: list[str]
) -> None:
    pods = template(labels=of_pods)
    pods["spec"]["priorityClassName"] = in_spec
    pods["spec"]["containers"][0]["resources"] = {"limits": {GPU: "8"}}
    manifest = ray_cluster(worker_group(minReplicas=2, template=pods), headGroupSpec={"template": pods})
    manifest["metadata"]["labels"] |= {**labels, **QUEUE}
    (shape,) = shapes_of_workload(view(manifest))
    quota = open_queue(gpu={"limit": -1, "quota": 8})
    assert refused(shape, team_a=quota) == expected


def test_the_queue_of_a_project_is_that_of_podgrouper() -> None:
    pods = template(labels={"kai.scheduler/node-pool": "h100"})
    manifest = ray_cluster(worker_group(template=pods))
    assert project_queue(view(manifest), KaiSettings()) is None
    manifest["metadata"]["labels"]["project"] = "team-b"
    assert project_queue(view(manifest), KaiSettings()) == "team-b-h100"


def test_unknown_queues_and_limits_are_told() -> None:
    assert ceilings_of(GANG, roles(GANG, KAI), ClusterFacts(), KaiSettings()).unknown == (Text("KAI Queues"),)
    assert judged(team_a=KaiQueue(None)).unknown == (Text("limits", '"team-a"'),)
    assert judged(team_a=open_queue("gone")).unknown == (Text('"gone"', '"team-a"'),)
    assert judged(gang(), team_a=queue()).unknown == (Text("Queue of the gang"),)


def test_the_queue_of_the_pod_group_counts_where_it_is_known() -> None:
    facts = ClusterFacts(kai_queues=QueueTree({"team-a": queue(), "moved": open_queue()}))
    found = ceilings_of(GANG, roles(GANG, KAI), facts, KaiSettings(), queue="moved")
    assert [one.name for one in found.ceilings] == ["moved"]


def test_the_cure_names_a_queue_of_the_same_pool_whose_whole_path_allows_the_gang() -> None:
    other_pool = open_queue()
    queues = {
        "team_a": open_queue(gpu={"limit": 8}),
        "a_pool": KaiQueue(None, {"kai.scheduler/node-pool": "h100"}, limit=other_pool.limit, quota=other_pool.quota),
        "below": open_queue("narrow"),
        "narrow": open_queue(gpu={"limit": 8}),
        "unknown": KaiQueue(None),
        "wide": open_queue(),
    }
    assert [one.cure for one in judged(GANG, **queues).ceilings] == ['name the Queue "wide", which allows it']
