"""What is kept of the health of a gang."""

from __future__ import annotations

from dataclasses import replace

from webhook.gangs.escapes import unowned_escapes
from webhook.gangs.health import GangHealth, GangState, MemberHealth
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.members import read_gang_pod
from webhook.reconciler.held_gangs import HealthJudgement, judgement_of

SHORT = HoldReason(GangReason.TOO_FEW_PODS, "demo-0-a has 1 of 2 pods", "create the others")
OTHER = HoldReason(GangReason.UNOWNED, "team/other has its labels", "remove them")


def health(name: str, state: GangState, *obstacles: HoldReason) -> GangHealth:
    members = (MemberHealth(f"{name}-a", 2, 2, 2),)
    return GangHealth("team", name, "koord-scheduler", state, "2026-01-01T00:00:00Z", members, obstacles)


def test_gangs_that_have_started_share_one_judgement() -> None:
    one, other = (judgement_of(health(name, GangState.STARTED), None) for name in ("demo-0", "demo-1"))
    assert one is other


def test_empty_gangs_share_one_judgement_though_they_say_why() -> None:
    one, other = (judgement_of(health(name, GangState.EMPTY, SHORT), None) for name in ("demo-0", "demo-1"))
    assert one is other
    assert (one.word, one.is_troubled, one.why) == ("empty", False, SHORT.why)


def test_what_is_counted_and_told_of_a_gang_is_kept() -> None:
    assert judgement_of(health("demo-0", GangState.HELD, SHORT, OTHER), SHORT) == HealthJudgement(
        scheduler="koord-scheduler",
        state=GangState.HELD,
        word="GangTooFewPods",
        is_troubled=True,
        never=None,
        escapes=(),
        obstacles=(SHORT, OTHER),
        why="demo-0-a has 1 of 2 pods",
        held=SHORT,
    )


def test_of_escaped_pods_their_numbers_are_kept() -> None:
    pods = [read_gang_pod({"metadata": {"name": f"p{index}", "namespace": "team"}})[1] for index in range(30)]
    found = replace(health("demo-0", GangState.STARTED), escaped=unowned_escapes(pods))
    assert judgement_of(found, None).escapes == (("unowned", 30),)
