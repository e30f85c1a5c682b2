"""KAI's keys, kinds and names, the configuration of a `kai-scheduler` profile, and the facts that its rules read:
queues, the PodGroups in each queue, topologies, and the node pools of the shards.

Source: kai-scheduler/KAI-Scheduler, pkg/common/constants/constants.go, pkg/apis, deployments/kai-scheduler/crds (Queue
v2, PodGroup v2alpha2, Topology v1alpha1, SchedulingShard v1).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from webhook.backends.base import BackendSettings
from webhook.model.admission_request import service_account
from webhook.model.bounds import labels_kept, name_text
from webhook.model.claims import Mark
from webhook.model.fields import SPEC, Item
from webhook.model.gang_objects import JudgedKind
from webhook.model.keys import Api, ObjectKey, is_key, is_label_value, is_subdomain, label_name
from webhook.model.known_objects import KaiLevels, KaiQueue, QueuedGroup, QueuedGroups, QueueTree, SpecField
from webhook.model.projections import Projection, Resource, key_of, labels_of, name_of, required
from webhook.model.quantity import LARGEST_AMOUNT, Version, parse_quantity
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workload_record import QUEUE_WORD, ROLLCALL_LABELS
from webhook.validators.registry import Context
from webhook.workloads.opted_in_gang import KAI_PREFERRED, KAI_REQUIRED, KAI_TOPOLOGY

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
    """Returns whether two PodGroups of one name in two namespaces may count as one in this release (#2095)."""
    return release < FIXED and not any(fix[:2] == release[:2] and fix <= release for fix in BACKPORTS)


POD_GROUP = Api("scheduling.run.ai", "v2alpha2", "PodGroup")
QUEUE = Api("scheduling.run.ai", "v2", "Queue")
TOPOLOGY = Api("kai.scheduler", "v1alpha1", "Topology")
SHARD = Api("kai.scheduler", "v1", "SchedulingShard")
# The same kinds, as they are judged when other authors store them.
POD_GROUPS = JudgedKind(POD_GROUP.group, POD_GROUP.kind, "podgroups")
QUEUES = JudgedKind(QUEUE.group, QUEUE.kind, "queues", namespaced=False)

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


def pod_group_name(namespace: str, podgang: str) -> str:
    """Returns the name of a PodGang's PodGroup, unique in the cluster. Up to 2026-08 KAI's scheduler identifies
    PodGroups by name without namespace, and two gangs with one name in two namespaces half start (seen with v0.16.8;
    fixed by #2095).
    """
    full = f"{namespace}/{podgang}"
    digest = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{podgang[: _OBJECT_LIMIT - _HASH_CHARACTERS - 1].rstrip('-.')}-{digest}"


def leaf_name(podclique: str) -> str:
    """Returns the name of a PodClique's subgroup: a DNS label. A PodClique's name need not be a DNS label."""
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


def is_queue_name(name: str) -> bool:
    """Returns whether this can be the name of a Queue and the value of a label."""
    return is_subdomain(name) and is_label_value(name)


def _valid_queue(name: str) -> str:
    if not is_queue_name(name):
        raise PydanticCustomError("queue_name", "is not a valid name of a Queue")
    return name


def _label_key(key: str) -> str:
    if not is_key(key):
        raise PydanticCustomError("label_key", "is not a valid label key")
    return key


def _queue_key(key: str) -> str:
    if QUEUE_WORD not in key.rpartition("/")[2]:
        raise PydanticCustomError(
            "queue_key", "must have 'queue' in its name, because queue keys are recognised by this word"
        )
    return key


LabelKey = Annotated[str, AfterValidator(_label_key)]


class KaiSettings(BackendSettings):
    """defaultQueue is the queue of a PodCliqueSet that names none. If defaultQueue is not set, such a set is refused.
    Set the two keys if KAI's installation does not use the default keys.
    """

    defaultQueue: Annotated[str, AfterValidator(_valid_queue)] | None = None
    queueLabelKey: Annotated[LabelKey, AfterValidator(_queue_key)] = LABEL_QUEUE
    nodePoolLabelKey: LabelKey = LABEL_NODE_POOL


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KaiSettings]

