"""Rules about PodCliqueSets that volcano would mishandle silently: their preemption, their queue, which exists, is
Open and is a leaf, and the tiers of their topology; and the objects that Volcano's rules show as examples.

A PodCliqueSet names its queue by the annotation scheduling.grove.io/volcano-queue on itself or on its cliques. Source
of the keys and their order: ai-dynamo/grove, operator/internal/scheduler/volcano/queue.go (2026-08). All rules about
topology fail closed except the one about surplus replicas: `gangs` writes no PodGroup that the other rules would
refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from webhook.backends import families
from webhook.backends.queues import Queues, disagreement, judge_named
from webhook.backends.topologies import NoTopology, UnknownTopology
from webhook.backends.volcano import keys
from webhook.backends.volcano.gangs import tier_of
from webhook.model.capabilities import VOLCANO_QUEUE, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed, is_subdomain
from webhook.model.known_objects import HyperNode, PodGangFacts, TopologyBinding, VolcanoQueue
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workload_record import queue_of, record_of
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.validators.registry import Example, PodCliqueSetChange, Results, Rule, Subject, rule
from webhook.validators.shared_checks import forbidden_move, unread_queues
from webhook.workloads.pod_clique_set import PodCliqueSet


def pod_group(*policies: Manifest, annotations: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Returns a PodGroup of four pods with these subgroup policies; keywords go into its spec."""
    metadata: Manifest = {"name": "demo", "namespace": "default"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    body: Manifest = {"minMember": 4, **spec}
    if policies:
        body["subGroupPolicy"] = list(policies)
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": body}


def policy(role: str, size: int = 2, **fields: Any) -> Manifest:
    """Returns the policy of a subgroup with this many pods that have a label `role`. A keyword that is None removes a
    field.
    """
    manifest: Manifest = {
        "name": role,
        "labelSelector": {"matchLabels": {"example.com/role": role}},
        "matchLabelKeys": ["example.com/role"],
        "subGroupSize": size,
        "minSubGroups": 1,
        **fields,
    }
    return {key: value for key, value in manifest.items() if value is not None}


def queue_object(name: str = "team-a", parent: str | None = None) -> Manifest:
    spec: Manifest = {"weight": 1} if parent is None else {"weight": 1, "parent": parent}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


KNOWN_QUEUES = ClusterFacts(
    volcano_queues={
        "default": VolcanoQueue("root", "Open"),
        "team-a": VolcanoQueue("root", "Open"),
        "team-b": VolcanoQueue("root", "Closed"),
    }
)


def queue_annotation(queue: str) -> dict[str, str]:
    return {VOLCANO_QUEUE: queue}


multi_node_nvlink = families.multi_node_nvlink(
    "volcano/mnnvl",
    keys.capabilities,
    """Grove puts the pods of such a clique into a ComputeDomain by a resource claim, but Volcano's PodGroup cannot name
    a ComputeDomain. An NVLink group may be split over racks, and its processes hang or use a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl (2026-08); the PodGroup CRD of scheduling.volcano.sh/v1beta1
    (v1.14.0 to 2026-08).
    """,
)

resource_claims = families.resource_claims(
    "volcano/resource-claims",
    keys.capabilities,
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
    keys.POD_GROUP,
    keys.GROUP_MARK,
)

claimed_pods = families.claimed_pods(
    "volcano/claimed-pods",
    source="volcano-sh/volcano, pkg/scheduler/api/job_info.go (`getJobID`): a pod has one group.",
    annotations={"scheduling.k8s.io/group-name": "training"},
)

disruption_ignored = families.spare_pods_are_taken_singly(
    "volcano/disruption-ignored",
    """Volcano's plugin gang protects a gang at its minMember from the actions preempt and reclaim, which are off by
    default. Pods above minMember are taken one by one, and only the sum of all members counts: a member may fall below
    its own minimum while the sum stays above.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/gang/gang.go (`AddPreemptableFn`, `AddReclaimableFn`),
    installer/helm/chart/volcano/config (actions of the default configuration).
    """,
    why="Volcano takes pods above minMember one by one, and counts only the sum of all members",
)


@rule(
    "volcano/queue",
    passes=Example(pod_clique_set(annotations=queue_annotation("team-a")), facts=KNOWN_QUEUES),
    fails=Example(pod_clique_set(annotations=queue_annotation("team-b")), facts=KNOWN_QUEUES),
)
def queue(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """Volcano drops a gang whose queue is missing, with only a log line. It holds a gang whose queue is not Open (a new
    queue has no state yet). Under its capacity plugin, a gang stops every other queue if it is in `root`, in a queue
    with children, or in a queue whose parent is missing. A PodCliqueSet that names no queue is judged by the profile's
    defaultQueue.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}, pkg/webhooks/admission/{jobs,podgroups}
    (which checks no leaf for a PodGroup); seen with vc-scheduler v1.15.1.
    """
    yield from judge_named(_queue_uses(context), context, judge_queue, ANNOTATIONS / VOLCANO_QUEUE)


def syntax_rule(
    id: str,
    uses: Callable[[Any, keys.RuleContext], Iterable[Use]],
    *,
    subject: Subject,
    passes: Example,
    fails: Example,
) -> Rule:
    def check(workload: Any, context: keys.RuleContext) -> Results:
        """The API server refuses a PodGroup whose queue is not a DNS subdomain, and the gang would wait for a
        PodGroup that cannot be written.

        Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1 (`spec.queue`).
        """
        for use in uses(workload, context):
            if not is_subdomain(use.value):
                why = "it is not a DNS subdomain, so no Queue has that name"
                yield Finding(at=use.path, value=use.value, why=why, remedy="name a Queue that exists")

    capability = Capability.QUEUE if subject is Subject.WORKLOAD else ()
    return rule(id, subject=subject, capability=capability, fails_closed=True, passes=passes, fails=fails)(check)


queue_name = syntax_rule(
    "volcano/queue-name",
    lambda _, context: _queue_uses(context),
    subject=Subject.WORKLOAD,
    passes=Example(pod_clique_set(annotations=queue_annotation("team-a"))),
    fails=Example(pod_clique_set(annotations=queue_annotation("Team A"))),
)

queue_disagree = disagreement(
    "volcano/queue-disagree",
    """A gang is one PodGroup with one queue. If a clique names another queue, that name would be ignored.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1; ai-dynamo/grove refuses it too.
    """,
    key=("annotations", VOLCANO_QUEUE),
    # First the PodCliqueSet's own, then by clique name, so that reordering the cliques moves no finding.
    uses=lambda _, context: sorted(_queue_uses(context), key=lambda use: use.path.anchor),
    remedy=lambda _: f"name one queue, preferably in the annotation {VOLCANO_QUEUE} of the set",
    capability=Capability.QUEUE,
)


@rule(
    "volcano/queue-partly-named",
    capability=Capability.QUEUE,
    passes=Example(pod_clique_set(clique("leader"), clique("worker"), annotations=queue_annotation("team-a"))),
    fails=Example(pod_clique_set(clique("leader"), clique("worker", annotations=queue_annotation("team-a")))),
)
def queue_partly_named(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """If the set names no queue, a clique without a queue is in the default queue, so its gang would be in two queues.

    Source: ai-dynamo/grove, operator/internal/scheduler/volcano/queue.go: all cliques must resolve to one queue.
    """
    if queue_of(mapping(workload.raw.get("metadata")), VOLCANO_QUEUE) is not None:
        return
    default = context.settings.defaultQueue
    uses = sorted(_queue_uses(context), key=lambda use: use.path.anchor)
    silent = sorted(member.name for member in workload.cliques if queue_of(member.raw, VOLCANO_QUEUE) is None)
    if silent and uses and uses[0].value != default:
        yield Finding(
            at=uses[0].path,
            value=uses[0].value,
            why=f"clique {shown(silent[0])} names no queue, so it would be in {shown(default)} and the gang in two "
            "queues",
            remedy=f"name the queue in the annotation {VOLCANO_QUEUE} of the set",
        )


_LIVING = ClusterFacts(
    volcano_queues={"team-a": VolcanoQueue("root", "Open"), "team-b": VolcanoQueue("root", "Open")},
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")},
)


@rule(
    "volcano/queue-change",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(annotations=queue_annotation("team-a")),
        old=pod_clique_set(annotations=queue_annotation("team-a")),
        facts=_LIVING,
    ),
    fails=Example(
        pod_clique_set(annotations=queue_annotation("team-b")),
        old=pod_clique_set(annotations=queue_annotation("team-a")),
        facts=_LIVING,
    ),
)
def queue_change(change: PodCliqueSetChange, context: keys.RuleContext) -> Results:
    """If an existing gang is moved, its running pods move with it. Volcano does not check whether the other queue has
    room, is Open or is a leaf, because its webhook judges a PodGroup only when it is created.

    Source: volcano-sh/volcano, pkg/webhooks/admission/podgroups/validate (CREATE only).
    """
    before, now = _effective(change.old, context.settings), _effective(change.new, context.settings)
    if before == now:
        return
    uses = _queue_uses(context)
    use = Use(uses[0].path if uses else ANNOTATIONS / VOLCANO_QUEUE, now)
    yield from forbidden_move(change, context, use, f"its gangs are in the queue {shown(before)}", "queue")


@rule(
    "volcano/queue-key",
    default=Action.WARN,
    passes=Example(pod_clique_set(annotations=queue_annotation("team-a"))),
    fails=Example(pod_clique_set(annotations={"scheduling.volcano.sh/queue-name": "team-a"})),
)
def queue_key(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """Volcano's own queue annotations are for its jobs and for the groups that it makes itself. Volcano does not read
    them on a pod that names its group, so the gang is in another queue than its author expects. The same happens if a
    set names a queue only by the keys of other schedulers.

    Source: volcano-sh/volcano, pkg/controllers/podgroup, pkg/controllers/job.
    """
    if not _queue_uses(context):
        yield from unread_queues(context, "volcano", VOLCANO_QUEUE)
    holders = [(workload.annotations, ANNOTATIONS)]
    holders += [(member.annotations, member.path / "annotations") for member in workload.cliques]
    written = [key for key in keys.ANNOTATIONS_OTHER_QUEUE if key in workload.mentions]
    for holder, path in holders if written else ():
        for key in written:
            if key in holder:
                yield Finding(
                    at=path / key,
                    value=holder[key],
                    why="volcano does not read it on pods that name their group, and the pods of a gang do",
                    remedy=f"name the queue in the annotation {VOLCANO_QUEUE} of the set",
                )


def _queue_uses(context: keys.RuleContext) -> list[Use]:
    """Returns the places that name a Volcano queue, each with the name. Spaces around a name are ignored."""
    uses = []
    for use in context.uses.get(Capability.QUEUE, ()):
        if use.path.parts[-1] == VOLCANO_QUEUE and (name := (text(use.value) or "").strip()):
            uses.append(Use(use.path, name))
    return uses


def _effective(workload: PodCliqueSet, settings: keys.VolcanoSettings) -> str:
    queue = record_of(workload, None).queue(VOLCANO_QUEUE) if VOLCANO_QUEUE in workload.mentions else None
    return queue or settings.defaultQueue


def judge_queue(name: str, path: FieldPath, called: str, facts: ClusterFacts) -> Results:
    """Yields the problems of a queue, at the place that names it. Messages refer to the queue as `called`."""
    if not is_subdomain(name):
        # Another rule refuses it.
        return
    if name == keys.ROOT_QUEUE:
        why = f"{called} is the parent of all queues, and a gang in it can stop every other queue"
        yield Finding(at=path, value=name, why=why, remedy="name a leaf queue below it")
    else:
        yield from QUEUES.judge(name, path, called, facts)


def _closed(name: str, path: FieldPath, called: str, volcano_queue: VolcanoQueue) -> Iterator[Finding]:
    fresh = volcano_queue.state is None
    state = "has no state yet" if fresh else f"is {shown(volcano_queue.state)}"
    yield Finding(
        at=path,
        value=name,
        why=f"{called} {state}, and volcano starts gangs only from a queue that is {keys.OPEN}",
        remedy="wait until Volcano's controller has seen the Queue" if fresh else "open the Queue, or name another",
        # A user who makes a queue and uses it at once must not be refused because a cache is behind.
        absent=Needed("volcano_queues", name) if fresh else None,
    )


QUEUES = Queues(
    project="Volcano",
    part="volcano_queues",
    pod_groups="volcano_pod_groups",
    missing="volcano drops a gang without a Queue, with only a log line",
    with_children="a gang in a queue with children can stop all other queues",
    orphaned=", and this can stop all queues",
    have_parent="create its parent",
    root=keys.ROOT_QUEUE,
    usable=lambda queue: queue.state == keys.OPEN,
    closed=_closed,
)

_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding({"block": "example.com/block", "rack": "example.com/rack"})},
    hyper_nodes={"block-1": HyperNode(2, "block"), "switch-1": HyperNode(1, "switch")},
)
_ON = {"topology": "hypernode"}
_TOPOLOGY = (Capability.TOPOLOGY_WORKLOAD, Capability.TOPOLOGY_CLIQUE, Capability.TOPOLOGY_SCALING_GROUP)


@rule(
    "volcano/topology-unavailable",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS),
)
def topology_unavailable(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """Volcano accepts a topology and ignores it without a message if its plugin network-topology-aware is off. The
    plugin is off by default, so the profile must state that it is on.

    Source: volcano-sh/volcano, installer/helm/chart/volcano (the scheduler's configuration); seen with vc-scheduler
    v1.15.1.
    """
    if not _off(context):
        return
    for constraint in workload.constraints():
        if constraint.topology.required is not None:
            at, domain = constraint.topology.required_path, constraint.topology.required
            yield Finding(at=at, value=domain, why=keys.TOPOLOGY_OFF.why, remedy=keys.TOPOLOGY_OFF.remedy)


@rule(
    "volcano/preferred-topology",
    capability=(Capability.TOPOLOGY_PREFERRED, Capability.TOPOLOGY_SCALING_GROUP),
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=preferred("block")), facts=_FACTS, config=_ON),
)
def preferred_topology(workload: PodCliqueSet, _: keys.RuleContext) -> Results:
    """Volcano's soft mode names no preferred domain. Volcano reads it as the widest tier of the cluster, which
    restricts nothing.

    Source: volcano-sh/volcano, pkg/scheduler (v1.14.3 and newer turn soft into hard with the top tier);
    ai-dynamo/grove, docs/proposals/377-volcano-topology-aware, maps required domains only.
    """
    for constraint in workload.constraints():
        if constraint.topology.preferred is not None:
            at, domain = constraint.topology.preferred_path, constraint.topology.preferred
            yield Finding(at=at, value=domain, why=keys.PREFERRED.why, remedy=keys.PREFERRED.remedy)


