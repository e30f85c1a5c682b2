"""Topologies in the running reconciler: schedulers, one namespace, a dry run, once, and a process that does
not lead.
"""

from __future__ import annotations

import pytest

from tests.played import run
from tests.unit.reconciler.running_reconciler import reconciler, running
from tests.unit.reconciler.topologies import KAI, ROW, ZONE, binding, levels, methods, problems, topology, world
from tests.waiting import until
from webhook.backends.kai.backend import KaiBackend
from webhook.backends.kai.keys import TOPOLOGIES
from webhook.errors import FactsUnavailable, NotLeading
from webhook.reconciler.manager import reconcile_once


async def test_no_binding_is_watched_for_schedulers_without_topology_objects() -> None:
    cluster = world(binding(ZONE))
    async with running(cluster) as found:
        await until(lambda: found.idle)
        assert found._topologies._stores.by_kind == {}
        assert cluster.writes == []


async def test_with_one_namespace_no_topology_is_written() -> None:
    cluster = world(binding(ZONE))
    async with running(cluster, settings=KAI, namespace="team-a") as found:
        await until(lambda: found.idle)
        assert cluster.writes == []


def test_a_dry_run_reads_and_changes_no_topology() -> None:
    cluster = world(binding(ZONE), binding(ZONE, name="other"), there=topology(ROW))
    run(reconcile_once(reconciler(cluster, settings=KAI, dry_run=True)))
    assert (levels(cluster), levels(cluster, "other")) == ([ROW], None)
    assert set(methods(cluster)) == {"DELETE", "PATCH"}


def test_once_exits_when_an_object_has_been_recreated() -> None:
    cluster = world(binding(ZONE), there=topology(ROW))
    run(reconcile_once(reconciler(cluster, settings=KAI)))
    assert levels(cluster) == [ZONE]


def test_once_reports_an_object_that_is_not_deleted() -> None:
    held = topology(ROW)
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(FactsUnavailable, match="1 gangs or topologies"):
        run(reconcile_once(reconciler(world(binding(ZONE), there=held), settings=KAI)))


async def test_a_process_without_the_lease_writes_no_topology_and_counts_no_problems() -> None:
    cluster = world(binding(ZONE, reference="site"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyNotFound") == 1)
        found._topologies._leads = lambda: False
        found.leads = lambda: False  # type: ignore[method-assign]
        found.following.look_at_all()
        await until(lambda: problems(found, "TopologyNotFound") == 0)
        await until(lambda: found.idle)
        assert problems(found, "TopologyNotFound") == 0


async def test_after_a_change_of_leader_an_earlier_binding_counts_no_problem() -> None:
    cluster = world(binding(ZONE, reference="site"))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: problems(found, "TopologyNotFound") == 1)
        found._topologies._leads = lambda: False
        found._topologies.look_at_all()
        with pytest.raises(NotLeading):
            await found._topologies.reconcile("dc")
        assert problems(found, "TopologyNotFound") == 0


def test_the_gauge_exists_from_the_start_for_each_scheduler_with_topologies() -> None:
    found = reconciler(world(), settings=KAI)
    for reason in ("TopologyDrift", "TopologyNotFound", "TopologyInexpressible", "TopologyRefused"):
        assert problems(found, reason) == 0
    assert problems(reconciler(world()), "TopologyDrift") is None
    assert KaiBackend.topology_kind == TOPOLOGIES.resource
