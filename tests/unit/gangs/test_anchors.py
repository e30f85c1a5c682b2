"""Gangs that Grove starts after their anchor, of both generations of Grove: what they wait for, and who is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import FACTS, judged, pod, podgang, reasons, whole
from tests.unit.gangs.kept_workloads import kept_workloads
from webhook.cluster.watch import Index
from webhook.errors import FactsUnavailable
from webhook.gangs.health import AnchoredHealth, GangHealth, GangState
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey
from webhook.gangs.pod_reasons import Anchor, Anchors, anchors_of
from webhook.model.bounds import Packed
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.reading import Malformed, Manifest
from webhook.validators.examples import clique, pod_clique_set

GATE = "grove.io/podgang-pending-creation"
REPLICA = {"grove.io/podcliqueset-replica-index": "0"}
EXPLAINED = "explain podgang/demo-0-100 -n default"
NO_ROOM = HoldReason(GangReason.NO_ROOM, "no room", "free some")


def mapped(*entries: Mapping[str, Any]) -> ClusterFacts:
    """The facts with a PodGangMap of the set's first replica."""
    found = POD_GANG_MAPS.read(
        {"metadata": {"name": "demo-0", "namespace": "default"}, "spec": {"entries": list(entries)}}
    )
    assert found is not None
    return replace(FACTS, pod_gang_maps=dict([found]))


def tail(*depends_on: str) -> Mapping[str, Any]:
    return {"role": "Tail", "epoch": "101", "pcsgReplicaIndices": {"decode": [1]}, "dependsOn": list(depends_on)}


def tail_gang() -> Manifest:
    return podgang(name="demo-0-101-decode-1", labels=REPLICA)


def names(facts: ClusterFacts, *bases: str | None) -> tuple[str, ...]:
    pods = [pod("worker", index, base=base) for index, base in enumerate(bases)]
    return anchors_of(PodGang(tail_gang()), pods, facts)


def test_a_pod_gang_map_names_the_anchors() -> None:
    assert names(mapped(tail("100"))) == ("demo-0-100",)
    assert names(mapped(tail("100", "99", "100"))) == ("demo-0-100", "demo-0-99")


def test_the_labels_of_pods_name_the_anchor_where_no_map_does() -> None:
    assert names(FACTS, None, "demo-0", "demo-0") == ("demo-0",)
    assert names(mapped({"role": "Anchor", "epoch": "5"}), "demo-0") == ("demo-0",)


def test_a_map_counts_more_than_a_label_that_was_left() -> None:
    assert names(mapped(tail("100")), "demo-0") == ("demo-0-100",)


def test_a_gang_is_not_its_own_anchor() -> None:
    assert names(FACTS, "demo-0-101-decode-1") == ()


def test_of_thousands_of_anchors_the_first_are_judged() -> None:
    found = mapped(tail(*(str(number) for number in range(900))))
    assert names(found) == ("demo-0-0", "demo-0-1", "demo-0-2", "demo-0-3")


def waiting(anchors: Anchors | None, *depends_on: str, **known: Any) -> GangHealth:
    facts = mapped(tail(*(depends_on or ("100",))))
    pods = known.pop("pods", None) or whole(gates=(GATE,))
    return judged(pods, gang=tail_gang(), facts=facts, anchors=anchors, **known)


def held(name: str) -> Anchor:
    return Anchor(name, False, "held", NO_ROOM)


def started(name: str) -> Anchor:
    return Anchor(name, True, "started", None)


def hold(health: GangHealth) -> tuple[GangReason, str]:
    """The reason for which an anchor or a gate holds a gang, and its text."""
    (obstacle,) = (
        obstacle for obstacle in health.obstacles if obstacle.reason in {GangReason.ANCHOR, GangReason.GATED}
    )
    return obstacle.reason, str(obstacle)


def test_a_tail_waits_for_its_anchor_with_the_reason_of_the_anchor() -> None:
    found = waiting(held)
    parts = ("anchor demo-0-100", "held: GangNoRoom: no room; free some", EXPLAINED)
    assert hold(found) == (GangReason.ANCHOR, Text(*parts))
    assert (found.word, found.anchor) == ("GangWaitsForAnchor", "demo-0-100")


def test_an_anchor_without_a_reason_is_named_with_its_state() -> None:
    assert hold(waiting(lambda name: Anchor(name, False, "being deleted", None))) == (
        GangReason.ANCHOR,
        Text("anchor demo-0-100", "being deleted; ", EXPLAINED),
    )


def test_an_anchor_that_does_not_exist_is_said_to_be_missing() -> None:
    missing = Text("anchor demo-0-100", "does not exist", "Grove's operator")
    assert hold(waiting(lambda _: None)) == (GangReason.ANCHOR, missing)


def test_once_the_anchor_has_started_grove_s_operator_is_what_the_gang_waits_for() -> None:
    found = waiting(started)
    assert hold(found) == (GangReason.GATED, Text("3 pods", f"{GATE}; Grove's operator"))
    assert found.anchor is None


def test_of_several_anchors_the_first_that_has_not_started_is_named() -> None:
    found = waiting(lambda name: started(name) if name == "demo-0-100" else held(name), "100", "200", "300")
    assert found.anchor == "demo-0-200"


def test_a_gang_without_grove_s_gate_waits_for_no_anchor() -> None:
    assert GangReason.ANCHOR not in reasons(waiting(held, pods=whole()))


def test_another_gate_is_told_besides() -> None:
    found = waiting(held, pods=whole(gates=(GATE, "example.com/mine")))
    assert [one.why for one in found.obstacles if one.reason is GangReason.GATED] == [
        Text("3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1)", "example.com/mine")
    ]
    assert found.word == "GangWaitsForAnchor"


