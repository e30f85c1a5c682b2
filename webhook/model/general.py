"""What admission knows of a cluster whichever schedulers are enabled."""

from __future__ import annotations

from webhook.model.owners.facts import PROJECTIONS as OF_OWNERS
from webhook.model.projections import NAMESPACES, POD_CLIQUE_SETS, POD_GANGS, PRIORITY_CLASSES, TOPOLOGY_BINDINGS

GENERAL = (NAMESPACES, POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, PRIORITY_CLASSES, *OF_OWNERS)
