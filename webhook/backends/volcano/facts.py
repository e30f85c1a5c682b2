"""What Volcano's rules know of a cluster: its queues, and the tiers of its HyperNodes.

Source: volcano-sh/volcano, config/crd/volcano/bases (Queue, HyperNode).
"""

from __future__ import annotations

from webhook.backends.volcano import keys
from webhook.model.facts import HyperNode, VolcanoQueue
from webhook.model.fields import SPEC
from webhook.model.projections import Missing, Projection, Resource, name_of
from webhook.model.reading import Manifest, integer, mapping, text


def _queue(raw: Manifest) -> tuple[str, VolcanoQueue]:
    parent, state = mapping(raw.get("spec")).get("parent"), mapping(raw.get("status")).get("state")
    return name_of(raw), VolcanoQueue(text(parent), text(state))


def _hyper_node(raw: Manifest) -> tuple[str, HyperNode]:
    spec = mapping(raw.get("spec"))
    tier = integer(spec.get("tier"))
    if tier is None:
        raise Missing(SPEC / "tier")
    return name_of(raw), HyperNode(tier, text(spec.get("tierName")))


QUEUES = Projection("volcano_queues", Resource(keys.QUEUE, "queues", namespaced=False), _queue)
HYPER_NODES = Projection("hyper_nodes", Resource(keys.HYPER_NODE, "hypernodes", namespaced=False), _hyper_node)

PROJECTIONS = (QUEUES, HYPER_NODES)
