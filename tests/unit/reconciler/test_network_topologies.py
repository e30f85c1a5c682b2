"""Koordinator's ClusterNetworkTopology in a simulated cluster: what one binding feeds."""

from __future__ import annotations

import pytest

from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.node_topologies import PLACES, fed, levelled, names_written, notes, problems, world
from tests.unit.reconciler.running_reconciler import running
from tests.unit.reconciler.topologies import BINDINGS, RACK, ZONE
from tests.waiting import until

LAYERS = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
RACKS_OF_ZONES = [("zone", [ZONE]), ("rack", [RACK]), ("NodeTopologyLayer", [])]


def layers(cluster: WritableWorld) -> list[tuple[str, list[str]]] | None:
    found = cluster.get(LAYERS, None, "default")
    if found is None:
        return None
    return [(one["topologyLayer"], one.get("labelKey", [])) for one in found["spec"]["networkTopologySpec"]]


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
