"""KAI's keys and kinds.

Source: kai-scheduler/KAI-Scheduler, pkg/common/constants/constants.go, pkg/apis.
"""

from webhook.model.keys import Api
from webhook.model.users import service_account

NAME = "kai-scheduler"

POD_GROUP = Api("scheduling.run.ai", "v2alpha2", "PodGroup")
QUEUE = Api("scheduling.run.ai", "v2", "Queue")
TOPOLOGY = Api("kai.scheduler", "v1alpha1", "Topology")
SHARD = Api("kai.scheduler", "v1", "SchedulingShard")

# On a pod: its PodGroup, in its own namespace. The key has no prefix.
ANNOTATION_GROUP = "pod-group-name"
# On a pod: the leaf of the group's tree that it counts for.
LABEL_SUBGROUP = "kai.scheduler/subgroup-name"
# On a pod: "true", and nothing else, keeps podgrouper from making a group of its own and pointing the pod to that.
ANNOTATION_SKIP = "kai.scheduler/skip-podgrouper"
# On a Job, JobSet or TrainJob, or on the template of a JobSet's Jobs: the minimum of its group, as podgrouper makes it.
ANNOTATION_MINIMUM = "kai.scheduler/batch-min-member"
# The administrator may have chosen other keys for these two (`global.queueLabelKey`, `global.nodePoolLabelKey`).
LABEL_QUEUE = "kai.scheduler/queue"
LABEL_NODE_POOL = "kai.scheduler/node-pool"
# On a set, as podgrouper reads it of a workload: whether its pods may be preempted, whatever their priority.
LABEL_PREEMPTIBILITY = "kai.scheduler/preemptibility"
PREEMPTIBILITIES = ("preemptible", "non-preemptible")

# Podgrouper makes the PodGroups of all pods that have none; the others write what they found out beside the spec. The
# operator names the accounts, and its chart the namespace.
# Source: kai-scheduler/KAI-Scheduler, pkg/operator/operands/*/resources.go (`defaultResourceName`), README (v0.15 to
# 2026-08).
CONTROLLERS = tuple(
    service_account("kai-scheduler", name)
    for name in ("pod-grouper", "podgroup-controller", "queue-controller", "scheduler")
)

# From this value on a PriorityClass makes a PodGroup non-preemptible, unless that says otherwise.
NON_PREEMPTIBLE = 100
# What the scheduler calls the whole of any Topology, as a level.
WHOLE = "root"
HOSTNAME = "kubernetes.io/hostname"
# The Topology CRD's limit.
MAX_LEVELS = 16
