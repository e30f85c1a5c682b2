"""PodGroups and Queues of KAI and Volcano as users write them, each with the expected findings in a small cluster.

One table for the rules, which are told of the world by files, and for real API servers, which hold it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from webhook.backends.kai import pod_clique_sets as kai
from webhook.backends.kai.keys import LABEL_NODE_POOL, LABEL_QUEUE
from webhook.backends.kai.pod_clique_sets import subgroup
from webhook.backends.volcano import pod_clique_sets as volcano
from webhook.backends.volcano.pod_clique_sets import policy

Manifest = dict[str, Any]

# Where objects of the world are that have a namespace: it is in every cluster, and no test's own.
ELSEWHERE = "kube-public"


class Applied(NamedTuple):
    """An object, the rules that refuse it and those that warn of it. `before` makes it an update."""

    manifest: Manifest
    refused: frozenset[str] = frozenset()
    warned: frozenset[str] = frozenset()
    before: Manifest | None = None


def refused(manifest: Manifest, *rules: str, before: Manifest | None = None, warned: str | None = None) -> Applied:
    """An object that these rules refuse."""
    return Applied(manifest, frozenset(rules), frozenset({warned} if warned else ()), before)


def warned(manifest: Manifest, *rules: str, before: Manifest | None = None) -> Applied:
    """An object that these rules warn of."""
    return Applied(manifest, frozenset(), frozenset(rules), before)


def fine(manifest: Manifest, before: Manifest | None = None) -> Applied:
    """An object without findings."""
    return Applied(manifest, before=before)


def elsewhere(manifest: Manifest, name: str) -> Manifest:
    """A PodGroup of the world."""
    found = deepcopy(manifest)
    found["metadata"] = {"name": name, "namespace": ELSEWHERE}
    return found


def other(api: str, kind: str, name: str, **spec: Any) -> Manifest:
    """Another object of the world."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


# KAI

ZONE, RACK = "example.com/zone", "example.com/rack"
POOLED = {LABEL_NODE_POOL: "h100"}
RUNNING = {"resourcesStatus": {"allocated": {"cpu": "4"}}}

KAI_WORLD: list[Manifest] = [
    kai.queue_object("research"),
    kai.queue_object("team-a", "research"),
    kai.queue_object("unused", "research"),
    kai.queue_object("lost", "gone"),
    kai.queue_object("pools", labels=POOLED),
    kai.queue_object("pooled", "pools", labels=POOLED),
    kai.queue_object("busy"),
    elsewhere(kai.pod_group(queue="busy"), "busy"),
    elsewhere(kai.pod_group(queue="busy"), "twin"),
    other("kai.scheduler/v1", "SchedulingShard", "everyone"),
    other("kai.scheduler/v1", "SchedulingShard", "h100", partitionLabelValue="h100"),
    other(
        "kai.scheduler/v1alpha1", "Topology", "dc", levels=[{"nodeLabel": ZONE, "alias": "zone"}, {"nodeLabel": RACK}]
    ),
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "usual"},
        "value": 1000,
        "globalDefault": True,
    },
]
PAIR = (subgroup("prefill", 2), subgroup("decode", 4))
SERVE = (subgroup("serve"), subgroup("prefill", 2, "serve"), subgroup("decode", 4, "serve"))


def near(**levels: str) -> Manifest:
    """A constraint by the Topology of the world."""
    return {"topology": "dc", **levels}


