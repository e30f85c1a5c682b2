"""Facts from manifests that decide whether a gang fits: pods on nodes, and what limits a namespace."""

from __future__ import annotations

from tests.unit.sources.fact_files import facts
from webhook.model.devices import Alternative, DeviceRequest
from webhook.model.facts import NOTHING_KNOWN
from webhook.model.namespace_limits import NamespaceQuota
from webhook.model.node_pods import NodePod
from webhook.sources.facts import one_world
from webhook.sources.manifests import read_text


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
    found = one_world(NOTHING_KNOWN, read_text(LIMITS, "folder.yaml"))
    assert found.resource_quotas == {("team", "gpus"): NamespaceQuota({"requests.nvidia.com/gpu": 8})}
    assert found.resource_claim_templates == {("team", "gpu"): (DeviceRequest("a", (Alternative("gpu", 2),)),)}
    assert found.limit_ranges is None
    assert {"resource_quotas", "resource_claim_templates"} <= (found.partial or frozenset())
