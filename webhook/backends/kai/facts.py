"""The facts that KAI's rules read: queues, the PodGroups in each queue, topologies, and the node pools of the shards.

Source: kai-scheduler/KAI-Scheduler, deployments/kai-scheduler/crds (Queue v2, PodGroup v2alpha2, Topology v1alpha1,
SchedulingShard v1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from webhook.backends.kai import keys
from webhook.model.amounts import LARGEST_AMOUNT
from webhook.model.bounds import labels_kept, name_text
from webhook.model.fields import SPEC, Item
from webhook.model.keys import ObjectKey
from webhook.model.known_objects import KaiLevels, KaiQueue, QueuedGroup, QueuedGroups, QueueTree
from webhook.model.projections import Projection, Resource, key_of, labels_of, name_of, required
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.record import OWN_LABELS

# What a Queue counts in: GPUs (kept in milli), millicores, and millions of bytes.
_UNITS = {"gpu": 1000, "cpu": 1, "memory": 10**6}
_UNLIMITED = -1


def _queue(raw: Manifest) -> tuple[str, KaiQueue]:
    labels, whole = labels_kept(labels_of(raw), first=OWN_LABELS)
    spec = mapping(raw.get("spec"))
    return name_of(raw), KaiQueue(
        name_text(spec.get("parentQueue")),
        labels,
        not whole,
        limit=_stated(spec, "limit"),
        quota=_stated(spec, "quota"),
    )


def _stated(spec: Mapping[str, Any], kind: str) -> dict[str, int | None] | None:
    """What a Queue states of each resource, with None for no limit: exactly -1, and for memory any negative number.
    None as a whole if another number is negative or overflows: what KAI makes of that is not known.
    Source: pkg/scheduler/plugins/proportion (`createQueueResourceAttrs`), v0.16.8.
    """
    found: dict[str, int | None] = {}
    resources = mapping(spec.get("resources"))
    for resource, unit in _UNITS.items():
        shares = resources.get(resource)
        said = shares.get(kind) if isinstance(shares, dict) else None
        if said is not None:
            amount = parse_quantity(said)
            # A number that cannot be read limits nothing.
            unlimited = amount is None or amount == _UNLIMITED or (amount < 0 and resource == "memory")
            if amount is not None and not unlimited and not 0 <= amount * unit <= LARGEST_AMOUNT:
                return None
            found[resource] = None if unlimited or amount is None else math.ceil(amount * unit)
    return found


def _topology(raw: Manifest) -> tuple[str, KaiLevels]:
    levels, aliases = [], {}
    for index, level in enumerate(sequence(mapping(raw.get("spec")).get("levels"))):
        place = SPEC / "levels" / Item(index) / "nodeLabel"
        key = required(text(mapping(level).get("nodeLabel")), place)
        levels.append(key)
        if (alias := text(mapping(level).get("alias"))) is not None:
            aliases[alias] = key
    return name_of(raw), KaiLevels(levels, aliases)


def _pod_group(raw: Manifest) -> tuple[ObjectKey, QueuedGroup]:
    return key_of(raw), QueuedGroup(name_text(mapping(raw.get("spec")).get("queue")))


def _shard(raw: Manifest) -> tuple[str, str | None]:
    return name_of(raw), name_text(mapping(raw.get("spec")).get("partitionLabelValue"))


QUEUES = Projection(
    "kai_queues",
    Resource(keys.QUEUE, "queues", namespaced=False),
    _queue,
    QueueTree,
    fields=("metadata.labels", "spec.parentQueue", "spec.resources"),
)
TOPOLOGIES = Projection(
    "kai_topologies", Resource(keys.TOPOLOGY, "topologies", namespaced=False), _topology, fields=("spec.levels",)
)
SHARDS = Projection(
    "kai_shards",
    Resource(keys.SHARD, "schedulingshards", namespaced=False),
    _shard,
    fields=("spec.partitionLabelValue",),
)
POD_GROUPS = Projection(
    "kai_pod_groups",
    Resource(keys.POD_GROUP, "podgroups"),
    _pod_group,
    QueuedGroups,
    for_objects=True,
    fields=("spec.queue",),
)

PROJECTIONS = (QUEUES, TOPOLOGIES, SHARDS, POD_GROUPS)

_SUBGROUP: dict[str, Any] = {
    "minMember": int,
    "minSubGroup": int,
    "topologyConstraint": {"topology": str, "requiredTopologyLevel": str, "preferredTopologyLevel": str},
}

# The fields that are read of PodGroups and Queues stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    keys.POD_GROUPS[:2]: {
        "spec": {
            **_SUBGROUP,
            "queue": str,
            "priorityClassName": str,
            "preemptibility": str,
            "preemptionDelay": str,
            "stalenessGracePeriod": str,
            "subGroups": [{"name": str, "parent": str, **_SUBGROUP}],
        },
        "status": {"resourcesStatus": {"allocated": {}}},
    },
    keys.QUEUES[:2]: {"spec": {"parentQueue": str, "resources": {}}},
}
