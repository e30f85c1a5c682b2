"""Koordinator's labels, annotations and kinds.

Source: apis/extension/{coscheduling,network_topology,qos,priority,elastic_quota}.go.
"""

from webhook.model.capabilities import QUOTA_ANNOTATION, QUOTA_LABEL
from webhook.model.claims import Mark
from webhook.model.keys import Api
from webhook.model.stored_object import Judged
from webhook.model.users import service_account

NAME = "koord-scheduler"

# The API group of Koordinator's own copy of the kind. Upstream scheduler-plugins moved to scheduling.x-k8s.io, which
# koord-scheduler never reads.
POD_GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
POD_GROUPS = Judged(POD_GROUP.group, POD_GROUP.kind, "podgroups")

# The scheduler writes a PodGroup's status, which is not a subresource. Source: koordinator-sh/charts,
# versions/{v1.6.0,v1.7.0,v1.8.0}/templates/rbac/koord-scheduler.yaml, values.yaml (`installation.namespace`).
CONTROLLERS = (service_account("koordinator-system", "koord-scheduler"),)

# On a pod: the PodGroup in its namespace that the pod belongs to. With this label, settings on the pod are never read.
LABEL_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
LABEL_PRIORITY_CLASS = "koordinator.sh/priority-class"
# Overrides spec.schedulerName inside koord-scheduler (v1.7+), even when empty.
LABEL_SCHEDULER_NAME = "scheduling.koordinator.sh/scheduler-name"

# The two older ways: a deprecated label, and an annotation. Settings are then read from the first pod that is seen.
LABEL_OLD_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LABEL_OLD_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"

GANG_PREFIX = "gang.scheduling.koordinator.sh/"
ANNOTATION_NAME = GANG_PREFIX + "name"
ANNOTATION_MINIMUM = GANG_PREFIX + "min-available"
ANNOTATION_WAITING_TIME = GANG_PREFIX + "waiting-time"
ANNOTATION_GROUPS = GANG_PREFIX + "groups"
ANNOTATION_MODE = GANG_PREFIX + "mode"
ANNOTATION_MATCH_POLICY = GANG_PREFIX + "match-policy"
# Read if the one above is empty.
ANNOTATION_MATCH_POLICY_ALIAS = "pod-group.scheduling.sigs.k8s.io/match-policy"
ANNOTATION_TOTAL_NUMBER = GANG_PREFIX + "total-number"
ANNOTATION_TOPOLOGY = GANG_PREFIX + "network-topology-spec"
# The ways in which a pod names its gang; the first that is not empty counts.
GROUP_MARKS = (Mark("labels", LABEL_POD_GROUP), Mark("labels", LABEL_OLD_NAME), Mark("annotations", ANNOTATION_NAME))
# The settings of a gang, on a PodGroup or on a pod that uses one of the older ways.
GANG_SETTINGS = (
    ANNOTATION_MINIMUM,
    ANNOTATION_WAITING_TIME,
    ANNOTATION_GROUPS,
    ANNOTATION_MODE,
    ANNOTATION_MATCH_POLICY,
    ANNOTATION_MATCH_POLICY_ALIAS,
    ANNOTATION_TOTAL_NUMBER,
    ANNOTATION_TOPOLOGY,
)

MODES = ("Strict", "NonStrict")
ONLY_WAITING = "only-waiting"
MATCH_POLICIES = ("waiting-and-running", "once-satisfied", ONLY_WAITING)
MUST_GATHER = "MustGather"
STRATEGIES = (MUST_GATHER, "PreferGather")

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
# The built-in root: the whole cluster, which restricts nothing.
ROOT_LAYER = "ClusterTopologyLayer"
HOSTNAME = "kubernetes.io/hostname"

# What names the quota of an opted-in workload: on itself, and on its pod templates.
QUOTA_KEYS = (("annotations", QUOTA_ANNOTATION), ("labels", QUOTA_LABEL))
QUOTA_KEYS_OF_PODS = (("labels", QUOTA_LABEL),)
# On a pod: with "false" it is never preempted, and is charged to its quota's min as well.
LABEL_PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"
# Quotas that Koordinator creates itself; the first is the parent of all.
ROOT_QUOTA = "koordinator-root-quota"
BUILT_IN_QUOTAS = ("koordinator-default-quota", "koordinator-system-quota")
