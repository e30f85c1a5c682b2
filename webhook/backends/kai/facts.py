"""What KAI's rules know of a cluster: its queues, its topologies, and the node pools that its shards serve.

Source: kai-scheduler/KAI-Scheduler, deployments/kai-scheduler/crds (Queue v2, Topology v1alpha1, SchedulingShard v1).
"""

from __future__ import annotations

from webhook.backends.kai import keys
from webhook.model.facts import KaiQueue
from webhook.model.fields import SPEC, Item
from webhook.model.projections import Projection, Resource, labels_of, name_of, required
from webhook.model.reading import Manifest, mapping, sequence, text


def _queue(raw: Manifest) -> tuple[str, KaiQueue]:
    labels = {key: text(value) or "" for key, value in labels_of(raw).items()}
    return name_of(raw), KaiQueue(text(mapping(raw.get("spec")).get("parentQueue")), labels)


def _topology(raw: Manifest) -> tuple[str, tuple[str, ...]]:
    levels = []
    for index, level in enumerate(sequence(mapping(raw.get("spec")).get("levels"))):
        place = SPEC / "levels" / Item(index) / "nodeLabel"
        levels.append(required(text(mapping(level).get("nodeLabel")), place))
    return name_of(raw), tuple(levels)


def _shard(raw: Manifest) -> tuple[str, str | None]:
    return name_of(raw), text(mapping(raw.get("spec")).get("partitionLabelValue"))


QUEUES = Projection("kai_queues", Resource(keys.QUEUE, "queues", namespaced=False), _queue)
TOPOLOGIES = Projection("kai_topologies", Resource(keys.TOPOLOGY, "topologies", namespaced=False), _topology)
SHARDS = Projection("kai_shards", Resource(keys.SHARD, "schedulingshards", namespaced=False), _shard)

PROJECTIONS = (QUEUES, TOPOLOGIES, SHARDS)
