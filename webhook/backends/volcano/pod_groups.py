"""Rules about PodGroups and Queues of other authors: queue, minimums, subgroups and topology of a PodGroup that
Volcano accepts and then ignores or can never satisfy, and Queues that can stop all others.

Volcano's own webhook checks a PodGroup only at creation, and only that its queue exists and is Open. It does not check
updates, leaves or subgroups. PodGroups that Volcano's controllers make for Volcano Jobs are not judged: the user that
writes them is exempt, and Volcano itself judges the Jobs. Under the capacity plugin one wrong queue can stop all
others, with or without gangs in it. If the plugin is on, Volcano's own webhook checks a queue's direct parent, but no
cycles and no PodGroups without pods.

Source of the subgroups: volcano-sh/volcano, pkg/scheduler/api/sub_job_info.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from webhook.backends import families
from webhook.backends.queues import QueueObjects, children_of, path_of
from webhook.backends.volcano import keys
from webhook.backends.volcano.gangs import HYPER_NODES, indexed, never_fits
from webhook.backends.volcano.keys import (
    ANNOTATIONS_OTHER_QUEUE,
    DEFAULT_QUEUE,
    OPEN,
    POD_GROUPS,
    PREEMPTABLE,
    ROOT_QUEUE,
    RuleContext,
)
from webhook.backends.volcano.pod_clique_sets import QUEUES, judge_queue, pod_group, policy, queue_object
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import StoredObject
from webhook.model.known_objects import HyperNode, HyperNodes, QueuedGroup, QueuedGroups, VolcanoQueue
from webhook.model.quantity import ceiling_amounts, parse_quantity
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.validators.registry import Example, Results, rule


class Policy(NamedTuple):
    """One subgroup policy, and its path."""

    name: str
    raw: Mapping[str, Any]
    path: FieldPath

    @property
    def size(self) -> int:
        """How many pods a subgroup needs."""
        size = integer(self.raw.get("subGroupSize"))
        return 1 if size is None else size

    @property
    def minimum(self) -> int:
        """How many subgroups the PodGroup needs."""
        return integer(self.raw.get("minSubGroups")) or 0

    @property
    def keys(self) -> int:
        """How many label keys separate its subgroups."""
        return len(sequence(self.raw.get("matchLabelKeys")))


def policies(stored: StoredObject) -> Iterator[Policy]:
    for index, raw in enumerate(sequence(stored.spec.get("subGroupPolicy"))):
        name = text(mapping(raw).get("name")) or ""
        yield Policy(name, mapping(raw), SPEC / "subGroupPolicy" / Item(index, name or None))


pod_group_rule = partial(rule, kinds=(POD_GROUPS,))

_QUEUES = ClusterFacts(
    volcano_queues={
        "default": VolcanoQueue(ROOT_QUEUE, OPEN),
        "research": VolcanoQueue(ROOT_QUEUE, OPEN),
        "team-a": VolcanoQueue("research", OPEN),
    }
)


@pod_group_rule(
    "volcano/group-queue",
    passes=Example(pod_group(queue="team-a"), facts=_QUEUES),
    fails=Example(pod_group(queue="research"), facts=_QUEUES),
)
def group_queue(stored: StoredObject, context: RuleContext) -> Results:
    """Volcano drops a PodGroup whose queue is missing, with only a log line, and holds one whose queue is not Open.
    Under its capacity plugin, a PodGroup stops every other queue if it is in `root`, in a queue with children, or in a
    queue whose parent is missing, even if it has no pods. Volcano's own webhook checks only the first two faults, and
    only at creation.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}, pkg/webhooks/admission/podgroups; seen with
    vc-scheduler v1.15.1.
    """
    yield from judge_queue(_queue_of(stored), SPEC / "queue", "it", context.facts)


def _queue_of(stored: StoredObject) -> str:
    return text(stored.spec.get("queue")) or DEFAULT_QUEUE


@pod_group_rule(
    "volcano/group-keys",
    default=Action.WARN,
    passes=Example(pod_group(queue="team-a", annotations={ANNOTATIONS_OTHER_QUEUE[0]: "team-a"})),
    fails=Example(pod_group(queue="team-a", annotations={ANNOTATIONS_OTHER_QUEUE[0]: "team-b"})),
)
def group_keys(stored: StoredObject, _: RuleContext) -> Results:
    """On a PodGroup the scheduler reads only `spec.queue`. The annotations that name a queue are for pods, namespaces
    and sets. Whether a PodGroup may be preempted is read from the annotation, and from the label only if there is no
    annotation.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go, pkg/controllers/podgroup.
    """
    queue = _queue_of(stored)
    for key in (*ANNOTATIONS_OTHER_QUEUE, VOLCANO_QUEUE):
        if (other := text(stored.annotations.get(key))) is not None and other.strip() != queue:
            yield Finding(
                at=ANNOTATIONS / key,
                value=other,
                why=f"spec.queue is {shown(queue[:48])}, and volcano reads only spec.queue",
                remedy="name the same queue, or remove the annotation",
            )
    label, annotation = (text(keys.get(PREEMPTABLE)) for keys in (stored.labels, stored.annotations))
    if label is not None and annotation is not None and label != annotation:
        yield Finding(
            at=LABELS / PREEMPTABLE,
            value=label,
            why=f"the annotation with this key is {shown(annotation[:32])}, so volcano ignores the label",
            remedy="set the same value in both, or remove one",
        )


@pod_group_rule("volcano/group-minimum", passes=Example(pod_group(minMember=4)), fails=Example(pod_group(minMember=0)))
def group_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A PodGroup that needs no pod is complete before it has any pods. Its phase is Completed and its condition
    Scheduled, even while its pods wait for room. A missing minMember is 0.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang; seen with vc-scheduler v1.15.1.
    """
    if not (minimum := integer(stored.spec.get("minMember"))):
        yield Finding(
            at=SPEC / "minMember",
            value=minimum,
            why="volcano treats a PodGroup that needs no pod as completed, and its pods not as a gang",
            remedy="set it to the number of pods that must start together",
        )