KAI: dict[str, Applied] = {
    "a flat gang": fine(kai.pod_group(minMember=4)),
    "a flat gang that says nothing of its size": fine(kai.pod_group()),
    "a tree": fine(kai.pod_group(*SERVE, subgroup("router", 1))),
    "a tree whose sets count all": fine(kai.pod_group(subgroup("serve", minSubGroup=2), *SERVE[1:], minSubGroup=1)),
    "a leaf that may stay empty": fine(kai.pod_group(subgroup("decode", 4), subgroup("helper", 0))),
    "a leaf that nothing is said of": refused(
        kai.pod_group(subgroup("decode", 4), subgroup("helper")), "kai/group-structure"
    ),
    "a subgroup below a missing parent": refused(kai.pod_group(subgroup("decode", 4, "serve")), "kai/group-parent"),
    "a subgroup below itself": refused(kai.pod_group(subgroup("router", parent="router"), *PAIR), "kai/group-parent"),
    "three in a cycle": refused(
        kai.pod_group(subgroup("a", parent="c"), subgroup("b", parent="a"), subgroup("c", parent="b")),
        "kai/group-parent",
    ),
    "more groups than there are": refused(kai.pod_group(*PAIR, minSubGroup=3), "kai/group-minimum"),
    "more groups than a set has": refused(
        kai.pod_group(subgroup("serve", minSubGroup=3), *SERVE[1:]), "kai/group-minimum"
    ),
    "groups where there are none": refused(kai.pod_group(minSubGroup=2), "kai/group-minimum"),
    "an optional leaf": refused(kai.pod_group(*PAIR, minSubGroup=1), "kai/group-optional"),
    "an optional leaf in a set": refused(
        kai.pod_group(subgroup("serve", minSubGroup=1), *SERVE[1:]), "kai/group-optional"
    ),
    "an optional set": refused(kai.pod_group(*SERVE, subgroup("router", 1), minSubGroup=1), "kai/group-optional"),
    "a leaf beside one that is always satisfied": refused(
        kai.pod_group(subgroup("decode", 4), subgroup("helper", 0), minSubGroup=1), "kai/group-optional"
    ),
    "leaves of which none needs a pod": warned(
        kai.pod_group(subgroup("decode", 0), subgroup("helper", 0), minSubGroup=1), "kai/group-without-minimum"
    ),
    "a flat gang of none": warned(kai.pod_group(minMember=0), "kai/group-without-minimum"),
    "pods for a set, once it is there": refused(
        kai.pod_group(subgroup("serve", 6), *SERVE[1:]), "kai/set-minimum", before=kai.pod_group(*SERVE)
    ),
    "pods for a set, at creation": refused(kai.pod_group(subgroup("serve", 6), *SERVE[1:]), "kai/set-minimum"),
    "a name that does not fit a label": refused(kai.pod_group(subgroup("d" * 64, 4)), "kai/subgroup-name"),
    "a minimum that is raised while pods run": refused(
        kai.pod_group(subgroup("decode", 5)),
        "kai/group-raised",
        before=kai.pod_group(subgroup("decode", 4), status=RUNNING),
    ),
    "a leaf that is new while pods run": refused(
        kai.pod_group(*PAIR),
        "kai/group-raised",
        before=kai.pod_group(subgroup("decode", 4), status=RUNNING),
    ),
    "a flat minimum that is raised while pods run": refused(
        kai.pod_group(minMember=5), "kai/group-raised", before=kai.pod_group(minMember=4, status=RUNNING)
    ),
    "a minimum that is raised while pods run, and lowered": fine(
        kai.pod_group(minMember=3), before=kai.pod_group(minMember=4, status=RUNNING)
    ),
    "a minimum that is raised while nothing is known of pods": warned(
        kai.pod_group(minMember=5), "kai/group-raised-unseen", before=kai.pod_group(minMember=4)
    ),
    "a gang that is never stale": fine(
        kai.pod_group(*PAIR, minSubGroup=1, stalenessGracePeriod="-1s"),
        before=kai.pod_group(PAIR[0], status=RUNNING, stalenessGracePeriod="-1s"),
    ),
    "no queue": refused(kai.pod_group(queue=""), "kai/group-no-queue"),
    "a queue that is not there": refused(kai.pod_group(queue="nope"), "kai/group-queue"),
    "a queue that has children": refused(kai.pod_group(queue="research"), "kai/group-queue"),
    "a queue whose parent is not there": refused(kai.pod_group(queue="lost"), "kai/group-queue"),
    "a label that names another queue": warned(kai.pod_group(labels={LABEL_QUEUE: "busy"}), "kai/group-queue-label"),
    "a node pool and its queue": fine(kai.pod_group(queue="pooled", labels=POOLED)),
    "a node pool that no shard serves": refused(
        kai.pod_group(labels={LABEL_NODE_POOL: "default"}), "kai/group-node-pool"
    ),
    "a queue of another node pool": refused(kai.pod_group(queue="pooled"), "kai/group-node-pool"),
    "a name that is taken elsewhere": warned(kai.pod_group(name="twin"), "kai/group-name"),
    "a priority class that is not there": refused(kai.pod_group(priorityClassName="nope"), "kai/group-priority-class"),
    "a priority class that is not there and does not matter": fine(
        kai.pod_group(priorityClassName="nope", preemptibility="preemptible")
    ),
    "topology by node label": fine(kai.pod_group(topologyConstraint=near(requiredTopologyLevel=RACK))),
    "topology by alias": fine(kai.pod_group(topologyConstraint=near(requiredTopologyLevel="zone"))),
    "the whole of a topology": fine(
        kai.pod_group(topologyConstraint=near(requiredTopologyLevel="root", preferredTopologyLevel=RACK))
    ),
    "a topology that is not there": refused(
        kai.pod_group(topologyConstraint={"topology": "nope", "requiredTopologyLevel": RACK}), "kai/group-topology"
    ),
    "a level that is not there": refused(
        kai.pod_group(subgroup("decode", 4, topologyConstraint=near(requiredTopologyLevel="rack"))),
        "kai/group-topology",
    ),
    "a preference that is broader than what is required": refused(
        kai.pod_group(topologyConstraint=near(requiredTopologyLevel=RACK, preferredTopologyLevel="zone")),
        "kai/group-topology",
    ),
    "a topology without a level": refused(kai.pod_group(topologyConstraint=near()), "kai/group-topology"),
    "a level without a topology": refused(
        kai.pod_group(topologyConstraint={"requiredTopologyLevel": RACK}), "kai/group-topology-unnamed"
    ),
    "a queue below another": fine(kai.queue_object("team-b", "research")),
    "a queue below one that is not there": warned(kai.queue_object("team-b", "nope"), "kai/queue-parent"),
    "a queue below an orphan": warned(kai.queue_object("team-b", "lost"), "kai/queue-parent"),
    "a queue below one of another node pool": refused(kai.queue_object("team-b", "pools"), "kai/queue-pool"),
    "a queue below its own child": refused(
        kai.queue_object("research", "unused"), "kai/queue-cycle", before=kai.queue_object("research")
    ),
    "a queue below itself": refused(kai.queue_object("team-b", "team-b"), "kai/queue-cycle"),
    "a queue below one that is used": refused(kai.queue_object("team-b", "busy"), "kai/queue-in-use"),
}


