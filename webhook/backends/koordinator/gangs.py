"""PodGang to Koordinator's PodGroups: one per member, each listing all of them, in the PodGang's order.

Koordinator judges each pod by the `groups` list of its own PodGroup and ignores later edits of that list. So every list
is complete and identical from the first write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from webhook.backends.inexpressible import UnknownTopology, inexpressible, refuse_twins, unknown
from webhook.backends.koordinator import keys
from webhook.backends.koordinator.capabilities import CAPABILITIES
from webhook.backends.koordinator.carried_topology import carried_topology
from webhook.backends.koordinator.gang_settings import match_policy
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.koordinator.topology import layer_of, unavailable
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.frozen_changes import Frozen, Stage
from webhook.model.gang_object import gang_metadata
from webhook.model.naming import pod_group_name
from webhook.model.reading import Manifest, integer, mapping
from webhook.model.stored_object import StoredObject
from webhook.model.version import Version
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import Member, PodGang


def gang_objects(
    podgang: PodGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> list[Manifest]:
    """The PodGroups of `podgang`. Raises `Inexpressible` for a topology that koord-scheduler cannot apply to a whole
    gang.

    `spec.minMember` is the member's minReplicas, including 0: Grove sets it to 0 so that a rolling update can go on.
    `adopt` then keeps the recorded minimum, because for Koordinator a gang with minimum 0 is complete without any pod.
    """
    refuse_twins(podgang, "koordinator/tree")
    annotations = {
        keys.ANNOTATION_GROUPS: _compact(
            [f"{podgang.namespace}/{_name(podgang, member)}" for member in podgang.members]
        ),
        keys.ANNOTATION_MODE: settings.gangMode,
        keys.ANNOTATION_MATCH_POLICY: settings.matchPolicy,
    }
    topology = _topology(podgang, settings, version, facts)
    if topology is not None:
        annotations[keys.ANNOTATION_TOPOLOGY] = topology
    return [_pod_group(podgang, member, annotations, settings) for member in podgang.members]


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the minimum and total from before Grove released the member to 0; at least one pod."""
    if desired["spec"]["minMember"] > 0:
        return desired
    recorded = mapping(live)
    minimum = max(integer(mapping(recorded.get("spec")).get("minMember")) or 1, 1)
    annotations = dict(desired["metadata"]["annotations"])
    total = mapping(mapping(recorded.get("metadata")).get("annotations")).get(keys.ANNOTATION_TOTAL_NUMBER)
    if isinstance(total, str):
        annotations[keys.ANNOTATION_TOTAL_NUMBER] = total
    return {
        **desired,
        "metadata": {**desired["metadata"], "annotations": annotations},
        "spec": {**desired["spec"], "minMember": minimum},
    }


def remembers_start(live: Manifest) -> bool:
    """Whether koord-scheduler binds the pods of a PodGroup one by one, on any nodes, once the gang was complete. That
    is its default. The status counts the pods of today, so it does not say that all of them were replaced.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (v1.8.0, OnceResourceSatisfied).
    """
    stated = match_policy(StoredObject(live, keys.POD_GROUP.kind, keys.POD_GROUP.version))
    return stated is None or stated[0] not in {"waiting-and-running", keys.ONLY_WAITING}


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """A change of the gang's members. koord-scheduler ties the state of a GangGroup (its representative gang, whether
    it was ever satisfied) to the list that it saw first. When a PodGroup is deleted, koord-scheduler forgets its
    waiting pods. So only a gang without pods can be recreated.

    A list that someone else edited is not such a change: the list is restored.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go and gang.go (v1.8.0).
    """
    before, now = ([manifest["metadata"]["name"] for manifest in found] for found in (live, desired))
    if not live or set(before) == set(now):
        return None
    wanted = _listed(desired[0]) if desired else None
    if all(_listed(manifest) == wanted for manifest in live):
        # The last attempt stopped in the middle.
        return None
    new, gone = ([name for name in these if name not in those] for these, those in ((now, before), (before, now)))
    what = "; ".join([*(f"{name} is new" for name in new), *(f"{name} is gone" for name in gone)])
    return Frozen(what, "Koordinator ignores a change of a gang's members", Stage.EMPTY, tuple(live))


def _listed(manifest: Manifest) -> object:
    """The members that a PodGroup lists, sorted; None if the annotation is not a list."""
    written = mapping(mapping(manifest.get("metadata")).get("annotations")).get(keys.ANNOTATION_GROUPS)
    try:
        found = json.loads(written) if isinstance(written, str) else None
    except json.JSONDecodeError:
        return None
    return sorted(map(str, found)) if isinstance(found, list) else None


def _name(podgang: PodGang, member: Member) -> str:
    return pod_group_name(podgang.gang, member.name)


def _pod_group(podgang: PodGang, member: Member, shared: dict[str, str], settings: KoordinatorSettings) -> Manifest:
    annotations = dict(shared)
    # Informational since v1.7. Before, a total above the real number of pods stalled retries, so it follows the pods.
    if member.pods >= member.min_replicas > 0:
        annotations[keys.ANNOTATION_TOTAL_NUMBER] = str(member.pods)
    name = _name(podgang, member)
    metadata = gang_metadata(podgang, name, {podgang.member_label: member.name}, annotations)
    spec = {"minMember": member.min_replicas, "scheduleTimeoutSeconds": settings.scheduleTimeoutSeconds}
    api = keys.POD_GROUP
    return {"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}


def _topology(
    podgang: PodGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> str | None:
    """The network-topology-spec of the whole gang, or None if the gang asks for none."""
    if isinstance(podgang, OptedInGang):
        return carried_topology(podgang, settings, version, facts)
    _refuse_groups(podgang)
    constraints = [podgang.effective(member) for member in podgang.members]
    required = {constraint.required for constraint in constraints}
    preferred = list(dict.fromkeys(constraint.preferred for constraint in constraints if constraint.preferred))
    if required <= {None} and not preferred:
        return None
    first = constraints[0]
    if (reason := unavailable(settings, version, facts)) is not None:
        if required <= {None}:
            return None
        raise inexpressible("koordinator/topology-unavailable", first.path, first.required, reason)
    if len(required) > 1:
        support = CAPABILITIES[Capability.TOPOLOGY_DIVERGENT]
        other = next(constraint for constraint in constraints if constraint.required != first.required)
        raise inexpressible("koordinator/divergent-topology", other.path, other.required, support.why)
    strategy = []
    try:
        if first.required is not None:
            layer = layer_of(first.required, settings, facts)
            if layer is None:
                why = "no layer of the ClusterNetworkTopology has that label key"
                raise inexpressible("koordinator/topology-layer", first.path / "required", first.required, why)
            strategy.append({"layer": layer, "strategy": "MustGather"})
        for key in preferred:
            if (layer := layer_of(key, settings, facts)) is not None:
                strategy.append({"layer": layer, "strategy": "PreferGather"})
    except UnknownTopology as missing:
        raise unknown("koordinator/topology-layer", first.path, missing.needs, missing.part) from None
    return _compact({"gatherStrategy": strategy}) if strategy else None


def _refuse_groups(podgang: PodGang) -> None:
    for config in podgang.group_configs:
        constraint = config.constraint
        if constraint.required or constraint.preferred:
            support = CAPABILITIES[Capability.TOPOLOGY_SCALING_GROUP]
            found = constraint.required or constraint.preferred
            raise inexpressible("koordinator/scaling-group-topology", config.path, found, support.why)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