@pod_group_rule(
    "volcano/task-minimums",
    passes=Example(pod_group(minMember=4, minTaskMember={"leader": 1, "worker": 3})),
    fails=Example(pod_group(minMember=3, minTaskMember={"leader": 1, "worker": 3})),
)
def task_minimums(stored: StoredObject, _: RuleContext) -> Results:
    """If the sum of the tasks' minimums is above the PodGroup's own minimum, Volcano ignores all of them: three workers
    start without their leader.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinAvailable < TaskMinAvailableTotal`).
    """
    total = sum(integer(count) or 0 for count in mapping(stored.spec.get("minTaskMember")).values())
    minimum = integer(stored.spec.get("minMember")) or 0
    if total > minimum:
        yield Finding(
            at=SPEC / "minTaskMember",
            value=total,
            why=f"their sum is above minMember ({minimum}), so volcano ignores them all",
            remedy=f"set minMember to {total}",
        )


@pod_group_rule(
    "volcano/subgroup-keys",
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("leader", matchLabelKeys=None), policy("worker"))),
)
def subgroup_keys(stored: StoredObject, _: RuleContext) -> Results:
    """A policy without matchLabelKeys gets no pods, regardless of its labelSelector. With minSubGroups, the PodGroup
    waits for ever for the subgroups. Without minSubGroups, the policy has no effect.

    Source: volcano-sh/volcano, pkg/scheduler/api/sub_job_info.go; seen with vc-scheduler v1.15.1.
    """
    for subgroup in policies(stored):
        if not subgroup.keys:
            effect = "the PodGroup never starts" if subgroup.minimum else "the policy has no effect"
            yield Finding(
                at=subgroup.path / "matchLabelKeys",
                value=subgroup.raw.get("matchLabelKeys"),
                why=f"volcano puts no pod into a subgroup of a policy without these keys, so {effect}",
                remedy="name a label key that the pods of the subgroup share",
            )


@pod_group_rule(
    "volcano/subgroup-minimum",
    default=Action.WARN,
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("leader"), policy("worker", minSubGroups=0))),
)
def subgroup_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """A policy with minSubGroups 0 (the default) requires no subgroup. With two roles of two pods each, three pods of
    one role start without the other role. subGroupSize then decides only how many pods are placed together.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinSubJobs`); seen with vc-scheduler v1.15.1.
    """
    for subgroup in policies(stored):
        if subgroup.keys and not subgroup.minimum and subgroup.size > 1:
            yield Finding(
                at=subgroup.path / "minSubGroups",
                value=subgroup.raw.get("minSubGroups"),
                why=f"the policy requires none of its subgroups of {subgroup.size}, so other pods start without them",
                remedy="set it to 1 or more",
            )