def test_a_gang_that_is_on_nodes_in_part_says_that_first() -> None:
    found = waiting(held, pods=[*whole(node="n")[:2], pod("worker", 1, gates=(GATE,))])
    assert reasons(found)[:2] == [GangReason.IN_PART, GangReason.ANCHOR]


def test_while_grove_migrates_its_set_the_gang_says_that_first() -> None:
    for status, first in (("True", GangReason.MIGRATING), ("False", GangReason.ANCHOR)):
        told = {"conditions": [{"type": "PodGangMigrationInProgress", "status": status}]}
        workload = {**pod_clique_set(clique("leader"), clique("worker")), "status": told}
        assert reasons(waiting(held, workload=workload))[0] is first


def test_a_started_gang_is_not_affected_by_a_migration() -> None:
    told = {"conditions": [{"type": "PodGangMigrationInProgress", "status": "True"}]}
    workload = {**pod_clique_set(clique("leader"), clique("worker")), "status": told}
    assert judged(whole(node="n"), workload=workload).word == "started"


def test_an_anchor_that_is_judged_for_another_gang_names_its_own_anchors_only() -> None:
    assert hold(waiting(None)) == (GangReason.ANCHOR, Text("after demo-0-100; ", EXPLAINED))


def test_the_migration_of_a_set_is_kept_of_its_status() -> None:
    index = Index(kept_workloads())
    conditions = [
        {"type": "PodGangMigrationInProgress", "status": "True", "message": "m"},
        {"type": "Ready", "status": "True"},
    ]
    index.put({**pod_clique_set(clique("a")), "status": {"conditions": conditions, "replicas": 1}})
    (kept,) = index.entries.values()
    assert Packed.manifest(kept)["status"] == {"conditions": [{"type": "PodGangMigrationInProgress", "status": "True"}]}


# Judging gangs with their anchors

A, B, C = (GangKey("default", name) for name in "abc")


class Cluster:
    """Gangs by name, and the anchor of each. Notes who is judged."""

    def __init__(self, **anchors: str | None) -> None:
        self.anchors = anchors
        self.held = set(anchors)
        self.judged: list[str] = []

    def health(self, key: GangKey, anchors: Anchors | None) -> GangHealth | None:
        self.judged.append(key.name)
        if key.name not in self.anchors:
            return None
        name = self.anchors[key.name]
        behind = None if name is None or anchors is None else anchors(name)
        waits = behind is not None and not behind.started
        state = GangState.HELD if key.name in self.held else GangState.STARTED
        obstacles = (HoldReason(GangReason.GATED, f"after {behind}", ""),) if state is GangState.HELD else ()
        return GangHealth("default", key.name, None, state, "", (), obstacles, anchor=name if waits else None)


def test_gangs_that_wait_for_each_other_are_judged_and_end() -> None:
    cluster = Cluster(a="b", b="a")
    found = AnchoredHealth(cluster.health).health(A)
    assert found is not None
    assert found.obstacles[0].why == (
        "after Anchor(name='b', started=False, state='held', first=HoldReason(reason=<GangReason.GATED: 'GangGated'>, "
        "why='after None', remedy=''))"
    )
    assert cluster.judged == ["a", "b"]


def test_an_anchor_is_judged_once_for_all_gangs_that_wait_for_it() -> None:
    cluster = Cluster(a=None, b="a", c="a")
    judging = AnchoredHealth(cluster.health)
    for key in (B, C):
        judging.health(key)
    assert sorted(cluster.judged) == ["a", "b", "c"]


def test_gangs_that_wait_are_judged_again_after_their_anchor_changed_and_with_its_new_health() -> None:
    cluster = Cluster(a=None, b="a", c=None)
    judging = AnchoredHealth(cluster.health)
    for key in (A, B, C):
        judging.health(key)
    assert set(judging.affected(A)) == {B}
    assert not judging.affected(B)
    cluster.held.remove("a")
    judging.forget()
    assert set(judging.affected(A)) == {B}
    again = judging.health(B)
    assert again is not None
    assert again.anchor is None
    assert not judging.affected(A)


def test_gangs_that_wait_are_judged_again_only_if_their_anchor_differs_for_them() -> None:
    cluster = Cluster(a=None, b="a", c="a")
    judging = AnchoredHealth(cluster.health)
    for key in (B, C):
        judging.health(key)
    assert set(judging.affected(A)) == {B, C}
    judging.forget()
    assert not judging.affected(A), "it is as they know it"


def test_gangs_that_wait_are_judged_again_if_one_of_them_has_seen_another_state_of_their_anchor() -> None:
    cluster = Cluster(a=None, b="a", c="a")
    judging = AnchoredHealth(cluster.health)
    for key in (B, C):
        judging.health(key)
    judging.affected(A)
    cluster.held.remove("a")
    judging.forget()
    judging.health(C)
    cluster.held.add("a")
    judging.forget()
    assert set(judging.affected(A)) == {B}


@pytest.mark.parametrize("error", [Malformed("x", "an object"), FactsUnavailable("not read")], ids=str)
def test_an_anchor_that_cannot_be_read_does_not_hide_the_gang(error: Exception) -> None:
    cluster = Cluster(a=None, b="a")

    def health(key: GangKey, anchors: Anchors | None) -> GangHealth | None:
        if key == A:
            raise error
        return cluster.health(key, anchors)

    found = AnchoredHealth(health).health(B)
    assert found is not None
    assert found.obstacles[0].why == "after None"
