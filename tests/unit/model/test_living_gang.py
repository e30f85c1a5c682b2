"""What a gang object says of its gang, and which gang a pod joins."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.gang_objects import (
    GangObjects,
    LivingGang,
    gang_joined,
    gangs_of_set,
    is_divided,
    living_gang,
    living_gangs,
    map_key,
)
from webhook.model.keys import Api
from webhook.model.pod_gang_map import PodGangEntry, PodGangMap
from webhook.model.projections import Resource
from webhook.model.reading import Manifest

OLD, NEW, TAIL = "demo-0", "demo-0-1795344276589742021", "demo-0-1795344276589742999"
POD_GROUP = Resource(Api("scheduling.run.ai", "v2alpha2", "PodGroup"), "podgroups")


def owner(api_version: str, kind: str, name: str) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}


PODGANG = owner("scheduler.grove.io/v1alpha1", "PodGang", OLD)
POD_CLIQUE_SET = owner("grove.io/v1alpha1", "PodCliqueSet", "demo")


def gang_object(*owners: Manifest, annotations: dict[str, str] | None = None, **labels: str | None) -> Manifest:
    """A gang object of PodGang demo-0. In keywords of labels, an underscore is a dash; None removes the label."""
    said: dict[str, str | None] = {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": OLD}
    names = {"gang": "rollcall.dev/gang", "podgang": "grove.io/podgang", "podclique": "grove.io/podclique"}
    said |= {names.get(key, "app.kubernetes.io/managed-by"): value for key, value in labels.items()}
    metadata: Manifest = {
        "name": OLD,
        "namespace": "team-a",
        "labels": {key: value for key, value in said.items() if value is not None},
        "annotations": annotations or {},
        "ownerReferences": list(owners),
    }
    return {"metadata": metadata, "spec": {}}


LISTED = {"rollcall.dev/members": "demo-0-leader,demo-0-worker"}
BOTH = ("demo-0-leader", "demo-0-worker")
SAID: dict[str, tuple[Manifest, LivingGang | None]] = {
    "of its PodGang, for one member": (
        gang_object(PODGANG, podclique="demo-0-worker"),
        LivingGang(OLD, OLD, ("demo-0-worker",), moved=False),
    ),
    "of its PodGang, for the whole gang": (gang_object(PODGANG), LivingGang(OLD, OLD, (), moved=False)),
    "of its PodGang, whose label has another name": (
        gang_object(PODGANG, podgang=NEW, podclique="demo-0-worker"),
        LivingGang(OLD, OLD, ("demo-0-worker",), moved=False),
    ),
    "of its set, for one member": (
        gang_object(POD_CLIQUE_SET, gang=OLD, podclique="demo-0-worker"),
        LivingGang(OLD, OLD, ("demo-0-worker",), moved=True, owner="uid-of-demo"),
    ),
    "of its set, for the whole gang": (
        gang_object(POD_CLIQUE_SET, gang=OLD, annotations=LISTED),
        LivingGang(OLD, OLD, BOTH, moved=True, owner="uid-of-demo"),
    ),
    "of its set, after a renaming": (
        gang_object(POD_CLIQUE_SET, gang=OLD, podgang=NEW, annotations=LISTED),
        LivingGang(OLD, NEW, BOTH, moved=True, owner="uid-of-demo"),
    ),
    "without an owner": (
        gang_object(gang=OLD, annotations=LISTED),
        LivingGang(OLD, OLD, BOTH, moved=False),
    ),
    "with a member twice, and empty names": (
        gang_object(POD_CLIQUE_SET, gang=OLD, annotations={"rollcall.dev/members": ",a,,a,b,"}),
        LivingGang(OLD, OLD, ("a", "b"), moved=True, owner="uid-of-demo"),
    ),
    "with a thousand members": (
        gang_object(POD_CLIQUE_SET, gang=OLD, annotations={"rollcall.dev/members": ",".join(map(str, range(1000)))}),
        LivingGang(OLD, OLD, tuple(map(str, range(1000))), moved=True, owner="uid-of-demo"),
    ),
    "with more than a thousand members": (
        gang_object(POD_CLIQUE_SET, gang=OLD, annotations={"rollcall.dev/members": ",".join(map(str, range(1001)))}),
        None,
    ),
    "of another manager": (gang_object(POD_CLIQUE_SET, gang=OLD, manager="Helm", annotations=LISTED), None),
    "of an opted-in workload": (
        gang_object(owner("batch/v1", "Job", "train"), gang="train", podgang=None),
        LivingGang("train", "", (), moved=False, owner="uid-of-train"),
    ),
    "of an opted-in workload, without an owner": (gang_object(gang="train", podgang=None), None),
    "of no gang": (gang_object(owner("batch/v1", "Job", "train"), podgang=None), None),
}


@pytest.mark.parametrize(("found", "expected"), SAID.values(), ids=SAID)
def test_a_gang_object_says_its_gang_and_members(found: Manifest, expected: LivingGang | None) -> None:
    assert living_gang(found) == expected


def test_an_object_that_is_being_deleted_is_no_gang() -> None:
    found = gang_object(POD_CLIQUE_SET, gang=OLD, annotations=LISTED)
    found["metadata"]["deletionTimestamp"] = "2026-11-22T08:00:00Z"
    assert living_gang(found) is None


def test_gangs_are_found_by_each_of_their_members_in_their_namespace() -> None:
    known = GangObjects()
    gang = LivingGang(OLD, OLD, BOTH, moved=True)
    known[POD_GROUP.api, "team-a", OLD] = gang
    assert known.gangs_of_member("team-a", "demo-0-worker") == [gang]
    assert known.gangs_of_member("team-a", "demo-0-leader") == [gang]
    assert known.gangs_of_member("team-b", "demo-0-worker") == []
    del known[POD_GROUP.api, "team-a", OLD]
    assert known.gangs_of_member("team-a", "demo-0-worker") == []


def test_only_objects_that_rollcall_made_are_listed() -> None:
    projection = living_gangs(POD_GROUP)
    assert projection.selector == {"labelSelector": "app.kubernetes.io/managed-by=rollcall"}
    assert projection is living_gangs(POD_GROUP), "the parts of a server are found by their projection"


def entry(epoch: str, role: str = "Anchor", **pods: Any) -> PodGangEntry:
    return PodGangEntry(role, epoch, frozenset(pods.get("cliques", ("worker",))), pods.get("groups", {}), ())


def gang(name: str, podgang: str, *, moved: bool = True) -> LivingGang:
    return LivingGang(name, podgang, ("demo-0-worker",), moved)


# The PodGangMap of the replica demo-0, whose anchor is NEW; in the second one the pods of a clique are in two entries.
ONE = PodGangMap("demo-0", (entry("1795344276589742021"),))
TWO = PodGangMap("demo-0", (entry("1795344276589742021"), entry("1795344276589742999")))
JOINED: dict[str, tuple[str, list[LivingGang], PodGangMap | None, str | None]] = {
    "there are no gangs": (OLD, [], None, None),
    "its own": (OLD, [gang(OLD, OLD)], None, OLD),
    "its own, which the PodGang owns": (OLD, [gang(OLD, OLD, moved=False)], None, OLD),
    "its own, whose objects have its first name": (NEW, [gang(OLD, NEW)], ONE, OLD),
    "that of a PodGang that was renamed, before its objects are written again": (NEW, [gang(OLD, OLD)], ONE, OLD),
    "that of a PodGang that was renamed, without a map": (NEW, [gang(OLD, OLD)], None, OLD),
    "a split clique: the other gang still has its PodGang": (TAIL, [gang(NEW, NEW)], TWO, None),
    "a split clique: its own beside the other one": (TAIL, [gang(NEW, NEW), gang(TAIL, TAIL)], TWO, TAIL),
    "a split clique: the other gang's PodGang is gone": (TAIL, [gang(OLD, OLD), gang(NEW, NEW)], TWO, OLD),
}


@pytest.mark.parametrize(("podgang", "holders", "known", "expected"), JOINED.values(), ids=JOINED)
def test_a_pod_joins_the_gang_that_contains_its_podclique(
    podgang: str, holders: list[LivingGang], known: PodGangMap | None, expected: str | None
) -> None:
    assert gang_joined(podgang, holders, known) == expected


@pytest.mark.parametrize("holders", [[gang(OLD, NEW), gang(NEW, NEW)], [gang(NEW, NEW), gang(OLD, NEW)]])
def test_the_first_objects_count_in_whatever_order_they_were_read(holders: list[LivingGang]) -> None:
    assert gang_joined(NEW, holders, ONE) == OLD


LABELS = {"app.kubernetes.io/part-of": "demo", "grove.io/podcliqueset-replica-index": "1"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (LABELS, ("team-a", "demo-1")),
        ({"app.kubernetes.io/part-of": "demo"}, None),
        ({"grove.io/podcliqueset-replica-index": "1"}, None),
    ],
)
def test_a_podgangmap_is_found_by_the_labels_of_its_replica(
    labels: dict[str, str], expected: tuple[str, str] | None
) -> None:
    assert map_key("team-a", labels) == expected


def test_gangs_of_a_deleted_set_of_the_same_name_do_not_count() -> None:
    earlier, now = gang(OLD, OLD)._replace(owner="u1"), gang(NEW, NEW)._replace(owner="u2")
    unmoved = gang(OLD, OLD, moved=False)
    assert gangs_of_set([earlier, now, unmoved], "u2") == [now, unmoved]
    assert gangs_of_set([earlier, now], None) == [earlier, now]


def divided(name: str, podgang: str) -> LivingGang:
    return gang(name, podgang)._replace(divided=frozenset({"demo-0-worker"}))


# TAIL is the second PodGang of the clique.
DIVIDED: dict[str, tuple[str, list[LivingGang], PodGangMap | None, bool]] = {
    "an older Grove": (OLD, [], None, False),
    "one PodGang has the clique": (NEW, [], ONE, False),
    "the first of two": (NEW, [], TWO, False),
    "the second of two": (TAIL, [], TWO, True),
    "the first of two, whose objects are written later": (NEW, [gang(TAIL, TAIL)], TWO, False),
    "a PodGang that the map does not have yet": (TAIL, [gang(NEW, NEW)], ONE, True),
    "its objects say that it was the first": (TAIL, [gang(TAIL, TAIL), gang(NEW, NEW)], TWO, False),
    "its objects say that it was not": (TAIL, [divided(TAIL, TAIL)], ONE, True),
}


@pytest.mark.parametrize(("podgang", "holders", "known", "expected"), DIVIDED.values(), ids=DIVIDED)
def test_the_first_gang_of_a_podclique_keeps_the_plain_name_of_its_group(
    podgang: str, holders: list[LivingGang], known: PodGangMap | None, expected: bool
) -> None:
    assert is_divided(podgang, podgang, "demo-0-worker", holders, known) is expected


def test_a_gang_object_says_which_members_are_divided() -> None:
    annotations = {**LISTED, "rollcall.dev/divided": "demo-0-worker,demo-0-other"}
    found = living_gang(gang_object(POD_CLIQUE_SET, gang=OLD, annotations=annotations))
    assert found is not None
    assert found.divided == {"demo-0-worker"}
