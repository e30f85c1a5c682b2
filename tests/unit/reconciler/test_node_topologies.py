"""Volcano's HyperNodes in a simulated cluster: what one binding feeds."""

from __future__ import annotations

import httpx
import pytest

from tests.configurations import configuration_of
from tests.played import run
from tests.texts import Text
from tests.unit.reconciler.node_topologies import (
    ALL_NODES,
    OBJECTS,
    PLACES,
    fed,
    hyper_node,
    levelled,
    members,
    names_written,
    node,
    notes,
    problems,
    world,
)
from tests.unit.reconciler.running_reconciler import reconciler, running, sample
from tests.unit.reconciler.topologies import BINDINGS, MANAGED_BY, RACK, ROW, ZONE, methods
from tests.unit.topology_bindings import racked
from tests.waiting import until
from webhook.config.file import settings_from
from webhook.reconciler import topologies
from webhook.reconciler.manager import reconcile_once

WRITTEN, COMPARED = fed(), fed(written="compare")
WHOLE = {
    "dc-rack.z1.r1": ["n1", "n2"],
    "dc-rack.z1.r2": ["n3"],
    "dc-rack.z2.r3": ["n4"],
    "dc-zone.z1": ["dc-rack.z1.r1", "dc-rack.z1.r2"],
    "dc-zone.z2": ["dc-rack.z2.r3"],
}


async def test_hyper_nodes_are_written_members_first_and_then_left_alone() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        assert names_written(cluster) == [
            "PATCH dc-rack.z1.r1",
            "PATCH dc-rack.z1.r2",
            "PATCH dc-rack.z2.r3",
            "PATCH dc-zone.z1",
            "PATCH dc-zone.z2",
        ]
        made = cluster.get(OBJECTS, None, "dc-zone.z1")
        assert made is not None
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ClusterTopologyBinding", "uid-dc", True)
        found.following.look_at_all()
        await until(lambda: found.idle)
        assert (len(cluster.writes), cluster.events) == (5, [])
        assert sample(found, "rollcall_writes_total", kind="HyperNode", action="apply") == 5


async def test_a_heartbeat_of_a_node_does_nothing_and_a_changed_label_changes_the_tree() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        asked: list[str] = []
        found._topologies._add = lambda key: asked.append(key[1])
        beating = node("n4", racked(*PLACES)["n4"])
        beating["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        cluster.apply(ALL_NODES, beating)
        cluster.apply(ALL_NODES, node("n4", {**racked(*PLACES)["n4"], "team": "a"}))
        await until(lambda: "team" in (found._node_labels() or {})["n4"])
        assert (asked, found._topologies._woken) == ([], None)
        found._topologies._add = found.queue.add
        cluster.writes.clear()
        cluster.apply(ALL_NODES, node("n4", {ZONE: "z1", RACK: "r2"}))
        moved = {
            "dc-rack.z1.r1": ["n1", "n2"],
            "dc-rack.z1.r2": ["n3", "n4"],
            "dc-zone.z1": ["dc-rack.z1.r1", "dc-rack.z1.r2"],
        }
        await until(lambda: members(cluster) == moved and found.idle)
        # What nothing contains any more is removed last, the broadest first.
        assert names_written(cluster) == ["PATCH dc-rack.z1.r2", "DELETE dc-zone.z2", "DELETE dc-rack.z2.r3"]


async def test_a_node_that_comes_without_labels_is_reported_until_it_goes() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        cluster.put(ALL_NODES, node("n5", {"team": "a"}))
        await until(lambda: problems(found, "TopologyNodeUnlabelled") == 1)
        cluster.remove(ALL_NODES, None, "n5")
        await until(lambda: problems(found, "TopologyNodeUnlabelled") == 0 and found.idle)
        assert members(cluster) == WHOLE


async def test_a_node_that_goes_leaves_its_hyper_node_and_the_last_hyper_nodes_stay() -> None:
    cluster = world("z1/r1", "z1/r2")
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: len(members(cluster)) == 3 and found.idle)
        cluster.remove(ALL_NODES, None, "n2")
        left = {"dc-rack.z1.r1": ["n1"], "dc-zone.z1": ["dc-rack.z1.r1"]}
        await until(lambda: members(cluster) == left and found.idle)
        # Without any HyperNode, Volcano would ignore the topology of the gangs that wait.
        cluster.remove(ALL_NODES, None, "n1")
        await until(lambda: problems(found, "TopologyLevelEmpty") == 1 and found.idle)
        assert members(cluster) == left


