"""The facts that Volcano's rules read: its queues, the PodGroups in each queue, and the tiers of its HyperNodes.

Source: volcano-sh/volcano, config/crd/volcano/bases (Queue, PodGroup, HyperNode).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.backends.volcano import keys
from webhook.model.amounts import ceiling_amounts
from webhook.model.bounds import fits, name_text
from webhook.model.fields import SPEC
from webhook.model.keys import ObjectKey
from webhook.model.known_objects import (
    HyperNode,
    HyperNodeMembers,
    HyperNodes,
    QueuedGroup,
    QueuedGroups,
    QueueTree,
    VolcanoQueue,
)
from webhook.model.projections import Missing, Projection, Resource, key_of, name_of
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text
from webhook.validators.wrong_types import COUNTS, METADATA

# The names of the nodes of one HyperNode: some hundreds.
_NODE_CHARACTERS = 10_000


def _queue(raw: Manifest) -> tuple[str, VolcanoQueue]:
    spec, state = mapping(raw.get("spec")), mapping(raw.get("status")).get("state")
    return name_of(raw), VolcanoQueue(
        name_text(spec.get("parent")),
        name_text(state),
        capability=ceiling_amounts(spec.get("capability")),
        guarantee=ceiling_amounts(mapping(spec.get("guarantee")).get("resource")),
    )


def _hyper_node(raw: Manifest) -> tuple[str, HyperNode]:
    spec = mapping(raw.get("spec"))
    tier = integer(spec.get("tier"))
    if tier is None:
        raise Missing(SPEC / "tier")
    return name_of(raw), HyperNode(tier, name_text(spec.get("tierName")), _members(spec))


def _members(spec: Mapping[str, Any]) -> HyperNodeMembers | None:
    """What a HyperNode says are its members; None if that cannot be read, or is too much to keep. As in Volcano, an
    entry of another type has no effect, and HyperNodes are members by their exact name only.
    """
    nodes, patterns, selectors, hyper_nodes = list[str](), list[str](), list[str](), list[str]()
    try:
        for member in map(mapping, sequence(spec.get("members"))):
            kind, selector = text(member.get("type")), mapping(member.get("selector"))
            exact = text(mapping(selector.get("exactMatch")).get("name"))
            pattern = text(mapping(selector.get("regexMatch")).get("pattern"))
            labels = mapping(selector.get("labelMatch"))
            if kind == "HyperNode" and exact:
                hyper_nodes.append(exact)
            elif kind == "Node":
                nodes += [exact] if exact else []
                patterns += [] if pattern is None else [pattern]
                selectors += [json.dumps(labels, sort_keys=True)] if labels else []
    except Malformed:
        return None
    found = HyperNodeMembers(" ".join(nodes), tuple(patterns), tuple(selectors), tuple(hyper_nodes))
    kept = len(found.nodes) <= _NODE_CHARACTERS and fits((*found.patterns, *found.selectors, *found.hyper_nodes))
    return found if kept and any(found) else None


def _pod_group(raw: Manifest) -> tuple[ObjectKey, QueuedGroup]:
    # The CRD's default fills in the queue.
    return key_of(raw), QueuedGroup(name_text(mapping(raw.get("spec")).get("queue")) or keys.DEFAULT_QUEUE)


QUEUES = Projection(
    "volcano_queues",
    Resource(keys.QUEUE, "queues", namespaced=False),
    _queue,
    QueueTree,
    fields=("spec.parent", "spec.capability", "spec.guarantee", "status.state"),
)
HYPER_NODES = Projection(
    "hyper_nodes",
    Resource(keys.HYPER_NODE, "hypernodes", namespaced=False),
    _hyper_node,
    HyperNodes,
    fields=("spec.tier", "spec.tierName", "spec.members"),
)
POD_GROUPS = Projection(
    "volcano_pod_groups",
    Resource(keys.POD_GROUP, "podgroups"),
    _pod_group,
    QueuedGroups,
    for_objects=True,
    fields=("spec.queue",),
)

PROJECTIONS = (QUEUES, HYPER_NODES, POD_GROUPS)

_TOPOLOGY: dict[str, Any] = {"mode": str, "highestTierAllowed": int, "highestTierName": str}
_POLICY: dict[str, Any] = {
    "name": str,
    "subGroupSize": int,
    "minSubGroups": int,
    "matchLabelKeys": list,
    "networkTopology": _TOPOLOGY,
}

# The fields that are read of PodGroups and Queues stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    keys.POD_GROUPS[:2]: {
        "metadata": METADATA,
        "spec": {
            "queue": str,
            "minMember": int,
            "minTaskMember": COUNTS,
            "networkTopology": _TOPOLOGY,
            "subGroupPolicy": [_POLICY],
        },
    },
    keys.QUEUES[:2]: {
        "spec": {"parent": str, "weight": int, "capability": {}, "deserved": {}, "guarantee": {"resource": {}}}
    },
}
