"""The Queues that limit a gang under Volcano."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.limited_gangs import gang, member, roles, too_low
from webhook.backends.volcano.backend import ceilings_of
from webhook.backends.volcano.keys import QUEUE_FACTS, VolcanoSettings
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import VOLCANO, Ceilings
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import QueueTree, VolcanoQueue

GPU = "nvidia.com/gpu"
QUEUE = {"scheduling.grove.io/volcano-queue": "team-a"}
# 4 pods of 8 GPUs, 2 cores and 1 GiB.
GANG = gang(member(requests={"cpu": "2", "memory": "1Gi", GPU: "8"}), queues=QUEUE)


def queue(parent: str | None = "root", **spec: Any) -> VolcanoQueue:
    raw = {"metadata": {"name": "q"}, "spec": {"parent": parent, **spec}, "status": {"state": "Open"}}
    read = QUEUE_FACTS.read(raw)
    assert read is not None
    found: VolcanoQueue = read[1]
    return found


def judged(shape: GangShape = GANG, config: dict[str, Any] | None = None, **queues: VolcanoQueue) -> Ceilings:
    known = {"root": queue(None), **{name.replace("_", "-"): one for name, one in queues.items()}}
    facts = ClusterFacts(volcano_queues=QueueTree(known))
    return ceilings_of(shape, roles(shape, VOLCANO), facts, VolcanoSettings(**(config or {})))


def refused(shape: GangShape = GANG, config: dict[str, Any] | None = None, **queues: VolcanoQueue) -> list[str]:
    return too_low(judged(shape, config, **queues), shape, VOLCANO)


CAPABILITIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "enough": ({GPU: "32", "cpu": "8", "memory": "4Gi"}, []),
    "too few devices": ({GPU: "31"}, ["team-a"]),
    "too few cores": ({"cpu": "7999m"}, ["team-a"]),
    "too little memory": ({"memory": str(4 * 2**30 - 1)}, ["team-a"]),
    "a cpu of 0 is no limit": ({"cpu": "0"}, []),
    "a memory of 0 is no limit": ({"memory": "0"}, []),
    "a device of 0 is none": ({GPU: "0"}, ["team-a"]),
    "what is not named is not limited": ({"example.com/nic": "1"}, []),
    "no slot of a node is counted": ({"pods": "1"}, []),
    "nothing named": ({}, []),
}


@pytest.mark.parametrize(("capability", "expected"), CAPABILITIES.values(), ids=CAPABILITIES)
def test_the_capability_of_the_queue_limits_the_gang(capability: dict[str, Any], expected: list[str]) -> None:
    assert refused(team_a=queue(capability=capability)) == expected


def test_a_ceiling_says_what_it_is() -> None:
    (found,) = judged(team_a=queue(capability={GPU: "8"})).ceilings
    assert (found.called, found.name, found.amounts) == ("the Volcano Queue", "team-a", {GPU: 8})
    assert (found.family, found.scope) == (FitFamily.QUEUE, FitScope.EVER)


def test_what_a_queue_deserves_is_no_ceiling() -> None:
    assert refused(team_a=queue(deserved={GPU: "1"})) == []


def test_a_queue_has_its_guarantee_in_any_case() -> None:
    guarantee = {"resource": {GPU: "32"}}
    assert refused(team_a=queue(capability={GPU: "8"}, guarantee=guarantee)) == []


def test_a_queue_that_is_closed_now_may_open_again() -> None:
    closed = VolcanoQueue("root", "Closed", {GPU: 64})
    assert refused(team_a=closed) == []


@pytest.mark.parametrize(
    ("config", "expected", "told"),
    [({}, [], 1), ({"enableHierarchy": False}, [], 0), ({"enableHierarchy": True}, ["all"], 0)],
)
def test_parents_limit_only_with_hierarchical_queues(config: dict[str, Any], expected: list[str], told: int) -> None:
    queues = {"team_a": queue("all"), "all": queue(capability={GPU: "8"})}
    assert refused(GANG, config, **queues) == expected
    assert len(judged(GANG, config, **queues).unknown) == told


def test_the_root_is_left_out() -> None:
    root = queue(None, capability={GPU: "8"})
    assert refused(GANG, {"enableHierarchy": True}, team_a=queue("root"), root=root) == []


def test_volcano_may_put_a_gang_without_a_queue_into_that_of_its_namespace() -> None:
    bare = gang(member(requests={GPU: "8"}))
    found = judged(bare, {}, default=queue(capability={GPU: "1"}))
    assert (found.ceilings, len(found.unknown)) == ((), 1)
    assert refused(bare, {"defaultQueue": "team-a"}, team_a=queue(capability={GPU: "1"})) == ["team-a"]


def test_devices_that_volcano_counts_in_its_own_way_are_not_judged() -> None:
    shape = gang(member(requests={"volcano.sh/vgpu-number": "8"}), queues=QUEUE)
    assert refused(shape, {}, team_a=queue(capability={"volcano.sh/vgpu-number": "1"})) == []


def test_unknown_queues_are_told() -> None:
    assert ceilings_of(GANG, roles(GANG), ClusterFacts(), VolcanoSettings()).unknown == (Text("Volcano Queues"),)
    found = judged(team_a=VolcanoQueue("root", "Open", None))
    assert (too_low(found, GANG, VOLCANO), len(found.unknown)) == ([], 1)


def test_the_queue_of_the_pod_group_counts_where_it_is_known() -> None:
    facts = ClusterFacts(
        volcano_queues=QueueTree({"team-a": queue(capability={GPU: "1"}), "default": queue(capability={GPU: "64"})})
    )
    found = ceilings_of(GANG, roles(GANG, VOLCANO), facts, VolcanoSettings(), queue="default")
    assert [one.name for one in found.ceilings] == ["default"]


def test_the_cure_names_a_queue_whose_whole_path_allows_the_gang() -> None:
    queues = {
        "team_a": queue(capability={GPU: "8"}),
        "below": queue("narrow"),
        "narrow": queue(capability={GPU: "8"}),
        "closed": VolcanoQueue("root", "Closed"),
        "wide": queue(capability={GPU: "64"}),
    }
    (found,) = judged(GANG, {}, **queues).ceilings
    assert found.cure == 'name the Queue "wide", which allows it'
