"""What an upgrade plan reads of a gang: who writes its objects, who controls them, and in which version they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import FACTS, in_step, podgang, whole
from tests.unit.worlds import koordinator
from webhook.errors import FactsUnavailable
from webhook.gangs.health import GangState, Observed, judge
from webhook.gangs.key import GangKey
from webhook.gangs.members import Roster
from webhook.gangs.object_plan import GangObjectWriter, SkipReason, plan
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.reading import Malformed, Manifest
from webhook.operations.releases import ChangeOutcome, PresentGang, Product, Release, present_gang, present_gangs
from webhook.operations.upgrade_plan import Upgrade, upgrade_plan

POD_GROUP = "scheduling.sigs.k8s.io/v1alpha1"
SET = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "s", "controller": True}


def observed(gang: Manifest | None = None, objects: Mapping[str, Manifest] | None = None, **changes: Any) -> Observed:
    live = in_step(gang) if objects is None else objects
    found = Observed(
        PodGang(gang or podgang()),
        Roster(tuple(whole(node="n1"))),
        lambda desired: live.get(desired["metadata"]["name"]),
        [],
        None,
        FACTS,
        koordinator(standalone=False),
    )
    return found._replace(**changes)


def living(*arguments: Any, **changes: Any) -> PresentGang:
    found = present_gang(observed(*arguments, **changes))
    assert found is not None
    return found


def controlled_by(owner: Mapping[str, Any] | None) -> dict[str, Manifest]:
    owners = [] if owner is None else [dict(owner)]
    return {
        name: {**one, "metadata": {**one["metadata"], "ownerReferences": owners}} for name, one in in_step().items()
    }


def test_a_gang_of_rollcalls() -> None:
    assert living() == PresentGang(
        "default",
        "demo-0",
        "koord-scheduler",
        pods=3,
        owners=frozenset({"PodGang"}),
        versions=frozenset({POD_GROUP}),
        restarts=frozenset({"Always"}),
    )


def test_the_controllers_of_its_objects_are_read_from_the_objects() -> None:
    assert living(None, controlled_by(SET)).owners == {"PodCliqueSet"}
    assert living(None, controlled_by(None)).owners == {""}
    one, other = in_step()
    mixed = {one: controlled_by(SET)[one], other: in_step()[other]}
    assert living(None, mixed).owners == {"PodCliqueSet", "PodGang"}


def test_an_object_that_is_no_longer_wanted_counts_too() -> None:
    kept = {**next(iter(in_step().values())), "apiVersion": "old.example/v1"}
    assert living(None, None, gang_objects=[kept]).versions == {POD_GROUP, "old.example/v1"}


def test_a_missing_object_is_noticed() -> None:
    assert living(None, {}).missing

    def unserved(_: Manifest) -> Manifest:
        raise FactsUnavailable("not served")

    assert living(live=unserved).missing


def test_pods_say_whether_they_can_finish() -> None:
    batch = whole(node="n1", spec={"schedulerName": "koord-scheduler", "restartPolicy": "Never"})
    assert living(roster=Roster(tuple(batch))).restarts == {"Never"}


def test_a_migrated_podgang_has_an_epoch() -> None:
    assert not living().migrated
    assert living(podgang(labels={"grove.io/epoch": "1788533963425275530"})).migrated


def test_a_gang_asks_for_a_placement() -> None:
    placed = podgang()
    placed["spec"]["topologyConstraint"] = {"packConstraint": {"preferred": "example.com/rack"}}
    assert living(placed, {}).topology


@pytest.mark.parametrize(
    ("labels", "writer", "scheduler", "unknown"),
    [
        ({"grove.io/scheduler-name": "kai-scheduler"}, GangObjectWriter.GROVE, "kai-scheduler", ""),
        (
            {"grove.io/external-workload-managed": "true"},
            GangObjectWriter.OTHER,
            "koord-scheduler",
            Text("another program"),
        ),
    ],
)
def test_other_writers(labels: dict[str, str], writer: GangObjectWriter, scheduler: str, unknown: str) -> None:
    found = living(podgang(labels=labels), {})
    assert (found.writer, found.scheduler, found.unknown) == (writer, scheduler, unknown)


def test_the_scheduler_of_a_gang_of_groves_is_the_one_that_grove_names() -> None:
    """Whatever is recorded for its set, and whether KAI's podgrouper or Grove writes its PodGroup."""
    served = frozenset({Api("grove.io", "v1alpha1", "PodCliqueSet")})
    kai = podgang(labels={"grove.io/scheduler-name": "kai-scheduler"})
    for record in (Record("koord-scheduler"), Record(None)):
        found = living(kai, {}, facts=replace(FACTS, apis=served, pod_clique_sets={("default", "demo"): record}))
        assert (found.writer, found.scheduler) == (GangObjectWriter.SCHEDULER, "kai-scheduler")
        upgrade = Upgrade({Product.GROVE: Release("v0.1.0-alpha.13")}, {})
        (verdict,) = upgrade_plan(upgrade, [found]).verdicts
        assert [one.change for one in verdict.effects] == ["grove/own-backend", "grove/kai-podgroup-names"]


