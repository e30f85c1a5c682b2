"""The schedulers' topology objects in a simulated cluster: what is written, left unchanged, and reported."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

import httpx
import pytest

from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.running_reconciler import running, sample
from tests.unit.reconciler.topologies import (
    BINDINGS,
    KAI,
    MANAGED_BY,
    OBJECTS,
    RACK,
    ROW,
    ZONE,
    binding,
    levels,
    methods,
    problems,
    topology,
    world,
)
from tests.waiting import until
from webhook.backends.kai.keys import TOPOLOGIES


async def test_each_binding_gets_and_owns_one_topology() -> None:
    cluster = world(binding(ZONE, RACK), binding(ROW, name="other"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: levels(cluster) == [ZONE, RACK] and levels(cluster, "other") == [ROW])
        await until(lambda: found.idle)
        made = cluster.get(OBJECTS, None, "dc")
        assert made is not None
        metadata = made["metadata"]
        assert metadata["labels"] == {MANAGED_BY: "rollcall"}
        assert list(metadata["annotations"]) == ["rollcall.dev/applied"]
        (owner,) = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ClusterTopologyBinding", "uid-dc", True)
        found.following.look_at_all()
        await until(lambda: found.idle)
        assert methods(cluster) == ["PATCH", "PATCH"]
        assert cluster.events == []


async def test_a_topology_with_changed_levels_is_recreated() -> None:
    cluster = world(binding(ZONE, RACK))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: levels(cluster) == [ZONE, RACK])
        cluster.apply(BINDINGS, binding(ZONE, ROW))
        await until(lambda: levels(cluster) == [ZONE, ROW])
        await until(lambda: found.idle)
        assert methods(cluster) == ["PATCH", "DELETE", "PATCH"]
        assert cluster.events == []


async def test_the_next_leader_recreates_a_topology_that_was_only_deleted() -> None:
    cluster = world(binding(ZONE, ROW), there=topology(ZONE, RACK))
    cluster.answering = lambda request: httpx.Response(503, content=b"not now") if request.method == "PATCH" else None
    async with running(cluster, settings=KAI):
        await until(lambda: cluster.objects[OBJECTS] == [])
    cluster.answering = lambda _: None
    async with running(cluster, settings=KAI):
        await until(lambda: levels(cluster) == [ZONE, ROW])


async def test_a_changed_or_deleted_topology_is_restored_and_added_fields_stay() -> None:
    cluster = world(binding(ZONE, RACK))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: levels(cluster) == [ZONE, RACK])
        aliased = [{"nodeLabel": ZONE}, {"nodeLabel": RACK, "alias": "rack"}]
        theirs = {"labels": {"team": "a"}, "annotations": {"rollcall.dev/applied": "edited"}}
        cluster.apply(OBJECTS, {"metadata": {"name": "dc", **theirs}, "spec": {"levels": aliased}})
        await until(lambda: methods(cluster) == ["PATCH", "PATCH"])
        await until(lambda: found.idle)
        kept = cluster.get(OBJECTS, None, "dc")
        assert kept is not None
        assert kept["spec"]["levels"] == aliased
        assert kept["metadata"]["labels"] == {MANAGED_BY: "rollcall", "team": "a"}
        assert kept["metadata"]["annotations"]["rollcall.dev/applied"] != "edited"
        cluster.remove(OBJECTS, None, "dc")
        await until(lambda: levels(cluster) == [ZONE, RACK])


class Foreign(NamedTuple):
    there: dict[str, Any]
    why: str


FOREIGN = {
    "of Grove's operator": Foreign(topology(ROW, manager=None), "it belongs to Grove's operator"),
    "of another controller": Foreign(
        {
            **topology(ROW),
            "metadata": {
                "name": "dc",
                "uid": "there",
                "ownerReferences": [{"kind": "Site", "name": "north", "uid": "s", "controller": True}],
            },
        },
        "it belongs to Site north",
    ),
    "of another manager": Foreign(topology(ROW, owner=None, manager="helm"), "it belongs to another manager (helm)"),
    "of no binding any more": Foreign(topology(ROW, owner=None), "no ClusterTopologyBinding"),
}


@pytest.mark.parametrize("case", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_topology_is_left_unchanged_and_its_differences_are_reported_once(case: Foreign) -> None:
    cluster = world(binding(ZONE, RACK), there=deepcopy(case.there))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyDrift") == 1)
        await until(lambda: found.idle)
        found.following.look_at_all()
        await until(lambda: found.idle)
        (event,) = cluster.events
        assert (event["type"], event["reason"]) == ("Warning", "TopologyDrift")
        levels_of_both = (f"Topology dc has the levels {ROW}", f"ClusterTopologyBinding dc has {ZONE}, {RACK}; ")
        assert event["note"] == Text(*levels_of_both, case.why)
        assert cluster.writes == []
        # Its owner takes it away.
        cluster.remove(OBJECTS, None, "dc")
        await until(lambda: levels(cluster) == [ZONE, RACK])
        await until(lambda: problems(found, "TopologyDrift") == 0)


SAME = {name: case for name, case in FOREIGN.items() if name != "of no binding any more"}


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
async def test_a_foreign_topology_with_equal_levels_is_not_reported(case: Foreign) -> None:
    cluster = world(binding(ROW), there=deepcopy(case.there))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: found.idle)
        assert (cluster.writes, cluster.events, problems(found, "TopologyDrift")) == ([], [], 0)


async def test_an_own_topology_without_its_owner_reference_is_adopted_if_the_levels_match() -> None:
    cluster = world(binding(ROW), there=topology(ROW, owner=None))
    async with running(cluster, settings=KAI):
        await until(lambda: methods(cluster) == ["PATCH"])
        taken = cluster.get(OBJECTS, None, "dc")
        assert taken is not None
        assert taken["metadata"]["ownerReferences"][0]["uid"] == "uid-dc"


WAITED_FOR = {
    "one that is leaving": lambda found: found["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    "one of an earlier binding": lambda found: found["metadata"]["ownerReferences"][0].update(uid="earlier"),
}


@pytest.mark.parametrize("change", WAITED_FOR.values(), ids=WAITED_FOR)
async def test_the_reconciler_waits_for_a_topology_in_deletion(change: Any) -> None:
    there = topology(ROW)
    change(there)
    cluster = world(binding(ZONE, RACK), there=there)
    async with running(cluster, settings=KAI) as found:
        await until(lambda: not any(found.unready()))

        def put_off_twice() -> bool:
            found._topologies.look_at_all()
            return found.queue.stuck == 1

        await until(put_off_twice)
        assert (cluster.writes, cluster.events) == ([], [])
        cluster.remove(OBJECTS, None, "dc")
        await until(lambda: levels(cluster) == [ZONE, RACK])


async def test_an_externally_managed_topology_is_compared_and_never_written() -> None:
    cluster = world(binding(ZONE, RACK, reference="site"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyNotFound") == 1)
        kept = topology(ROW, owner=None, manager=None)
        kept["metadata"]["name"] = "site"
        cluster.put(OBJECTS, kept)
        await until(lambda: (problems(found, "TopologyDrift"), problems(found, "TopologyNotFound")) == (1, 0))
        await until(lambda: found.idle)
        assert [event["note"] for event in cluster.events] == [
            "Topology site is missing",
            f"Topology site has the levels {ROW}, and ClusterTopologyBinding dc has {ZONE}, {RACK}",
        ]
        cluster.apply(OBJECTS, {"metadata": {"name": "site"}, "spec": topology(ZONE, RACK)["spec"]})
        await until(lambda: problems(found, "TopologyDrift") == 0)
        assert cluster.writes == []
        # What comes again is news again.
        cluster.remove(OBJECTS, None, "site")
        await until(lambda: len(cluster.events) == 3)


async def test_an_event_on_a_binding_is_created_in_the_default_namespace() -> None:
    cluster = world(binding(ZONE, reference="site"))
    async with running(cluster, settings=KAI):
        await until(lambda: cluster.events != [])
        (event,) = cluster.events
        assert event["metadata"]["namespace"] == "default"
        assert event["regarding"] == {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "name": "dc",
            "uid": "uid-dc",
        }


async def test_invalid_topology_levels_are_reported_until_they_change() -> None:
    cluster = world(binding("kubernetes.io/hostname", RACK))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyInexpressible") == 1)
        await until(lambda: cluster.events != [])
        (event,) = cluster.events
        assert "kubernetes.io/hostname can only " in event["note"]
        cluster.apply(BINDINGS, binding(RACK, "kubernetes.io/hostname"))
        await until(lambda: problems(found, "TopologyInexpressible") == 0)
        await until(lambda: levels(cluster) == [RACK, "kubernetes.io/hostname"])


async def test_a_refusal_of_the_api_server_is_reported_and_retried() -> None:
    cluster = world(binding(ZONE))
    cluster.answering = lambda _: httpx.Response(422, json=failure(422, "spec.levels: Invalid value"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: len(cluster.writes) > 2)
        assert problems(found, "TopologyRefused") == 1
        assert sample(found, "rollcall_queue_failing") == 1
        (event,) = cluster.events
        assert event["note"].endswith("HTTP 422: spec.levels: Invalid value")
        cluster.answering = lambda _: None
        await until(lambda: levels(cluster) == [ZONE])
        await until(lambda: problems(found, "TopologyRefused") == 0)


async def test_a_deleted_binding_removes_its_problems_and_by_owner_reference_its_topology() -> None:
    cluster = world(binding(ZONE, reference="site"), binding(ZONE, name="other"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyNotFound") == 1 and levels(cluster, "other"))
        cluster.remove(BINDINGS, None, "dc")
        leaving = binding(ROW, name="other")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.apply(BINDINGS, leaving)
        await until(lambda: problems(found, "TopologyNotFound") == 0)
        cluster.remove(OBJECTS, None, "other")
        await until(lambda: found.idle)
        assert methods(cluster) == ["PATCH"]


async def test_a_missing_topology_kind_is_no_problem_until_it_is_installed() -> None:
    cluster = world(binding(ZONE))
    cluster.served.remove(TOPOLOGIES.resource)
    async with running(cluster, settings=KAI) as found:
        await until(lambda: found.idle)
        assert (cluster.writes, cluster.events) == ([], [])
        cluster.served.append(TOPOLOGIES.resource)
        await until(lambda: levels(cluster) == [ZONE])
