"""The fields that are read of KAI PodGroups and Queues stored by other authors, with the type of each field."""

from __future__ import annotations

from typing import Any

from webhook.backends.kai.subgroups import POD_GROUPS, QUEUES

_SUBGROUP: dict[str, Any] = {
    "minMember": int,
    "minSubGroup": int,
    "topologyConstraint": {"topology": str, "requiredTopologyLevel": str, "preferredTopologyLevel": str},
}

SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {
        "spec": {
            **_SUBGROUP,
            "queue": str,
            "priorityClassName": str,
            "preemptibility": str,
            "stalenessGracePeriod": str,
            "subGroups": [{"name": str, "parent": str, **_SUBGROUP}],
        },
        "status": {"resourcesStatus": {"allocated": {}}},
    },
    QUEUES[:2]: {"spec": {"parentQueue": str}},
}
