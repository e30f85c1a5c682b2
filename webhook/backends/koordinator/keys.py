"""Koordinator's labels, annotations and kinds.

Source: apis/extension/{coscheduling,network_topology,qos,priority,elastic_quota}.go.
"""

from webhook.model.facts import Api

NAME = "koord-scheduler"

# Koordinator's vendored group. Upstream scheduler-plugins moved to scheduling.x-k8s.io, which koord-scheduler never
# reads.
POD_GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")

# The label that puts a pod into the PodGroup of that name in its namespace. Settings on the pod are never read then.
LABEL_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
LABEL_PRIORITY_CLASS = "koordinator.sh/priority-class"
# Overrides spec.schedulerName inside koord-scheduler (v1.7+), even when empty.
LABEL_SCHEDULER_NAME = "scheduling.koordinator.sh/scheduler-name"

_GANG = "gang.scheduling.koordinator.sh/"
ANNOTATION_GROUPS = _GANG + "groups"
ANNOTATION_MODE = _GANG + "mode"
ANNOTATION_MATCH_POLICY = _GANG + "match-policy"
ANNOTATION_TOTAL_NUMBER = _GANG + "total-number"
ANNOTATION_TOPOLOGY = _GANG + "network-topology-spec"

BATCH_RESOURCES = frozenset({"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"})

VENDOR_GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"})
KOORDINATOR_GPUS = frozenset(
    f"koordinator.sh/{name}" for name in ("gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio", "gpu.shared")
)
ANNOTATION_RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"

QOS_CLASSES = ("LSE", "LSR", "LS", "BE", "SYSTEM")

# koord-scheduler uses only the ClusterNetworkTopology of this name.
NETWORK_TOPOLOGY = "default"
# The built-in leaf layer: all pods on one node.
NODE_LAYER = "NodeTopologyLayer"
HOSTNAME = "kubernetes.io/hostname"

# Quotas that Koordinator creates itself; the first is the parent of all.
ROOT_QUOTA = "koordinator-root-quota"
BUILT_IN_QUOTAS = ("koordinator-default-quota", "koordinator-system-quota")
