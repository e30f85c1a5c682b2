"""What a reconciler keeps of a workload."""

from __future__ import annotations

import asyncio

from tests.unit.cluster.scripted import Script, client
from webhook.gangs.stores import StoredWorkloads
from webhook.model.projections import POD_CLIQUE_SETS, Projection


def kept_workloads() -> Projection:
    """The part of a PodCliqueSet that is kept."""

    async def follow() -> Projection:
        workloads = StoredWorkloads(client(Script()), POD_CLIQUE_SETS.resource, lambda _: None)
        workloads.follow(served=True)
        assert workloads.watch is not None
        await workloads.close()
        return workloads.watch.index.projection

    return asyncio.run(follow())
