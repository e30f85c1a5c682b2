"""Remedies for pods of an old membership: how many are deleted in a minute, and of which gang first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.reconciler import grove
from tests.unit.reconciler.forgetful_scheduler import ForgetfulScheduler, prepared
from tests.unit.reconciler.running_reconciler import GANGS, looked, podgang, running, sample
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.config.settings import RemedySettings
from webhook.reconciler import remedies

REMEDIES = RemedySettings(frozenset({"oldMembership"}), 0.05, 0.05, 600)
SETTINGS = replace(koordinator(standalone=False), remedies=REMEDIES)
MEMBERSHIP = "pod-group.scheduling.sigs.k8s.io"


def stray(name: str, **member: str) -> dict[str, Any]:
    """A pod of an old membership."""
    found = prepared(name, **member)
    found["metadata"]["labels"][MEMBERSHIP] = "demo-before-a"
    return found


async def test_each_deleted_pod_counts_in_the_limit_and_the_rest_is_deleted_in_the_next_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remedies, "_MINUTE", 3600.0)
    scheduler = ForgetfulScheduler()
    grove.put_pods(scheduler.cluster, *(stray(f"stray-{number}") for number in range(5)))
    few = replace(SETTINGS, remedies=replace(REMEDIES, per_minute=2, pause_seconds=3600.0))
    async with running(scheduler.cluster, settings=few) as found:

        def came(outcome: str) -> float:
            return sample(found, "rollcall_remedies_total", cause="oldMembership", outcome=outcome)

        await until(lambda: sample(found, "rollcall_remedies_waiting") == 1)
        await looked(found.health, 20)
        assert (scheduler.deleted, came("helped")) == (["stray-0", "stray-1"], 1)
        # A remedy that goes on is not delayed by the pause of its gang.
        monkeypatch.setattr(remedies, "_MINUTE", 0.05)
        await until(lambda: came("helped") == 3)
        assert sorted(scheduler.deleted) == [f"stray-{number}" for number in range(5)]
        assert came("notHelped") == came("failed") == 0
    notes = [event["note"] for event in scheduler.cluster.events if event["reason"] == "GangRemedyHelped"]
    assert notes[0] == "Rollcall deleted pods stray-0, stray-1, which Grove recreates. That helped"


async def test_a_gang_with_many_old_pods_goes_on_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "_MINUTE", 3600.0)
    scheduler = ForgetfulScheduler()
    grove.put_pods(scheduler.cluster, *(stray(f"stray-{number}") for number in range(3)))
    one = replace(SETTINGS, remedies=replace(REMEDIES, per_minute=1))
    async with running(scheduler.cluster, settings=one) as found:
        await until(lambda: scheduler.deleted == ["stray-0"])
        second = podgang("demo-1-a")
        second["metadata"] |= {"name": "demo-1", "uid": "second"}
        scheduler.cluster.put(GANGS, second)
        scheduler.cluster.put(grove.CLIQUES, grove.pod_clique("demo-1-a"))
        grove.put_pods(scheduler.cluster, stray("other", clique="demo-1-a", gang="demo-1"))
        await until(lambda: sample(found, "rollcall_remedies_waiting") == 2)
        monkeypatch.setattr(remedies, "_MINUTE", 0.05)
        await until(lambda: len(scheduler.deleted) == 4)
    assert scheduler.deleted == ["stray-0", "other", "stray-1", "stray-2"]
