"""What is known of a cluster whichever schedulers are enabled."""

from __future__ import annotations

from webhook.model.projections import (
    NAMESPACES,
    POD_CLIQUE_SETS,
    POD_GANGS,
    PRIORITY_CLASSES,
    TOPOLOGY_BINDINGS,
    Projection,
)
from webhook.model.workloads.facts import PROJECTIONS as OF_OWNERS
from webhook.model.workloads.facts import TRAIN_JOB_FACTS

_OF_GANGS = (NAMESPACES, POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, PRIORITY_CLASSES)
# To admission.
GENERAL = (*_OF_GANGS, *OF_OWNERS)


def general_to_reconciler(*, owners: bool) -> tuple[Projection, ...]:
    """What a reconciler knows; with `owners` it makes the gangs of workloads that are not Grove's as well. These it
    follows whole, and of a TrainJob the record, which its JobSet's completes.
    """
    return (*_OF_GANGS, TRAIN_JOB_FACTS) if owners else _OF_GANGS
