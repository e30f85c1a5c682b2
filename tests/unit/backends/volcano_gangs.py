"""The content of Volcano's PodGroups, in a short form for the tests of its backend."""

from __future__ import annotations

from typing import Any

from tests.unit.worlds import settings_of
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Record
from webhook.offline.translation import gang_objects

RECORD = Record("volcano")


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
    facts: ClusterFacts = NO_FACTS,
    record: Record = RECORD,
    **profile: Any,
) -> Any:
    (group,) = gang_objects(gang, record, settings_of("volcano", config, **profile).profiles["volcano"], facts)
    return group
