"""PodGangs and what Volcano's PodGroups say of them, short to write for the tests of its backend."""

from __future__ import annotations

from typing import Any

from tests.core.worlds import settings_of
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts, Record
from webhook.model.podgang import PodGang
from webhook.translation import gang_objects

RECORD = Record("volcano")


def podgang(*members: dict[str, Any], annotations: dict[str, str] | None = None, **spec: Any) -> PodGang:
    return PodGang(
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "demo-0", "namespace": "team-a", "uid": "5f1d", "annotations": annotations or {}},
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


def subgroup(name: str, size: int, tier: int | None = None) -> dict[str, Any]:
    topology = {} if tier is None else {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}
    return {
        "name": name,
        "labelSelector": {"matchLabels": {"grove.io/podclique": name}},
        "matchLabelKeys": ["grove.io/podclique"],
        "subGroupSize": size,
        "minSubGroups": 1,
        **topology,
    }


def translated(
    gang: PodGang,
    config: dict[str, Any] | None = None,
    facts: ClusterFacts = NOTHING_KNOWN,
    record: Record = RECORD,
    **profile: Any,
) -> Any:
    (group,) = gang_objects(gang, record, settings_of("volcano", config, **profile).profiles["volcano"], facts)
    return group
