"""PodGangs as Grove's operator writes them, in a short form for the tests of the backends."""

from __future__ import annotations

from typing import Any

from webhook.model.grove import PodGang

# The owner of a gang object of `podgang()`: its PodCliqueSet.
OWNER = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "demo",
    "uid": "9c0e",
    "controller": True,
    "blockOwnerDeletion": True,
}
# Its owner while no PodCliqueSet controls the PodGang.
POD_GANG_OWNER = {
    **OWNER,
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "name": "demo-0",
    "uid": "5f1d",
}


def podgang(*members: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> PodGang:
    metadata = {"name": "demo-0", "namespace": "team-a", "uid": "5f1d", "annotations": annotations or {}}
    return PodGang(
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {**metadata, "ownerReferences": [OWNER]},
            "spec": {"podgroups": list(members), **spec},
        }
    )


def member(name: str, minimum: int, pods: int = 2, **fields: Any) -> dict[str, Any]:
    references = [{"namespace": "team-a", "name": f"{name}-{index}"} for index in range(pods)]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **fields}


def asks(required: str | None = None, preferred: str | None = None) -> dict[str, Any]:
    pack = {key: value for key, value in (("required", required), ("preferred", preferred)) if value}
    return {"topologyConstraint": {"packConstraint": pack}}


def of_group(required: str, *members: str) -> dict[str, Any]:
    return {"topologyConstraintGroupConfigs": [{"name": "g-0", "podGroupNames": list(members), **asks(required)}]}
