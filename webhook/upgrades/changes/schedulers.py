"""Releases of schedulers that are too old for Rollcall or for a part of it, and the change from one to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from webhook.backends.base import Backend
from webhook.backends.kai import backend as kai
from webhook.backends.koordinator import backend as koordinator
from webhook.backends.koordinator import topology
from webhook.backends.volcano import backend as volcano
from webhook.model.version import Version
from webhook.upgrades.change import Change, Concerns, Example, Outcome, gang
from webhook.upgrades.present import Cluster, PresentGang
from webhook.upgrades.releases import Product

# The release before the first one, for an example.
_OLDEST = "0.1.0"


def _of(scheduler: str) -> Concerns:
    def concerns(one: PresentGang, _: Cluster) -> bool:
        return one.scheduler == scheduler

    return concerns


def _too_old(product: Product, backend: type[Backend[Any]], first: Version, source: str) -> Change:
    name = backend.name
    return Change(
        f"{product}/too-old",
        product,
        _of(name),
        Outcome.UNKNOWN,
        until=str(first),
        why=f"{backend.version_problem(Version(0, 1))}; what becomes of a living gang is not verified",
        before=f"do not go below {first}",
        source=source,
        hit=Example(_OLDEST, gang(scheduler=name)),
        spared=Example(str(first), gang(scheduler=name)),
    )


def _asks_koordinator_for_topology(one: PresentGang, _: Cluster) -> bool:
    return one.scheduler == koordinator.KoordinatorBackend.name and one.topology


def _moves(one: PresentGang, cluster: Cluster) -> bool:
    return one.scheduler in cluster.moves


_MOVED = Cluster(moves={"koord-scheduler": "kai-scheduler"})
_PLACED = gang(topology=True)

CHANGES = (
    _too_old(
        Product.KOORDINATOR,
        koordinator.KoordinatorBackend,
        koordinator.FIRST_VERSION,
        "https://github.com/koordinator-sh/koordinator/tree/v1.4.0/pkg/scheduler/plugins/coscheduling",
    ),
    Change(
        "koordinator/topology",
        Product.KOORDINATOR,
        _asks_koordinator_for_topology,
        Outcome.UNKNOWN,
        until=str(topology.FIRST_VERSION),
        why=f"Koordinator before {topology.FIRST_VERSION} ignores the topology of a gang, so a replaced pod may be "
        "placed anywhere",
        before=f"do not go below {topology.FIRST_VERSION} while gangs ask for a topology",
        source="https://github.com/koordinator-sh/koordinator/tree/v1.7.0/pkg/scheduler/frameworkext/networktopology",
        hit=Example("1.6.1", _PLACED),
        spared=Example("1.6.1", replace(_PLACED, topology=False)),
    ),
    _too_old(
        Product.VOLCANO,
        volcano.VolcanoBackend,
        volcano.FIRST_VERSION,
        "https://github.com/volcano-sh/volcano/commit/56c69011",
    ),
    _too_old(
        Product.KAI,
        kai.KaiBackend,
        kai.FIRST_VERSION,
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.15.0/CHANGELOG.md",
    ),
    Change(
        "scheduler/permanent",
        None,
        _moves,
        Outcome.CONTINUES,
        why="the scheduler of a living workload is permanent, so it stays with {gang.scheduler}; new workloads get "
        "{to}",
        before="keep {gang.scheduler} running and its profile enabled as long as one of its gangs lives",
        after="delete and create the workload again to move it to {to}; `rollcall explain --scheduler {to}` says "
        "before whether it could run there",
        source="https://github.com/ai-dynamo/grove/blob/main/docs/proposals/375-scheduler-backend-framework/README.md "
        "(story 3)",
        hit=Example("", gang(), _MOVED),
        spared=Example("", gang(scheduler="kai-scheduler"), _MOVED),
    ),
)
