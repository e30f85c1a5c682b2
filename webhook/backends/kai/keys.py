"""KAI's keys and kinds, and the names of its PodGroups and their leaves.

Source: kai-scheduler/KAI-Scheduler, pkg/common/constants/constants.go, pkg/apis.
"""

import hashlib

from webhook.model.claims import Mark
from webhook.model.keys import Api
from webhook.model.known_objects import SpecField
from webhook.model.naming import label_name
from webhook.model.stored_object import Judged
from webhook.model.users import service_account
from webhook.model.version import Version
from webhook.model.workloads.topology_request import KAI_PREFERRED, KAI_REQUIRED, KAI_TOPOLOGY

NAME = "kai-scheduler"

# The first release with the fixes of #2095 and #2096.
FIXED = Version(0, 17, 2)
# #2095, since which KAI identifies PodGroups with their namespace, was also backported alone: the first release of each
# series that is known to have it. Merged into v0.17 after v0.17.1 (#2138, 2026-09-09), into v0.16 after v0.16.9 (#2137,
# 2026-09-09), into v0.14 after v0.14.7 (#2147, 2026-09-10; v0.14.9 is of 2026-09-28), and into v0.12 (#2146) and v0.9
# (#2148) on 2026-09-14. v0.15 and v0.13 have no backport. Which release has it first in v0.16, v0.12 and v0.9 was not
# read.
BACKPORTS = (Version(0, 14, 9),)


def mixes_namespaces(release: Version) -> bool:
    """Whether two PodGroups of one name in two namespaces may count as one in this release (#2095)."""
    return release < FIXED and not any(fix[:2] == release[:2] and fix <= release for fix in BACKPORTS)


POD_GROUP = Api("scheduling.run.ai", "v2alpha2", "PodGroup")
QUEUE = Api("scheduling.run.ai", "v2", "Queue")
TOPOLOGY = Api("kai.scheduler", "v1alpha1", "Topology")
SHARD = Api("kai.scheduler", "v1", "SchedulingShard")
# The same kinds, as they are judged when other authors store them.
POD_GROUPS = Judged(POD_GROUP.group, POD_GROUP.kind, "podgroups")
QUEUES = Judged(QUEUE.group, QUEUE.kind, "queues", namespaced=False)

# On a pod: its PodGroup, in the pod's namespace. The key has no prefix.
ANNOTATION_GROUP = "pod-group-name"
GROUP_MARK = Mark("annotations", ANNOTATION_GROUP)
# On a pod: the leaf of the group's tree in which the pod counts.
LABEL_SUBGROUP = "kai.scheduler/subgroup-name"
# On a pod: only the value "true" keeps podgrouper from making its own group and assigning the pod to that group.
ANNOTATION_SKIP = "kai.scheduler/skip-podgrouper"
# On a Job, JobSet or TrainJob, or on the template of a JobSet's Jobs: the minimum of the group that podgrouper makes.
ANNOTATION_MINIMUM = "kai.scheduler/batch-min-member"
# On a LeaderWorkerSet or on the template of workers: how many pods a segment has that podgrouper makes a leaf of.
ANNOTATION_SEGMENT = "kai.scheduler/segment-size"
# On the template of workers: the level that each segment requires or prefers.
ANNOTATION_SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
ANNOTATION_SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
# The administrator can choose other keys for these two (`global.queueLabelKey`, `global.nodePoolLabelKey`).
LABEL_QUEUE = "kai.scheduler/queue"
LABEL_NODE_POOL = "kai.scheduler/node-pool"
# The queue of a group that podgrouper makes and that names none.
DEFAULT_QUEUE = "default-queue"
# On a PodCliqueSet, with its meaning for podgrouper: whether the pods may be preempted, no matter their priority.
LABEL_PREEMPTIBILITY = "kai.scheduler/preemptibility"
PREEMPTIBILITIES = ("preemptible", "non-preemptible")
# On a workload, with their meaning for podgrouper: how long the gang may stay below its minimum before KAI evicts its
# pods (never, if negative), and how long it waits before other pods are evicted for it. The fields of a PodGroup.
ANNOTATION_GRACE = "kai.scheduler/staleness-grace-period"
DURATIONS = {
    ANNOTATION_GRACE: SpecField(POD_GROUP, "stalenessGracePeriod", "KAI 0.17"),
    "kai.scheduler/preemption-delay": SpecField(POD_GROUP, "preemptionDelay", "KAI 0.17"),
}

# Podgrouper makes the PodGroups of all pods that have none. The other controllers write their results outside the spec.
# The operator names the accounts, and its chart names the namespace. Source: kai-scheduler/KAI-Scheduler,
# pkg/operator/operands/*/resources.go (`defaultResourceName`), README (v0.15 to 2026-08).
CONTROLLERS = tuple(
    service_account("kai-scheduler", name)
    for name in ("pod-grouper", "podgroup-controller", "queue-controller", "scheduler")
)

# The annotations of an opted-in workload that ask for topology, and the fields of a PodGroup's topologyConstraint.
TOPOLOGY_FIELDS = {
    KAI_TOPOLOGY: "topology",
    KAI_REQUIRED: "requiredTopologyLevel",
    KAI_PREFERRED: "preferredTopologyLevel",
}

# A PriorityClass with this value or more makes a PodGroup non-preemptible, unless the PodGroup sets preemptibility.
NON_PREEMPTIBLE = 100
# The scheduler's name for the level that is the whole Topology, in any Topology.
WHOLE = "root"
HOSTNAME = "kubernetes.io/hostname"
# The Topology CRD's limit.
MAX_LEVELS = 16

_OBJECT_LIMIT = 253
_HASH_CHARACTERS = 8


def pod_group(namespace: str, podgang: str) -> str:
    """The name of a PodGang's PodGroup, unique in the cluster. Up to 2026-08 KAI's scheduler identifies PodGroups by
    name without namespace, and two gangs with one name in two namespaces half start (seen with v0.16.8; fixed by
    #2095).
    """
    full = f"{namespace}/{podgang}"
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{podgang[: _OBJECT_LIMIT - _HASH_CHARACTERS - 1].rstrip('-.')}-{digest}"


def leaf(podclique: str) -> str:
    """The name of a PodClique's subgroup: a DNS label. A PodClique's name need not be a DNS label."""
    return label_name(podclique, "leaf")


# The declared kinds whose pods podgrouper groups by the number that the workload creates.
GROUPED_KINDS = frozenset(
    {
        ("kubeflow.org", "MPIJob"),
        ("kubeflow.org", "PyTorchJob"),
        ("nvidia.com", "DynamoGraphDeployment"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayService"),
    }
)
