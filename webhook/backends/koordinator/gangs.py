"""PodGang to Koordinator's PodGroups, the labels of their pods, the layers of Koordinator's ClusterNetworkTopology,
and the facts about quotas, layers and PodGroups that Koordinator's rules read.

There is one PodGroup per member, each listing all of them, in the PodGang's order. Koordinator judges each pod by the
`groups` list of its own PodGroup and ignores later edits of that list. So every list is complete and identical from
the first write.

An administrator chooses the names of layers freely; only NodeTopologyLayer is built in. The layer of a node label key
is looked up, never guessed from its spelling. koord-scheduler reads only the ClusterNetworkTopology `default`, so one
ClusterTopologyBinding can be its source. The chain of layers ends in NodeTopologyLayer. A layer has the name of its
level's domain, or the name that the profile's topologyKeyMappings gives its key, because constraints use that name.

koord-scheduler reads an opted-in workload's network-topology-spec on a pod only if no label names the pod's PodGroup,
and Rollcall sets that label. So the annotation is written on the PodGroups. All PodGroups of a gang need the same one.

Source: koordinator-sh/koordinator, apis/thirdparty/scheduler-plugins (ElasticQuota), apis/scheduling/v1alpha1
(ClusterNetworkTopology), apis/extension, pkg/scheduler/frameworkext/networktopology.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from webhook.backends.base import GangMember, PodChanges
from webhook.backends.koordinator import keys
from webhook.backends.koordinator.gang_groups import (
    Topology,
    UnreadableSetting,
    match_policy,
    pod_group_facts,
    read_topology,
)
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.backends.topologies import UnknownTopology, inexpressible, refuse_twins, topology_metadata, unknown_fact
from webhook.model.bounds import name_text, names_kept
from webhook.model.capabilities import QOS_LABEL, QUOTA_LABEL, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC, Item
from webhook.model.gang_objects import Frozen, Stage, StoredObject, gang_metadata
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Api, Needed, ObjectKey, pod_group_name
from webhook.model.known_objects import ElasticQuotas, Quota, TopologyLayer
from webhook.model.pod_groups import KoordinatorPodGroup, KoordinatorPodGroups
from webhook.model.projections import Projection, Resource, key_of, labels_of, name_of, required
from webhook.model.quantity import Version, ceiling_amounts
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.topology_tree import DriftReason, TopologyDrift
from webhook.workloads.opted_in_gang import (
    KOORDINATOR_TOPOLOGY,
    OptedInGang,
    annotations_of_pods,
    annotations_of_workload,
)
from webhook.workloads.opted_in_workload import OptedInWorkload, Part

_QUOTA = "quota.scheduling.koordinator.sh/"
# A longer list of namespaces is not kept, and amounts of resources are shorter.
_LONGEST_ANNOTATION = 16 * 1024
_UNREADABLE = object()


def _elastic_quota(raw: Manifest) -> tuple[str, Quota]:
    namespace, name = key_of(raw)
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    labels, annotations = labels_of(raw), mapping(metadata.get("annotations"))
    parent = name_text(labels.get(f"{_QUOTA}parent"))
    guaranteed = _json(annotations.get(f"{_QUOTA}guaranteed"))
    readable = guaranteed is not _UNREADABLE and isinstance(guaranteed, dict | None)
    listed = _json(annotations.get(f"{_QUOTA}namespaces"))
    # Koordinator ignores a list that it cannot read.
    is_list = isinstance(listed, list) and all(isinstance(other, str) for other in listed)
    return name, Quota(
        is_parent=text(labels.get(f"{_QUOTA}is-parent")) == "true",
        namespace=namespace,
        created=text(metadata.get("creationTimestamp")) or "",
        max=ceiling_amounts(spec.get("max")),
        min=ceiling_amounts(spec.get("min")),
        # What koord-scheduler has written that the quota's pods have for sure.
        guaranteed=ceiling_amounts(guaranteed) if readable else None,
        parent=None if parent == keys.ROOT_QUOTA else parent,
        tree=name_text(labels.get(f"{_QUOTA}tree-id")) or "",
        namespaces=names_kept(frozenset(listed if is_list else ())),
    )


def quotas_of_namespace(namespace: str, quotas: Mapping[str, Quota]) -> list[str]:
    """Returns the quotas that may take the pods of a namespace that name none: the one with its name there, else those
    that list it, or whose list is too long to be known. Of several the scheduler takes any.

    Source: pkg/scheduler/plugins/elasticquota/plugin_helper.go (`getPodAssociateQuotaName`), v1.8.0.
    """
    quota = quotas.get(namespace)
    if quota is not None and quota.namespace == namespace:
        return [namespace]
    return (quotas if isinstance(quotas, ElasticQuotas) else ElasticQuotas(quotas)).takers(namespace)


def _json(written: object) -> Any:
    """Returns the value that an annotation has as JSON: None without it, `_UNREADABLE` if it is no JSON."""
    stated = text(written)
    if stated is None:
        return None
    if len(stated) > _LONGEST_ANNOTATION:
        return _UNREADABLE
    try:
        return json.loads(stated)
    except (ValueError, RecursionError):
        return _UNREADABLE


def _network_topology(raw: Manifest) -> tuple[str, tuple[TopologyLayer, ...]]:
    layers = []
    for index, layer in enumerate(sequence(mapping(raw.get("spec")).get("networkTopologySpec"))):
        place = SPEC / "networkTopologySpec" / Item(index) / "topologyLayer"
        entry = mapping(layer)
        name = required(text(entry.get("topologyLayer")), place)
        label_keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        layers.append(TopologyLayer(name, text(entry.get("parentTopologyLayer")), label_keys))
    return name_of(raw), tuple(layers)


def _pod_group(raw: Manifest) -> tuple[ObjectKey, KoordinatorPodGroup]:
    return key_of(raw), pod_group_facts(StoredObject(raw, keys.POD_GROUP.kind, keys.POD_GROUP.version))


# A quota is identified by its name alone, without its namespace. koord-manager refuses a second quota with the same
# name. If its webhook is off, koord-scheduler keeps the quota that it saw first until one of the others is updated.
# Source: pkg/scheduler/plugins/elasticquota (`getPodAssociateQuotaName`, `OnQuotaAdd`, `OnQuotaUpdate`),
# pkg/webhook/elasticquota (`ValidAddQuota`), v1.8.0.
ELASTIC_QUOTAS = Projection(
    "elastic_quotas",
    Resource(Api("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota"), "elasticquotas"),
    _elastic_quota,
    ElasticQuotas,
    fields=("metadata.creationTimestamp", "metadata.labels", "metadata.annotations", "spec.max", "spec.min"),
)
NETWORK_TOPOLOGIES = Projection(
    "network_topologies",
    Resource(
        Api("scheduling.koordinator.sh", "v1alpha1", "ClusterNetworkTopology"),
        "clusternetworktopologies",
        namespaced=False,
    ),
    _network_topology,
    fields=("spec.networkTopologySpec",),
)
POD_GROUP_FACTS = Projection(
    "koordinator_pod_groups",
    Resource(keys.POD_GROUP, keys.POD_GROUPS.plural),
    _pod_group,
    KoordinatorPodGroups,
    for_objects=True,
    fields=("metadata.labels", "metadata.annotations", "spec.minMember"),
)

PROJECTIONS = (ELASTIC_QUOTAS, NETWORK_TOPOLOGIES, POD_GROUP_FACTS)

# The fields that are read of PodGroups stored by other authors, with the type of each field. Their
# annotations are read as Go reads them and have their own rules.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    keys.POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}}
}

# Network topology exists since v1.7.
FIRST_VERSION = Version(1, 7)
THE_TOPOLOGY = Needed("network_topologies", keys.NETWORK_TOPOLOGY)


def is_topology_unknown(facts: ClusterFacts) -> bool:
    """Returns whether the ClusterNetworkTopology may exist and is not known."""
    return keys.NETWORK_TOPOLOGY not in (facts.network_topologies or {}) and not facts.is_whole("network_topologies")


def unavailable(settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts) -> str | None:
    """Returns why this Koordinator does not support topology at all, or None. Unknown facts are not a reason."""
    if not settings.awareNetworkTopology:
        return "the scheduler runs without awareNetworkTopology, so a gang with topology never completes"
    if version is not None and version < FIRST_VERSION:
        return f"koord-scheduler {version} has no network topology, which was added in {FIRST_VERSION}"
    if facts.network_topologies is None or is_topology_unknown(facts):
        return None
    name = keys.NETWORK_TOPOLOGY
    layers = facts.network_topologies.get(name)
    if layers is None:
        return f'the cluster has no ClusterNetworkTopology "{name}", so every pod of the gang would fail'
    broken = f'the ClusterNetworkTopology "{name}" is not a chain down to {keys.NODE_LAYER}'
    return None if forms_tree(layers) else broken


def forms_tree(layers: tuple[TopologyLayer, ...]) -> bool:
    """Returns whether koord-scheduler builds its tree: each layer once on the way up from NodeTopologyLayer."""
    by_name = {layer.name: layer for layer in layers}
    seen = 0
    current = by_name.get(keys.NODE_LAYER)
    while current is not None and seen <= len(layers):
        seen += 1
        current = by_name.get(current.parent) if current.parent else None
    return 0 < seen == len(layers) == len(by_name)


def layer_of(key: str, settings: KoordinatorSettings, facts: ClusterFacts) -> str | None:
    """Returns the layer for a node label key, or None if there is none. Raises `UnknownTopology`."""
    if key == keys.HOSTNAME:
        return keys.NODE_LAYER
    if facts.network_topologies is None or is_topology_unknown(facts):
        raise UnknownTopology("the ClusterNetworkTopology", "network_topologies")
    layers = facts.network_topologies.get(keys.NETWORK_TOPOLOGY, ())
    mapped = settings.topologyKeyMappings.get(key)
    if mapped is not None:
        return mapped if any(layer.name == mapped for layer in layers) else None
    return next((layer.name for layer in layers if key in layer.label_keys), None)


def declared_layers(facts: ClusterFacts) -> frozenset[str] | None:
    """Returns the names that a spec may give as layers; None if the ClusterNetworkTopology is unknown or missing."""
    layers = (facts.network_topologies or {}).get(keys.NETWORK_TOPOLOGY)
    return None if layers is None else frozenset({keys.NODE_LAYER, keys.ROOT_LAYER, *(layer.name for layer in layers)})


def required_layers(spec: Topology) -> list[str]:
    return [entry.layer for entry in spec if entry.strategy == keys.MUST_GATHER]


def undeclared_layers(spec: Topology, names: Container[str]) -> Iterator[str]:
    """Returns the layers that a spec requires and that are not among `names`."""
    return (layer for layer in required_layers(spec) if layer not in names)


TOPOLOGY_RULE = "koordinator/owner-topology"


def topology_uses(workload: OptedInWorkload, parts: Sequence[Part]) -> list[Use | None]:
    """Returns the annotation of each part: that of its pods, else the workload's."""
    workload_use = next(iter(annotations_of_workload(workload).asks(KOORDINATOR_TOPOLOGY)), None)
    return [next(iter(annotations_of_pods(part).asks(KOORDINATOR_TOPOLOGY)), workload_use) for part in parts]


