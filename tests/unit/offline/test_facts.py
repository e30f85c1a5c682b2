"""Facts from manifests: each kind with the fields that rules need; unknown without an object of the kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.offline.fact_files import facts
from webhook.backends.kube.groups import GroupMembership
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Api, Record
from webhook.model.known_objects import (
    HyperNode,
    HyperNodeMembers,
    KaiQueue,
    Namespace,
    PodGangFacts,
    PriorityClass,
    Quota,
    TopologyBinding,
    TopologyLayer,
    VolcanoQueue,
)
from webhook.model.pod_groups import GatherRule, GroupPod, GroupPods, KoordinatorPodGroup, KoordinatorPodGroups
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world

LEADER = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: leader
  namespace: a
  annotations:
    gang.scheduling.koordinator.sh/groups: '["a/worker", "a/leader"]'
    gang.scheduling.koordinator.sh/network-topology-spec: >-
      {"gatherStrategy": [{"layer": "SpineLayer", "strategy": "MustGather", "podCountMultiple": 2}]}
spec: {minMember: 3}
"""
LEADER_KNOWN = KoordinatorPodGroup(3, ("a/leader", "a/worker"), (GatherRule("SpineLayer", "MustGather", 2),))
UNREADABLE = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: leader
  annotations:
    gang.scheduling.koordinator.sh/groups: "leader, worker"
    gang.scheduling.koordinator.sh/network-topology-spec: "SpineLayer"
"""

PARTS: dict[str, tuple[str, ClusterFacts]] = {
    "a PodGroup of koord-scheduler": (
        LEADER,
        ClusterFacts(koordinator_pod_groups=KoordinatorPodGroups({("a", "leader"): LEADER_KNOWN})),
    ),
    "a malformed PodGroup of koord-scheduler": (
        UNREADABLE,
        ClusterFacts(
            koordinator_pod_groups=KoordinatorPodGroups(
                {("default", "leader"): KoordinatorPodGroup(0, ("default/leader",))}
            )
        ),
    ),
    "a PodGroup of another group of APIs": (LEADER.replace("sigs.k8s.io", "x-k8s.io"), NO_FACTS),
    "a namespace": (
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {x: one}}}",
        ClusterFacts(namespaces={"a": Namespace({"x": "one"})}),
    ),
    "a set with a record": (
        """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: demo
  namespace: a
  labels: {rollcall.dev/scheduler: x}
  annotations: {scheduling.grove.io/koordinator-quota: q}
spec: {template: {cliques: []}}
""",
        ClusterFacts(pod_clique_sets={("a", "demo"): Record("x", "q")}),
    ),
    "a set whose quota is the empty string": (
        "{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, "
        'metadata: {name: demo, annotations: {scheduling.grove.io/koordinator-quota: ""}}}',
        ClusterFacts(pod_clique_sets={("default", "demo"): Record(None, None)}),
    ),
    "a namespace with a word that YAML would take for a boolean, quoted": (
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {rollcall.dev/enforcement: 'off'}}}",
        ClusterFacts(namespaces={"a": Namespace({"rollcall.dev/enforcement": "off"})}),
    ),
    "a set older than Rollcall": (
        "{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, metadata: {name: demo}}",
        ClusterFacts(pod_clique_sets={("default", "demo"): Record(None, None)}),
    ),
    "gangs, one of them with a bound pod": (
        """
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-0, labels: {app.kubernetes.io/part-of: demo}}
spec: {podgroups: [{name: demo-0-worker, podReferences: [], minReplicas: 1}]}
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: demo-1, labels: {app.kubernetes.io/part-of: demo}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {grove.io/podgang: demo-1}}, spec: {nodeName: node-1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: q, labels: {grove.io/podgang: demo-0}}, spec: {}}
""",
        ClusterFacts(
            pod_gangs={
                ("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"})),
                ("default", "demo-1"): PodGangFacts("demo"),
            },
            bound_gangs=frozenset({("default", "demo-1")}),
            group_pods=GroupPods(),
        ),
    ),
    "pods of a group, one of them on a node and one without a name": (
        """
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {schedulingGroup: {podGroupName: worker}}}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: b}
  spec: {schedulingGroup: {podGroupName: worker}, schedulerName: batch-scheduler}
