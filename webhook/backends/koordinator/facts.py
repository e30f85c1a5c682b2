"""What Koordinator's rules know of a cluster: its quotas, and its layers of network topology.

Source: koordinator-sh/koordinator, apis/thirdparty/scheduler-plugins (ElasticQuota), apis/scheduling/v1alpha1
(ClusterNetworkTopology), apis/extension/elastic_quota.go.
"""

from __future__ import annotations

from webhook.model.facts import Api, Quota, TopologyLayer
from webhook.model.fields import SPEC, Item
from webhook.model.projections import Projection, Resource, labels_of, name_of, required
from webhook.model.reading import Manifest, mapping, sequence, text

IS_PARENT_LABEL = "quota.scheduling.koordinator.sh/is-parent"


def _elastic_quota(raw: Manifest) -> tuple[str, Quota]:
    return name_of(raw), Quota(is_parent=text(labels_of(raw).get(IS_PARENT_LABEL)) == "true")


def _network_topology(raw: Manifest) -> tuple[str, tuple[TopologyLayer, ...]]:
    layers = []
    for index, layer in enumerate(sequence(mapping(raw.get("spec")).get("networkTopologySpec"))):
        place = SPEC / "networkTopologySpec" / Item(index) / "topologyLayer"
        entry = mapping(layer)
        name = required(text(entry.get("topologyLayer")), place)
        keys = tuple(text(key) or "" for key in sequence(entry.get("labelKey")))
        layers.append(TopologyLayer(name, text(entry.get("parentTopologyLayer")), keys))
    return name_of(raw), tuple(layers)


# A quota goes by its name alone: Koordinator looks it up over all namespaces.
ELASTIC_QUOTAS = Projection(
    "elastic_quotas",
    Resource(Api("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota"), "elasticquotas"),
    _elastic_quota,
)
NETWORK_TOPOLOGIES = Projection(
    "network_topologies",
    Resource(
        Api("scheduling.koordinator.sh", "v1alpha1", "ClusterNetworkTopology"),
        "clusternetworktopologies",
        namespaced=False,
    ),
    _network_topology,
)

PROJECTIONS = (ELASTIC_QUOTAS, NETWORK_TOPOLOGIES)
