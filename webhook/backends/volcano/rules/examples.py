"""Builders of the PodGroups and Queues that Volcano's rules show as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import VolcanoQueue
from webhook.model.reading import Manifest


def pod_group(*policies: Manifest, annotations: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """A PodGroup of four pods with these subgroup policies; keywords go into its spec."""
    metadata: Manifest = {"name": "demo", "namespace": "default"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: Manifest = {"minMember": 4, **spec}
    if policies:
        body["subGroupPolicy"] = list(policies)
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": body}


def policy(role: str, size: int = 2, **fields: Any) -> Manifest:
    """The policy of a subgroup with this many pods that have a label `role`. A keyword that is None removes a field."""
    found: Manifest = {
        "name": role,
        "labelSelector": {"matchLabels": {"example.com/role": role}},
        "matchLabelKeys": ["example.com/role"],
        "subGroupSize": size,
        "minSubGroups": 1,
        **fields,
    }
    return {key: value for key, value in found.items() if value is not None}


def queue(name: str = "team-a", parent: str | None = None) -> Manifest:
    """A Queue."""
    spec: Manifest = {"weight": 1} if parent is None else {"weight": 1, "parent": parent}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


KNOWN_QUEUES = ClusterFacts(
    volcano_queues={
        "default": VolcanoQueue("root", "Open"),
        "team-a": VolcanoQueue("root", "Open"),
        "team-b": VolcanoQueue("root", "Closed"),
    }
)


def asking(queue: str) -> dict[str, str]:
    """The annotation with which a workload names its queue."""
    return {VOLCANO_QUEUE: queue}
