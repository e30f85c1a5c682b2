"""Volcano's annotations, kinds and built-in names, the configuration of a `volcano` profile, what volcano honours, and
the facts that its rules read: its queues, the PodGroups in each queue, and the tiers of its HyperNodes.

The texts of unsupported capabilities are messages of the rules that refuse them. Source: volcano-sh/volcano,
staging/src/volcano.sh/apis/pkg/apis, pkg/scheduler/api/job_info.go (`getJobID`), config/crd/volcano/bases (Queue,
PodGroup, HyperNode).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from webhook.backends.base import BackendSettings, BindingName, TopologyObjects, unquoted_off
from webhook.backends.families import unsupported_nvlink_domains
from webhook.model.admission_request import service_account
from webhook.model.bounds import fits, name_text
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends, unsupported
from webhook.model.claims import Mark
from webhook.model.fields import SPEC
from webhook.model.gang_objects import JudgedKind
from webhook.model.keys import Api, ObjectKey, is_subdomain
from webhook.model.known_objects import (
    HyperNode,
    HyperNodeMembers,
    HyperNodes,
    QueuedGroup,
    QueuedGroups,
    QueueTree,
    VolcanoQueue,
)
from webhook.model.projections import Missing, Projection, Resource, key_of, name_of
from webhook.model.quantity import ceiling_amounts
from webhook.model.reading import Malformed, Manifest, integer, mapping, sequence, text
from webhook.validators.registry import Context
from webhook.validators.wrong_types import COUNTS, METADATA

NAME = "volcano"

POD_GROUP = Api("scheduling.volcano.sh", "v1beta1", "PodGroup")
QUEUE = Api("scheduling.volcano.sh", "v1beta1", "Queue")
HYPER_NODE = Api("topology.volcano.sh", "v1alpha1", "HyperNode")
# The same kinds, as they are judged when other authors store them.
POD_GROUPS = JudgedKind(POD_GROUP.group, POD_GROUP.kind, "podgroups")
QUEUES = JudgedKind(QUEUE.group, QUEUE.kind, "queues", namespaced=False)

# The only key that the scheduler and the podgroup controller read. Without it, the controller makes its own group for
# the pod.
ANNOTATION_GROUP = "scheduling.k8s.io/group-name"
GROUP_MARK = Mark("annotations", ANNOTATION_GROUP)
# Only the device code reads it, instead of the first key.
ANNOTATION_DEVICE_GROUP = "scheduling.volcano.sh/group-name"
# The queue of a group that Volcano makes itself, and of its own jobs. Volcano reads neither of them on a pod that names
# its group.
ANNOTATIONS_OTHER_QUEUE = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")

# Whether a PodGroup or pod may be a victim of preemption: an annotation, else a label.
PREEMPTABLE = "volcano.sh/preemptable"
# Its controllers make the PodGroups of its own Jobs and of bare pods, and its scheduler makes the first queues. The
# chart prefixes the release's name: these names are from `helm install volcano -n volcano-system` and the plain
# manifest. Source: volcano-sh/volcano, installer/helm/chart/volcano/templates/{controllers,scheduler}.yaml,
# installer/volcano-development.yaml (v1.14 to 2026-08); pkg/controllers/{job,podgroup}, pkg/scheduler/cache.
CONTROLLERS = tuple(service_account("volcano-system", name) for name in ("volcano-controllers", "volcano-scheduler"))

# The scheduler makes both when it starts: the parent of all queues, and the queue of groups that name none.
ROOT_QUEUE = "root"
DEFAULT_QUEUE = "default"
OPEN = "Open"


def _queue(name: str) -> str:
    if not is_subdomain(name):
        raise PydanticCustomError("queue_name", "is not a valid name of a Queue")
    if name == ROOT_QUEUE:
        raise PydanticCustomError("queue_name", "is the parent of all queues, but a gang must be in a leaf queue")
    return name


TopologyMode = Annotated[Literal["off", "hypernode"], BeforeValidator(unquoted_off)]


class VolcanoSettings(BackendSettings):
    """defaultQueue is the queue of a PodCliqueSet that names none. topology `hypernode` states that the cluster has
    HyperNodes with tier names and that the scheduler runs its plugin network-topology-aware. Rollcall cannot read from
    the cluster whether the plugin is on, and Volcano's chart does not enable it by default. Without the plugin a
    topology is accepted and ignored. topologyBinding names the ClusterTopologyBinding that the HyperNodes are compared
    with; with topologyObjects `write`, Rollcall writes HyperNodes from it and from the labels of the nodes.
    enableHierarchy states the argument with that name of the plugin capacity: whether
    the queues above a gang's queue limit it. Without it nothing is claimed that depends on it.
    """

    defaultQueue: Annotated[str, AfterValidator(_queue)] = DEFAULT_QUEUE
    topology: TopologyMode = "off"
    topologyBinding: BindingName | None = None
    topologyObjects: TopologyObjects = "compare"
    enableHierarchy: bool | None = None


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[VolcanoSettings]

TOPOLOGY_OFF = unsupported(
    why="the profile's topology is off, so volcano would not keep the pods of the gang together",
    remedy="set the profile's topology to hypernode, or give up the topology: remove the topologyConstraint",
)
PREFERRED = unsupported(
    why="only a required domain is written for volcano, so a preferred one would be dropped",
    remedy="remove the preference, or require the domain",
)
_TOPOLOGY: CapabilityTable = {
    Capability.TOPOLOGY_WORKLOAD: depends("a HyperNode tier for the domain, and a minimum of all replicas"),
    Capability.TOPOLOGY_CLIQUE: depends("a HyperNode tier for the domain, and a minimum of all replicas"),
    Capability.TOPOLOGY_SCALING_GROUP: depends("a scaling group of a single clique"),
    Capability.TOPOLOGY_DIVERGENT: SUPPORTED,
}
_GENERAL: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: depends("no required topology over the clique"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: unsupported_nvlink_domains("volcano"),
    Capability.RESOURCE_CLAIMS: unsupported(
        why="volcano may ignore resource claims (DRA, ComputeDomain): this depends on settings that Rollcall cannot "
        "read",
        remedy="request the devices as extended resources, or choose another scheduler",
    ),
    Capability.TOPOLOGY_PREFERRED: PREFERRED,
    Capability.QUEUE: depends("one leaf Queue that exists and is Open, the same for all cliques"),
    Capability.PRIORITY_CLASS: SUPPORTED,
}
_WITH_TOPOLOGY: CapabilityTable = {**_GENERAL, **_TOPOLOGY}
_WITHOUT_TOPOLOGY: CapabilityTable = {**_GENERAL, **dict.fromkeys(_TOPOLOGY, TOPOLOGY_OFF)}


def capabilities(settings: VolcanoSettings) -> CapabilityTable:
    return _WITHOUT_TOPOLOGY if settings.topology == "off" else _WITH_TOPOLOGY


# The names of the nodes of one HyperNode: some hundreds.
_NODE_CHARACTERS = 10_000


def _read_queue(raw: Manifest) -> tuple[str, VolcanoQueue]:
    spec, state = mapping(raw.get("spec")), mapping(raw.get("status")).get("state")
    return name_of(raw), VolcanoQueue(
        name_text(spec.get("parent")),
        name_text(state),
        capability=ceiling_amounts(spec.get("capability")),
        guarantee=ceiling_amounts(mapping(spec.get("guarantee")).get("resource")),
    )


def _read_hyper_node(raw: Manifest) -> tuple[str, HyperNode]:
    spec = mapping(raw.get("spec"))
    tier = integer(spec.get("tier"))
    if tier is None:
        raise Missing(SPEC / "tier")
    return name_of(raw), HyperNode(tier, name_text(spec.get("tierName")), _members(spec))


def _members(spec: Mapping[str, Any]) -> HyperNodeMembers | None:
    """Returns what a HyperNode says are its members; None if that cannot be read, or is too much to keep. As in
    Volcano, an entry of another type has no effect, and HyperNodes are members by their exact name only.
    """
    nodes, patterns, selectors, hyper_nodes = list[str](), list[str](), list[str](), list[str]()
    try:
        for member in map(mapping, sequence(spec.get("members"))):
            kind, selector = text(member.get("type")), mapping(member.get("selector"))
            exact = text(mapping(selector.get("exactMatch")).get("name"))
            pattern = text(mapping(selector.get("regexMatch")).get("pattern"))
            labels = mapping(selector.get("labelMatch"))
            if kind == "HyperNode" and exact:
                hyper_nodes.append(exact)
            elif kind == "Node":
                nodes += [exact] if exact else []
                patterns += [] if pattern is None else [pattern]
                selectors += [json.dumps(labels, sort_keys=True)] if labels else []
    except Malformed:
        return None
    members = HyperNodeMembers(" ".join(nodes), tuple(patterns), tuple(selectors), tuple(hyper_nodes))
    kept = len(members.nodes) <= _NODE_CHARACTERS and fits((*patterns, *selectors, *hyper_nodes))
    return members if kept and any(members) else None


def _read_pod_group(raw: Manifest) -> tuple[ObjectKey, QueuedGroup]:
    # The CRD's default fills in the queue.
    return key_of(raw), QueuedGroup(name_text(mapping(raw.get("spec")).get("queue")) or DEFAULT_QUEUE)


QUEUE_FACTS = Projection(
    "volcano_queues",
    Resource(QUEUE, "queues", namespaced=False),
    _read_queue,
    QueueTree,
    fields=("spec.parent", "spec.capability", "spec.guarantee", "status.state"),
)
HYPER_NODES = Projection(
    "hyper_nodes",
    Resource(HYPER_NODE, "hypernodes", namespaced=False),
    _read_hyper_node,
    HyperNodes,
    fields=("spec.tier", "spec.tierName", "spec.members"),
)
POD_GROUP_FACTS = Projection(
    "volcano_pod_groups",
    Resource(POD_GROUP, "podgroups"),
    _read_pod_group,
    QueuedGroups,
    for_objects=True,
    fields=("spec.queue",),
)

PROJECTIONS = (QUEUE_FACTS, HYPER_NODES, POD_GROUP_FACTS)

_NETWORK_TOPOLOGY: dict[str, Any] = {"mode": str, "highestTierAllowed": int, "highestTierName": str}
_POLICY: dict[str, Any] = {
    "name": str,
    "subGroupSize": int,
    "minSubGroups": int,
    "matchLabelKeys": list,
    "networkTopology": _NETWORK_TOPOLOGY,
}

# The fields that are read of PodGroups and Queues stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {
        "metadata": METADATA,
        "spec": {
            "queue": str,
            "minMember": int,
            "minTaskMember": COUNTS,
            "networkTopology": _NETWORK_TOPOLOGY,
            "subGroupPolicy": [_POLICY],
        },
    },
    QUEUES[:2]: {
        "spec": {"parent": str, "weight": int, "capability": {}, "deserved": {}, "guarantee": {"resource": {}}}
    },
}
