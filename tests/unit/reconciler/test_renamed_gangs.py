"""Grove renames the PodGang of living pods: it deletes the old PodGang before it creates the new one. The gang's
objects stay as long as a PodClique or a pod needs them.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.backends.pod_gangs import POD_GANG_OWNER
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler import grove
from tests.unit.reconciler.cluster import POD_GROUPS, PODS, SERVED, WritableWorld
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    names,
    podgang,
    put_gang,
    running,
    sample,
    workload,
    world,
)
from tests.waiting import until
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.reconciler.manager import Reconciler

MAPS = "/apis/grove.io/v1alpha1/podgangmaps"
EPOCH = "1795344276589742021"
NEW = f"demo-0-{EPOCH}"
SET_OWNS = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "demo",
    "uid": "set-team-a",
    "controller": True,
    "blockOwnerDeletion": True,
}


def map_of(*cliques: str, namespace: str = "team-a") -> dict[str, Any]:
    """The PodGangMap of the replica demo-0, whose anchor has these cliques."""
    entry = {"role": "Anchor", "epoch": EPOCH, "podCliques": dict.fromkeys(cliques, 2)}
    return {"metadata": {"name": "demo-0", "namespace": namespace, "uid": "m"}, "spec": {"entries": [entry]}}


def with_maps(*found: dict[str, Any]) -> WritableWorld:
    """The gang demo-0 of a cluster that serves PodGangMaps."""
    cluster = WritableWorld(*SERVED, POD_GROUPS, POD_GANG_MAPS.resource)
    cluster.put(SETS, workload())
    for one in found:
        cluster.put(MAPS, one)
    put_gang(cluster, "demo-0-a", "demo-0-b")
    return cluster


def renamed(*members: str) -> dict[str, Any]:
    found = podgang(*(members or ("demo-0-a", "demo-0-b")))
    found["metadata"] |= {"name": NEW, "uid": "renamed"}
    found["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] = "0"
    return found


def object_of(clique: str, gang: str = "demo-0", **metadata: Any) -> dict[str, Any]:
    """A PodGroup that the PodGang owns, as long as no PodCliqueSet controls that."""
    labels = {
        "app.kubernetes.io/managed-by": "rollcall",
        "grove.io/podgang": gang,
        "grove.io/podclique": clique,
        **metadata.pop("labels", {}),
    }
    owner = {**POD_GANG_OWNER, "name": gang, "uid": "gang-team-a"}
    own = {"namespace": "team-a", "uid": f"group-{clique}", "labels": labels, "ownerReferences": [owner]}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": clique, **own, **metadata},
        "spec": {"minMember": 2},
    }


def deleted(cluster: WritableWorld) -> list[str]:
    return [path.rpartition("/")[2] for method, path in cluster.writes if method == "DELETE"]


def metadata_of(cluster: WritableWorld, name: str) -> dict[str, Any]:
    found = cluster.get(GROUPS, "team-a", name)
    assert found is not None
    metadata: dict[str, Any] = found["metadata"]
    return metadata


def times_waiting(reconciler: Reconciler) -> float:
    """How often a gang was left for later, because Grove may not have finished."""
    return sample(reconciler, "rollcall_reconciled_total", outcome="waiting")


def remove_cliques(cluster: WritableWorld) -> None:
    """Grove deletes the gang's PodCliques."""
    for name in ("demo-0-a", "demo-0-b"):
        cluster.remove(grove.CLIQUES, "team-a", name)


async def lost(cluster: WritableWorld, found: Any) -> None:
    """The gang's objects are written, and Grove deletes the PodGang."""
    await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"] and found.idle)
    cluster.remove(GANGS, "team-a", "demo-0")


async def test_the_objects_of_a_new_gang_belong_to_its_podcliqueset() -> None:
    cluster = world()
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        assert metadata_of(cluster, "demo-0-a")["ownerReferences"] == [SET_OWNS]
        assert metadata_of(cluster, "demo-0-a")["labels"] == {
            "app.kubernetes.io/managed-by": "rollcall",
            "grove.io/podclique": "demo-0-a",
            "grove.io/podgang": "demo-0",
            "rollcall.dev/gang": "demo-0",
        }


