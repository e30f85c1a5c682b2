"""Koordinator's labels, annotations and kinds, the configuration of a `koord-scheduler` profile, and what that
scheduler honours.

The texts of unsupported capabilities are messages of the rules that refuse them. Source: koordinator-sh/koordinator,
apis/extension/{coscheduling,network_topology,qos,priority,elastic_quota}.go.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from webhook.backends.base import BackendSettings, BindingName, TopologyObjects
from webhook.backends.families import unsupported_nvlink_domains
from webhook.model.admission_request import service_account
from webhook.model.capabilities import (
    QUOTA_ANNOTATION,
    QUOTA_LABEL,
    SUPPORTED,
    Capability,
    CapabilityTable,
    depends,
    unsupported,
)
from webhook.model.claims import Mark
from webhook.model.gang_objects import JudgedKind
from webhook.model.keys import Api
from webhook.validators.registry import Context

NAME = "koord-scheduler"

# The API group of Koordinator's own copy of the kind. Upstream scheduler-plugins moved to scheduling.x-k8s.io, which
# koord-scheduler never reads.
POD_GROUP = Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
POD_GROUPS = JudgedKind(POD_GROUP.group, POD_GROUP.kind, "podgroups")

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

GangMode = Literal["Strict", "NonStrict"]
MatchPolicy = Literal["once-satisfied", "only-waiting", "waiting-and-running"]
QoSClass = Literal["LSE", "LSR", "LS", "BE"]


class KoordinatorSettings(BackendSettings):
    """The keys are spelled as in Grove's proposal for a Koordinator backend (GREP-537), with safer defaults.

    matchPolicy defaults to waiting-and-running. Under Koordinator's own default, once-satisfied, a gang that was
    complete once is never held again, so recreated pods start one by one. scheduleTimeoutSeconds (seconds, at least 1)
    counts from the first pod that waits in Permit; kube-scheduler's framework caps it at 900. topologyKeyMappings maps
    a node label key to a layer of the ClusterNetworkTopology and wins over that object's labelKey. awareNetworkTopology
    states the CoschedulingArgs field with that name, which Rollcall cannot read from the cluster; Koordinator's chart
    sets it. topologyBinding names the ClusterTopologyBinding that the ClusterNetworkTopology `default` is compared
    with; with topologyObjects `write`, Rollcall writes that object. enableRuntimeQuota and enableCheckParentQuota state
    the ElasticQuotaArgs fields with these names, and disableDefaultQuota the feature gate DisableDefaultQuota. Without
    them nothing is claimed that depends on them.
    """

    gangMode: GangMode = "Strict"
    matchPolicy: MatchPolicy = "waiting-and-running"
    scheduleTimeoutSeconds: int = Field(default=600, ge=1, le=2**31 - 1)
    defaultQoSClass: QoSClass | None = None
    topologyKeyMappings: dict[str, str] = Field(default_factory=dict)
    awareNetworkTopology: bool = True
    topologyBinding: BindingName | None = None
    topologyObjects: TopologyObjects = "compare"
    enableRuntimeQuota: bool | None = None
    enableCheckParentQuota: bool | None = None
    disableDefaultQuota: bool | None = None


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KoordinatorSettings]

CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: SUPPORTED,
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: unsupported_nvlink_domains("koord-scheduler"),
    Capability.RESOURCE_CLAIMS: unsupported(
        why="koord-scheduler does not plan gangs with resource claims (DRA, ComputeDomain), and may count a GPU twice",
        remedy="request the devices as extended resources, or choose another scheduler",
    ),
    Capability.TOPOLOGY_WORKLOAD: depends("a layer of the ClusterNetworkTopology for each required key"),
    Capability.TOPOLOGY_CLIQUE: depends("the same required domain on every clique of the gang"),
    Capability.TOPOLOGY_PREFERRED: depends("a layer for the key; without one the preference is dropped"),
    Capability.TOPOLOGY_SCALING_GROUP: unsupported(
        why="koord-scheduler applies one topology to a whole gang, never to a part of it",
        remedy="move the constraint to spec.template.topologyConstraint, or choose another scheduler",
    ),
    Capability.TOPOLOGY_DIVERGENT: unsupported(
        why="koord-scheduler applies the topology of the clique that it tries first to the whole gang",
        remedy="require the same domain for every clique, preferably at spec.template.topologyConstraint",
    ),
    Capability.QUOTA: depends("one leaf ElasticQuota that exists, the same for all cliques"),
    Capability.QOS_CLASS: depends("a priority and CPU requests that koord-manager admits with the class"),
    Capability.PRIORITY_CLASS: depends("the priority class in the clique's own pod spec"),
}
