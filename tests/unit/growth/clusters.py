"""Clusters that grow: more objects of every kind that lives in a namespace, because its users can create many.

Of the others, such as Queues and PriorityClasses, only an administrator makes any, and a review may look at them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import PodGangs, QueuedGroups
from webhook.model.kueue_objects import KueueWorkloads
from webhook.model.pod_groups import GroupPods, Groups

# What a server keeps these in; the facts of an example may be plain dicts.
_KEPT_IN: dict[str, Any] = {
    "pod_gangs": PodGangs,
    "kai_pod_groups": QueuedGroups,
    "volcano_pod_groups": QueuedGroups,
    "pod_groups": Groups,
    "composite_pod_groups": Groups,
    "group_pods": GroupPods,
    "kueue_workloads": KueueWorkloads,
}


def larger(facts: ClusterFacts, count: int) -> ClusterFacts:
    """A cluster with so many more objects of each such kind for each that it has, all alike but for their names."""
    changed: dict[str, Any] = {}
    for part in fields(facts):
        known = getattr(facts, part.name)
        if isinstance(known, Mapping) and isinstance(next(iter(known), None), tuple):
            more = {(*above, f"{name}-{index}"): one for index in range(count) for (*above, name), one in known.items()}
            kept_in = _KEPT_IN.get(part.name, type(known))
            changed[part.name] = kept_in({**more, **known})
    return replace(facts, **changed)
