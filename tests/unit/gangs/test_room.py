"""A gang that waits for room alone: whether it can ever start, and what it lacks now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import in_step, judged, pod, podgang, reasons, whole
from tests.unit.worlds import koordinator
from webhook.fit.feasibility import RoomAnswer, RoomEstimate
from webhook.fit.verdict import FitFamily, FitScope, Shortfall, Witness
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.members import Roster, Unscheduled
from webhook.gangs.waiting_gang import WaitingGang
from webhook.model.fields import SPEC

NO_NODE = Unscheduled("Unschedulable", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
WITNESS = Witness(
    FitFamily.TOPOLOGY,
    FitScope.ON_THESE_NODES,
    SPEC,
    "rack",
    "12 pods of 8 nvidia.com/gpu need one rack; the largest rack r7 has room for 9",
    "set the minimum to 9, or require a zone",
    "D",
    domain="rack r7",
    shortfalls=(Shortfall("pods", 12, 9),),
)
SHORT = RoomEstimate(
    RoomAnswer.SHORT,
    why="2 pods of 8 nvidia.com/gpu need one rack",
    nearest="rack r1",
    short=(Shortfall("nvidia.com/gpu", 16, 10),),
)


class Told:
    """Tells a fixed proof and a fixed estimate, and keeps which gangs were asked for."""

    def __init__(self, never: Witness | None = None, now: RoomEstimate | None = None) -> None:
        self._never, self._now = never, now
        self.asked: list[WaitingGang] = []

    def never(self, gang: WaitingGang) -> Witness | None:
        self.asked.append(gang)
        return self._never

    def now(self, _: WaitingGang) -> RoomEstimate | None:
        return self._now


def test_a_gang_that_never_fits_has_the_proof_before_the_schedulers_message() -> None:
    found = judged(whole(unscheduled=NO_NODE), fits=Told(WITNESS, SHORT))
    assert (found.state, found.word) == (GangState.HELD, "GangNeverFits")
    assert reasons(found) == [GangReason.NEVER_FITS, GangReason.NO_ROOM]
    assert str(found.obstacles[0]) == Text("never", "on these nodes", f": {WITNESS.why}; {WITNESS.remedy}")
    assert found.obstacles[1].why.startswith("koord-scheduler reports for pod demo-0-leader-0: 0/2 nodes are available")
    assert found.as_json()["neverFits"] == {
        "family": "topology",
        "scope": "on these nodes",
        "why": "12 pods of 8 nvidia.com/gpu need one rack; the largest rack r7 has room for 9",
        "remedy": "set the minimum to 9, or require a zone",
        "domain": "rack r7",
        "short": [{"resource": "pods", "needed": 12, "there": 9}],
    }


def test_a_proof_that_no_node_cures_says_so() -> None:
    found = judged(whole(), fits=Told(replace(WITNESS, scope=FitScope.EVER, why="a claim asks for 33 devices")))
    assert reasons(found) == [GangReason.NEVER_FITS, GangReason.SILENT]
    assert found.why == "it can never start: a claim asks for 33 devices"


def test_a_gang_without_room_is_told_what_is_short_and_where_it_is_nearest() -> None:
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "s", "controller": True}
    gang = podgang(ownerReferences=[owner])
    found = judged(whole(unscheduled=NO_NODE), in_step(gang), gang=gang, fits=Told(now=SHORT))
    assert reasons(found) == [GangReason.NO_ROOM, GangReason.NO_ROOM]
    assert found.obstacles[0].why == Text("by an estimate", f": {SHORT.why}; rack r1", "6 nvidia.com/gpu")
    assert found.obstacles[0].remedy == Text("rack r1", "rollcall fit pcs/demo -n default")
    assert "neverFits" not in found.as_json()


@pytest.mark.parametrize(
    "now", [RoomEstimate(RoomAnswer.ROOM), RoomEstimate(RoomAnswer.UNKNOWN, why="the nodes"), None]
)
def test_without_a_shortage_only_the_schedulers_message_is_told(now: RoomEstimate | None) -> None:
    found = judged(whole(unscheduled=NO_NODE), fits=Told(now=now))
    assert reasons(found) == [GangReason.NO_ROOM]


def test_an_estimate_does_not_hide_that_a_scheduler_is_silent() -> None:
    assert reasons(judged(whole(), fits=Told(now=SHORT))) == [GangReason.SILENT]


RUNS = {**in_step()["demo-0-worker"], "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("pods", "objects"),
    [
        (whole(gates=("example.com/gate",)), None),
        (whole(), {}),
        ([pod("leader", 0, node="n1"), pod("worker", 0), pod("worker", 1)], None),
        (Roster(whole(), unowned=[pod("worker", 7, node="n1")]), None),
        ([*whole(), pod("worker", 2, failed=True)], None),
        (whole(), {**in_step(), "demo-0-worker": RUNS}),
    ],
    ids=["a gate", "an object missing", "a pod on a node", "a foreign pod on a node", "a failed pod", "once started"],
)
def test_a_gang_with_another_reason_or_a_past_is_not_judged(pods: Any, objects: Any) -> None:
    told = Told(WITNESS)
    found = judged(pods, objects, fits=told)
    assert told.asked == []
    assert GangReason.NEVER_FITS not in reasons(found)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("once-satisfied", [GangReason.SILENT]), ("waiting-and-running", [GangReason.NEVER_FITS, GangReason.SILENT])],
)
def test_a_gang_that_koordinator_may_remember_as_started_is_not_judged(policy: str, expected: list[GangReason]) -> None:
    """All its pods were replaced, so the status is that of a new gang. koord-scheduler binds them one by one, without
    their topology.
    """
    settings = koordinator({"matchPolicy": policy}, standalone=False)
    reset = {"status": {"phase": "Scheduling"}}
    objects = {name: group | reset for name, group in in_step(settings=settings).items()}
    assert reasons(judged(whole(), objects, settings=settings, fits=Told(WITNESS))) == expected


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ({}, True),
        ({"gang.scheduling.koordinator.sh/match-policy": "unknown"}, True),
        ({"gang.scheduling.koordinator.sh/match-policy": "only-waiting"}, False),
        ({"pod-group.scheduling.sigs.k8s.io/match-policy": "waiting-and-running"}, False),
    ],
)
def test_a_pod_group_of_another_author_may_have_koordinators_default_policy(
    annotation: dict[str, str], *, expected: bool
) -> None:
    profile = koordinator(standalone=False).profiles["koord-scheduler"]
    assert profile.backend.may_be_started([{"metadata": {"name": "a", "annotations": annotation}}]) is expected


def unnamed_gang() -> Any:
    gang = podgang()
    for group in gang["spec"]["podgroups"]:
        group["podReferences"] = []
    return gang


def test_a_quota_that_keeps_pods_from_being_made_is_why_pods_are_missing() -> None:
    gang = unnamed_gang()
    quota = replace(WITNESS, family=FitFamily.QUOTA, scope=FitScope.EVER, why="3 pods; ResourceQuota small allows 2")
    found = judged(whole()[:2], in_step(gang), gang=gang, fits=Told(quota))
    assert reasons(found) == [GangReason.NEVER_FITS, GangReason.TOO_FEW_PODS]
    assert found.why == Text("it can never start: 3 pods; ResourceQuota small allows 2", "no other webhook")
    other = judged(whole()[:2], in_step(gang), gang=gang, fits=Told(WITNESS))
    assert reasons(other) == [GangReason.TOO_FEW_PODS]