async def test_while_most_nodes_lack_the_label_of_a_further_level_nothing_is_written() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        cluster.apply(BINDINGS, levelled(ZONE, ROW, RACK))
        await until(lambda: problems(found, "TopologyLevelEmpty") == 1 and found.idle)
        cluster.writes.clear()
        places = racked(*PLACES)
        cluster.apply(ALL_NODES, node("n1", {**places["n1"], ROW: "w1"}))
        await until(lambda: problems(found, "TopologyNodeUnlabelled") == 1 and found.idle)
        assert (members(cluster), cluster.writes) == (WHOLE, [])
        assert notes(cluster)["TopologyDrift"] == Text("nothing is written: 3 of the 4 nodes")
        for name in ("n2", "n3"):
            cluster.apply(ALL_NODES, node(name, {**places[name], ROW: "w1"}))
        # One node without the label is left out, as ever.
        await until(lambda: "dc-row.z1.w1" in members(cluster) and found.idle)
        assert [name for name in members(cluster) if "z2" in name] == []


async def test_many_writes_are_made_in_parts_that_each_leave_a_usable_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "WRITES_AT_ONCE", 2)
    cluster = world(*PLACES, there=(hyper_node("old", 3, "old", "x", ours="uid-dc"),))
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        assert names_written(cluster)[3:] == ["PATCH dc-zone.z1", "PATCH dc-zone.z2", "DELETE old"]


async def test_the_next_leader_completes_what_was_written_in_part() -> None:
    cluster = world(*PLACES)
    cluster.answering = lambda request: (
        httpx.Response(503, content=b"not now") if request.url.path.endswith("dc-rack.z2.r3") else None
    )
    async with running(cluster, settings=WRITTEN):
        await until(lambda: list(members(cluster)) == ["dc-rack.z1.r1", "dc-rack.z1.r2"])
    cluster.answering = lambda _: None
    async with running(cluster, settings=WRITTEN):
        await until(lambda: members(cluster) == WHOLE)


async def test_a_changed_hyper_node_is_restored() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: members(cluster) == WHOLE and found.idle)
        cluster.apply(OBJECTS, {"metadata": {"name": "dc-rack.z1.r1"}, "spec": {"tier": 7}})
        cluster.remove(OBJECTS, None, "dc-zone.z2")
        await until(lambda: members(cluster) == WHOLE and found.idle)
        restored = cluster.get(OBJECTS, None, "dc-rack.z1.r1")
        assert restored is not None
        assert restored["spec"]["tier"] == 1


async def test_an_object_of_others_is_never_changed_and_gets_no_second_parent() -> None:
    theirs = (hyper_node("dc-rack.z2.r3", 1, "shelf", "n9"), hyper_node("site", 2, "site", "dc-rack.z1.r2"))
    cluster = world(*PLACES, there=theirs)
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: problems(found, "TopologyDrift") == 1 and found.idle)
        assert members(cluster) == {
            "dc-rack.z1.r1": ["n1", "n2"],
            "dc-rack.z2.r3": ["n9"],
            "dc-zone.z1": ["dc-rack.z1.r1"],
            "site": ["dc-rack.z1.r2"],
        }
        assert notes(cluster)["TopologyDrift"] == Text("dc-rack.z1.r2, dc-rack.z2.r3 of HyperNode left out: ")


async def test_the_objects_of_the_binding_that_fed_before_become_those_of_the_next() -> None:
    before = (
        hyper_node("old-rack.z1.r1", 1, "rack", "n1", ours="uid-old"),
        hyper_node("old-zone.z1", 2, "zone", "old-rack.z1.r1", ours="uid-old"),
    )
    cluster = world("z1/r1", there=before, bindings=("dc", "old"))
    async with running(cluster, settings=WRITTEN) as found:
        whole = {"dc-rack.z1.r1": ["n1"], "dc-zone.z1": ["dc-rack.z1.r1"]}
        await until(lambda: members(cluster) == whole and found.idle)
        assert names_written(cluster) == [
            "PATCH dc-rack.z1.r1",
            "PATCH dc-zone.z1",
            "DELETE old-zone.z1",
            "DELETE old-rack.z1.r1",
        ]


async def test_an_object_that_lost_its_owner_stays_and_is_reported() -> None:
    orphan = hyper_node("dc-rack.z1.gone", 1, "rack", "n1", "n4")
    orphan["metadata"]["labels"] = {MANAGED_BY: "rollcall"}
    cluster = world(*PLACES, there=(orphan,))
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: problems(found, "TopologyDrift") == 1 and found.idle)
        assert members(cluster) == {**WHOLE, "dc-rack.z1.gone": ["n1", "n4"]}
        assert "HyperNode dc-rack.z1.gone has the nodes of no rack" in notes(cluster)["TopologyDrift"]


async def test_objects_of_a_deleted_binding_are_left_to_the_garbage_collector() -> None:
    left = hyper_node("dc-rack.z1.r1", 1, "rack", "n1", ours="uid-earlier")
    cluster = world("z1/r1", there=(left,))
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: list(members(cluster)) == ["dc-rack.z1.r1", "dc-zone.z1"])
        assert names_written(cluster) == ["PATCH dc-zone.z1"]
        cluster.remove(OBJECTS, None, "dc-rack.z1.r1")
        await until(lambda: "PATCH dc-rack.z1.r1" in names_written(cluster) and found.idle)


