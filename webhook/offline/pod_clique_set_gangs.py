"""The PodGangs that a PodCliqueSet will have, and one pod of each, without I/O.

The names and the topology follow the generation of Grove. PodGroups have the names of PodCliques, which are the same in
all versions.
Source: ai-dynamo/grove, operator/internal/controller/podcliqueset/components/podgang/syncflow.go; pull request 778.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from webhook.config.settings import Profile
from webhook.errors import FactsUnavailable
from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.grove_generation import GroveGeneration, PodGangNames
from webhook.model.reading import Manifest, mapping
from webhook.model.record import record_of
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import Clique, GroupCliques, PodCliqueSet, ScalingGroup, Topology
from webhook.model.workloads.podgang import PodGang
from webhook.mutators.prepare_pod import prepare_pod
from webhook.offline.overridden import name_scheduler


class ExpectedGang(NamedTuple):
    """A PodGang that a PodCliqueSet will have, and one of its pods as Grove's operator will create it."""

    podgang: PodGang
    pod: Manifest


def pod_gangs_of(workload: PodCliqueSet, facts: ClusterFacts, names: PodGangNames) -> Iterator[ExpectedGang]:
    """Yield the PodGangs of `workload`: for each replica the one that starts first, then one for each scaling-group
    replica above minAvailable.

    Raises `FactsUnavailable` if a topology constraint needs an unknown ClusterTopologyBinding.
    """
    groups = workload.groups_with_cliques()
    for replica in range(workload.replicas):
        base = f"{workload.name}-{replica}"
        members = [(f"{base}-{clique.name}", clique) for clique in workload.cliques if clique.group is None]
        configs: list[Manifest] = []
        for one in groups:
            for index in range(one.group.first_replicas):
                own = _group_members(one, base, index)
                members += own
                configs += _group_configs(workload, one.group, f"{base}-{one.group.name}-{index}", own, facts)
        if members or names.generation is GroveGeneration.LEGACY:
            yield _gang(workload, names.first(base), members, workload.topology, facts, configs)
        for one in groups:
            for index in range(one.group.min_available, one.group.replicas):
                yield _further_gang(workload, one, base, index, facts, names)


def pods_of_set(workload: PodCliqueSet) -> int:
    """Return how many pods `workload` will have, without listing them."""
    alone = sum(clique.replicas for clique in workload.cliques if clique.group is None)
    # By group and not by clique: a faulty set may name a clique in two groups.
    grouped = sum(
        max(one.group.replicas, 0) * sum(clique.replicas for clique in one.cliques)
        for one in workload.groups_with_cliques()
    )
    return max(workload.replicas, 0) * (alone + grouped)


def prepared(gang: ExpectedGang, workload: PodCliqueSet, profile: Profile, facts: ClusterFacts) -> Manifest:
    """Return the pod of `gang` as PreparePod changes it; unchanged if another system has claimed it."""
    raw = deepcopy(gang.pod)
    name_scheduler(raw, profile.name)
    pod = Pod(raw)
    member = profile.member(
        pod.namespace, pod.podgang or "", pod.podclique or "", record_of(workload, profile.name), facts
    )
    prepare_pod(pod, profile, member)
    return pod.raw


