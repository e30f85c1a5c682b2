"""The facts that are known of a cluster, whichever schedulers are enabled."""

from __future__ import annotations

from webhook.model.devices import DEVICE_PROJECTIONS
from webhook.model.kueue.projections import FOLLOWED, KUEUE_PROJECTIONS, WORKLOADS
from webhook.model.namespace_limits import LIMIT_RANGES, RESOURCE_QUOTAS
from webhook.model.node_growth import GROWTH
from webhook.model.nodes import NODES
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.projections import (
    NAMESPACES,
    POD_CLIQUE_SETS,
    POD_GANGS,
    PRIORITY_CLASSES,
    TOPOLOGY_BINDINGS,
    Projection,
)
from webhook.model.workloads.facts import PROJECTIONS as OF_OPTED_IN_KINDS
from webhook.model.workloads.facts import TRAIN_JOB_FACTS

# What limits gangs under every scheduler.
_LIMITS = (RESOURCE_QUOTAS, LIMIT_RANGES, *DEVICE_PROJECTIONS, NODES, *GROWTH)
_OF_GANGS = (NAMESPACES, POD_CLIQUE_SETS, POD_GANGS, POD_GANG_MAPS, TOPOLOGY_BINDINGS, PRIORITY_CLASSES, *_LIMITS)
# For admission, without Kueue.
GENERAL = (*_OF_GANGS, *OF_OPTED_IN_KINDS)
# What files may contain, and what commands read.
EVERY_GENERAL = (*GENERAL, *KUEUE_PROJECTIONS, WORKLOADS)
# Gangs are also judged by who may not read Kueue's objects, so nothing waits for them.
KUEUE_TO_RECONCILER = tuple(one._replace(awaited=False) for one in (*FOLLOWED, WORKLOADS))


def general_to_server(*, kueue: bool) -> tuple[Projection, ...]:
    """The facts that admission knows; `kueue` adds Kueue's queues."""
    return (*GENERAL, *FOLLOWED) if kueue else GENERAL


def general_to_reconciler(*, opted_in: bool, kueue: bool) -> tuple[Projection, ...]:
    """The facts that a reconciler knows. With `opted_in` it also makes the gangs of opted-in workloads. It watches
    these and PodGangs as whole objects; of a TrainJob it watches only the record, which the record of its JobSet
    completes. With `kueue` it says of gangs that Kueue holds them.
    """
    return (
        *(one for one in _OF_GANGS if one is not POD_GANGS),
        *((TRAIN_JOB_FACTS,) if opted_in else ()),
        *(KUEUE_TO_RECONCILER if kueue else ()),
    )