# What a Queue counts in: GPUs (kept in milli), millicores, and millions of bytes.
_UNITS = {"gpu": 1000, "cpu": 1, "memory": 10**6}
_UNLIMITED = -1


def _queue(raw: Manifest) -> tuple[str, KaiQueue]:
    labels, whole = labels_kept(labels_of(raw), first=ROLLCALL_LABELS)
    spec = mapping(raw.get("spec"))
    limit, quota = _stated(spec, "limit"), _stated(spec, "quota")
    return name_of(raw), KaiQueue(name_text(spec.get("parentQueue")), labels, not whole, limit=limit, quota=quota)


def _stated(spec: Mapping[str, Any], kind: str) -> dict[str, int | None] | None:
    """Returns what a Queue states of each resource, with None for no limit: exactly -1, and for memory any negative
    number. None as a whole if another number is negative or overflows: what KAI makes of that is not known. Source:
    pkg/scheduler/plugins/proportion (`createQueueResourceAttrs`), v0.16.8.
    """
    stated: dict[str, int | None] = {}
    resources = mapping(spec.get("resources"))
    for resource, unit in _UNITS.items():
        shares = resources.get(resource)
        share = shares.get(kind) if isinstance(shares, dict) else None
        if share is not None:
            amount = parse_quantity(share)
            # A number that cannot be read limits nothing.
            unlimited = amount is None or amount == _UNLIMITED or (amount < 0 and resource == "memory")
            if amount is not None and not unlimited and not 0 <= amount * unit <= LARGEST_AMOUNT:
                return None
            stated[resource] = None if unlimited or amount is None else math.ceil(amount * unit)
    return stated


def _topology(raw: Manifest) -> tuple[str, KaiLevels]:
    levels, aliases = [], {}
    for index, level in enumerate(sequence(mapping(raw.get("spec")).get("levels"))):
        place = SPEC / "levels" / Item(index) / "nodeLabel"
        key = required(text(mapping(level).get("nodeLabel")), place)
        levels.append(key)
        if (alias := text(mapping(level).get("alias"))) is not None:
            aliases[alias] = key
    return name_of(raw), KaiLevels(levels, aliases)


def _pod_group(raw: Manifest) -> tuple[ObjectKey, QueuedGroup]:
    return key_of(raw), QueuedGroup(name_text(mapping(raw.get("spec")).get("queue")))


def _shard(raw: Manifest) -> tuple[str, str | None]:
    return name_of(raw), name_text(mapping(raw.get("spec")).get("partitionLabelValue"))


_QUEUE_FIELDS = ("metadata.labels", "spec.parentQueue", "spec.resources")
QUEUE_FACTS = Projection(
    "kai_queues", Resource(QUEUE, "queues", namespaced=False), _queue, QueueTree, fields=_QUEUE_FIELDS
)
TOPOLOGIES = Projection(
    "kai_topologies", Resource(TOPOLOGY, "topologies", namespaced=False), _topology, fields=("spec.levels",)
)
SHARDS = Projection(
    "kai_shards", Resource(SHARD, "schedulingshards", namespaced=False), _shard, fields=("spec.partitionLabelValue",)
)
POD_GROUP_FACTS = Projection(
    "kai_pod_groups",
    Resource(POD_GROUP, "podgroups"),
    _pod_group,
    QueuedGroups,
    for_objects=True,
    fields=("spec.queue",),
)

PROJECTIONS = (QUEUE_FACTS, TOPOLOGIES, SHARDS, POD_GROUP_FACTS)

_SUBGROUP: dict[str, Any] = {
    "minMember": int,
    "minSubGroup": int,
    "topologyConstraint": {"topology": str, "requiredTopologyLevel": str, "preferredTopologyLevel": str},
}

# The fields that are read of PodGroups and Queues stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {
        "spec": {
            **_SUBGROUP,
            "queue": str,
            "priorityClassName": str,
            "preemptibility": str,
            "preemptionDelay": str,
            "stalenessGracePeriod": str,
            "subGroups": [{"name": str, "parent": str, **_SUBGROUP}],
        },
        "status": {"resourcesStatus": {"allocated": {}}},
    },
    QUEUES[:2]: {"spec": {"parentQueue": str, "resources": {}}},
}