@pod_group_rule(
    "volcano/subgroup-twins",
    passes=Example(pod_group(policy("leader"), policy("worker"))),
    fails=Example(pod_group(policy("worker"), policy("worker"))),
)
def subgroup_twins(stored: StoredObject, _: RuleContext) -> Results:
    """The scheduler treats two policies with one name, or without a name, as one: the minSubGroups of the last policy
    counts for both.

    Source: volcano-sh/volcano, pkg/scheduler/api/job_info.go (`MinSubJobs` goes by name); the CRD requires no name.
    """
    seen: set[str] = set()
    for subgroup in policies(stored):
        if subgroup.name in seen:
            yield Finding(
                at=subgroup.path / "name",
                value=subgroup.name,
                why="another policy has this name, so volcano counts the subgroups of both as those of the last one",
                remedy="give each policy its own name",
            )
        seen.add(subgroup.name)


@pod_group_rule(
    "volcano/group-sum",
    default=Action.WARN,
    passes=Example(pod_group(policy("leader"), policy("worker"), minMember=4)),
    fails=Example(pod_group(policy("leader"), policy("worker"), minMember=3)),
)
def group_sum(stored: StoredObject, _: RuleContext) -> Results:
    """Volcano enforces the subgroups regardless of minMember, but preemption and the PodGroup's conditions use only
    minMember. If it is below the sum of the subgroups, a role can be preempted below its size.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang (victims by the job's minimum; conditions).
    """
    minimum = integer(stored.spec.get("minMember"))
    total = sum(policy.size * policy.minimum for policy in policies(stored) if policy.keys)
    if minimum and minimum < total:
        yield Finding(
            at=SPEC / "minMember",
            value=minimum,
            why=f"its subgroups need {total} pods, and preemption stops only at this number",
            remedy=f"set it to {total}",
            instead=(total,),
        )


group_pods = families.group_pods(
    "volcano/group-pods",
    """Volcano holds a PodGroup that has fewer pods than its minMember. The rule counts the pods in the same files:
    pods, and the templates of their controllers.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang (valid pods), v1.15.1.
    """,
    system="Volcano",
    kind=POD_GROUPS,
    version="v1beta1",
)

_TIERS = ClusterFacts(hyper_nodes={"rack-1": HyperNode(1, "rack"), "zone-1": HyperNode(2, "zone")})
_MODES = ("hard", "soft")
_IN_A_RACK = {"mode": "hard", "highestTierAllowed": 1}


@pod_group_rule(
    "volcano/group-tier",
    passes=Example(pod_group(networkTopology=_IN_A_RACK), facts=_TIERS),
    fails=Example(pod_group(networkTopology={"mode": "hard", "highestTierAllowed": 3}), facts=_TIERS),
)
def group_tier(stored: StoredObject, context: RuleContext) -> Results:
    """Volcano ignores a hard topology without a tier, with a tier name that no HyperNode has, with a tier above all
    HyperNodes, or in a cluster without HyperNodes. The gang then starts on any nodes. A gang with a tier below all
    HyperNodes, or with tier 0, never starts.

    Source: volcano-sh/volcano, pkg/scheduler/framework/session.go; seen with vc-scheduler v1.15.1.
    """
    for topology, path in _hard(stored):
        tier, name = integer(topology.get("highestTierAllowed")), text(topology.get("highestTierName"))
        hyper_node = context.facts.hyper_nodes
        if tier is None and name is None:
            yield Finding(
                at=path / "highestTierAllowed",
                value=None,
                why="volcano ignores a hard topology without a tier, and the gang starts on any nodes",
                remedy="name the widest tier that the gang may span, or give up the topology: remove it",
            )
        elif tier == 0:
            yield _never(path / "highestTierAllowed", tier)
        elif hyper_node is None:
            yield Unjudged(path, "the HyperNodes", part="hyper_nodes")
        elif not hyper_node:
            yield Finding(
                at=path,
                value=dict(topology),
                why="the cluster has no HyperNode, so volcano ignores the topology",
                remedy="create HyperNodes, or give up the topology: remove it",
                absent=HYPER_NODES,
            )
        elif tier is not None:
            yield from _judge_tier(tier, path / "highestTierAllowed", indexed(hyper_node))
        else:
            yield from _judge_name(name or "", path / "highestTierName", indexed(hyper_node))