async def test_without_writing_the_hyper_nodes_of_others_are_compared_by_their_nodes() -> None:
    there = (hyper_node("r-a", 1, "rack", "n1"), hyper_node("top", 2, "zone", "r-a"))
    cluster = world("z1/r1", "z1/r1", there=there)
    async with running(cluster, settings=COMPARED) as found:
        await until(lambda: problems(found, "TopologyDrift") == 1 and found.idle)
        assert notes(cluster) == {
            "TopologyDrift": Text(
                "HyperNodes",
                "Binding dc: ",
                "zone z1; HyperNode top",
                "no zone; ",
                "rack z1/r1; ",
                "1 more",
            )
        }
        cluster.apply(OBJECTS, hyper_node("r-a", 1, "rack", "n1", "n2"))
        await until(lambda: problems(found, "TopologyDrift") == 0)
        assert cluster.writes == []


async def test_a_binding_that_says_so_is_only_compared() -> None:
    cluster = world("z1/r1", bindings=())
    cluster.put(BINDINGS, levelled(ZONE, RACK, reference="site"))
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: problems(found, "TopologyDrift") == 1 and found.idle)
        assert cluster.writes == []


async def test_labels_that_form_no_tree_are_reported_until_they_do() -> None:
    cluster = world("z1/r1", "z2/r1", "z1/r2", "z2/")
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: problems(found, "TopologyTwoParents") == 1)
        assert problems(found, "TopologyNodeUnlabelled") == 1
        await until(lambda: len(cluster.events) == 2)
        assert notes(cluster) == {
            "TopologyTwoParents": Text("rack r1", "zone domains (z1, z2): ", "Volcano", "Koordinator"),
            "TopologyNodeUnlabelled": "1 node lacks the label example.com/rack of the level rack: n4",
        }
        cluster.apply(ALL_NODES, node("n2", {ZONE: "z2", RACK: "r3"}))
        cluster.apply(ALL_NODES, node("n4", {ZONE: "z2", RACK: "r3"}))
        await until(lambda: problems(found, "TopologyTwoParents") == problems(found, "TopologyNodeUnlabelled") == 0)


async def test_a_second_binding_with_other_levels_gets_an_event() -> None:
    cluster = world("z1/r1", bindings=("dc", "twin"))
    cluster.put(BINDINGS, levelled(RACK, name="other"))
    async with running(cluster, settings=WRITTEN) as found:
        await until(lambda: problems(found, "TopologyUnused") == 1 and found.idle and cluster.events)
        (event,) = cluster.events
        assert event["regarding"]["name"] == "other"
        assert event["note"] == Text("volcano", "ClusterTopologyBinding dc; ", f"{RACK}, and dc has {ZONE}, {RACK}")
        cluster.remove(BINDINGS, None, "dc")
        await until(lambda: problems(found, "TopologyUnused") == 2)


def test_a_dry_run_shows_every_write_and_makes_none() -> None:
    cluster = world(*PLACES, there=(hyper_node("old", 3, "old", "x", ours="uid-dc"),))
    run(reconcile_once(reconciler(cluster, settings=WRITTEN, dry_run=True)))
    assert list(members(cluster)) == ["old"]
    assert set(methods(cluster)) == {"PATCH", "DELETE"}


def test_once_exits_when_everything_is_written() -> None:
    cluster = world(*PLACES)
    run(reconcile_once(reconciler(cluster, settings=WRITTEN)))
    assert members(cluster) == WHOLE


async def test_without_a_name_in_the_configuration_nothing_is_written() -> None:
    unnamed = settings_from(configuration_of({"name": "volcano", "config": {"topologyObjects": "write"}}), "test")
    cluster = world(*PLACES)
    async with running(cluster, settings=unnamed) as found:
        await until(lambda: found.idle)
        assert (cluster.writes, cluster.events) == ([], [])


def test_the_metrics_exist_from_the_start_where_a_binding_is_named() -> None:
    written, compared, plain = (
        reconciler(world(), settings=settings)
        for settings in (WRITTEN, COMPARED, settings_from(configuration_of({"name": "volcano"}), "test"))
    )
    for reason in ("TopologyUnused", "TopologyNodeUnlabelled", "TopologyTwoParents", "TopologyLevelEmpty"):
        assert (problems(written, reason), problems(compared, reason), problems(plain, reason)) == (0, 0, None)
    counted = [
        one.metrics.registry.get_sample_value("rollcall_writes_total", {"kind": "HyperNode", "action": "delete"})
        for one in (written, compared, plain)
    ]
    assert counted == [0, None, None]