async def test_the_objects_of_a_living_gang_get_the_new_owner_without_being_recreated() -> None:
    cluster = world("demo-0-a")
    cluster.put(GROUPS, object_of("demo-0-a"))
    async with running(cluster) as found:
        await until(lambda: metadata_of(cluster, "demo-0-a")["ownerReferences"] == [SET_OWNS] and found.idle)
        assert metadata_of(cluster, "demo-0-a")["uid"] == "group-demo-0-a"
        assert [method for method, _ in cluster.writes] == ["PATCH"]


async def test_a_renamed_gang_keeps_its_objects_and_their_label_names_the_new_podgang() -> None:
    cluster = with_maps(map_of("a", "b"))
    async with running(cluster) as found:
        await lost(cluster, found)
        await until(lambda: times_waiting(found) > 1)
        cluster.put(GANGS, renamed())
        await until(lambda: metadata_of(cluster, "demo-0-b")["labels"]["grove.io/podgang"] == NEW and found.idle)
        assert names(cluster) == ["demo-0-a", "demo-0-b"]
        assert deleted(cluster) == []
        assert metadata_of(cluster, "demo-0-a")["labels"]["rollcall.dev/gang"] == "demo-0"
        assert metadata_of(cluster, "demo-0-a")["ownerReferences"] == [SET_OWNS]


async def test_a_restart_between_the_two_podgangs_deletes_nothing() -> None:
    cluster = with_maps(map_of("a", "b"))
    async with running(cluster) as found:
        await lost(cluster, found)
    async with running(cluster) as found:
        await until(lambda: times_waiting(found) > 1)
        cluster.put(GANGS, renamed())
        await until(lambda: metadata_of(cluster, "demo-0-b")["labels"]["grove.io/podgang"] == NEW and found.idle)
        assert deleted(cluster) == []


async def test_the_objects_of_a_gang_that_was_scaled_in_are_deleted() -> None:
    cluster = world()
    async with running(cluster) as found:
        await lost(cluster, found)
        await until(lambda: times_waiting(found) > 0)
        cluster.remove(grove.CLIQUES, "team-a", "demo-0-a")
        await until(lambda: times_waiting(found) > 1)
        assert deleted(cluster) == [], "a PodClique of the gang still exists"
        cluster.remove(grove.CLIQUES, "team-a", "demo-0-b")
        await until(lambda: names(cluster) == [])
        assert deleted(cluster) == ["demo-0-a", "demo-0-b"]


async def test_what_was_left_while_rollcall_was_stopped_is_deleted_after_its_start() -> None:
    cluster = world()
    async with running(cluster) as found:
        await lost(cluster, found)
    remove_cliques(cluster)
    async with running(cluster):
        await until(lambda: names(cluster) == [])


async def test_a_pod_that_names_a_missing_podgang_keeps_its_objects() -> None:
    cluster = world()
    cluster.put(PODS, grove.grove_pod("p"))
    async with running(cluster) as found:
        await lost(cluster, found)
        remove_cliques(cluster)
        before = times_waiting(found)
        await until(lambda: times_waiting(found) > before + 1)
        assert deleted(cluster) == []
        cluster.remove(PODS, "team-a", "p")
        await until(lambda: names(cluster) == [])


async def test_a_podclique_of_another_set_of_that_name_keeps_no_objects() -> None:
    """The PodCliqueSet was deleted and created again; the garbage collector has not reached the objects yet."""
    cluster = world()
    async with running(cluster) as found:
        await lost(cluster, found)
        for name in ("demo-0-a", "demo-0-b"):
            cluster.remove(grove.CLIQUES, "team-a", name)
            again = grove.pod_clique(name)
            again["metadata"] |= {"uid": f"again-{name}"}
            again["metadata"]["ownerReferences"][0]["uid"] = "another-set"
            cluster.put(grove.CLIQUES, again)
        await until(lambda: names(cluster) == [])


