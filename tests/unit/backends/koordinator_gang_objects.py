"""Koordinator's PodGroups and their pods, judged by its rules."""

from __future__ import annotations

from typing import Any

from tests.unit.worlds import koordinator, rules, validate
from webhook.backends.koordinator.gang_groups import pod_group_cluster
from webhook.backends.koordinator.keys import LABEL_POD_GROUP
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import TopologyLayer
from webhook.model.reading import Manifest

LAYERS = {
    "default": (
        TopologyLayer("SpineLayer", None, ("example.com/spine",)),
        TopologyLayer("BlockLayer", "SpineLayer", ("example.com/block",)),
        TopologyLayer("NodeTopologyLayer", "BlockLayer", ()),
    )
}
CLUSTER = pod_group_cluster(network_topologies=LAYERS)


WORKER = {LABEL_POD_GROUP: "worker"}


def found(manifest: Manifest, facts: ClusterFacts = CLUSTER, old: Manifest | None = None, **config: Any) -> list[str]:
    """The rules that say something, without their prefix."""
    return [rule.removeprefix("koordinator/") for rule in rules(judged(manifest, facts, old, **config))]


def judged(manifest: Manifest, facts: ClusterFacts = CLUSTER, old: Manifest | None = None, **config: Any) -> Verdict:
    return validate(manifest, old, settings=koordinator(config), facts=facts)
