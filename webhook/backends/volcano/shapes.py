"""The fields that are read of Volcano PodGroups and Queues stored by other authors, with the type of each field."""

from __future__ import annotations

from typing import Any

from webhook.backends.volcano.pod_group_rules import POD_GROUPS
from webhook.backends.volcano.queue_rules import QUEUES
from webhook.validators.wrong_types import COUNTS, METADATA

_TOPOLOGY: dict[str, Any] = {"mode": str, "highestTierAllowed": int, "highestTierName": str}
_POLICY: dict[str, Any] = {
    "name": str,
    "subGroupSize": int,
    "minSubGroups": int,
    "matchLabelKeys": list,
    "networkTopology": _TOPOLOGY,
}

SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {
        "metadata": METADATA,
        "spec": {
            "queue": str,
            "minMember": int,
            "minTaskMember": COUNTS,
            "networkTopology": _TOPOLOGY,
            "subGroupPolicy": [_POLICY],
        },
    },
    QUEUES[:2]: {"spec": {"parent": str}},
}
