"""Why gangs of Grove's next generation are held: a tail waits for its anchor, and all for Grove's migration."""

from __future__ import annotations

import json

import pytest

from tests.e2e.bound_pods import is_bound
from tests.e2e.conftest import KOORDINATOR, gated
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, PlayNext, Reconcilers, Rollcall, Scheduler
from tests.e2e.gang_commands import Gangs
from tests.e2e.programs import eventually
from tests.e2e.test_podgangmap_gangs import anchor_and_tail
from webhook.cli.output import CLEAN


@pytest.fixture
def gangs(
    plane: ControlPlane, rollcall: Rollcall, reconciler: Reconcilers, scheduler: Scheduler, namespace: str
) -> Gangs:
    """The gangs of a namespace on koord-scheduler, with webhook and reconciler."""
    config = gated(KOORDINATOR)
    scheduler(plane, "koordinator")
    server = rollcall(plane, config)
    reconciler(config).until_leading()
    return Gangs(plane, server, namespace)


def first_reasons(gangs: Gangs) -> dict[str, str]:
    """What `rollcall gangs` says of each gang: its first reason, or its state."""
    done = gangs.run("gangs", "-n", gangs.namespace, "-o", "json")
    assert done.returncode == CLEAN, done.stderr
    return {
        one["name"]: "{reason}: {why}".format_map(one["reasons"][0]) if one["reasons"] else one["state"]
        for one in json.loads(done.stdout)["gangs"]
    }


def until_said(gangs: Gangs, expected: dict[str, str]) -> None:
    """Wait until `rollcall gangs` has exactly these gangs, each with a reason that begins so."""

    def says() -> bool:
        found = first_reasons(gangs)
        assert found.keys() == expected.keys(), found
        assert all(found[name].startswith(start) for name, start in expected.items()), found
        return True

    eventually(says, f"rollcall gangs says {expected}", timeout=60, pause=0.5)


def test_a_tail_says_that_it_waits_for_its_anchor_and_why_the_anchor_waits(
    gangs: Gangs, play_next: PlayNext, nodes: Nodes
) -> None:
    made = play_next(anchor_and_tail(gangs.namespace))
    nodes(1, cpu=5)
    made.create().lift_gates()
    anchor, tail = made.podgangs
    behind = "GangNeverFits: it can never start on these nodes, even if nothing else runs there: "
    waits = f"it waits for its anchor {anchor}, which is held: {behind}"
    until_said(gangs, {anchor: behind, tail: f"GangWaitsForAnchor: {waits}"})
    told = gangs.run("explain", f"podgang/{tail}", "-n", gangs.namespace).stdout
    assert f"why  {waits}" in told
    assert f"rollcall explain podgang/{anchor} -n {gangs.namespace}" in told

    eventually(lambda: gangs.events().get(tail) == {"GangWaitsForAnchor"}, "an event says so", timeout=40)
    nodes(1, cpu=5)
    is_bound(made, 6)
    until_said(gangs, {anchor: "started", tail: "GangGated: 4 pods "})
    made.lift_gates()
    is_bound(made, 10)
    until_said(gangs, {anchor: "started", tail: "started"})


def test_held_gangs_say_that_grove_migrates_their_set(gangs: Gangs, grove: Grove, play_next: PlayNext) -> None:
    workload = anchor_and_tail(gangs.namespace)
    before = grove(workload).create()
    before.lift_gates()
    behind = "GangNoRoom: koord-scheduler reports for pod "
    base, scaled = before.podgangs
    waits = f"GangWaitsForAnchor: it waits for its anchor {base}, which is held: "
    until_said(gangs, {base: behind, scaled: f"{waits}{behind}"})

    made = play_next(workload)
    migration = made.migration()
    next(migration)
    until_said(gangs, {base: "GangMigrating: ", scaled: "GangMigrating: "})
    for _ in migration:
        pass
    anchor, tail = made.podgangs
    waits = f"GangWaitsForAnchor: it waits for its anchor {anchor}, which is held: "
    until_said(gangs, {anchor: "Gang", tail: waits})
