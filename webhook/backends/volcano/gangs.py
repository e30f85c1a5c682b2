"""PodGang to Volcano's PodGroup: one PodGroup with the gang's name, with a subgroup for each member.

A subgroup without matchLabelKeys never gets a pod, and one without minSubGroups requires nothing (both seen). So
each member's minimum holds, and minMember is their sum. Surplus pods of a member are elastic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from webhook.backends.inexpressible import NoTopology, UnknownTopology, inexpressible, refuse_twins, unknown
from webhook.backends.volcano import keys
from webhook.backends.volcano.capabilities import PREFERRED, TOPOLOGY_OFF
from webhook.backends.volcano.carried_topology import carried_topology
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.backends.volcano.topology import tier_of
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.gang_object import gang_metadata
from webhook.model.keys import Record
from webhook.model.naming import LABEL_VALUE_LIMIT, cut_name, is_subdomain
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.workloads.gang import OptedInGang
from webhook.model.workloads.podgang import PackConstraint, PodGang
from webhook.model.workloads.workload import QUEUE_ANNOTATIONS


def gang_objects(podgang: PodGang, record: Record, settings: VolcanoSettings, facts: ClusterFacts) -> list[Manifest]:
    """The PodGroup of `podgang`. Raises `Inexpressible` for a topology that Volcano cannot express.

    A member that Grove has released (minReplicas 0, so that a rolling update can go on) has subGroupSize 0 here.
    `adopt` keeps the last positive one, because for Volcano a gang with minMember 0 is complete.

    The queue `default` is left out. The API server fills it in, and Volcano's own webhook may then put the group into
    the queue of its namespace at creation. Writing `default` again would move the group back, unseen by any webhook.
    """
    refuse_twins(podgang, "volcano/tree")
    whole, parts = _topologies(podgang, settings, facts)
    queue = queue_of_gang(podgang, record) or settings.defaultQueue
    if not is_subdomain(queue):
        why = "it is not a DNS subdomain, so Volcano's CRD refuses it"
        raise inexpressible("volcano/queue-name", ANNOTATIONS / VOLCANO_QUEUE, queue, why)
    spec: Manifest = {"minMember": sum(member.min_replicas for member in podgang.members)}
    if queue != keys.DEFAULT_QUEUE:
        spec["queue"] = queue
    if record.priority_class is not None:
        spec["priorityClassName"] = record.priority_class
    if whole is not None:
        spec["networkTopology"] = whole
    spec["subGroupPolicy"] = [
        _subgroup(podgang.member_label, member.name, member.min_replicas, parts.get(member.name))
        for member in podgang.members
    ]
    api, metadata = keys.POD_GROUP, gang_metadata(podgang, podgang.gang)
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def queue_of_gang(podgang: PodGang, record: Record) -> str | None:
    """The queue that a gang's workload names. For an opted-in workload, Volcano's own annotation counts as well."""
    return queue_named(record, opted_in=isinstance(podgang, OptedInGang))


def queue_named(record: Record, *, opted_in: bool) -> str | None:
    """The same by the record of the workload alone."""
    keys = QUEUE_ANNOTATIONS if opted_in else (VOLCANO_QUEUE,)
    return next((named for key in keys if (named := record.queue(key)) is not None), None)


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """`desired` with the sizes from before Grove released its members to 0 (at least one pod each).

    Fields outside `desired` belong to others and stay because they are not sent: the queue of a group that asked for
    none, minResources, a networkTopology that others set, their labels and annotations, and above all status. The
    PodGroup has no status subresource, so sending the status, even unchanged, could put a running gang back to Pending.
    """
    spec = desired["spec"]
    recorded = {
        text(mapping(policy).get("name")): integer(mapping(policy).get("subGroupSize"))
        for policy in sequence(mapping(mapping(live).get("spec")).get("subGroupPolicy"))
    }
    policies = [
        policy if policy["subGroupSize"] > 0 else {**policy, "subGroupSize": max(recorded.get(policy["name"]) or 1, 1)}
        for policy in spec["subGroupPolicy"]
    ]
    minimum = max(sum(policy["subGroupSize"] for policy in policies), 1)
    return {**desired, "spec": {**spec, "minMember": minimum, "subGroupPolicy": policies}}


def _subgroup(label: str, name: str, minimum: int, topology: Manifest | None) -> Manifest:
    policy: Manifest = {
        "name": name,
        "labelSelector": {"matchLabels": {label: cut_name(name, LABEL_VALUE_LIMIT)}},
        "matchLabelKeys": [label],
        "subGroupSize": minimum,
        "minSubGroups": 1,
    }
    if topology is not None:
        policy["networkTopology"] = topology
    return policy


def _topologies(
    podgang: PodGang, settings: VolcanoSettings, facts: ClusterFacts
) -> tuple[Manifest | None, dict[str, Manifest]]:
    """The networkTopology of the whole gang, and those of single members."""
    if isinstance(podgang, OptedInGang):
        return carried_topology(podgang, settings, facts)
    whole, parts = _tiers(podgang, settings, facts)
    hard = {name: _network_topology(tier) for name, tier in parts.items()}
    return None if whole is None else _network_topology(whole), hard


def _network_topology(tier: int) -> Manifest:
    return {"mode": "hard", "highestTierAllowed": tier}


class _Asked(NamedTuple):
    """A constraint of the PodGang, and the members that it covers; None stands for the whole gang."""

    path: FieldPath
    constraint: PackConstraint
    members: Sequence[str] | None


def _asked(podgang: PodGang) -> Iterator[_Asked]:
    yield _Asked(podgang.constraint.path, podgang.constraint, None)
    for config in podgang.group_configs:
        yield _Asked(config.path, config.constraint, config.members)
    for member in podgang.members:
        yield _Asked(member.constraint.path, member.constraint, [member.name])


def _tiers(podgang: PodGang, settings: VolcanoSettings, facts: ClusterFacts) -> tuple[int | None, dict[str, int]]:
    """The tier of the whole gang, and the tiers of single members. A member's narrowest constraint wins."""
    whole: int | None = None
    parts: dict[str, int] = {}
    known = {member.name for member in podgang.members}
    topology = podgang.topology_name
    for path, constraint, members in _asked(podgang):
        if (preferred := constraint.preferred) is not None:
            raise inexpressible("volcano/preferred-topology", constraint.path / "preferred", preferred, PREFERRED.why)
        if (required := constraint.required) is None:
            continue
        if settings.topology == "off":
            raise inexpressible("volcano/topology-unavailable", path, required, TOPOLOGY_OFF.why)
        if members is not None and (len(members) != 1 or members[0] not in known):
            why = "volcano supports topology for a whole gang or for one clique, not for a group of cliques"
            raise inexpressible("volcano/scaling-group-topology", path, required, why)
        try:
            tier = tier_of(required, topology, facts)
        except NoTopology as reason:
            place = constraint.path / "required"
            raise inexpressible("volcano/topology-tier", place, required, reason.why) from None
        except UnknownTopology as missing:
            raise unknown("volcano/topology-tier", constraint.path, missing.needs, missing.part) from None
        if members is None:
            whole = tier
        else:
            parts[members[0]] = min(tier, parts.get(members[0], tier))
    return whole, parts
