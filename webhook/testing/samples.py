"""Sample objects for the checks: a workload for each way to ask for a capability, the longest names that Kubernetes
allows, and pods that another system has claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.model import grove
from webhook.model.capabilities import (
    KAI_QUEUE,
    QOS_LABEL,
    QUOTA_ANNOTATION,
    QUOTA_LABEL,
    VOLCANO_QUEUE,
    Capability,
)
from webhook.model.keys import Api
from webhook.model.known_objects import PriorityClass, TopologyBinding
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

NAMESPACE = "team"
# A cluster without any CRD: the built-in APIs that backends use.
SERVED_EVERYWHERE = frozenset({Api("scheduling.k8s.io", "v1", "PriorityClass")})
# The kit adds these to facts that lack them: a priority class, and the domains that its workloads name.
PRIORITY_CLASS = "high"
PRIORITY_CLASSES = {PRIORITY_CLASS: PriorityClass(1000, is_default=False)}
TOPOLOGY_BINDINGS = {"dc": TopologyBinding({"rack": "example.com/rack", "host": "kubernetes.io/hostname"})}

_NVLINK = {grove.MNNVL_GROUP: "train"}
_AUTO_NVLINK = {grove.AUTO_MNNVL: grove.AUTO_MNNVL_ENABLED}
_CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


def _gpu(**fields: Any) -> Manifest:
    return clique("worker", requests={grove.GPU_RESOURCE: "8"}, **fields)


USES: Mapping[Capability, tuple[Manifest, ...]] = {
    Capability.GANG: (pod_clique_set(),),
    Capability.MULTI_NODE_NVLINK: (
        pod_clique_set(_gpu(), annotations=_NVLINK),
        pod_clique_set(_gpu(annotations=_NVLINK)),
        pod_clique_set(_gpu(), groups=[scaling_group("group", "worker", annotations=_NVLINK)]),
        pod_clique_set(_gpu(), annotations=_AUTO_NVLINK),
    ),
    Capability.RESOURCE_CLAIMS: (
        pod_clique_set(clique("worker", pod={"resourceClaims": _CLAIM})),
        pod_clique_set(clique("worker", resourceSharing=[{"name": "gpu"}])),
        pod_clique_set(groups=[scaling_group("group", "worker", resourceSharing=[{"name": "gpu"}])]),
        pod_clique_set(resourceClaimTemplates=[{"name": "gpu"}]),
    ),
    Capability.TOPOLOGY_WORKLOAD: (pod_clique_set(topologyConstraint=required("host")),),
    Capability.TOPOLOGY_SCALING_GROUP: (
        pod_clique_set(groups=[scaling_group("group", "worker", topologyConstraint=required("host"))]),
        pod_clique_set(groups=[scaling_group("group", "worker", topologyConstraint=preferred("host"))]),
    ),
    Capability.TOPOLOGY_CLIQUE: (pod_clique_set(clique("worker", topologyConstraint=required("host"))),),
    Capability.TOPOLOGY_PREFERRED: (
        pod_clique_set(topologyConstraint=preferred("host")),
        pod_clique_set(clique("worker", topologyConstraint=preferred("host"))),
    ),
    Capability.TOPOLOGY_DIVERGENT: (
        pod_clique_set(clique("leader"), clique("worker", topologyConstraint=required("host"))),
    ),
    Capability.MULTIPLE_POD_GROUPS: (pod_clique_set(clique("leader"), clique("worker")),),
    Capability.CLIQUE_MINIMUM: (pod_clique_set(clique("worker", replicas=3, minimum=2)),),
    Capability.SCALE_GANG: (pod_clique_set(groups=[scaling_group("group", "worker", replicas=3, minAvailable=2)]),),
    Capability.QUEUE: (
        pod_clique_set(annotations={VOLCANO_QUEUE: "team-a"}),
        pod_clique_set(labels={KAI_QUEUE: "team-a"}),
        pod_clique_set(clique("worker", labels={KAI_QUEUE: "team-a"})),
    ),
    Capability.QUOTA: (
        pod_clique_set(annotations={QUOTA_ANNOTATION: "team-a"}),
        pod_clique_set(clique("worker", labels={QUOTA_LABEL: "team-a"})),
    ),
    Capability.QOS_CLASS: (pod_clique_set(clique("worker", labels={QOS_LABEL: "LSR"})),),
    Capability.PRIORITY_CLASS: (pod_clique_set(priorityClassName=PRIORITY_CLASS),),
}

# A clique's name, a label value and an object name, each of the maximum length.
_NAME, _VALUE, _OBJECT = "c" * 40, "v" * 63, "o" * 253

LONG: tuple[Manifest, ...] = (
    pod_clique_set(
        clique(f"{_NAME}a", annotations={QUOTA_ANNOTATION: _OBJECT}, labels={QOS_LABEL: _VALUE, KAI_QUEUE: _VALUE}),
        clique(
            f"{_NAME}b",
            requests={grove.GPU_RESOURCE: "8"},
            annotations={grove.MNNVL_GROUP: _VALUE, QUOTA_ANNOTATION: _OBJECT[:-1]},
            labels={KAI_QUEUE: _VALUE[:-1]},
            pod={"priorityClassName": _OBJECT, "resourceClaims": _CLAIM},
            topologyConstraint=required(_VALUE),
        ),
        annotations={VOLCANO_QUEUE: _OBJECT},
        groups=[scaling_group(_NAME, f"{_NAME}b", topologyConstraint=preferred(_VALUE))],
        priorityClassName=_OBJECT[:-1],
        topologyConstraint=required(_VALUE[:-1]),
    ),
    pod_clique_set(
        clique(_NAME, replicas=2, minimum=1, requests={grove.GPU_RESOURCE: "8"}),
        annotations={VOLCANO_QUEUE: _OBJECT, grove.MNNVL_GROUP: _VALUE, QUOTA_ANNOTATION: _OBJECT},
        topologyConstraint=preferred(_VALUE),
    ),
)


def gang_pod(**spec: Any) -> Manifest:
    """Return a pod as Grove's operator creates it; keywords go into its spec."""
    labels = {
        grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
        grove.LABEL_PART_OF: "demo",
        grove.LABEL_PODGANG: "demo-0",
        grove.LABEL_PODCLIQUE: "demo-0-worker",
    }
    metadata: Manifest = {"generateName": "demo-0-worker-", "namespace": NAMESPACE, "labels": labels, "annotations": {}}
    body = {"containers": [{"name": "main"}], "schedulingGates": [{"name": grove.GATE}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


# Where another gang scheduler, or a user, marks a member of a gang: in the metadata, or in a field of the spec.
CLAIMS: tuple[tuple[str, str, Any], ...] = (
    ("labels", "scheduling.x-k8s.io/pod-group", "other-gang"),
    ("labels", "kai.scheduler/subgroup-name", "other-gang"),
    ("labels", "pod-group.scheduling.sigs.k8s.io", "other-gang"),
    ("labels", "pod-group.scheduling.sigs.k8s.io/name", "other-gang"),
    ("annotations", "scheduling.k8s.io/group-name", "other-gang"),
    ("annotations", "scheduling.volcano.sh/group-name", "other-gang"),
    ("annotations", "pod-group-name", "other-gang"),
    ("annotations", "gang.scheduling.koordinator.sh/name", "other-gang"),
    ("spec", "schedulingGroup", {"podGroupName": "other-gang"}),
    ("spec", "workloadRef", {"name": "other-gang", "podGroup": "workers"}),
    ("spec", "schedulerName", "another-scheduler"),
)


def claimed_pod(holder: str, key: str, value: Any) -> Manifest:
    """Return a pod of a gang that has the mark of another gang."""
    pod = gang_pod()
    (pod["spec"] if holder == "spec" else pod["metadata"][holder])[key] = value
    return pod