@pytest.mark.parametrize("entries", [("b",), ()], ids=["another clique", "no clique"])
async def test_podcliques_that_no_entry_of_the_map_contains_keep_no_objects(entries: tuple[str, ...]) -> None:
    cluster = with_maps(map_of("a", "b"))
    async with running(cluster) as found:
        await lost(cluster, found)
        await until(lambda: times_waiting(found) > 0)
        cluster.apply(MAPS, map_of(*entries) | {"spec": {"entries": [{"epoch": EPOCH, "podCliques": {}}]}})
        await until(lambda: names(cluster) == [])


def another() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A second PodGang of the same PodCliques, and its objects."""
    other = podgang("demo-0-a", "demo-0-b")
    other["metadata"] |= {"name": "other", "uid": "other"}
    labels = {"rollcall.dev/gang": "other", "grove.io/podgang": "other"}
    objects = [
        object_of(name, name=f"other-{name}", uid=f"other-{name}", labels=labels, ownerReferences=[SET_OWNS])
        for name in ("demo-0-a", "demo-0-b")
    ]
    return other, objects


async def test_podcliques_that_are_in_another_gang_keep_no_objects() -> None:
    cluster = world()
    async with running(cluster) as found:
        await lost(cluster, found)
        await until(lambda: times_waiting(found) > 0)
        other, objects = another()
        cluster.put(GANGS, other)
        for one in objects:
            cluster.put(GROUPS, one)
        await until(lambda: names(cluster) == ["other-demo-0-a", "other-demo-0-b"])


async def test_a_divided_podclique_keeps_the_objects_of_each_of_its_gangs() -> None:
    cluster = with_maps(map_of("a", "b"))
    async with running(cluster) as found:
        await lost(cluster, found)
        await until(lambda: times_waiting(found) > 0)
        divided = map_of("a", "b")
        divided["spec"]["entries"].append({"role": "ScaleOut", "epoch": "1", "podCliques": {"a": 1, "b": 1}})
        cluster.apply(MAPS, divided)
        other, objects = another()
        cluster.put(GANGS, other)
        for one in objects:
            cluster.put(GROUPS, one)
        before = times_waiting(found)
        await until(lambda: times_waiting(found) > before + 1)
        assert deleted(cluster) == []
        cluster.apply(MAPS, map_of("a", "b"))
        await until(lambda: names(cluster) == ["other-demo-0-a", "other-demo-0-b"])


async def test_two_gangs_without_their_podgangs_both_keep_their_objects() -> None:
    """Grove may rename both PodGangs that share a PodClique. Then neither is the successor of the other."""
    cluster = world()
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"] and found.idle)
    _, objects = another()
    for one in objects:
        cluster.put(GROUPS, one)
    cluster.remove(GANGS, "team-a", "demo-0")
    async with running(cluster) as found:
        await until(lambda: times_waiting(found) > 3)
        assert deleted(cluster) == []


async def test_nothing_is_deleted_before_the_podgangmaps_are_read() -> None:
    """They say that another gang with the same PodCliques is no successor."""
    divided = map_of("a", "b")
    divided["spec"]["entries"].append({"role": "ScaleOut", "epoch": "1", "podCliques": {"a": 1, "b": 1}})
    cluster = with_maps(divided)
    async with running(cluster) as found:
        await lost(cluster, found)
    other, objects = another()
    cluster.put(GANGS, other)
    for one in objects:
        cluster.put(GROUPS, one)
    cluster.refused[MAPS] = httpx.Response(403, json=failure(403, "podgangmaps is forbidden"))
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="failed") > 1)
        assert deleted(cluster) == []
        del cluster.refused[MAPS]
        await until(lambda: times_waiting(found) > 1)
        assert deleted(cluster) == []


async def test_nothing_is_deleted_before_the_pods_are_read() -> None:
    cluster = world()
    async with running(cluster) as found:
        await lost(cluster, found)
    remove_cliques(cluster)
    cluster.refused[PODS] = httpx.Response(403, json=failure(403, "pods is forbidden"))
    before = cluster.asked.count(PODS)
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="failed") > 1)
        await until(lambda: cluster.asked.count(PODS) > before + 2)
        assert deleted(cluster) == []
        del cluster.refused[PODS]
        await until(lambda: names(cluster) == [])
