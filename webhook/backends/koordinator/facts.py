"""The facts that Koordinator's rules read: its quotas, its layers of network topology, and its PodGroups.

Source: koordinator-sh/koordinator, apis/thirdparty/scheduler-plugins (ElasticQuota), apis/scheduling/v1alpha1
(ClusterNetworkTopology), apis/extension/elastic_quota.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from webhook.backends.koordinator.gang_settings import pod_group_facts
from webhook.backends.koordinator.keys import POD_GROUP, POD_GROUPS, ROOT_QUOTA
from webhook.model.amounts import Amounts, ceiling_amounts
from webhook.model.bounds import name_text, names_kept
from webhook.model.fields import SPEC, Item
from webhook.model.gang_groups import KoordinatorPodGroup, KoordinatorPodGroups
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import ElasticQuotas, Quota, TopologyLayer
from webhook.model.projections import Projection, Resource, key_of, labels_of, name_of, required
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.stored_object import StoredObject

_QUOTA = "quota.scheduling.koordinator.sh/"
IS_PARENT_LABEL = _QUOTA + "is-parent"
PARENT_LABEL = _QUOTA + "parent"
TREE_LABEL = _QUOTA + "tree-id"
NAMESPACES_ANNOTATION = _QUOTA + "namespaces"
GUARANTEED_ANNOTATION = _QUOTA + "guaranteed"
# A longer list of namespaces is not kept, and amounts of resources are shorter.
_LONGEST_ANNOTATION = 16 * 1024
_UNREADABLE = object()


def _elastic_quota(raw: Manifest) -> tuple[str, Quota]:
    created = text(mapping(raw.get("metadata")).get("creationTimestamp")) or ""
    namespace, name = key_of(raw)
    labels, annotations = labels_of(raw), mapping(mapping(raw.get("metadata")).get("annotations"))
    spec = mapping(raw.get("spec"))
    parent = name_text(labels.get(PARENT_LABEL))
    return name, Quota(
        is_parent=text(labels.get(IS_PARENT_LABEL)) == "true",
        namespace=namespace,
        created=created,
        max=ceiling_amounts(spec.get("max")),
        min=ceiling_amounts(spec.get("min")),
        guaranteed=_guaranteed(annotations.get(GUARANTEED_ANNOTATION)),
        parent=None if parent == ROOT_QUOTA else parent,
        tree=name_text(labels.get(TREE_LABEL)) or "",
        namespaces=_namespaces(annotations.get(NAMESPACES_ANNOTATION)),
    )


def _guaranteed(written: object) -> Amounts | None:
    """What koord-scheduler has written that the quota's pods have for sure; None if it cannot be read."""
    stated = _json(written)
    return None if stated is _UNREADABLE or not isinstance(stated, dict | None) else ceiling_amounts(stated)


def _namespaces(written: object) -> frozenset[str] | None:
    """The namespaces that an annotation lists. Koordinator ignores a list that it cannot read."""
    stated = _json(written)
    listed = stated if isinstance(stated, list) and all(isinstance(one, str) for one in stated) else []
    return names_kept(frozenset(listed))


def quotas_of_namespace(namespace: str, quotas: Mapping[str, Quota]) -> list[str]:
    """The quotas that may take the pods of a namespace that name none: the one with its name there, else those that
    list it, or whose list is too long to be known. Of several the scheduler takes any.

    Source: pkg/scheduler/plugins/elasticquota/plugin_helper.go (`getPodAssociateQuotaName`), v1.8.0.
    """
    own = quotas.get(namespace)
    if own is not None and own.namespace == namespace:
        return [namespace]
    return (quotas if isinstance(quotas, ElasticQuotas) else ElasticQuotas(quotas)).takers(namespace)


def _json(written: object) -> Any:
    """The value that an annotation has as JSON: None without it, `_UNREADABLE` if it is no JSON."""
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
        keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        layers.append(TopologyLayer(name, text(entry.get("parentTopologyLayer")), keys))
    return name_of(raw), tuple(layers)


def _pod_group(raw: Manifest) -> tuple[ObjectKey, KoordinatorPodGroup]:
    return key_of(raw), pod_group_facts(StoredObject(raw, POD_GROUP.kind, POD_GROUP.version))


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
POD_GROUPS_KNOWN = Projection(
    "koordinator_pod_groups",
    Resource(POD_GROUP, POD_GROUPS.plural),
    _pod_group,
    KoordinatorPodGroups,
    for_objects=True,
    fields=("metadata.labels", "metadata.annotations", "spec.minMember"),
)

PROJECTIONS = (ELASTIC_QUOTAS, NETWORK_TOPOLOGIES, POD_GROUPS_KNOWN)

# The fields that are read of PodGroups stored by other authors, with the type of each field. Their
# annotations are read as Go reads them and have their own rules.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}},
}
