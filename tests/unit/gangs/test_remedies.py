"""The remedy of a gang, by cause: what is found, what is done, and which gangs are left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import in_step, judged, observed, pod, podgang, whole
from webhook.backends.base import Wake
from webhook.fit.feasibility import RoomAnswer, RoomEstimate
from webhook.fit.verdict import Witness
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import GangPod, Roster, Unscheduled
from webhook.gangs.object_plan import PROTECTION
from webhook.gangs.remedies import Act, Remedy, RemedyCause, may_need_remedy, needed_remedy
from webhook.gangs.waiting_gang import WaitingGang
from webhook.model.grove import OwnerReference
from webhook.model.reading import Manifest

CLIQUE = OwnerReference("grove.io/v1alpha1", "PodClique", "demo-0-worker", "clique")
REJECTED = Unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
JOINTLY = Unscheduled("Unschedulable", 'Gang "default/demo-0-worker" gets rejected in Unreserve')
LABEL = "pod-group.scheduling.sigs.k8s.io"


class Estimate:
    """Says the same of every gang."""

    def __init__(self, answer: RoomAnswer) -> None:
        self.answer = answer

    def never(self, _: WaitingGang) -> Witness | None:
        return None

    def now(self, _: WaitingGang) -> RoomEstimate | None:
        return RoomEstimate(self.answer, why="it is short of cpu")


def remedy(
    pods: list[GangPod] | Roster,
    objects: dict[str, Manifest] | None = None,
    *,
    tried: int = 0,
    excepted: str = "",
    **known: Any,
) -> Remedy | None:
    health, seen = judged(pods, objects, **known), observed(pods, objects, **known)
    found = needed_remedy(health, seen, tried, lambda one: one.name == excepted)
    assert found is None or may_need_remedy(health)
    return found


def in_part(**changes: Any) -> list[GangPod]:
    """The leader and one worker are on a node."""
    return [pod("leader", 0, node="n1"), pod("worker", 0, node="n1"), pod("worker", 1, controller=CLIQUE, **changes)]


def test_a_gang_on_which_the_scheduler_says_nothing_is_woken_by_one_of_its_groups() -> None:
    found = remedy(whole())
    assert found is not None
    assert (found.cause, found.act, found.wake, found.raised) == (
        RemedyCause.FORGOTTEN,
        Act.WAKE,
        Wake.RAISE_MINIMUM,
        1003,
    )
    assert found.target is not None
    assert found.target["metadata"]["name"] == "demo-0-leader"
    assert [one.name for one in found.pods] == ["demo-0-leader-0", "demo-0-worker-0", "demo-0-worker-1"]
    assert found.done == Text("the waiting pods; ", "minMember", "PodGroup demo-0-leader from 1 to 1003")
    again = remedy(whole(), tried=1)
    assert again is not None
    assert again.target is not None
    assert again.target["metadata"]["name"] == "demo-0-worker"


@pytest.mark.parametrize(
    ("answer", "acts"),
    [(RoomAnswer.ROOM, [Act.WAKE]), (RoomAnswer.SHORT, []), (RoomAnswer.UNKNOWN, [])],
)
def test_a_rejected_gang_is_woken_only_if_there_is_room_by_the_estimate(answer: RoomAnswer, acts: list[Act]) -> None:
    found = remedy(whole(unscheduled=REJECTED), fits=Estimate(answer))
    assert [one.act for one in (found,) if one is not None] == acts


def test_a_gang_in_part_is_woken_by_the_group_that_lacks_pods_and_its_running_pods_are_left_alone() -> None:
    found = remedy(in_part())
    assert found is not None
    assert found.target is not None
    assert (found.act, found.target["metadata"]["name"]) == (Act.WAKE, "demo-0-worker")
    assert [one.name for one in found.pods] == ["demo-0-worker-1"]


def test_a_gang_that_lost_members_is_woken_like_any_other_in_part() -> None:
    health = judged(in_part())
    lost = HoldReason(GangReason.LOST_MEMBERS, "a node was lost", "wait")
    health = replace(
        health, obstacles=(lost, *(one for one in health.obstacles if one.reason is not GangReason.IN_PART))
    )
    found = needed_remedy(health, observed(in_part()))
    assert found is not None
    assert (found.cause, found.act) == (RemedyCause.FORGOTTEN, Act.WAKE)


@pytest.mark.parametrize(("said", "is_woken"), [(REJECTED, False), (JOINTLY, True)])
def test_the_rest_of_a_gang_in_part_may_wait_for_room_if_its_message_is_of_nodes(
    said: Unscheduled, *, is_woken: bool
) -> None:
    assert (remedy(in_part(unscheduled=said)) is not None) is is_woken


def test_a_gang_that_was_woken_twice_in_vain_gets_one_new_pod_unless_that_is_excepted() -> None:
    found = remedy(in_part(), tried=2)
    assert found is not None
    assert (found.cause, found.act, [one.name for one in found.pods]) == (
        RemedyCause.FORGOTTEN,
        Act.REPLACE,
        ["demo-0-worker-1"],
    )
    excepted = remedy(in_part(), tried=2, excepted="demo-0-worker-1")
    assert excepted is not None
    assert excepted.act is Act.WAKE


def test_pods_are_not_replaced_while_it_is_not_known_that_the_scheduler_works() -> None:
    found = remedy(whole(controller=CLIQUE), tried=5)
    assert found is not None
    assert found.act is Act.WAKE


def test_a_pod_that_grove_does_not_make_is_never_replaced() -> None:
    jobs = OwnerReference("batch/v1", "Job", "demo", "job")
    found = remedy([*in_part()[:2], pod("worker", 1, controller=jobs)], tried=2)
    assert found is not None
    assert found.act is Act.WAKE


@pytest.mark.parametrize(
    "pods",
    [
        whole(node="n1"),
        whole(gates=("grove.io/podgang-pending-creation",)),
        whole(gates=("kueue.x-k8s.io/admission",)),
        whole()[:2],
        Roster(whole()[:2], unnamed=whole()[2:]),
    ],
    ids=["started", "gated", "queued", "a pod is missing", "a pod is not named"],
)
def test_a_gang_that_runs_or_waits_for_something_else_gets_no_remedy(pods: list[GangPod] | Roster) -> None:
    assert remedy(pods) is None


def test_a_gang_without_one_of_its_objects_is_left_to_the_reconciler() -> None:
    objects = in_step()
    del objects["demo-0-worker"]
    assert remedy(whole(), objects) is None


def test_an_object_of_an_earlier_gang_is_deleted() -> None:
    objects = in_step()
    owner = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "demo-0", "uid": "before"}
    objects["demo-0-worker"]["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    found = remedy(whole(), objects)
    assert found is not None
    assert (found.cause, found.act, found.problem) == (
        RemedyCause.OBJECT_LEFT,
        Act.DELETE,
        Text("PodGroup demo-0-worker", "earlier PodGang"),
    )


@pytest.mark.parametrize(("finalizers", "is_released"), [([PROTECTION], True), (["example.com/mine"], False)])
def test_only_the_finalizer_of_kubernetes_itself_is_removed(finalizers: list[str], *, is_released: bool) -> None:
    objects = in_step()
    objects["demo-0-worker"]["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    found = remedy(whole(), objects)
    assert (found is not None and found.act is Act.RELEASE) is is_released


def stray(**changes: Any) -> GangPod:
    """A worker that names a group of an earlier gang."""
    found = pod("worker", 1, controller=CLIQUE, **changes)
    return found._replace(labels={**found.labels, LABEL: "demo-before-worker"})


def test_a_pod_of_an_old_membership_is_replaced_while_it_is_on_no_node() -> None:
    found = remedy([*whole()[:2], stray()])
    assert found is not None
    assert (found.cause, found.act, [one.name for one in found.pods]) == (
        RemedyCause.OLD_MEMBERSHIP,
        Act.REPLACE,
        ["demo-0-worker-1"],
    )
    assert remedy([*whole()[:2], stray(node="n1")]) is None
    assert remedy([*whole()[:2], stray()], excepted="demo-0-worker-1") is None
    assert remedy([*whole()[:2], stray()._replace(controller=None)]) is None


def test_a_remedy_counts_by_the_pods_that_it_deletes_and_leaves_the_others_for_later() -> None:
    found = remedy([*whole()[:1], stray(), stray()._replace(name="demo-0-worker-2", uid="other")])
    assert found is not None
    assert (found.weight, found.limit_weight(2), found.later) == (2, found, ())
    first = found.limit_weight(1)
    assert (first.weight, [one.name for one in first.pods]) == (1, ["demo-0-worker-1"])
    assert [one.name for one in first.later] == ["demo-0-worker-2"]
    assert first.done == "deleted pod demo-0-worker-1, which Grove recreates"
    woken = remedy(whole())
    assert woken is not None
    assert (len(woken.pods), woken.weight, woken.limit_weight(1)) == (3, 1, woken)


def test_a_pod_of_another_scheduler_is_not_one_of_an_old_membership() -> None:
    other = pod("worker", 1, controller=CLIQUE)
    assert remedy([*whole()[:2], other._replace(spec={**other.spec, "schedulerName": "volcano"})]) is None


SET = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "uid": "set", "controller": True}
HELD = {"gates": ("grove.io/podgang-pending-creation",)}


def owned(*owners: Manifest) -> Manifest:
    """The gang, which names no worker 2."""
    return podgang(ownerReferences=list(owners))


def test_groves_gate_on_a_pod_that_it_has_not_named_has_grove_reconcile_the_set() -> None:
    late = Roster(whole(node="n1"), unnamed=[pod("worker", 2, **HELD, created="2026-11-30T12:00:00Z")])
    found = remedy(late, gang=owned(SET))
    assert found is not None
    assert (found.cause, found.act, found.weight) == (RemedyCause.GROVE_GATE, Act.TRIGGER, 1)
    assert found.target == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "demo", "namespace": "default", "uid": "set"},
    }
    waiting = Roster(whole()[:2], unnamed=[pod("worker", 1, **HELD)])
    held = remedy(waiting, gang=owned(SET))
    assert held is not None
    assert held.cause is RemedyCause.GROVE_GATE


def test_a_further_pod_of_a_gang_that_its_scheduler_rejects_has_grove_reconcile_the_set() -> None:
    """The gang has enough pods, so that no reason of its own names the pod."""
    late = pod("worker", 2, **HELD)
    trigger = remedy(Roster(whole(unscheduled=REJECTED), unnamed=[late]), gang=owned(SET))
    assert trigger is not None
    assert trigger.act is Act.TRIGGER


@pytest.mark.parametrize(
    ("causes", "cause"),
    [
        (set(RemedyCause), RemedyCause.FORGOTTEN),
        ({"forgotten"}, RemedyCause.FORGOTTEN),
        ({"groveGate"}, RemedyCause.GROVE_GATE),
        ({"objectLeft", "oldMembership"}, None),
    ],
)
def test_a_cause_that_is_not_remedied_hides_no_other(causes: set[str], cause: RemedyCause | None) -> None:
    """A gang that its scheduler forgot, with a further pod that waits for Grove."""
    roster, gang = Roster(whole(), unnamed=[pod("worker", 2, **HELD)]), owned(SET)
    health, seen = judged(roster, in_step(gang), gang=gang), observed(roster, in_step(gang), gang=gang)
    first = needed_remedy(health, seen, causes=causes)
    assert (None if first is None else first.cause) == cause


@pytest.mark.parametrize(
    ("late", "named", "owners"),
    [
        # It has another gate, or none.
        (pod("worker", 2, gates=("example.com/quota",)), False, [SET]),
        (pod("worker", 2), False, [SET]),
        (pod("worker", 2, **HELD, leaving=True), False, [SET]),
        # The PodGang names it: a reconciliation of the set changes nothing.
        (pod("worker", 2, **HELD), True, [SET]),
        # No PodCliqueSet controls the PodGang.
        (pod("worker", 2, **HELD), False, []),
    ],
)
def test_nothing_is_triggered_where_that_would_not_help(late: GangPod, named: bool, owners: list[Manifest]) -> None:
    bound = whole(node="n1")
    roster = Roster([*bound, late]) if named else Roster(bound, unnamed=[late])
    assert remedy(roster, gang=owned(*owners)) is None
