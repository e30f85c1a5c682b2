"""Builders of the PodGroups and Queues that KAI's rules show as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model.reading import Manifest


def pod_group(
    *subgroups: Manifest,
    name: str = "demo",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A PodGroup in the queue `team-a` with these subgroups; other keywords go into its spec."""
    metadata: Manifest = {"name": name, "namespace": "default"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: Manifest = {"queue": "team-a", **spec}
    if subgroups:
        body["subGroups"] = list(subgroups)
    found = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": body}
    return found if status is None else {**found, "status": dict(status)}


def subgroup(name: str, pods: int | None = None, parent: str | None = None, **fields: Any) -> Manifest:
    """A subgroup; with a number of pods, it is a leaf."""
    found: Manifest = {"name": name, **fields}
    if parent is not None:
        found["parent"] = parent
    if pods is not None:
        found["minMember"] = pods
    return found


def queue(name: str = "team-a", parent: str | None = None, labels: Mapping[str, str] | None = None) -> Manifest:
    """A Queue."""
    metadata: Manifest = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec: Manifest = {"resources": {"cpu": share, "gpu": share, "memory": share}}
    if parent is not None:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}
