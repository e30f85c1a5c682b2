"""Every built-in backend passes the conformance kit. A new backend gets one class here."""

from __future__ import annotations

import pytest

from webhook.backends import coscheduling
from webhook.backends.coscheduling import CoschedulingBackend
from webhook.backends.kai import keys as kai
from webhook.backends.kai.backend import KaiBackend
from webhook.backends.koordinator.backend import KoordinatorBackend
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import COMPOSITE, GROUP
from webhook.backends.lpx import LpxBackend
from webhook.backends.registry import BUILT_IN, BackendClass
from webhook.backends.volcano import keys as volcano
from webhook.backends.volcano.backend import VolcanoBackend
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import HyperNode, KaiQueue, TopologyLayer, VolcanoQueue
from webhook.testing import BackendConformance


class TestKubeBackend(BackendConformance):
    backend = KubeBackend
    configurations = (
        {},
        # Kubernetes 1.35, 1.36 and 1.37; the last is 1.37 with CompositePodGroups.
        {"gangScheduling": True, "apiGeneration": "v1alpha1"},
        {"gangScheduling": True, "apiGeneration": "v1alpha2"},
        {"gangScheduling": True, "hierarchical": "off"},
        {"gangScheduling": True, "apiGeneration": "v1alpha2", "flat": "allow"},
        {"gangScheduling": True, "apiGeneration": "v1alpha1", "flat": "refuse"},
        {"gangScheduling": True},
    )
    facts = ClusterFacts(
        apis=frozenset(
            {
                Api(GROUP, "v1alpha1", "Workload"),
                *(
                    Api(GROUP, version, kind)
                    for version in ("v1alpha2", "v1beta1")
                    for kind in ("Workload", "PodGroup")
                ),
                COMPOSITE,
            }
        )
    )


class TestKoordinatorBackend(BackendConformance):
    backend = KoordinatorBackend
    configurations = (
        {},
        {"gangMode": "NonStrict", "defaultQoSClass": "LS", "scheduleTimeoutSeconds": 60},
        {"awareNetworkTopology": False},
        {"topologyBinding": "dc"},
        {"topologyBinding": "dc", "topologyObjects": "write", "topologyKeyMappings": {"example.com/rack": "RackLayer"}},
    )
    facts = ClusterFacts(
        apis=frozenset({POD_GROUP}),
        network_topologies={
            "default": (
                TopologyLayer("RackLayer", None, ("example.com/rack",)),
                TopologyLayer("NodeTopologyLayer", "RackLayer", ()),
            )
        },
    )


HYPER_NODES = {
    "rack-a": HyperNode(1, "example.com/rack"),
    "block-a": HyperNode(2, "block"),
}


class TestVolcanoBackend(BackendConformance):
    backend = VolcanoBackend
    configurations = (
        {},
        {"defaultQueue": "team-a"},
        {"topology": "hypernode"},
        {"topology": "hypernode", "topologyBinding": "dc"},
        {"topologyBinding": "dc", "topologyObjects": "write"},
    )
    facts = ClusterFacts(
        apis=frozenset({volcano.POD_GROUP, volcano.HYPER_NODE}),
        hyper_nodes=HYPER_NODES,
        volcano_queues={"default": VolcanoQueue("root", "Open"), "team-a": VolcanoQueue("root", "Open")},
    )


class TestKaiBackend(BackendConformance):
    backend = KaiBackend
    # Without a queue of the profile's every gang must name its own, and the kit's do not.
    configurations = (
        {"defaultQueue": "team-a"},
        {"defaultQueue": "team-a", "queueLabelKey": "runai/queue", "nodePoolLabelKey": "example.com/pool"},
    )
    facts = ClusterFacts(
        apis=frozenset({kai.POD_GROUP}),
        kai_queues={"team": KaiQueue(None), "team-a": KaiQueue("team")},
        kai_shards={"default": None},
        kai_topologies={"dc": ("example.com/zone", "example.com/rack", "kubernetes.io/hostname")},
    )


class TestLpxBackend(BackendConformance):
    backend = LpxBackend


class TestCoschedulingBackend(BackendConformance):
    backend = CoschedulingBackend
    configurations = ({}, {"scheduleTimeoutSeconds": 600})
    facts = ClusterFacts(apis=frozenset({coscheduling.POD_GROUP}))


SUITES = [found for found in vars().values() if isinstance(found, type) and issubclass(found, BackendConformance)]


@pytest.mark.parametrize("backend", BUILT_IN, ids=lambda backend: backend.name)
def test_each_built_in_backend_has_a_suite(backend: BackendClass) -> None:
    assert [suite for suite in SUITES if getattr(suite, "backend", None) is backend]
