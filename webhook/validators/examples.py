"""Builders of the small objects that rules show as passing and failing examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.model.reading import Manifest

# The uid of an owner that exists.
OWNER_UID = "7c1c5bd2-5d4f-4b0e-9a35-4a6a9d0b1c11"


def pod_clique_set(
    *cliques: Manifest,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    groups: Sequence[Manifest] = (),
    **template: Any,
) -> Manifest:
    """A PodCliqueSet `demo` with these cliques and scaling groups; other keywords go into `spec.template`."""
    metadata: Manifest = {"name": "demo", "namespace": "default"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: Manifest = {"cliques": list(cliques) or [clique("worker")]}
    if groups:
        body["podCliqueScalingGroups"] = list(groups)
    spec = {"replicas": 1, "template": {**body, **template}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


def clique(
    name: str,
    *,
    replicas: int = 2,
    minimum: int | None = None,
    requests: Mapping[str, str] | None = None,
    pod: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Manifest:
    """A clique of one container; `pod` goes into its pod spec, other keywords go beside `spec`."""
    container: Manifest = {"name": "main", "image": "example.com/main"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    spec: Manifest = {
        "roleName": name,
        "replicas": replicas,
        "podSpec": {"containers": [container], **(pod or {})},
    }
    if minimum is not None:
        spec["minAvailable"] = minimum
    return {"name": name, "spec": spec, **fields}


def scaling_group(name: str, *clique_names: str, **fields: Any) -> Manifest:
    """A scaling group over these cliques."""
    return {"name": name, "cliqueNames": list(clique_names), **fields}


def required(domain: str) -> Manifest:
    """A topologyConstraint that requires `domain` of the binding `dc`."""
    return {"topologyName": "dc", "pack": {"required": domain}}


def preferred(domain: str) -> Manifest:
    """A topologyConstraint that prefers `domain` of the binding `dc`."""
    return {"topologyName": "dc", "pack": {"preferred": domain}}
