"""Volcano's HyperNodes and Koordinator's ClusterNetworkTopology in a simulated cluster: what one binding feeds."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import httpx
import pytest

from tests.configurations import configuration_of
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import reconciler, running, sample, until
from tests.unit.reconciler.topologies import BINDINGS, MANAGED_BY, RACK, ROW, ZONE, binding, methods
from tests.unit.topology_bindings import racked
from webhook.backends.koordinator.facts import NETWORK_TOPOLOGIES
from webhook.backends.volcano.facts import HYPER_NODES
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.nodes import NODES
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS
from webhook.reconciler import node_topologies, topologies
from webhook.reconciler.single_pass import reconcile_once

OBJECTS, ALL_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes", "/api/v1/nodes"
LAYERS = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
SERVED = tuple(
    found.resource for found in (POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, HYPER_NODES, NETWORK_TOPOLOGIES, NODES)
)


def fed(scheduler: str = "volcano", written: str = "write", name: str = "dc") -> Settings:
    config = {"topologyBinding": name, "topologyObjects": written}
    return settings_from(configuration_of({"name": scheduler, "config": config}), "test")


WRITTEN, COMPARED = fed(), fed(written="compare")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "NODES_SECONDS", 0.01)


def world(*places: str, there: tuple[dict[str, Any], ...] = (), bindings: tuple[str, ...] = ("dc",)) -> WritableWorld:
    cluster = WritableWorld(*SERVED)
    for name in bindings:
        cluster.put(BINDINGS, levelled(ZONE, RACK, name=name))
    for name, labels in racked(*places).items():
        cluster.put(ALL_NODES, node(name, labels))
    for found in there:
        cluster.put(OBJECTS, deepcopy(found))
    return cluster


def levelled(*keys: str, name: str = "dc", reference: str | None = None) -> dict[str, Any]:
    found = binding(*keys, name=name)
    for level in found["spec"]["levels"]:
        level["domain"] = level["key"].rpartition("/")[2]
    if reference is not None:
        kept = {"schedulerName": "volcano", "topologyReference": reference}
        found["spec"]["schedulerTopologyBindings"] = [kept]
    return found


def node(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}}


def hyper_node(name: str, tier: int, tier_name: str, *members: str, ours: str | None = None) -> dict[str, Any]:
    """One that is there, with nodes as members in tier 1. `ours`: the uid of the binding that controls it."""
    kind = "Node" if tier == 1 else "HyperNode"
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if ours is not None:
        metadata["labels"] = {MANAGED_BY: "rollcall"}
        metadata["ownerReferences"] = [
            {"kind": "ClusterTopologyBinding", "name": ours.removeprefix("uid-"), "uid": ours, "controller": True}
        ]
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return {"metadata": metadata, "spec": {"tier": tier, "tierName": tier_name, "members": listed}}


def members(cluster: WritableWorld) -> dict[str, list[str]]:
    """The names of the members of each HyperNode."""
    return {
        found["metadata"]["name"]: [one["selector"]["exactMatch"]["name"] for one in found["spec"]["members"]]
        for found in sorted(cluster.objects.get(OBJECTS, []), key=lambda one: one["metadata"]["name"])
    }


def names_written(cluster: WritableWorld) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path in cluster.writes]


def problems(found: Any, reason: str, scheduler: str = "volcano") -> float | None:
    value = found.metrics.registry.get_sample_value(
        "rollcall_topology_problems", {"scheduler": scheduler, "reason": reason}
    )
    return None if value is None else float(value)


def notes(cluster: WritableWorld) -> dict[str, str]:
    return {event["reason"]: event["note"] for event in cluster.events}


WHOLE = {
    "dc-rack.z1.r1": ["n1", "n2"],
    "dc-rack.z1.r2": ["n3"],
    "dc-rack.z2.r3": ["n4"],
    "dc-zone.z1": ["dc-rack.z1.r1", "dc-rack.z1.r2"],
    "dc-zone.z2": ["dc-rack.z2.r3"],
}
PLACES = ("z1/r1", "z1/r1", "z1/r2", "z2/r3")


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
        assert notes(cluster)["TopologyDrift"].endswith(
            "nothing is written: 3 of the 4 nodes in these objects lack a label now and would be in none of them; "
            "label them, or delete the objects"
        )
        for name in ("n2", "n3"):
            cluster.apply(ALL_NODES, node(name, {**places[name], ROW: "w1"}))
        # One node without the label is left out, as ever.
        await until(lambda: "dc-row.z1.w1" in members(cluster) and found.idle)
        assert [name for name in members(cluster) if "z2" in name] == []


async def test_many_writes_are_made_in_parts_that_each_leave_a_usable_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_topologies, "WRITES_AT_ONCE", 2)
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
        assert notes(cluster)["TopologyDrift"].endswith(
            "dc-rack.z1.r2, dc-rack.z2.r3 of HyperNode left out: objects of others have these names, or contain "
            "objects with these names"
        )


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
            "TopologyDrift": "HyperNodes differ from ClusterTopologyBinding dc: no HyperNode has exactly the nodes of "
            "zone z1; HyperNode top has the nodes of no zone; no HyperNode has exactly the nodes of rack z1/r1; and 1 "
            "more differences"
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
            "TopologyTwoParents": "rack r1 is in several zone domains (z1, z2): Volcano gets a HyperNode for each "
            "part, and Koordinator puts all of them into one of these domains",
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
        assert event["note"] == (
            "volcano has one topology, and the configuration takes it from ClusterTopologyBinding dc; this one has the "
            f"levels {RACK}, and dc has {ZONE}, {RACK}"
        )
        cluster.remove(BINDINGS, None, "dc")
        await until(lambda: problems(found, "TopologyUnused") == 2)


def test_a_dry_run_shows_every_write_and_makes_none() -> None:
    cluster = world(*PLACES, there=(hyper_node("old", 3, "old", "x", ours="uid-dc"),))
    asyncio.run(reconcile_once(reconciler(cluster, settings=WRITTEN, dry_run=True)))
    assert list(members(cluster)) == ["old"]
    assert set(methods(cluster)) == {"PATCH", "DELETE"}


def test_once_exits_when_everything_is_written() -> None:
    cluster = world(*PLACES)
    asyncio.run(reconcile_once(reconciler(cluster, settings=WRITTEN)))
    assert members(cluster) == WHOLE


async def test_without_a_name_in_the_configuration_nothing_is_written() -> None:
    unnamed = settings_from(configuration_of({"name": "volcano", "config": {"topologyObjects": "write"}}), "test")
    cluster = world(*PLACES)
    async with running(cluster, settings=unnamed) as found:
        await until(lambda: found.idle)
        assert (cluster.writes, cluster.events) == ([], [])


def layers(cluster: WritableWorld) -> list[tuple[str, list[str]]] | None:
    found = cluster.get(LAYERS, None, "default")
    if found is None:
        return None
    return [(one["topologyLayer"], one.get("labelKey", [])) for one in found["spec"]["networkTopologySpec"]]


RACKS_OF_ZONES = [("zone", [ZONE]), ("rack", [RACK]), ("NodeTopologyLayer", [])]


async def test_koordinators_one_topology_is_written_from_the_configured_binding() -> None:
    cluster = world(*PLACES, bindings=("dc", "aaa"))
    async with running(cluster, settings=fed("koord-scheduler")) as found:
        await until(lambda: layers(cluster) == RACKS_OF_ZONES and found.idle)
        assert names_written(cluster) == ["PATCH default"]
        cluster.apply(BINDINGS, levelled(RACK))
        await until(lambda: layers(cluster) == [("rack", [RACK]), ("NodeTopologyLayer", [])])
        await until(lambda: problems(found, "TopologyUnused", "koord-scheduler") == 1)
        cluster.remove(LAYERS, None, "default")
        await until(lambda: layers(cluster) == [("rack", [RACK]), ("NodeTopologyLayer", [])])


async def test_koordinators_topology_passes_from_one_binding_to_the_next() -> None:
    cluster = world(*PLACES, bindings=("dc", "next"))
    async with running(cluster, settings=fed("koord-scheduler")) as found:
        await until(lambda: layers(cluster) == RACKS_OF_ZONES and found.idle)
    async with running(cluster, settings=fed("koord-scheduler", name="next")) as found:
        await until(lambda: found.idle)
        taken = cluster.get(LAYERS, None, "default")
        assert taken is not None
        assert [owner["uid"] for owner in taken["metadata"]["ownerReferences"]] == ["uid-next"]
        assert names_written(cluster) == ["PATCH default", "PATCH default"]


@pytest.mark.parametrize("written", ["compare", "write"])
async def test_a_topology_of_others_is_compared_and_never_changed(written: str) -> None:
    cluster = world(*PLACES)
    theirs = [{"topologyLayer": "RackLayer", "labelKey": [RACK]}]
    theirs.append({"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"})
    cluster.put(LAYERS, {"metadata": {"name": "default", "uid": "x"}, "spec": {"networkTopologySpec": theirs}})
    async with running(cluster, settings=fed("koord-scheduler", written)) as found:
        await until(lambda: problems(found, "TopologyDrift", "koord-scheduler") == 1 and found.idle)
        assert notes(cluster)["TopologyDrift"].startswith(
            f"ClusterNetworkTopology default has layers for {RACK}, and ClusterTopologyBinding dc has {ZONE}, {RACK}"
        )
        assert cluster.writes == []


async def test_a_missing_topology_is_reported_and_not_written_unless_configured() -> None:
    cluster = world(*PLACES)
    async with running(cluster, settings=fed("koord-scheduler", "compare")) as found:
        await until(lambda: problems(found, "TopologyNotFound", "koord-scheduler") == 1 and found.idle)
        assert cluster.writes == []


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
