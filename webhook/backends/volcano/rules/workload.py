"""What volcano would mishandle silently. Queues and topology have their own files."""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.volcano.capabilities import capabilities
from webhook.backends.volcano.keys import GROUP_MARK, POD_GROUP

multi_node_nvlink = families.multi_node_nvlink(
    "volcano/mnnvl",
    capabilities,
    """Grove puts the pods of such a clique into a ComputeDomain by a resource claim, but Volcano's PodGroup cannot name
    a ComputeDomain. An NVLink group may be split over racks, and its processes hang or use a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl (2026-08); the PodGroup CRD of scheduling.volcano.sh/v1beta1
    (v1.14.0 to 2026-08).
    """,
)


resource_claims = families.resource_claims(
    "volcano/resource-claims",
    capabilities,
    """Volcano reads resource claims only if its configuration enables it. Before v1.15 this is off, and Rollcall cannot
    read the setting from the cluster. If it is off, a claim has no effect on the placement of its pod. If you know that
    it is on, set this rule to warn.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/predicates (`predicate.DynamicResourceAllocationEnable`); release
    notes of v1.15.0. Not seen running.
    """,
)


foreign_member = families.foreign_member(
    "volcano/foreign-member",
    "volcano-sh/volcano, pkg/scheduler/api/job_info.go (`getJobID`: a pod's annotation is all that is read), v1.15.1.",
    POD_GROUP,
    GROUP_MARK,
)


claimed_pods = families.claimed_pods(
    "volcano/claimed-pods",
    source="volcano-sh/volcano, pkg/scheduler/api/job_info.go (`getJobID`): a pod has one group.",
    annotations={"scheduling.k8s.io/group-name": "training"},
)