@pytest.mark.parametrize(
    ("record", "unknown"),
    [
        (Record(None), Text("did not admit")),
        (Record("volcano"), Text("not a profile")),
        (None, Text("PodCliqueSet default/demo")),
    ],
)
def test_objects_that_are_not_known(record: Record | None, unknown: str) -> None:
    known = {} if record is None else {("default", "demo"): record}
    found = living(facts=replace(FACTS, pod_clique_sets=known))
    assert (found.writer, found.unknown) == (GangObjectWriter.NONE, unknown)


def test_a_gang_that_is_being_deleted_does_not_live() -> None:
    assert present_gang(observed(podgang(deletionTimestamp="2026-01-01T00:00:00Z"), {})) is None


def test_a_gang_that_cannot_be_read_is_not_left_out() -> None:
    def seen(key: GangKey) -> Observed | None:
        if key.name == "broken":
            raise Malformed("nothing", "a list")
        return observed() if key.name == "demo-0" else None

    keys = [GangKey("default", "gone"), GangKey("default", "demo-0"), GangKey("default", "broken")]
    broken, whole_gang = present_gangs(keys, seen)
    assert whole_gang == living()
    assert (broken.name, broken.scheduler, broken.writer) == ("broken", None, GangObjectWriter.NONE)
    assert broken.unknown == f"it cannot be read: {Malformed('nothing', 'a list')}"


def aggregated(**changes: Any) -> Manifest:
    """A PodGang of the layout with one KAI PodGroup for all PodGangs of a replica (Grove's pull request 735)."""
    labels = {
        "grove.io/scheduler-name": "kai-scheduler",
        "grove.io/epoch": "1788533963425275530",
        "grove.io/podcliqueset-replica-index": "0",
    }
    return podgang(labels=labels, finalizers=["kai.scheduler/aggregate-podgroup"], **changes)


RELEASED = {"minReplicas": 0}


@pytest.mark.parametrize("released", [{}, RELEASED], ids=["placed", "placed, and its minimum is 0"])
def test_a_gang_in_a_pod_group_of_all_gangs_of_its_replica_is_grove_s_and_lives(released: Manifest) -> None:
    gang = aggregated()
    gang["spec"]["podgroups"] = [{**one, **released} for one in gang["spec"]["podgroups"]]
    seen = observed(gang, {})
    assert plan(seen.podgang, seen.facts, seen.settings) is SkipReason.GROVE
    health = judge(seen)
    # Its pods are Grove's, so they lack nothing of Rollcall's.
    assert (health.state, health.writer, health.escaped, health.obstacles) == (
        GangState.STARTED,
        GangObjectWriter.GROVE,
        (),
        (),
    )
    found = living(gang, {})
    assert (found.scheduler, found.pod_group, found.migrated) == ("kai-scheduler", "grove-demo-0", True)
    for release, outcome in (("v0.1.0-alpha.13", ChangeOutcome.CONTINUES), ("v0.1.0-alpha.14", ChangeOutcome.UNKNOWN)):
        (verdict,) = upgrade_plan(Upgrade({Product.GROVE: Release(release)}, {}), [found]).verdicts
        assert verdict.outcome is outcome


def test_a_gang_whose_finalizer_keeps_it_is_leaving_and_not_living() -> None:
    seen = observed(aggregated(deletionTimestamp="2026-11-30T12:00:00Z"), {})
    assert plan(seen.podgang, seen.facts, seen.settings) is SkipReason.LEAVING
    assert judge(seen).state is GangState.LEAVING
    assert present_gang(seen) is None