# Volcano


def hyper_node(name: str, tier: int, tier_name: str) -> Manifest:
    """A HyperNode of one node."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]
    return other("topology.volcano.sh/v1alpha1", "HyperNode", name, tier=tier, tierName=tier_name, members=members)


def state(manifest: Manifest, word: str) -> Manifest:
    """A Queue as Volcano's controller leaves it."""
    return {**manifest, "status": {"state": word, "allocated": {}}}


VOLCANO_WORLD: list[Manifest] = [
    *(state(volcano.queue_object(name, "root"), "Open") for name in ("default", "research", "busy")),
    state(volcano.queue_object("root"), "Open"),
    *(state(volcano.queue_object(name, "research"), "Open") for name in ("team-a", "unused")),
    state(volcano.queue_object("shut", "root"), "Closed"),
    volcano.queue_object("fresh", "root"),
    elsewhere(volcano.pod_group(queue="busy"), "busy"),
    hyper_node("rack-1", 1, "rack"),
    hyper_node("zone-1", 2, "zone"),
    hyper_node("odd-1", 1, "odd"),
    hyper_node("odd-2", 2, "odd"),
]
ROLES = (policy("leader"), policy("worker"))
HARD: Manifest = {"mode": "hard", "highestTierAllowed": 1}
VOLCANO: dict[str, Applied] = {
    "a flat gang": fine(volcano.pod_group(queue="team-a")),
    "a gang in the default queue": fine(volcano.pod_group()),
    "a gang of roles": fine(volcano.pod_group(*ROLES)),
    "a role of single pods that is not demanded": fine(
        volcano.pod_group(policy("leader", 1, minSubGroups=None), minMember=2)
    ),
    "a queue that is not there": refused(volcano.pod_group(queue="nope"), "volcano/group-queue"),
    "a queue that has children": refused(volcano.pod_group(queue="research"), "volcano/group-queue"),
    "a queue that is not open": refused(volcano.pod_group(queue="shut"), "volcano/group-queue"),
    "a queue without a state": refused(volcano.pod_group(queue="fresh"), "volcano/group-queue"),
    "the queue of all queues": refused(volcano.pod_group(queue="root"), "volcano/group-queue"),
    "another queue by an update": refused(
        volcano.pod_group(queue="research"), "volcano/group-queue", before=volcano.pod_group()
    ),
    "an annotation that names another queue": warned(
        volcano.pod_group(annotations={"volcano.sh/queue-name": "team-a"}), "volcano/group-keys"
    ),
    "no minimum": refused(volcano.pod_group(minMember=None), "volcano/group-minimum"),
    "a minimum of none": refused(volcano.pod_group(minMember=0), "volcano/group-minimum"),
    "tasks that are more than the gang": refused(
        volcano.pod_group(minTaskMember={"leader": 1, "worker": 4}), "volcano/task-minimums"
    ),
    "a role without keys": refused(
        volcano.pod_group(ROLES[0], policy("worker", matchLabelKeys=None)), "volcano/subgroup-keys"
    ),
    "a role without keys that demands nothing": refused(
        volcano.pod_group(ROLES[0], policy("worker", matchLabelKeys=None, minSubGroups=0)), "volcano/subgroup-keys"
    ),
    "a role that is not demanded": warned(
        volcano.pod_group(ROLES[0], policy("worker", minSubGroups=None)), "volcano/subgroup-minimum"
    ),
    "two roles of one name": refused(volcano.pod_group(*ROLES[:1] * 2), "volcano/subgroup-twins"),
    "less than the sum of the roles": warned(volcano.pod_group(*ROLES, minMember=3), "volcano/group-sum"),
    "topology by number": fine(volcano.pod_group(networkTopology=HARD)),
    "topology by name": fine(volcano.pod_group(networkTopology={"mode": "hard", "highestTierName": "zone"})),
    "a soft topology": fine(volcano.pod_group(networkTopology={"mode": "soft", "highestTierAllowed": 9})),
    "tier 0": refused(
        volcano.pod_group(policy("worker", 4, networkTopology={**HARD, "highestTierAllowed": 0})), "volcano/group-tier"
    ),
    "a tier above all": refused(
        volcano.pod_group(networkTopology={**HARD, "highestTierAllowed": 3}), "volcano/group-tier"
    ),
    "a hard topology without a tier": refused(
        volcano.pod_group(networkTopology={"mode": "hard"}), "volcano/group-tier"
    ),
    "a tier name that no HyperNode has": refused(
        volcano.pod_group(networkTopology={"mode": "hard", "highestTierName": "nope"}), "volcano/group-tier"
    ),
    "a name of two tiers": refused(
        volcano.pod_group(networkTopology={"mode": "hard", "highestTierName": "odd"}), "volcano/group-tier"
    ),
    "a number and a name, by an update": refused(
        volcano.pod_group(networkTopology={**HARD, "highestTierName": "zone"}),
        "volcano/group-two-tiers",
        before=volcano.pod_group(networkTopology=HARD),
    ),
    "a queue below another": fine(volcano.queue_object("team-b", "research")),
    "a queue below nothing": fine(volcano.queue_object("team-b")),
    "a queue below one that is not there": refused(volcano.queue_object("team-b", "nope"), "volcano/queue-parent"),
    "a queue below its own child": refused(
        volcano.queue_object("research", "unused"),
        "volcano/queue-cycle",
        before=volcano.queue_object("research", "root"),
    ),
    "a queue below one that is used": refused(volcano.queue_object("team-b", "busy"), "volcano/queue-in-use"),
}
# With a profile that does not say that Volcano's plugin for topology is on.
VOLCANO_WITHOUT_TOPOLOGY: dict[str, Applied] = {
    "a hard topology": warned(volcano.pod_group(networkTopology=HARD), "volcano/group-topology-off"),
    "a soft topology": fine(volcano.pod_group(networkTopology={"mode": "soft"})),
}
