"""The network-topology-spec that an opted-in workload asks for, and that its PodGroups get.

koord-scheduler reads the annotation on a pod only if no label names the pod's PodGroup, and Rollcall sets that label.
So the annotation is written on the PodGroups. All PodGroups of a gang need the same one.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.backends.inexpressible import unknown
from webhook.backends.koordinator.gang_settings import Unreadable, read_topology
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.koordinator.topology import declared_layers, required_layers, unavailable, undeclared
from webhook.model.capabilities import Use
from webhook.model.facts import ClusterFacts
from webhook.model.version import Version
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.topology_request import KOORDINATOR_TOPOLOGY, of_pods, of_workload
from webhook.model.workloads.workload import OptedInWorkload, Part

RULE = "koordinator/owner-topology"


def asked_by(workload: OptedInWorkload, parts: Sequence[Part]) -> list[Use | None]:
    """The annotation of each part: that of its pods, else the workload's."""
    own = next(iter(of_workload(workload).asks(KOORDINATOR_TOPOLOGY)), None)
    return [next(iter(of_pods(part).asks(KOORDINATOR_TOPOLOGY)), own) for part in parts]


def differing(asked: Sequence[Use | None]) -> Use | None:
    """A place whose annotation differs from that of another part of the same gang."""
    first = asked[0] if asked else None
    for use in asked[1:]:
        if (use and use.value) != (first and first.value):
            return use or first
    return None


def carried_topology(
    gang: OptedInGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> str | None:
    """The annotation of the gang's PodGroups. One with which no attempt to place the gang would succeed is left out:
    the gang starts without it. Raises `Inexpressible` if the layers are not known.
    """
    asked = asked_by(gang.workload, [part for parts in gang.parts.values() for part in parts])
    use = asked[0] if asked else None
    if use is None or differing(asked) is not None:
        return None
    try:
        layers = read_topology(use.value)
    except Unreadable:
        # koord-scheduler drops all of it.
        return None
    if unavailable(settings, version, facts) is not None:
        return None
    if not required_layers(layers):
        return str(use.value)
    names = declared_layers(facts)
    if names is None:
        raise unknown(RULE, use.path, "the ClusterNetworkTopology", "network_topologies")
    return str(use.value) if next(undeclared(layers, names), None) is None else None
