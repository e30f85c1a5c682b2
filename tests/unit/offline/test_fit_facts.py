"""Facts from manifests that decide whether a gang fits: pods on nodes, and what limits a namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.offline.fact_files import facts
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS
from webhook.model.node_pods import NodePod
from webhook.model.resources import Alternative, DeviceRequest, NamespaceQuota
from webhook.offline.manifests import read_text
from webhook.offline.worlds import one_world


def whole_pod(name: str, node: str | None, **status: str) -> str:
    placed = f"  nodeName: {node}\n" if node else ""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: team-a}}\nspec:\n{placed}"
        "  containers: [{name: c, resources: {requests: {cpu: 2}}}]\n"
        f"status: {{phase: {status.get('phase', 'Running')}}}\n"
    )


def test_pods_on_nodes_tell_what_is_used_there() -> None:
    written = [whole_pod("a", "n1"), whole_pod("b", None), whole_pod("c", "n1", phase="Failed")]
    pods = facts("---\n".join(written)).node_pods
    assert pods is not None
    assert dict(pods) == {("team-a", "a"): NodePod("n1", (("pods", 1), ("cpu", 2000)))}
    assert pods.used_on("n1") == {"pods": 1, "cpu": 2000}


def test_pods_that_were_cut_down_or_wait_do_not_tell_what_is_used() -> None:
    cut = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec: {nodeName: some-node}\n"
    assert facts("---\n".join([cut, whole_pod("b", None)])).node_pods is None


LIMITS = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: team}
spec: {hard: {requests.nvidia.com/gpu: 8}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: team}
spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: v1
kind: LimitRange
metadata: {generateName: limits-}
spec: {limits: []}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: broken}
spec: {hard: many}
"""


def test_what_limits_a_namespace_counts_from_the_folder_of_its_workloads() -> None:
    found = one_world(NO_FACTS, read_text(LIMITS, "folder.yaml"))
    assert found.resource_quotas == {("team", "gpus"): NamespaceQuota({"requests.nvidia.com/gpu": 8})}
    assert found.resource_claim_templates == {("team", "gpu"): (DeviceRequest("a", (Alternative("gpu", 2),)),)}
    assert found.limit_ranges is None
    assert {"resource_quotas", "resource_claim_templates"} <= (found.partial or frozenset())


PAGE = "apiVersion: v1\nkind: NodeList\nmetadata: {continue: abc}\nitems:\n- metadata: {name: n1}\n"
SLICES = "apiVersion: resource.k8s.io/v1\nkind: ResourceSliceList\nmetadata: {remainingItemCount: 5}\nitems: []\n"


def test_a_page_of_nodes_stays_a_part_of_them_with_other_objects_beside_the_workloads() -> None:
    found = one_world(facts(PAGE), read_text(LIMITS, "folder.yaml"))
    assert {"nodes", "resource_quotas"} <= (found.partial or frozenset())


def test_a_page_of_nodes_among_manifests_is_a_part_of_them() -> None:
    assert "nodes" in (one_world(NO_FACTS, read_text(PAGE, "page.yaml")).partial or ())
    assert "nodes" not in (one_world(NO_FACTS, read_text(NAMED, "nodes.yaml")).partial or ())


def test_a_page_of_devices_is_a_part_of_them() -> None:
    assert facts(SLICES).partial == frozenset({"resource_slices"})


HEAD = "apiVersion: v1\nkind: Node\n"
NAMED = f"{HEAD}metadata: {{name: n1}}\n"
UNREADABLE_NODES: dict[str, Any] = {
    "a quantity that is none": (
        f"{NAMED}status:\n  allocatable:\n    pods: 110\n    cpu: nope\n",
        'facts.yaml:7:5: status.allocatable.cpu: expected a quantity of cpu, found text ("nope")',
    ),
    "a device of capacity": (
        f"{NAMED}status:\n  capacity: {{nvidia.com/gpu: [8]}}\n",
        "facts.yaml:5:14: status.capacity[nvidia.com/gpu]: expected a quantity of nvidia.com/gpu, found a list",
    ),
    "allocatable as a list": (
        f"{NAMED}status:\n  allocatable: [cpu]\n",
        "facts.yaml:5:3: status.allocatable: expected an object, found a list",
    ),
    "a status that is a word": (
        f"{NAMED}status: Ready\n",
        'facts.yaml:4:1: status: expected an object, found text ("Ready")',
    ),
    "a label that is a number": (
        f"{HEAD}metadata: {{name: n1, labels: {{rack: 7}}}}\n",
        "facts.yaml:3:31: metadata.labels.rack: expected a string, found a number (7)",
    ),
    "a taint that is a word": (
        f"{NAMED}spec:\n  taints:\n  - {{key: a, effect: NoSchedule}}\n  - gpu\n",
        'facts.yaml:7:5: spec.taints[1]: expected an object, found text ("gpu")',
    ),
    "a node in a list": (
        "apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: n1}\n  spec: {unschedulable: maybe}\n",
        'facts.yaml:5:10: spec.unschedulable: expected true or false, found text ("maybe")',
    ),
}


@pytest.mark.parametrize(("text", "told"), UNREADABLE_NODES.values(), ids=UNREADABLE_NODES)
def test_a_node_that_cannot_be_read_is_reported_with_its_field(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        facts(text)
    assert str(error.value) == told


def test_a_node_with_too_many_labels_is_not_an_error_of_the_file() -> None:
    labels = ", ".join(f"l{index}: x" for index in range(600))
    nodes = facts(f"{HEAD}metadata: {{name: n1, labels: {{{labels}}}}}\n").nodes
    assert nodes is not None
    assert nodes.problem == Text("node n1", "labels")