@rule(
    "volcano/scaling-group-topology",
    capability=Capability.TOPOLOGY_SCALING_GROUP,
    fails_closed=True,
    passes=Example(
        pod_clique_set(
            clique("router"),
            clique("worker"),
            groups=[scaling_group("decode", "worker", topologyConstraint=required("block"))],
        ),
        facts=_FACTS,
        config=_ON,
    ),
    fails=Example(
        pod_clique_set(
            clique("leader"),
            clique("worker"),
            groups=[scaling_group("decode", "leader", "worker", topologyConstraint=required("block"))],
        ),
        facts=_FACTS,
        config=_ON,
    ),
)
def scaling_group_topology(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """Volcano has two layers, the gang and its subgroups, and each clique is a subgroup. A replica of a scaling group
    with several cliques would need a layer between them. To make this layer, each clique's minimum would have to be
    given up.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1 (`subGroupPolicy` does not nest).
    """
    if _off(context):
        return
    for group in workload.scaling_groups:
        topology = group.topology
        if topology is not None and topology.required is not None and len(group.clique_names) > 1:
            yield Finding(
                at=topology.required_path,
                value=topology.required,
                why="volcano supports topology for a whole gang or for one clique, not for a group of cliques",
                remedy="require it at spec.template.topologyConstraint or for each clique, or choose another scheduler",
            )


@rule(
    "volcano/topology-tier",
    capability=_TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("block")), facts=_FACTS, config=_ON),
    fails=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS, config=_ON),
)
def topology_tier(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """A required domain is the tier of the HyperNodes whose tierName is its name or its node label key. If no HyperNode
    has such a tierName, there is no tier to require. Without any HyperNode, or for a tier above all of them, Volcano
    ignores the constraint and the gang starts on any nodes. A gang with tier 0 never starts.

    Source: volcano-sh/volcano, pkg/scheduler (`highestTierAllowed`); seen with vc-scheduler v1.15.1.
    """
    if _off(context):
        return
    facts = context.facts
    name = workload.topology_name()
    for constraint in workload.constraints():
        place, domain = constraint.topology.required_path, constraint.topology.required
        if domain is None:
            continue
        binding = (facts.topology_bindings or {}).get(name or "")
        if binding is None and not facts.is_whole("topology_bindings"):
            yield Unjudged(place, "the ClusterTopologyBinding", part="topology_bindings")
            continue
        # `grove/topology-domain` refuses a missing binding or domain.
        key = None if binding is None else binding.keys.get(domain)
        if key is None:
            continue
        try:
            tier_of(key, name, facts)
        except UnknownTopology as unknown:
            yield Unjudged(place, unknown.needs, part=unknown.part)
        except NoTopology as reason:
            remedy = "use a domain that is a tier, or set the tierName of its HyperNodes"
            yield Finding(at=place, value=domain, why=reason.why, remedy=remedy, absent=reason.absent)


@rule(
    "volcano/topology-surplus",
    capability=_TOPOLOGY,
    passes=Example(
        pod_clique_set(clique("worker", replicas=4), topologyConstraint=required("block")), facts=_FACTS, config=_ON
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=2), topologyConstraint=required("block")),
        facts=_FACTS,
        config=_ON,
    ),
)
def topology_surplus(workload: PodCliqueSet, context: keys.RuleContext) -> Results:
    """With a hard topology all pending pods of the gang or of the subgroup must fit one HyperNode, not only its
    minimum. Two of three pods that would fit a rack never start, but start at once when the third is deleted. If an
    autoscaler adds such pods later, the gang of their clique never starts again.

    Source: seen with vc-scheduler v1.15.1.
    """
    if _off(context):
        return
    bound = {
        name
        for constraint in workload.constraints()
        if constraint.topology.required
        for name in constraint.clique_names
    }
    for member in workload.cliques:
        if member.name not in bound:
            continue
        if member.min_available < member.replicas or member.spec.get("autoScalingConfig"):
            yield Finding(
                at=member.path / "spec" / "minAvailable",
                value=member.min_available,
                why="with a required topology volcano waits for room for all replicas in one domain, "
                "not only the minimum",
                remedy="set minAvailable to replicas and remove autoScalingConfig, "
                "or give up the topology: remove the topologyConstraint",
            )


def _off(context: keys.RuleContext) -> bool:
    return context.settings.topology == "off"