- metadata: {name: c}
  spec: {schedulingGroup: {podGroupName: worker}, nodeName: node-1}
- metadata: {generateName: d-}
  spec: {schedulingGroup: {podGroupName: worker}}
""",
        ClusterFacts(
            bound_gangs=frozenset(),
            group_pods=GroupPods(
                {
                    ("default", "a"): GroupPod(("default", GroupMembership("worker")), "default-scheduler"),
                    ("default", "b"): GroupPod(("default", GroupMembership("worker")), "batch-scheduler"),
                }
            ),
        ),
    ),
    "quotas, one of them a parent": (
        """
apiVersion: v1
kind: List
items:
- {apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: leaf, namespace: x}}
- apiVersion: scheduling.sigs.k8s.io/v1alpha1
  kind: ElasticQuota
  metadata: {name: parent, labels: {quota.scheduling.koordinator.sh/is-parent: "true"}}
""",
        ClusterFacts(elastic_quotas={"leaf": Quota(is_parent=False), "parent": Quota(is_parent=True)}),
    ),
    "KAI's queues, one of them in a node pool, topologies and shards": (
        """
apiVersion: v1
kind: List
items:
- {apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: research}}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: team-a, labels: {kai.scheduler/node-pool: h100}}
  spec: {parentQueue: research}
- apiVersion: kai.scheduler/v1alpha1
  kind: Topology
  metadata: {name: dc}
  spec: {levels: [{nodeLabel: example.com/zone, alias: zone}, {nodeLabel: example.com/rack}]}
- {apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: default}}
- {apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: h}, spec: {partitionLabelValue: h100}}
""",
        ClusterFacts(
            kai_queues={
                "research": KaiQueue(None, limit={}, quota={}),
                "team-a": KaiQueue("research", {"kai.scheduler/node-pool": "h100"}, limit={}, quota={}),
            },
            kai_topologies={"dc": ("example.com/zone", "example.com/rack")},
            kai_shards={"default": None, "h": "h100"},
        ),
    ),
    "a list without items": (
        "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuotaList, items: []}",
        ClusterFacts(elastic_quotas={}),
    ),
    "a typed list whose items do not repeat what they are": (
        """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClassList
items: [{metadata: {name: a}, value: 7, globalDefault: true}]
""",
        ClusterFacts(priority_classes={"a": PriorityClass(7, is_default=True)}),
    ),
    "a topology binding": (
        """
apiVersion: grove.io/v1alpha1
kind: ClusterTopologyBinding
metadata: {name: dc}
spec:
  levels: [{domain: rack, key: r}]
  schedulerTopologyBindings: [{schedulerName: kai-scheduler, topologyReference: racks}]
""",
        ClusterFacts(topology_bindings={"dc": TopologyBinding({"rack": "r"}, {"kai-scheduler": "racks"})}),
    ),
    "a network topology": (
        """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: default}
spec:
  networkTopologySpec:
  - {topologyLayer: Block, labelKey: [b, c]}
  - {topologyLayer: NodeTopologyLayer, parentTopologyLayer: Block}
""",
        ClusterFacts(
            network_topologies={
                "default": (TopologyLayer("Block", None, ("b", "c")), TopologyLayer("NodeTopologyLayer", "Block", ()))
            }
        ),
    ),
    "Volcano's queues, one of them not seen by its controller": (
        """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team-a}
spec: {weight: 1, parent: root}
status: {state: Open}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: fresh}, spec: {weight: 1}}
""",
        ClusterFacts(
            volcano_queues={"team-a": VolcanoQueue("root", "Open"), "fresh": VolcanoQueue(None, None)},
        ),
    ),
    "HyperNodes, one of them of a tier without a name": (
        """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNodeList
items:
- metadata: {name: rack-1}
  spec: {tier: 1, tierName: rack, members: [{type: Node, selector: {exactMatch: {name: node-1}}}]}
- metadata: {name: top}
  spec: {tier: 3, members: [{type: HyperNode, selector: {exactMatch: {name: rack-1}}}]}