def _judge_tier(tier: int, path: FieldPath, hyper_nodes: HyperNodes) -> Results:
    tiers, why = hyper_nodes.tiers, never_fits(tier, hyper_nodes)
    if why is None and tier > tiers[-1]:
        why = f"the widest HyperNodes are of tier {tiers[-1]}, so volcano ignores the topology"
    if why is None:
        return
    remedy = f"name a tier from {max(tiers[0], 1)} to {tiers[-1]}"
    yield Finding(at=path, value=tier, why=why, remedy=remedy, absent=HYPER_NODES)


def _judge_name(name: str, path: FieldPath, hyper_nodes: HyperNodes) -> Results:
    tiers = hyper_nodes.tiers_with_name(name)
    if not tiers:
        why = "no HyperNode has this tierName, so volcano ignores the topology, with only a log line"
        remedy = "use the tierName of a HyperNode, or the number of a tier"
        yield Finding(at=path, value=name, why=why, remedy=remedy, absent=HYPER_NODES)
    elif len(tiers) > 1:
        why = "HyperNodes of different tiers have this tierName, and volcano uses the last that it sees"
        yield Finding(at=path, value=name, why=why, remedy="name the tier by its number")
    elif tiers == {0}:
        yield _never(path, name)


def _never(path: FieldPath, value: object) -> Finding:
    return Finding(at=path, value=value, why=never_fits(0, {}) or "", remedy="name a tier of 1 or more")


@pod_group_rule(
    "volcano/group-two-tiers",
    passes=Example(pod_group(networkTopology=_IN_A_RACK), old=pod_group(networkTopology={"highestTierName": "rack"})),
    fails=Example(
        pod_group(networkTopology={**_IN_A_RACK, "highestTierName": "zone"}), old=pod_group(networkTopology=_IN_A_RACK)
    ),
)
def group_two_tiers(stored: StoredObject, _: RuleContext) -> Results:
    """If a tier is given by number and by name, Volcano reads only the number. Its own webhook refuses both together,
    in any mode, but only when the PodGroup is created, and no webhook sees a file.

    Source: volcano-sh/volcano, pkg/scheduler/framework/session.go, pkg/webhooks/admission/podgroups (CREATE only).
    """
    former = () if stored.old is None else _double_tiers(stored.old)
    before = Counter((path.anchor, name) for path, name in former)
    for path, name in _double_tiers(stored):
        before[path.anchor, name] -= 1
        if before[path.anchor, name] < 0:
            yield Finding(
                at=path,
                value=name,
                why="highestTierAllowed is also set, and volcano reads only that field",
                remedy="keep one of the two",
            )


def _double_tiers(stored: StoredObject) -> Iterator[tuple[FieldPath, str]]:
    """Yields the tier names, with their paths, that also have a tier number beside them."""
    for topology, path in _topologies(stored):
        name = text(topology.get("highestTierName"))
        if name is not None and integer(topology.get("highestTierAllowed")) is not None:
            yield path / "highestTierName", name


@pod_group_rule(
    "volcano/group-topology-mode",
    passes=Example(pod_group(networkTopology={"mode": "soft"})),
    fails=Example(pod_group(networkTopology={"mode": "strict"})),
)
def group_topology_mode(stored: StoredObject, _: RuleContext) -> Results:
    """The mode of a topology is hard or soft. The API server refuses any other.

    Source: the CRD of scheduling.volcano.sh/v1beta1 (enum of `mode`, its default is hard).
    """
    for topology, path in _topologies(stored):
        mode = text(topology.get("mode"))
        if mode is not None and mode not in _MODES:
            why = "there is no such mode, and the API server refuses it"
            yield Finding(at=path / "mode", value=mode, why=why, remedy=f"set one of {', '.join(_MODES)}")


@pod_group_rule(
    "volcano/group-topology-off",
    default=Action.WARN,
    passes=Example(pod_group(networkTopology=_IN_A_RACK), facts=_TIERS, config={"topology": "hypernode"}),
    fails=Example(pod_group(policy("worker", networkTopology=_IN_A_RACK)), facts=_TIERS),
)
def group_topology_off(stored: StoredObject, context: RuleContext) -> Results:
    """Volcano accepts a topology and ignores it without a message if its plugin network-topology-aware is off. The
    plugin is off by default. A profile with topology `hypernode` states that it is on.

    Source: volcano-sh/volcano, installer/helm/chart/volcano (the scheduler's configuration); seen with vc-scheduler
    v1.15.1.
    """
    if context.settings.topology == "off":
        for _, path in _hard(stored):
            yield Finding(
                at=path,
                value="hard",
                why="the profile's topology is off, and volcano ignores topology without its plugin for it",
                remedy="set the profile's topology to hypernode if the plugin is on",
            )


