"""The networkTopology that an opted-in workload asks for with Volcano's annotations, and that its PodGroup gets.

Volcano reads the annotations only when it makes the PodGroup itself, and Rollcall's PodGroup takes its place. Those of
the workload become the topology of the whole group, those of a part's pods the topology of its subgroup. The values are
read as Volcano reads them: any mode but `soft` is hard, and a tier that is not a whole number is no tier. Source:
volcano-sh/volcano, pkg/controllers/podgroup/pg_controller_handler.go (`parseNetworkTopologyFromPod`, v1.15.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from webhook.backends.inexpressible import unknown
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.backends.volcano.topology import has_effect
from webhook.model.capabilities import Use
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Manifest
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.topology_request import VOLCANO_MODE, VOLCANO_TIER, Annotations, of_pods, of_workload

RULE = "volcano/owner-topology"
# The field of a networkTopology for each annotation.
_FIELDS = {VOLCANO_MODE: "mode", VOLCANO_TIER: "highestTierAllowed"}
# The field of the CRD has 32 bits.
_TIER = re.compile(r"[+-]?[0-9]{1,9}\Z")


class Asked(NamedTuple):
    """What one place asks for: the networkTopology, and the annotation behind each field."""

    topology: Manifest
    origins: Mapping[str, Use]

    @property
    def tier(self) -> int | None:
        """The widest tier that a hard topology allows."""
        return self.topology.get("highestTierAllowed") if self.topology["mode"] == "hard" else None


def asked_at(place: Annotations) -> Asked | None:
    """What the annotations of one place ask for."""
    origins = {_FIELDS[str(use.path.parts[-1])]: use for use in place.asks(*_FIELDS)}
    if not origins:
        return None
    mode = origins.get("mode")
    topology: Manifest = {"mode": "soft" if mode is not None and mode.value.lower() == "soft" else "hard"}
    tier = origins.get("highestTierAllowed")
    if tier is not None and _TIER.match(tier.value):
        topology["highestTierAllowed"] = int(tier.value)
    return Asked(topology, origins)


def carried_topology(
    gang: OptedInGang, settings: VolcanoSettings, facts: ClusterFacts
) -> tuple[Manifest | None, dict[str, Manifest]]:
    """The topology of the whole gang, and of its members. A tier that Volcano ignores, or in which it never places a
    gang, is left out: the gang starts without it. Raises `Inexpressible` if the tiers are not known.
    """
    if settings.topology == "off":
        return None, {}
    whole = asked_at(of_workload(gang.workload))
    # The leader and the workers of a LeaderWorkerSet are one member; the workers' template is last.
    members = {name: asked for name, parts in gang.parts.items() if parts and (asked := asked_at(of_pods(parts[-1])))}
    return _checked(whole, facts), {
        name: written for name, asked in members.items() if (written := _checked(asked, facts)) is not None
    }


def _checked(asked: Asked | None, facts: ClusterFacts) -> Manifest | None:
    if asked is None or (asked.topology["mode"] == "hard" and asked.tier is None):
        return None
    if asked.tier is not None:
        use = asked.origins["highestTierAllowed"]
        if facts.hyper_nodes is None:
            raise unknown(RULE, use.path, "the HyperNodes", "hyper_nodes")
        if not has_effect(asked.tier, facts.hyper_nodes):
            return None
    return asked.topology