def differing_use(uses: Sequence[Use | None]) -> Use | None:
    """Returns a place whose annotation differs from that of another part of the same gang."""
    first = uses[0] if uses else None
    for use in uses[1:]:
        if (use and use.value) != (first and first.value):
            return use or first
    return None


def carried_topology(
    gang: OptedInGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> str | None:
    """Returns the annotation of the gang's PodGroups. One with which no attempt to place the gang would succeed is left
    out: the gang starts without it. Raises `Inexpressible` if the layers are not known.
    """
    uses = topology_uses(gang.workload, [part for parts in gang.parts.values() for part in parts])
    use = uses[0] if uses else None
    if use is None or differing_use(uses) is not None:
        return None
    try:
        layers = read_topology(use.value)
    except UnreadableSetting:
        # koord-scheduler drops all of it.
        return None
    if unavailable(settings, version, facts) is not None:
        return None
    if not required_layers(layers):
        return str(use.value)
    names = declared_layers(facts)
    if names is None:
        raise unknown_fact(TOPOLOGY_RULE, use.path, "the ClusterNetworkTopology", "network_topologies")
    return str(use.value) if next(undeclared_layers(layers, names), None) is None else None


def network_topology(binding: ClusterTopologyBinding, settings: KoordinatorSettings) -> list[Manifest]:
    """Returns the ClusterNetworkTopology for `binding`; none if someone else manages it. Raises `Inexpressible`."""
    if keys.NAME in binding.references:
        return []
    layers = _layers(binding, settings)
    if problem := _problem(binding, layers):
        remedy = "change the levels of the ClusterTopologyBinding"
        level_keys = [level.key or "" for level in binding.levels]
        raise inexpressible("koordinator/topology", SPEC / "levels", level_keys, problem, remedy=remedy)
    entries: list[Manifest] = []
    for name, parent, label_keys in layers:
        entry: Manifest = {"topologyLayer": name}
        if parent is not None:
            entry["parentTopologyLayer"] = parent
        if label_keys:
            entry["labelKey"] = list(label_keys)
        entries.append(entry)
    api, metadata = NETWORK_TOPOLOGIES.resource.api, topology_metadata(keys.NETWORK_TOPOLOGY, binding)
    spec = {"networkTopologySpec": entries}
    return [{"apiVersion": f"{api.group}/{api.version}", "kind": api.kind, "metadata": metadata, "spec": spec}]


def topology_drift(
    binding: ClusterTopologyBinding, live: Manifest | None, settings: KoordinatorSettings
) -> TopologyDrift | None:
    """Returns how the ClusterNetworkTopology for `binding` differs: in its layers, in their order, or because it is
    missing.

    The names of layers may differ, because constraints are translated with the names that exist.
    """
    name = binding.references.get(keys.NAME, keys.NETWORK_TOPOLOGY)
    if live is None:
        return TopologyDrift(name, DriftReason.NOT_FOUND, f"ClusterNetworkTopology {name} is missing")
    stored = text(mapping(live.get("metadata")).get("name"))
    if stored not in {None, keys.NETWORK_TOPOLOGY}:
        why = f"koord-scheduler reads only the ClusterNetworkTopology {keys.NETWORK_TOPOLOGY}"
        return TopologyDrift(name, DriftReason.DRIFT, f"{why}, so {stored} has no effect")
    difference = _difference(_layers(binding, settings), _chain(live), settings, binding.name)
    if difference is None:
        return None
    return TopologyDrift(name, DriftReason.DRIFT, f"ClusterNetworkTopology {name} {difference}")


def _difference(
    desired: list[TopologyLayer], live: list[TopologyLayer] | None, settings: KoordinatorSettings, binding: str
) -> str | None:
    """Returns how the layers that were found differ from those of a binding, as the end of a sentence."""
    if live is None:
        return f"is not a chain of layers down to {keys.NODE_LAYER}"
    same = len(live) == len(desired) and all(
        set(layer.label_keys) <= set(other.label_keys) for layer, other in zip(desired, live, strict=True)
    )
    if not same:
        return f"has layers for {_shown(live)}, and ClusterTopologyBinding {binding} has {_shown(desired)}"
    for layer, other in zip(desired, live, strict=True):
        mapped = settings.topologyKeyMappings.get(layer.label_keys[0]) if layer.label_keys else None
        if mapped not in {None, other.name}:
            return f"has the layer {other.name} for {layer.label_keys[0]}, and topologyKeyMappings says {mapped}"
    return None


def _layers(binding: ClusterTopologyBinding, settings: KoordinatorSettings) -> list[TopologyLayer]:
    layers: list[TopologyLayer] = []
    for level in binding.levels:
        key = level.key or ""
        if key != keys.HOSTNAME:
            name = settings.topologyKeyMappings.get(key, level.domain or "")
            layers.append(TopologyLayer(name, layers[-1].name if layers else None, (key,)))
    return [*layers, TopologyLayer(keys.NODE_LAYER, layers[-1].name if layers else None, ())]


def _chain(live: Manifest) -> list[TopologyLayer] | None:
    """Returns the layers of an object, broadest first; None unless they are one chain down to the nodes' layer."""
    entries = [mapping(entry) for entry in sequence(mapping(live.get("spec")).get("networkTopologySpec"))]
    by_name: dict[str, TopologyLayer] = {}
    for entry in entries:
        name = text(entry.get("topologyLayer")) or ""
        label_keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        by_name[name] = TopologyLayer(name, text(entry.get("parentTopologyLayer")), label_keys)
    layers: list[TopologyLayer] = []
    layer = by_name.get(keys.NODE_LAYER)
    while layer is not None and len(layers) < len(by_name):
        layers.append(layer)
        layer = by_name.get(layer.parent) if layer.parent else None
    return layers[::-1] if len(layers) == len(entries) == len(by_name) and layers else None


def _shown(layers: list[TopologyLayer]) -> str:
    return ", ".join("|".join(layer.label_keys) for layer in layers[:-1]) or "nodes only"


def _problem(binding: ClusterTopologyBinding, layers: list[TopologyLayer]) -> str | None:
    """Returns why koord-scheduler would not build its tree from these layers, or None."""
    names = [layer.name for layer in layers]
    level_keys = [level.key for level in binding.levels]
    if not level_keys or not all((*level_keys, *names)):
        return "each level of a ClusterNetworkTopology must have a domain and a node label key"
    if keys.ROOT_LAYER in names:
        return f"{keys.ROOT_LAYER} is the built-in layer of the whole cluster"
    if len(set(names)) < len(names) or len(set(level_keys)) < len(level_keys):
        return "each layer of a ClusterNetworkTopology must have a name and a node label key of its own"
    if keys.HOSTNAME in level_keys[:-1]:
        return f"{keys.HOSTNAME} can only be the narrowest level: it is the built-in {keys.NODE_LAYER}"
    return None


def prepare_pod(member: GangMember, settings: KoordinatorSettings) -> PodChanges:
    group = pod_group_name(member.podgang, member.podclique)
    quota, qos_class = member.record.quota, settings.defaultQoSClass
    labels = {keys.LABEL_POD_GROUP: group}
    if quota is not None:
        labels[QUOTA_LABEL] = quota
    return PodChanges(
        scheduler_name=keys.NAME,
        inputs=(f"podGroup={group}", f"quota={quota or ''}", f"qosClass={qos_class or ''}"),
        labels=labels,
        default_labels={QOS_LABEL: qos_class} if qos_class is not None else {},
    )


def gang_objects(
    podgang: PodGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> list[Manifest]:
    """Returns the PodGroups of `podgang`. Raises `Inexpressible` for a topology that koord-scheduler cannot apply to a
    whole gang.

    `spec.minMember` is the member's minReplicas, including 0: Grove sets it to 0 so that a rolling update can go on.
    `adopt` then keeps the recorded minimum, because for Koordinator a gang with minimum 0 is complete without any pod.
    """
    refuse_twins(podgang, "koordinator/tree")
    names = [pod_group_name(podgang.gang, member.name) for member in podgang.members]
    annotations = {
        keys.ANNOTATION_GROUPS: _compact([f"{podgang.namespace}/{name}" for name in names]),
        keys.ANNOTATION_MODE: settings.gangMode,
        keys.ANNOTATION_MATCH_POLICY: settings.matchPolicy,
    }
    topology = _topology(podgang, settings, version, facts)
    if topology is not None:
        annotations[keys.ANNOTATION_TOPOLOGY] = topology
    pod_groups: list[Manifest] = []
    for member, name in zip(podgang.members, names, strict=True):
        # Informational since v1.7. Before, a total above the real number of pods stalled retries, so it follows the
        # pods.
        has_total = member.pods >= member.min_replicas > 0
        total = {keys.ANNOTATION_TOTAL_NUMBER: str(member.pods)} if has_total else {}
        metadata = gang_metadata(podgang, name, {podgang.member_label: member.name}, annotations | total)
        spec = {"minMember": member.min_replicas, "scheduleTimeoutSeconds": settings.scheduleTimeoutSeconds}
        api = f"{keys.POD_GROUP.group}/{keys.POD_GROUP.version}"
        pod_groups.append({"apiVersion": api, "kind": keys.POD_GROUP.kind, "metadata": metadata, "spec": spec})
    return pod_groups


def adopt(desired: Manifest, live: Manifest | None) -> Manifest:
    """Returns `desired` with the minimum and total from before Grove released the member to 0; at least one pod."""
    if desired["spec"]["minMember"] > 0:
        return desired
    recorded = mapping(live)
    minimum = max(integer(mapping(recorded.get("spec")).get("minMember")) or 1, 1)
    annotations = dict(desired["metadata"]["annotations"])
    total = mapping(mapping(recorded.get("metadata")).get("annotations")).get(keys.ANNOTATION_TOTAL_NUMBER)
    if isinstance(total, str):
        annotations[keys.ANNOTATION_TOTAL_NUMBER] = total
    metadata, spec = {**desired["metadata"], "annotations": annotations}, {**desired["spec"], "minMember": minimum}
    return {**desired, "metadata": metadata, "spec": spec}


def remembers_start(live: Manifest) -> bool:
    """Returns whether koord-scheduler binds the pods of a PodGroup one by one, on any nodes, once the gang was
    complete. That is its default. The status counts the pods of today, so it does not say that all of them were
    replaced.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (v1.8.0, OnceResourceSatisfied).
    """
    stated = match_policy(StoredObject(live, keys.POD_GROUP.kind, keys.POD_GROUP.version))
    return stated is None or stated[0] not in {"waiting-and-running", keys.ONLY_WAITING}


def frozen(desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
    """Returns the change of a gang's members, or None. koord-scheduler ties the state of a GangGroup (its
    representative gang, whether it was ever satisfied) to the list that it saw first. When a PodGroup is deleted,
    koord-scheduler forgets its waiting pods. So only a gang without pods can be recreated.

    A list that someone else edited is not such a change: the list is restored.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go and gang.go (v1.8.0).
    """
    before, now = ([manifest["metadata"]["name"] for manifest in manifests] for manifests in (live, desired))
    if not live or set(before) == set(now):
        return None
    listed = _listed(desired[0]) if desired else None
    if all(_listed(manifest) == listed for manifest in live):
        # The last attempt stopped in the middle.
        return None
    new, gone = ([name for name in these if name not in those] for these, those in ((now, before), (before, now)))
    what = "; ".join([*(f"{name} is new" for name in new), *(f"{name} is gone" for name in gone)])
    return Frozen(what, "Koordinator ignores a change of a gang's members", Stage.EMPTY, tuple(live))


def _listed(manifest: Manifest) -> object:
    written = mapping(mapping(manifest.get("metadata")).get("annotations")).get(keys.ANNOTATION_GROUPS)
    try:
        members = json.loads(written) if isinstance(written, str) else None
    except json.JSONDecodeError:
        return None
    return sorted(map(str, members)) if isinstance(members, list) else None


def _topology(
    podgang: PodGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> str | None:
    """Returns the network-topology-spec of the whole gang, or None if the gang asks for none."""
    if isinstance(podgang, OptedInGang):
        return carried_topology(podgang, settings, version, facts)
    for config in podgang.group_configs:
        if level := config.constraint.required or config.constraint.preferred:
            why = keys.CAPABILITIES[Capability.TOPOLOGY_SCALING_GROUP].why
            raise inexpressible("koordinator/scaling-group-topology", config.path, level, why)
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
        support = keys.CAPABILITIES[Capability.TOPOLOGY_DIVERGENT]
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
        raise unknown_fact("koordinator/topology-layer", first.path, missing.needs, missing.part) from None
    return _compact({"gatherStrategy": strategy}) if strategy else None


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