def _hard(stored: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    """Returns the hard topologies of a PodGroup and of its subgroups. A soft topology never blocks a gang."""
    return ((topology, path) for topology, path in _topologies(stored) if text(topology.get("mode")) in {None, "hard"})


def _topologies(stored: StoredObject) -> Iterator[tuple[Mapping[str, Any], FieldPath]]:
    holders = [(stored.spec, SPEC), *((policy.raw, policy.path) for policy in policies(stored))]
    for holder, path in holders:
        if holder.get("networkTopology") is not None:
            yield mapping(holder["networkTopology"]), path / "networkTopology"


_MOST_WEIGHT = 65535
_TREE = ClusterFacts(
    volcano_queues={"research": VolcanoQueue(ROOT_QUEUE, OPEN), "team-a": VolcanoQueue("research", OPEN)},
    volcano_pod_groups=QueuedGroups({("default", "demo"): QueuedGroup("team-a")}),
)

_SHARES = ClusterFacts(volcano_queues={"research": VolcanoQueue(ROOT_QUEUE, OPEN, {"cpu": 8000})})


def _research_child(cpu: str) -> Manifest:
    return {**queue_object(), "spec": {"weight": 1, "parent": "research", "capability": {"cpu": cpu}}}


_OBJECTS = QueueObjects(queues=QUEUES, kind=keys.QUEUES, parent=SPEC / "parent", build=queue_object, tree=_TREE)

queue_parent = _OBJECTS.missing_parent(
    "volcano/queue-parent",
    """If the parent of a queue does not exist, the capacity plugin cannot build its tree. Then no gang starts in any
    queue of the cluster, even if the wrong queue is not used.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`); seen with vc-scheduler v1.15.1.
    """,
    why="under volcano's capacity plugin this stops every queue",
    gone="does not exist",
    remedy="create the parent first",
    built_in=(ROOT_QUEUE, DEFAULT_QUEUE),
)

queue_cycle = _OBJECTS.ancestor_cycle(
    "volcano/queue-cycle",
    """The capacity plugin cannot build its tree if there is a cycle, which stops every queue. Volcano's own webhook
    refuses a queue that is its own parent, but accepts an update that closes a longer cycle.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity (`updateAncestors`), pkg/webhooks/admission/queues
    (read, not seen).
    """,
    why="which stops every queue under volcano's capacity plugin",
)

queue_in_use = _OBJECTS.parent_with_pod_groups(
    "volcano/queue-in-use",
    """A queue that gets its first child is no longer a leaf. If a PodGroup is in it, even one without pods, the
    capacity plugin stops every other queue. Volcano's own webhook checks only for pods.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/capacity, pkg/webhooks/admission/queues; seen with vc-scheduler
    v1.15.1.
    """,
    why="a PodGroup in a queue with children can stop all other queues",
)


@rule(
    "volcano/queue-weight",
    kinds=(keys.QUEUES,),
    passes=Example(queue_object()),
    fails=Example({**queue_object(), "spec": {"weight": -1}}),
)
def queue_weight(stored: StoredObject, _: RuleContext) -> Results:
    """The weight of a Queue is from 1 to 65535, and the API server refuses any other. Volcano's own webhook replaces 0
    by 1 before that, so a Queue of weight 0 has a share.

    Source: the CRD of scheduling.volcano.sh/v1beta1 (`weight`), volcano-sh/volcano,
    pkg/webhooks/admission/queues/mutate/mutate_queue.go.
    """
    weight = integer(stored.spec.get("weight"))
    if weight is not None and not 1 <= weight <= _MOST_WEIGHT:
        why = "Volcano's webhook writes 1 instead, and without it the API server refuses the Queue"
        yield Finding(
            at=SPEC / "weight",
            value=weight,
            why="the API server refuses the Queue" if weight else why,
            remedy=f"set 1 to {_MOST_WEIGHT}",
            at_most=Action.DENY if weight else Action.WARN,
        )


@rule(
    "volcano/queue-amounts",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example({**queue_object(), "spec": {"guarantee": {"resource": {"cpu": "4"}}, "deserved": {"cpu": "8"}}}),
    fails=Example({**queue_object(), "spec": {"guarantee": {"resource": {"cpu": "4"}}, "deserved": {"cpu": "2"}}}),
)
def queue_amounts(stored: StoredObject, _: RuleContext) -> Results:
    """What a Queue deserves is between its guarantee and its capability. From v1.13 on Volcano's own webhook refuses a
    guarantee above what the Queue deserves, and a deserved amount above the capability; from v1.14 on also a guarantee
    of a resource for which no deserved amount is stated. Earlier releases accept the Queue.

    Source: volcano-sh/volcano, pkg/webhooks/admission/queues/validate/validate_queue.go (`validateResourceOfQueue`,
    v1.13.0; `validateResourceQuantityOfQueue`, v1.15.1).
    """
    capability, deserved = mapping(stored.spec.get("capability")), mapping(stored.spec.get("deserved"))
    for resource, stated in mapping(mapping(stored.spec.get("guarantee")).get("resource")).items():
        guarantee, share = parse_quantity(stated), parse_quantity(deserved.get(resource))
        if resource not in deserved or (guarantee is not None and share is not None and share < guarantee):
            yield Finding(
                at=SPEC / "deserved" / resource,
                value=deserved.get(resource),
                why=f"the Queue is guaranteed {shown(stated)}, and Volcano refuses one that deserves less",
                remedy="raise it to the guarantee, or lower the guarantee",
                instead=(stated,),
            )
    for resource, stated in deserved.items():
        limit = capability.get(resource)
        share, most = parse_quantity(stated), parse_quantity(limit)
        if share is not None and most is not None and share > most:
            yield Finding(
                at=SPEC / "deserved" / resource,
                value=stated,
                why=f"the Queue's capability is {shown(limit)}, and Volcano refuses one that deserves more",
                remedy="lower it to the capability, or raise the capability",
                instead=(limit,),
            )


@rule(
    "volcano/queue-share",
    kinds=(keys.QUEUES,),
    default=Action.WARN,
    passes=Example(_research_child("4"), facts=_SHARES),
    fails=Example(_research_child("16"), facts=_SHARES),
)
def queue_share(stored: StoredObject, context: RuleContext) -> Results:
    """The capability of a Queue is at most that of the nearest queue above it that states one, and all queues below
    one parent are guaranteed no more than the parent. Volcano's own webhook refuses other Queues from v1.14 on, also
    where the parent has no guarantee. What they deserve is not known of other queues, so it is not compared.

    Source: volcano-sh/volcano, pkg/webhooks/admission/queues/validate/validate_queue.go
    (`validateHierarchicalQueueResources`, v1.15.1).
    """
    name, queues = text(stored.spec.get("parent")), context.facts.volcano_queues
    if name is None or name == ROOT_QUEUE or queues is None or (parent := queues.get(name)) is None:
        # volcano/queue-parent reports an unknown parent.
        return
    for resource, amount in (ceiling_amounts(stored.spec.get("capability")) or {}).items():
        above = ((other, queue.capability or {}) for other, queue in path_of(name, queues) if other != ROOT_QUEUE)
        limit = next(((other, stated[resource]) for other, stated in above if stated.get(resource)), None)
        if limit is not None and amount > limit[1]:
            yield Finding(
                at=SPEC / "capability" / resource,
                value=mapping(stored.spec.get("capability"))[resource],
                why=f"Volcano refuses it: it is above the capability of queue {shown(limit[0][:63])}",
                remedy="lower it, or raise the capability of that queue first",
            )
    guarantees = ceiling_amounts(mapping(stored.spec.get("guarantee")).get("resource")) or {}
    others = [queue.guarantee for other, queue in children_of(name, queues).items() if other != stored.name]
    if parent.guarantee is None or None in others:
        return
    for resource, amount in guarantees.items():
        total = amount + sum((guarantee or {}).get(resource, 0) for guarantee in others)
        if total > parent.guarantee.get(resource, 0):
            yield Finding(
                at=SPEC / "guarantee" / "resource" / resource,
                value=mapping(mapping(stored.spec.get("guarantee"))["resource"])[resource],
                why=f"Volcano refuses it: the queues below {shown(name[:63])} are guaranteed more than it is",
                remedy="lower it, or raise the guarantee of the parent first",
            )