""",
        ClusterFacts(
            hyper_nodes={
                "rack-1": HyperNode(1, "rack", HyperNodeMembers(nodes="node-1")),
                "top": HyperNode(3, None, HyperNodeMembers(hyper_nodes=("rack-1",))),
            }
        ),
    ),
    "a cluster that serves HyperNodes and has none": (
        "{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNodeList, items: []}",
        ClusterFacts(hyper_nodes={}),
    ),
    "served versions of a custom resource": (
        """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: x}
spec:
  group: example.com
  names: {kind: X}
  versions:
  - name: v1
    served: true
    schema: {openAPIV3Schema: {properties: {spec: {properties: {minMember: {}, subGroups: {}}}}}}
  - {name: v1beta1, served: false}
  - {name: v2, served: true}
""",
        ClusterFacts(
            apis=frozenset({Api("example.com", "v1", "X"), Api("example.com", "v2", "X")}),
            spec_fields={Api("example.com", "v1", "X"): frozenset({"minMember", "subGroups"})},
        ),
    ),
    "a kind that no rule reads": ("{apiVersion: v1, kind: Service, metadata: {name: x}}", NO_FACTS),
    "another group's ElasticQuota": (
        "{apiVersion: example.com/v1, kind: ElasticQuota, metadata: {name: x}}",
        NO_FACTS,
    ),
}


@pytest.mark.parametrize(("text", "expected"), PARTS.values(), ids=PARTS)
def test_facts_are_read_from_manifests(text: str, expected: ClusterFacts) -> None:
    # Names of fields have tests of their own: test_field_lists.py.
    assert replace(facts(text), field_names=None) == expected


def test_facts_are_added_to_known_ones() -> None:
    known = ClusterFacts(namespaces={"a": Namespace({"x": "1"}), "b": Namespace({})}, elastic_quotas={})
    found = facts("{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {x: '2'}}}", known)
    assert found.namespaces == {"a": Namespace({"x": "2"}), "b": Namespace({})}
    assert found.elastic_quotas == {}
    assert known.namespaces == {"a": Namespace({"x": "1"}), "b": Namespace({})}


BROKEN: dict[str, Any] = {
    "no name": ("apiVersion: v1\nkind: Namespace\nmetadata: {}\n", "facts.yaml:3:1: metadata.name is missing"),
    "a layer without a name": (
        "apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: ClusterNetworkTopology\nmetadata: {name: default}\n"
        "spec:\n  networkTopologySpec:\n  - labelKey: [a]\n",
        "facts.yaml:6:5: spec.networkTopologySpec[0].topologyLayer is missing",
    ),
    "a level without a key, inside a list": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: grove.io/v1alpha1\n  kind: ClusterTopologyBinding\n"
        "  metadata: {name: dc}\n  spec: {levels: [{domain: rack}]}\n",
        "facts.yaml:7:19: spec.levels[0].key is missing",
    ),
    "a HyperNode without a tier": (
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: x}\nspec: {tierName: rack}\n",
        "facts.yaml:4:1: spec.tier is missing",
    ),
    "the wrong type": (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: high\n",
        "facts.yaml:1:1: PriorityClass: expected a whole number, found text",
    ),
    "a parent's mark that YAML takes for a boolean": (
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\n"
        "metadata: {name: all, labels: {quota.scheduling.koordinator.sh/is-parent: true}}\n",
        "facts.yaml:1:1: ElasticQuota: expected a string, found true or false",
    ),
    "an enforcement mode that YAML takes for a boolean": (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {rollcall.dev/enforcement: off}}\n",
        "facts.yaml:1:1: Namespace: expected a string, found true or false",
    ),
}


@pytest.mark.parametrize(("text", "told"), BROKEN.values(), ids=BROKEN)
def test_malformed_facts_are_reported_with_their_place(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        facts(text)
    assert str(error.value) == told


def test_pod_groups_that_are_judged_together_know_each_other() -> None:
    known = one_world(NO_FACTS, read_text(LEADER, "gang.yaml")).koordinator_pod_groups
    assert known == {("a", "leader"): LEADER_KNOWN}
    assert known is not None
    assert list(known.listing(("a", "worker"))) == [("a", "leader")]
