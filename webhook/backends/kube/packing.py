"""What kube-scheduler places together.

1.35 and 1.36, and 1.37 without composites: the pods of one group; groups are independent of each other. 1.37 with
composites: all groups of the tree, each in the domain that it or a group above it requires. Which feature gates the
scheduler has is not visible in the API: without CompositePodGroup in `schedulerGates` only the sum counts, and a domain
only with TopologyAwareWorkloadScheduling, too.

From 1.38 on a node whose label is empty is in no domain. What the API server serves does not show that: its
kube-scheduler may be older. So such nodes count as one domain for *never*, and a gang is not said to fit beside them,
unless nothing was read from a cluster and the release was stated, which is then that of the scheduler as well.

Source: k8s.io/kubernetes pkg/scheduler/schedule_one_podgroup.go, framework/plugins/{gangscheduling,topologyaware}
(v1.35.4, v1.36.3, v1.37.0); k8s.io/api v0.38.0-beta.0, scheduling/v1beta1 (TopologyConstraint).
"""

from __future__ import annotations

from dataclasses import replace

from webhook.backends.kube.generation import Generation, generation, is_assumed, is_of_1_38, workload_apis
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.settings import KubeSettings
from webhook.fit.packing import Packing, Partition
from webhook.fit.roles import Roles, all_together, in_no_domain, members_apart, pods_one_by_one
from webhook.fit.shape import GangShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.nodes import Nodes

# In 1.37 GangScheduling is merged into GenericWorkload, which the other gates need.
_GANGS = frozenset({"GenericWorkload", "GangScheduling", "CompositePodGroup", "TopologyAwareWorkloadScheduling"})
_TREES, _TOPOLOGY = "CompositePodGroup", "TopologyAwareWorkloadScheduling"


def packing_of(shape: GangShape, roles: Roles, settings: KubeSettings, facts: ClusterFacts) -> Packing:
    """Return what kube-scheduler places together of a gang."""
    gates = settings.schedulerGates
    if not settings.gangScheduling or (gates is not None and _GANGS.isdisjoint(gates)):
        return pods_one_by_one(shape, roles)
    spoken = generation(settings, workload_apis(settings, facts))
    if spoken is None:
        return Packing((), unknown=("the version of the Workload API",))
    if spoken is not Generation.TREE:
        return _flat(shape, roles, settings, spoken)
    if gates is None or _TREES not in gates:
        # Whether or not its groups wait for each other, a gang whose sum fits nowhere never runs whole.
        return _without(all_together(shape, roles, in_no_domain), "the gates of kube-scheduler (schedulerGates)")
    if _TOPOLOGY in gates:
        return _in_domains(shape, roles, settings, facts)
    if shape.required or shape.subsets or any(member.required for member in shape.members):
        return _without(all_together(shape, roles, in_no_domain), "topology, as the scheduler's gate for it is off")
    return all_together(shape, roles)


def _flat(shape: GangShape, roles: Roles, settings: KubeSettings, spoken: Generation) -> Packing:
    """Return the packing without composites. Rollcall writes no groups for a gang that these cannot express."""
    members = {member.part or member.name for member in shape.members}
    if len(members) <= 1 or is_merged(settings, spoken):
        if len(members) > 1 and any(0 < member.minimum < member.pods for member in shape.members):
            return Packing((), unknown=("how a merged group counts pods above the minimum",))
        return all_together(shape, roles)
    return members_apart(shape, roles)


def _in_domains(shape: GangShape, roles: Roles, settings: KubeSettings, facts: ClusterFacts) -> Packing:
    """Return the packing with the domains that the groups require."""
    filled = is_assumed(settings, facts) and is_of_1_38(workload_apis(settings, facts)) is True
    keys: set[str] = set()

    def domain(key: str, at: FieldPath | None) -> Partition:
        keys.add(key)
        return _domain(key, at, shape.topology_name, facts, filled=filled)

    packing = all_together(shape, roles, domain)
    empty = [] if filled or facts.nodes is None else [key for key in sorted(keys) if _has_empty(key, facts.nodes)]
    return _without(packing, f"nodes whose label {empty[0]} is empty") if empty else packing


def _has_empty(key: str, nodes: Nodes) -> bool:
    """Return whether a node has this label with an empty value."""
    return nodes.remembered(("empty label", key), lambda: any(node.labels.get(key) == "" for node in nodes.values()))


def _domain(key: str, at: FieldPath | None, binding: str | None, facts: ClusterFacts, *, filled: bool) -> Partition:
    """Return the domains of a label, and the next broader ones of the same ClusterTopologyBinding."""
    found = None if binding is None else (facts.topology_bindings or {}).get(binding)
    partition = None
    for domain, label in () if found is None else found.keys.items():
        partition = Partition(domain, (label,), at, broader=partition, filled=filled)
        if label == key:
            return partition
    return Partition(key, (key,), at, filled=filled)


def _without(found: Packing, what: str) -> Packing:
    return replace(found, left_out=(*found.left_out, what))