def pod_of_clique(workload: PodCliqueSet, podgang: str, name: str, clique: Clique) -> Manifest:
    """Return a pod of the PodClique `name` in `podgang` as Grove's operator creates it."""
    labels = {
        **mapping(clique.raw.get("labels")),
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: workload.name,
        grove.LABEL_PODCLIQUE: name,
        grove.LABEL_PODGANG: podgang,
    }
    metadata: Manifest = {"generateName": f"{name}-", "namespace": workload.namespace, "labels": labels}
    if clique.annotations:
        metadata["annotations"] = dict(clique.annotations)
    spec = deepcopy(dict(clique.pod_spec))
    spec.setdefault("schedulerName", "default-scheduler")
    spec["schedulingGates"] = [{"name": grove.GATE}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _group_members(one: GroupCliques, base: str, index: int) -> list[tuple[str, Clique]]:
    return [(f"{base}-{one.group.name}-{index}-{clique.name}", clique) for clique in one.cliques]


def _further_gang(
    workload: PodCliqueSet, one: GroupCliques, base: str, index: int, facts: ClusterFacts, names: PodGangNames
) -> ExpectedGang:
    """Return the gang of a scaling-group replica above the minimum. The constraint of its group is that of the whole
    gang up to v0.1.0-alpha.11, and one on a subset of it since.
    """
    group = one.group
    name, members = names.further(base, group, index), _group_members(one, base, index)
    if names.generation is GroveGeneration.LEGACY:
        return _gang(workload, name, members, group.topology or workload.topology, facts)
    configs = _group_configs(workload, group, f"{base}-{group.name}-{index}", members, facts)
    return _gang(workload, name, members, workload.topology, facts, list(configs))


def _group_configs(
    workload: PodCliqueSet, group: ScalingGroup, name: str, members: list[tuple[str, Clique]], facts: ClusterFacts
) -> Iterator[Manifest]:
    """Yield the constraint on one replica of a scaling group, if the group has one."""
    if (constraint := _constraint(workload, group.topology, facts)) is not None:
        yield {"name": name, "podGroupNames": [full for full, _ in members], "topologyConstraint": constraint}


def _gang(
    workload: PodCliqueSet,
    name: str,
    members: list[tuple[str, Clique]],
    topology: Topology | None,
    facts: ClusterFacts,
    configs: Sequence[Manifest] = (),
) -> ExpectedGang:
    spec: Manifest = {"podgroups": [_pod_group(workload, full, clique, facts) for full, clique in members]}
    if configs:
        spec["topologyConstraintGroupConfigs"] = list(configs)
    if (constraint := _constraint(workload, topology, facts)) is not None:
        spec["topologyConstraint"] = constraint
    labels = {
        **_mirrored(workload.labels),
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: workload.name,
    }
    annotations = _mirrored(workload.annotations)
    constrained = [spec, *spec["podgroups"], *configs]
    if (topology_name := workload.topology_name()) and any("topologyConstraint" in holder for holder in constrained):
        annotations[grove.TOPOLOGY_NAME] = topology_name
    metadata: Manifest = {"name": name, "namespace": workload.namespace, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    raw = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": metadata, "spec": spec}
    return ExpectedGang(PodGang(raw), pod_of_clique(workload, name, *members[0]) if members else {})


def _mirrored(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels or annotations of a set that Grove's operator copies onto its PodGangs: all except Grove's own
    keys. A scheduler may read them there, as KAI reads its node pool.
    """
    return {key: value for key, value in own.items() if not key.startswith(f"{grove.GROUP}/")}


def _pod_group(workload: PodCliqueSet, name: str, clique: Clique, facts: ClusterFacts) -> Manifest:
    # The pods have no names yet; only their number matters.
    references = [{"namespace": workload.namespace, "name": f"{name}-{index}"} for index in range(clique.replicas)]
    group: Manifest = {"name": name, "podReferences": references, "minReplicas": clique.min_available}
    if (constraint := _constraint(workload, clique.topology, facts)) is not None:
        group["topologyConstraint"] = constraint
    return group


def _constraint(workload: PodCliqueSet, topology: Topology | None, facts: ClusterFacts) -> Manifest | None:
    """Return the constraint with node label keys. A domain that the binding lacks is dropped, as by Grove's
    operator.
    """
    if topology is None or not (topology.required or topology.preferred):
        return None
    binding = (facts.topology_bindings or {}).get(workload.topology_name() or "")
    if binding is None and not facts.is_whole("topology_bindings"):
        name = workload.topology_name()
        raise FactsUnavailable(f"{topology.path} needs the ClusterTopologyBinding {name or 'that it names'}")
    keys = binding.keys if binding is not None else {}
    wanted = {"required": keys.get(topology.required or ""), "preferred": keys.get(topology.preferred or "")}
    pack = {field: key for field, key in wanted.items() if key is not None}
    return {"packConstraint": pack} if pack else None
