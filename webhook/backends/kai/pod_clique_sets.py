"""Rules about PodCliqueSets that kai-scheduler would mishandle silently: their preemption, their queue and node pool,
and the levels of their topology; and the objects that KAI's rules show as examples.

A PodCliqueSet names its queue by the label kai.scheduler/queue (or the key that KAI was installed with), else by an
annotation with that key, on itself or on its cliques. Source for this order: ai-dynamo/grove,
operator/internal/scheduler/kai/backend.go (2026-08). The rule about topology fails closed: `gangs` writes no PodGroup
that it would refuse. The rules about times that a gang may choose judge PodGroups and opted-in workloads as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.backends import families
from webhook.backends.families import TOPOLOGY
from webhook.backends.kai import keys
from webhook.backends.kai.gangs import levels_of
from webhook.backends.kai.keys import KaiSettings, RuleContext
from webhook.backends.queues import Queues, disagreement, judge_named, leaves, path_of, suggested
from webhook.backends.topologies import NoTopology, UnknownTopology
from webhook.model.capabilities import VOLCANO_QUEUE, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS, METADATA, SPEC, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.gang_objects import StoredObject
from webhook.model.keys import Needed
from webhook.model.known_objects import KaiQueue, PodGangFacts, TopologyBinding
from webhook.model.pod_template import PodTemplate
from webhook.model.quantity import nanoseconds
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workload_record import queue_of, record_of
from webhook.validators.examples import clique, pod_clique_set, required
from webhook.validators.pod_guard import HasAnnotation, sees
from webhook.validators.registry import Example, PodCliqueSetChange, Results, Subject, rule
from webhook.validators.shared_checks import forbidden_move, has_gangs, unread_queues
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet, Topology


def pod_group(
    *subgroups: Manifest,
    name: str = "demo",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Returns a PodGroup in the queue `team-a` with these subgroups; other keywords go into its spec."""
    marks = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    metadata = {"name": name, "namespace": "default", **{part: values for part, values in marks.items() if values}}
    body: Manifest = {"queue": "team-a", **spec}
    if subgroups:
        body["subGroups"] = list(subgroups)
    manifest = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": body}
    return manifest if status is None else {**manifest, "status": dict(status)}


def subgroup(name: str, pods: int | None = None, parent: str | None = None, **fields: Any) -> Manifest:
    """Returns a subgroup; with a number of pods, it is a leaf."""
    entry: Manifest = {"name": name, **fields}
    if parent is not None:
        entry["parent"] = parent
    if pods is not None:
        entry["minMember"] = pods
    return entry


def queue_object(name: str = "team-a", parent: str | None = None, labels: Mapping[str, str] | None = None) -> Manifest:
    metadata: Manifest = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec: Manifest = {"resources": {"cpu": share, "gpu": share, "memory": share}}
    if parent is not None:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}


foreign_member = families.foreign_member(
    "kai/foreign-member",
    "kai-scheduler/KAI-Scheduler, pkg/podgrouper/pod_controller.go (a pod without owners, or with "
    "`kai.scheduler/skip-podgrouper`, keeps the group that it names).",
    keys.POD_GROUP,
    keys.GROUP_MARK,
)

claimed_pods = families.claimed_pods(
    "kai/claimed-pods",
    source="kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info: a pod has one group and one subgroup.",
    annotations={"pod-group-name": "training"},
)

priority_class = families.priority_class(
    "kai/priority-class",
    """If the class of a PodGroup does not exist, kai-scheduler uses the cluster's default class, without a message. If
    the value of the default class is 100 or more, the gang may not be preempted and may use only its queue's quota.
    With a quota of 0 it never starts.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/podgroup (priority and preemptibility); seen with v0.16.8.
    """,
    why="kai-scheduler would use the cluster's default class instead",
)


@rule(
    "kai/preemptibility",
    subject=Subject.ANY_WORKLOAD,
    fails_closed=True,
    passes=Example(pod_clique_set(labels={keys.LABEL_PREEMPTIBILITY: "non-preemptible"})),
    fails=Example(pod_clique_set(labels={keys.LABEL_PREEMPTIBILITY: "never"})),
)
def preemptibility(workload: PodCliqueSet | OptedInWorkload, _: RuleContext) -> Results:
    """The label says whether the gang may be preempted, regardless of its priority. KAI's CRD refuses a PodGroup with
    any other value, and the gang would wait for a PodGroup that cannot be written.

    Source: the PodGroup CRD of scheduling.run.ai/v2alpha2 (`spec.preemptibility`).
    """
    word = workload.labels.get(keys.LABEL_PREEMPTIBILITY)
    if word is not None and word not in keys.PREEMPTIBILITIES:
        why = "KAI's CRD does not allow this value"
        remedy = f"set it to {' or '.join(keys.PREEMPTIBILITIES)}, or remove the label"
        yield Finding(at=LABELS / keys.LABEL_PREEMPTIBILITY, value=word, why=why, remedy=remedy)


_LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@rule(
    "kai/raised-minimum",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(clique("worker", replicas=8, minimum=4)),
        old=pod_clique_set(clique("worker", replicas=4, minimum=4)),
        facts=_LIVING,
    ),
    fails=Example(
        pod_clique_set(clique("worker", replicas=8, minimum=8)),
        old=pod_clique_set(clique("worker", replicas=4, minimum=4)),
        facts=_LIVING,
    ),
)
def raised_minimum(change: PodCliqueSetChange, context: RuleContext) -> Results:
    """A running gang is stale if any leaf has fewer pods than its minimum. 60 seconds later all of its pods are
    evicted, without an event on them. A raised minimum or an added clique makes a gang stale at once.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/actions/stalegangeviction, `default-staleness-grace-period`; seen
    with v0.16.8.
    """
    raised = [(path, what, before, now) for path, what, before, now in _minimums(change) if now > before]
    if not raised or (living := has_gangs(change.new, context.facts)) is False:
        return
    unknown = "" if living else " (whether it has any PodGang is unknown)"
    for path, what, before, now in raised:
        why = f"{what} was {before}, and kai-scheduler evicts a running gang that is below its minimum{unknown}"
        remedy = "raise only replicas, or delete and recreate the PodCliqueSet"
        yield Finding(at=path, value=now, why=why, remedy=remedy, forbidden=True)


def _minimums(change: PodCliqueSetChange) -> Iterator[tuple[FieldPath, str, int, int]]:
    """Yields where each minimum is written, what it belongs to, and its number before and after an update: of all
    cliques (of new ones from 0), and of the scaling groups that existed before.
    """
    cliques = {member.name: member.min_available for member in change.old.cliques}
    for member in change.new.cliques:
        what, before = f"the minimum of clique {member.name}", cliques.get(member.name, 0)
        yield member.path / "spec" / "minAvailable", what, before, member.min_available
    groups = {group.name: group.min_available for group in change.old.scaling_groups}
    for group in change.new.scaling_groups:
        if group.name in groups:
            what, before = f"the minimum of scaling group {group.name}", groups[group.name]
            yield group.path / "minAvailable", what, before, group.min_available


_FRACTION, _MEMORY, _DEVICES, _MPS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps"
_PARTS = (_FRACTION, _MEMORY)
# A number of Go that is a quantity, too: no hexadecimal number, no NaN.
_UINT64 = 2**64
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\Z")
_UNSIGNED = re.compile(r"[0-9]{1,20}\Z")


@rule(
    "kai/gpu-sharing",
    subject=Subject.POD,
    guard=sees(*map(HasAnnotation, (*_PARTS, _DEVICES, _MPS))),
    looks_at=(*_PARTS, _DEVICES, _MPS),
    independent=True,
    passes=Example(pod_clique_set(clique("worker", annotations={"gpu-fraction": "0.5"}))),
    fails=Example(
        pod_clique_set(clique("worker", annotations={"gpu-fraction": "0.5"}, requests={"nvidia.com/gpu": "1"}))
    ),
)
def gpu_sharing(pod: PodTemplate, _: RuleContext) -> Results:
    """KAI's own webhook refuses a pod that requests both a part of a GPU and whole GPUs, or both a fraction and an
    amount of GPU memory; a fraction that is not between 0 and 1, an amount or a number of devices that is not a
    positive whole number; and a number of devices, or MPS, without a part of a GPU. The pods of such a clique are never
    created, and the other pods of its gang wait.

    Source: kai-scheduler/KAI-Scheduler, pkg/admission/webhook/v1alpha2/gpusharing,
    pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go (v0.17.0).
    """
    stated = {key: text(pod.annotations[key]) or "" for key in (*_PARTS, _DEVICES, _MPS) if key in pod.annotations}
    parts = [key for key in _PARTS if key in stated]
    other = ""
    if len(parts) > 1:
        other = "the pod also requests gpu-memory"
    elif parts and (whole := pod.request_of(frozenset({"nvidia.com/gpu"}))) is not None:
        other = f"the pod also requests whole GPUs ({whole.resource})"
    if other:
        yield _refused(pod, parts[0], other, "request only one of the two")
    elif parts:
        fraction = stated.get(_FRACTION)
        if fraction is not None and not (_DECIMAL.match(fraction) and 0 < float(fraction) < 1):
            yield _refused(pod, _FRACTION, "it is no number between 0 and 1", "write a part of one GPU, such as 0.5")
        for key in (_MEMORY, _DEVICES):
            if key in stated and not (_UNSIGNED.match(stated[key]) and 0 < int(stated[key]) < _UINT64):
                yield _refused(pod, key, "it is not a whole number above 0", "write a positive whole number")
    elif _DEVICES in stated:
        yield _refused(pod, _DEVICES, "the pod requests no part of a GPU", f"add {_FRACTION}, or remove it")
    elif stated.get(_MPS) == "true":
        yield _refused(pod, _MPS, "MPS needs a part of a GPU, and the pod requests none", f"add {_FRACTION}")


def _refused(pod: PodTemplate, key: str, why: str, remedy: str) -> Finding:
    why = f"{why}, and KAI refuses such a pod"
    return Finding(at=pod.annotations_path / key, value=pod.annotations[key], why=why, remedy=remedy)


_QUEUE = {"defaultQueue": "team-a"}
_STALENESS = "kai.scheduler/staleness-grace-period"

disruption_ignored = families.spare_pods_are_taken_singly(
    "kai/disruption-ignored",
    """KAI evicts a gang at its minimum as a whole. Pods above the minimum are taken one by one, before that. The label
    kai.scheduler/preemptibility with the value non-preemptible keeps all pods, but then the gang may use only the quota
    of its queue.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/eviction_info.go (`GetTasksToEvict`).
    """,
    why="kai-scheduler takes pods above the minimum one by one, and only the rest as a whole",
    **_QUEUE,
)


@rule(
    "kai/duration",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(pod_clique_set(annotations={_STALENESS: "5m"}), config=_QUEUE),
    fails=Example(pod_clique_set(annotations={_STALENESS: "5 minutes"}), config=_QUEUE),
)
def duration(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Rollcall writes these two annotations into the PodGroup, from KAI 0.17 on. A value that is not a Go duration is
    left out, because KAI could not read its PodGroups then; a gang below its minimum is evicted after the scheduler's
    own time, 60 seconds by default.

    Source: kai-scheduler/KAI-Scheduler v0.17, pkg/apis/scheduling/v2alpha2/podgroup_types.go (metav1.Duration),
    pkg/scheduler/actions/stalegangeviction.
    """
    for key, field in keys.DURATIONS.items():
        written = text(workload.annotations.get(key))
        if written is None:
            continue
        if nanoseconds(written) is None:
            why, remedy = "it is not a duration of Go, so it is ignored", 'write a duration such as "5m" or "1h30m"'
        elif context.facts.lacks_field(field):
            why, remedy = f"this cluster's PodGroups have no {field.name}", f"use {field.since} or newer, or remove it"
        else:
            continue
        yield Finding(at=ANNOTATIONS / key, value=written, why=why, remedy=remedy)


@rule(
    "kai/group-duration",
    kinds=(keys.POD_GROUPS,),
    passes=Example(pod_group(subgroup("worker", 2), stalenessGracePeriod="-1s")),
    fails=Example(pod_group(subgroup("worker", 2), stalenessGracePeriod="never")),
)
def group_duration(stored: StoredObject, _: RuleContext) -> Results:
    """The CRD allows any text in these fields, but kai-scheduler reads them as durations of Go. It fails to read the
    whole list of PodGroups if one of them has another value, and then starts no gang of any namespace.

    Source: kai-scheduler/KAI-Scheduler v0.17, pkg/apis/scheduling/v2alpha2/podgroup_types.go; k8s.io/apimachinery,
    pkg/apis/meta/v1/duration.go (UnmarshalJSON).
    """
    for field in keys.DURATIONS.values():
        written = text(stored.spec.get(field.name))
        if written is not None and nanoseconds(written) is None:
            why = "it is not a duration of Go, and kai-scheduler then reads no PodGroup of the cluster"
            remedy = 'write a duration such as "5m", or "-1s" for never'
            yield Finding(at=SPEC / field.name, value=written, why=why, remedy=remedy)


QUEUES = Queues(
    project="KAI",
    part="kai_queues",
    pod_groups="kai_pod_groups",
    missing="kai-scheduler does not start a gang without one",
    with_children="kai-scheduler never tries a gang in a queue with children",
    # If a parent is missing, kai-scheduler drops all queues below it.
    orphaned=", so kai-scheduler drops it",
    have_parent="create the missing parent",
)
_QUEUES = ClusterFacts(
    kai_queues={
        "research": KaiQueue(None),
        "team-a": KaiQueue("research"),
        "team-b": KaiQueue("research"),
        "lost": KaiQueue("gone"),
        "pools": KaiQueue(None, {keys.LABEL_NODE_POOL: "h100"}),
        "pooled": KaiQueue("pools", {keys.LABEL_NODE_POOL: "h100"}),
    },
    kai_shards={"default": None, "h100": "h100"},
)


def _asking(queue: str) -> dict[str, str]:
    return {keys.LABEL_QUEUE: queue}


@rule(
    "kai/queue",
    passes=Example(pod_clique_set(labels=_asking("team-a")), facts=_QUEUES),
    fails=Example(pod_clique_set(labels=_asking("research")), facts=_QUEUES),
)
def queue(workload: PodCliqueSet, context: RuleContext) -> Results:
    """kai-scheduler never tries a gang in a queue that is missing, whose parent is missing, or that has children. For a
    queue with children it reports only "unable to schedule". A PodCliqueSet that names no queue is judged by the
    profile's defaultQueue.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """
    settings = context.settings
    yield from judge_named(list(_queue_uses(workload, settings)), context, judge_queue, LABELS / settings.queueLabelKey)


@rule(
    "kai/no-queue",
    fails_closed=True,
    passes=Example(pod_clique_set(labels=_asking("team-a"))),
    fails=Example(pod_clique_set()),
)
def no_queue(workload: PodCliqueSet, context: RuleContext) -> Results:
    """kai-scheduler does not start a gang without a queue. A PodGroup that names no queue waits for a queue with an
    empty name. Only for the groups that podgrouper makes itself, as for Jobs, `default-queue` is the last choice.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/podgrouper/podgrouper/plugins; seen with
    v0.16.8. Grove refuses a set without a queue, too.
    """
    settings = context.settings
    if _effective_queue(workload, settings) is None:
        why = "the set names no queue and the profile has no defaultQueue, so its gangs never start"
        remedy = f"name a leaf Queue in the label {settings.queueLabelKey}, or in the profile's defaultQueue"
        leaf_queues = suggested(leaves(context.facts.kai_queues or {}))
        yield Finding(at=LABELS / settings.queueLabelKey, value=None, why=why, remedy=remedy, instead=leaf_queues)


queue_disagree = disagreement(
    "kai/queue-disagree",
    """A gang is one PodGroup with one queue. If a clique names another queue, that name would be ignored.

    Source: the PodGroup CRD of scheduling.run.ai/v2alpha2; ai-dynamo/grove refuses it too.
    """,
    key=("labels", keys.LABEL_QUEUE),
    uses=lambda workload, context: list(_queue_uses(workload, context.settings)),
    remedy=lambda context: f"name one queue, preferably in the label {context.settings.queueLabelKey} of the set",
)


@rule(
    "kai/queue-key",
    capability=Capability.QUEUE,
    default=Action.WARN,
    passes=Example(pod_clique_set(labels=_asking("team-a"), annotations={VOLCANO_QUEUE: "training"})),
    fails=Example(pod_clique_set(annotations={VOLCANO_QUEUE: "training"}), config={"defaultQueue": "team-a"}),
)
def queue_key(workload: PodCliqueSet, context: RuleContext) -> Results:
    """A queue has no effect if the set names it only by the key of another scheduler, or by KAI's usual key although
    the administrator chose another key. The gang is then in the profile's defaultQueue.

    Source: kai-scheduler/KAI-Scheduler, pkg/common/constants (`global.queueLabelKey`); ai-dynamo/grove,
    operator/internal/scheduler/kai/backend.go (2026-08).
    """
    key = context.settings.queueLabelKey
    if next(_queue_uses(workload, context.settings), None) is None:
        yield from unread_queues(context, "kai-scheduler", key)


@rule(
    "kai/queue-change",
    subject=Subject.CHANGE,
    passes=Example(pod_clique_set(labels=_asking("team-a")), old=pod_clique_set(labels=_asking("team-a"))),
    fails=Example(
        pod_clique_set(labels=_asking("team-b")),
        old=pod_clique_set(labels=_asking("team-a")),
        facts=replace(_QUEUES, pod_gangs=_LIVING.pod_gangs),
    ),
)
def queue_change(change: PodCliqueSetChange, context: RuleContext) -> Results:
    """The queue and the node pool of an existing PodGroup are kept, because KAI's own tools may have moved it. A change
    would affect new gangs of the set, but not the existing gangs.

    Source: ai-dynamo/grove, operator/internal/scheduler/kai/backend.go; KAI-Scheduler, pkg/podgrouper (both keep them).
    """
    settings = context.settings
    key, pool = settings.queueLabelKey, settings.nodePoolLabelKey
    before, now = (_effective_queue(workload, settings) for workload in change)
    if before != now:
        first = next(_queue_uses(change.new, settings), None)
        use = Use(LABELS / key if first is None else first.path, now)
        where = f"its gangs are in the queue {shown(before)}" if before else "its gangs are in no queue"
        yield from forbidden_move(change, context, use, where, "queue")
    before, now = (text(workload.labels.get(pool)) for workload in change)
    if before != now:
        yield from forbidden_move(
            change, context, Use(LABELS / pool, now), f"its gangs are in {pool_called(before)}", "node pool"
        )


@rule(
    "kai/node-pool",
    passes=Example(pod_clique_set(labels={keys.LABEL_NODE_POOL: "h100", keys.LABEL_QUEUE: "pooled"}), facts=_QUEUES),
    fails=Example(pod_clique_set(labels={keys.LABEL_NODE_POOL: "default", keys.LABEL_QUEUE: "team-a"}), facts=_QUEUES),
)
def node_pool(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Each scheduler shard sees only the PodGroups and Queues with its own node-pool label. The default shard sees
    those without the label. If no shard serves the pool of a gang, no scheduler sees the gang; `default` is not the
    name of a pool. A queue in another pool does not exist for the gang's shard, and neither does a queue below such a
    queue. Neither case causes a condition or an event.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/conf (partition selector), the SchedulingShard CRD; seen with
    v0.16.8, but for the queues above.
    """
    settings, facts = context.settings, context.facts
    key = settings.nodePoolLabelKey
    pool = text(workload.labels.get(key))
    path = LABELS / key
    if (problem := unserved_pool(pool, path, facts)) is not None:
        yield problem
        if isinstance(problem, Finding):
            return
    yield from judge_node_pools(_effective_queue(workload, settings), pool, path, "the set", context)


def unserved_pool(pool: str | None, path: FieldPath, facts: ClusterFacts) -> Finding | Unjudged | None:
    """Returns what is wrong with a node pool itself: no shard serves it, or the shards are unknown."""
    if pool is None:
        return None
    if facts.kai_shards is None:
        return Unjudged(path, "the SchedulingShards", part="kai_shards")
    if pool in facts.kai_shards.values():
        return None
    why = "no SchedulingShard serves that node pool, so no scheduler would ever see the gang"
    remedy = "remove the label to use the default shard, or set the partitionLabelValue of a SchedulingShard"
    return Finding(at=path, value=pool, why=why, remedy=remedy, absent=Needed("kai_shards"))


def judge_node_pools(name: str | None, pool: str | None, path: FieldPath, whose: str, context: RuleContext) -> Results:
    """Yields a finding if a queue, or a queue above it, is in another node pool than the gang of `whose`."""
    key = context.settings.nodePoolLabelKey
    for queue_name, queue in path_of(name or "", context.facts.kai_queues or {}):
        other = queue.labels.get(key)
        if other is None and queue.has_more_labels:
            yield Unjudged(path, f"the labels of KAI Queue {shown(queue_name)}, more than are kept")
        elif other != pool:
            which = shown(queue_name) if queue_name == name else f"{shown(queue_name)}, above {shown(name)},"
            why = f"the queue {which} is in {pool_called(other)}, and each shard sees only its own pool"
            remedy = f"set the same label {key} on {whose} and the queues above it, or on none of them"
            yield Finding(at=path, value=pool, why=why, remedy=remedy)
            return


def pool_called(label: str | None) -> str:
    return "the default node pool" if label is None else f"the node pool {shown(label)}"


def _queue_uses(workload: PodCliqueSet, settings: KaiSettings) -> Iterator[Use]:
    """Yields the places that name a queue, each with that name: first the PodCliqueSet's own, then by clique name.
    Reordering the cliques moves no finding.
    """
    key = settings.queueLabelKey
    if key not in workload.mentions:
        return
    yield from _metadata_queue(mapping(workload.raw.get("metadata")), METADATA, key)
    of_cliques = [use for member in workload.cliques for use in _metadata_queue(member.raw, member.path, key)]
    yield from sorted(of_cliques, key=lambda use: FieldPath(use.path.parts[:-2]).anchor)


def _metadata_queue(metadata: Mapping[str, Any], path: FieldPath, key: str) -> Iterator[Use]:
    if (name := queue_of(metadata, key)) is not None:
        labelled = (text(mapping(metadata.get("labels")).get(key)) or "").strip()
        yield Use(path / ("labels" if labelled else "annotations") / key, name)


def _effective_queue(workload: PodCliqueSet, settings: KaiSettings) -> str | None:
    key = settings.queueLabelKey
    queue_name = record_of(workload, None).queue(key) if key in workload.mentions else None
    return queue_name or settings.defaultQueue


def judge_queue(name: str, path: FieldPath, called: str, facts: ClusterFacts) -> Results:
    """Yields the problems of a queue that a workload names, or of its name."""
    if not keys.is_queue_name(name):
        why, remedy = f"{called} is not valid as a label value and as the name of a Queue", "name a Queue that exists"
        yield Finding(at=path, value=name, why=why, remedy=remedy)
    else:
        yield from QUEUES.judge(name, path, called, facts)


_KEYS = {"zone": "example.com/zone", "rack": "example.com/rack", "slot": "example.com/slot"}
_FACTS = ClusterFacts(
    topology_bindings={"dc": TopologyBinding(_KEYS, {keys.NAME: "racks"})},
    kai_topologies={"racks": ("example.com/zone", "example.com/rack")},
)


@rule(
    "kai/topology",
    capability=TOPOLOGY,
    fails_closed=True,
    passes=Example(pod_clique_set(topologyConstraint=required("rack")), facts=_FACTS),
    fails=Example(pod_clique_set(topologyConstraint=required("slot")), facts=_FACTS),
)
def topology(workload: PodCliqueSet, context: RuleContext) -> Results:
    """kai-scheduler never starts a gang whose level is not in the Topology, or whose preferred level is broader than
    the required one. It reports only "unable to schedule". A Topology that does not exist also blocks the gang. The
    rule judges the Topology that the ClusterTopologyBinding refers to, or the Topology with the name of the binding, or
    the Topology that will be made from the binding.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/plugins/topology; seen with v0.16.8.
    """
    name = workload.topology_name()
    if name is None:
        # Grove refuses a constraint without a binding.
        return
    for constraint in workload.constraints():
        yield from _judge(constraint.topology, name, context.facts)


def _judge(topology: Topology, name: str, facts: ClusterFacts) -> Results:
    bindings = facts.topology_bindings or {}
    if name not in bindings and facts.is_whole("topology_bindings"):
        # `grove/topology-domain` refuses it.
        return
    try:
        levels = levels_of(name, facts)
    except UnknownTopology as unknown:
        yield Unjudged(topology.path, unknown.needs, part=unknown.part)
        return
    except NoTopology as missing:
        why = f"{missing.why}, so kai-scheduler would never start the gang"
        remedy = "create the Topology, or give up the topology: remove the topologyConstraint"
        yield Finding(at=topology.path, value=name, why=why, remedy=remedy, absent=missing.absent)
        return
    binding = bindings.get(name)
    if binding is None:
        yield Unjudged(topology.path, "the ClusterTopologyBinding", part="topology_bindings")
        return
    places: dict[str, int] = {}
    lacks_one = False
    for domain, path in ((topology.required, topology.required_path), (topology.preferred, topology.preferred_path)):
        # `grove/topology-domain` refuses a domain without a key.
        key = binding.keys.get(domain or "")
        if key is None:
            continue
        if key not in levels:
            never = "kai-scheduler would never start the gang, without reporting why"
            why = f"the KAI Topology has no level {key}, so {never}"
            remedy = "use a domain that is one of its levels, or add the level to the Topology"
            yield Finding(at=path, value=domain, why=why, remedy=remedy)
            lacks_one = True
        else:
            places[str(path)] = levels.index(key)
    if lacks_one:
        return
    required, preferred = places.get(str(topology.required_path)), places.get(str(topology.preferred_path))
    if required is not None and preferred is not None and preferred < required:
        why = f"it is broader than the required {topology.required}, which kai-scheduler treats as an unknown level"
        remedy = f"prefer {topology.required} or a narrower domain, or remove the preference"
        yield Finding(at=topology.preferred_path, value=topology.preferred, why=why, remedy=remedy)
