"""The queue and node pool of a gang: all cliques use one queue, which exists, is a leaf, and is in the gang's node
pool.

A PodCliqueSet names its queue by the label kai.scheduler/queue (or the key that KAI was installed with), else by an
annotation with that key, on itself or on its cliques. Source for this order: ai-dynamo/grove,
operator/internal/scheduler/kai/backend.go (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.backends.kai.keys import LABEL_NODE_POOL, LABEL_QUEUE
from webhook.backends.kai.settings import KaiSettings, RuleContext, is_queue_name
from webhook.backends.queue_families import Queues, disagreement, judge_named
from webhook.backends.queue_tree import leaves, offered, path_of
from webhook.model.capabilities import VOLCANO_QUEUE, Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, METADATA, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import KaiQueue, PodGangFacts
from webhook.model.reading import mapping, text
from webhook.model.record import queue_of, record_of
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import pod_clique_set
from webhook.validators.membership import moved, unread_queues
from webhook.validators.registry import Change, Example, Results, Subject, rule

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
        "pools": KaiQueue(None, {LABEL_NODE_POOL: "h100"}),
        "pooled": KaiQueue("pools", {LABEL_NODE_POOL: "h100"}),
    },
    kai_shards={"default": None, "h100": "h100"},
)


def _asking(queue: str) -> dict[str, str]:
    return {LABEL_QUEUE: queue}


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
    yield from judge_named(list(_named(workload, settings)), context, judge_queue, LABELS / settings.queueLabelKey)


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
    if _effective(workload, settings) is None:
        yield Finding(
            at=LABELS / settings.queueLabelKey,
            found=None,
            why="the set names no queue and the profile has no defaultQueue, so its gangs never start",
            remedy=f"name a leaf Queue in the label {settings.queueLabelKey}, or in the profile's defaultQueue",
            instead=offered(leaves(context.facts.kai_queues or {})),
        )


queue_disagree = disagreement(
    "kai/queue-disagree",
    """A gang is one PodGroup with one queue. If a clique names another queue, that name would be ignored.

    Source: the PodGroup CRD of scheduling.run.ai/v2alpha2; ai-dynamo/grove refuses it too.
    """,
    key=("labels", LABEL_QUEUE),
    uses=lambda workload, context: list(_named(workload, context.settings)),
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
    if next(_named(workload, context.settings), None) is None:
        yield from unread_queues(context, "kai-scheduler", key)


_LIVING = ClusterFacts(
    kai_queues=_QUEUES.kai_queues,
    kai_shards=_QUEUES.kai_shards,
    pod_gangs={("default", "demo-0"): PodGangFacts(workload="demo")},
)


@rule(
    "kai/queue-change",
    subject=Subject.CHANGE,
    passes=Example(pod_clique_set(labels=_asking("team-a")), old=pod_clique_set(labels=_asking("team-a"))),
    fails=Example(
        pod_clique_set(labels=_asking("team-b")), old=pod_clique_set(labels=_asking("team-a")), facts=_LIVING
    ),
)
def queue_change(change: Change, context: RuleContext) -> Results:
    """The queue and the node pool of an existing PodGroup are kept, because KAI's own tools may have moved it. A change
    would affect new gangs of the set, but not the existing gangs.

    Source: ai-dynamo/grove, operator/internal/scheduler/kai/backend.go; KAI-Scheduler, pkg/podgrouper (both keep them).
    """
    settings = context.settings
    key, pool = settings.queueLabelKey, settings.nodePoolLabelKey
    before, now = (_effective(workload, settings) for workload in change)
    if before != now:
        named = next(_named(change.new, settings), None)
        use = Use(LABELS / key if named is None else named.path, now)
        where = f"its gangs are in the queue {shown(before)}" if before else "its gangs are in no queue"
        yield from moved(change, context, use, where, "queue")
    before, now = (text(workload.labels.get(pool)) for workload in change)
    if before != now:
        yield from moved(
            change, context, Use(LABELS / pool, now), f"its gangs are in {pool_called(before)}", "node pool"
        )


@rule(
    "kai/node-pool",
    passes=Example(pod_clique_set(labels={LABEL_NODE_POOL: "h100", LABEL_QUEUE: "pooled"}), facts=_QUEUES),
    fails=Example(pod_clique_set(labels={LABEL_NODE_POOL: "default", LABEL_QUEUE: "team-a"}), facts=_QUEUES),
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
    yield from judge_node_pools(_effective(workload, settings), pool, path, "the set", context)


def unserved_pool(pool: str | None, path: FieldPath, facts: ClusterFacts) -> Finding | Unjudged | None:
    """The problem with a node pool itself: no shard serves it, or the shards are unknown. None if a shard serves it."""
    if pool is None:
        return None
    if facts.kai_shards is None:
        return Unjudged(path, "the SchedulingShards", part="kai_shards")
    if pool in facts.kai_shards.values():
        return None
    return Finding(
        at=path,
        found=pool,
        why="no SchedulingShard serves that node pool, so no scheduler would ever see the gang",
        remedy="remove the label to use the default shard, or set the partitionLabelValue of a SchedulingShard",
        absent=Needed("kai_shards"),
    )


def judge_node_pools(name: str | None, pool: str | None, path: FieldPath, whose: str, context: RuleContext) -> Results:
    """A finding if a queue, or a queue above it, is in another node pool than the gang of `whose`."""
    key = context.settings.nodePoolLabelKey
    for found, queue in path_of(name or "", context.facts.kai_queues or {}):
        other = queue.labels.get(key)
        if other is None and queue.has_more_labels:
            yield Unjudged(path, f"the labels of KAI Queue {shown(found)}, more than are kept")
        elif other != pool:
            which = shown(found) if found == name else f"{shown(found)}, above {shown(name)},"
            yield Finding(
                at=path,
                found=pool,
                why=f"the queue {which} is in {pool_called(other)}, and each shard sees only its own pool",
                remedy=f"set the same label {key} on {whose} and the queues above it, or on none of them",
            )
            return


def pool_called(label: str | None) -> str:
    """A node pool in words."""
    return "the default node pool" if label is None else f"the node pool {shown(label)}"


def _named(workload: PodCliqueSet, settings: KaiSettings) -> Iterator[Use]:
    """The places that name a queue, each with that name: first the PodCliqueSet's own, then by clique name. Reordering
    the cliques moves no finding.
    """
    key = settings.queueLabelKey
    if key not in workload.mentions:
        return
    yield from _named_in(mapping(workload.raw.get("metadata")), METADATA, key)
    of_cliques = [use for member in workload.cliques for use in _named_in(member.raw, member.path, key)]
    yield from sorted(of_cliques, key=lambda use: FieldPath(use.path.parts[:-2]).anchor)


def _named_in(metadata: Mapping[str, Any], path: FieldPath, key: str) -> Iterator[Use]:
    if (name := queue_of(metadata, key)) is not None:
        labelled = (text(mapping(metadata.get("labels")).get(key)) or "").strip()
        yield Use(path / ("labels" if labelled else "annotations") / key, name)


def _effective(workload: PodCliqueSet, settings: KaiSettings) -> str | None:
    key = settings.queueLabelKey
    named = record_of(workload, None).queue(key) if key in workload.mentions else None
    return named or settings.defaultQueue


def judge_queue(name: str, path: FieldPath, called: str, facts: ClusterFacts) -> Results:
    """The problems of a queue that a workload names, or of its name."""
    if not is_queue_name(name):
        why, remedy = f"{called} is not valid as a label value and as the name of a Queue", "name a Queue that exists"
        yield Finding(at=path, found=name, why=why, remedy=remedy)
    else:
        yield from QUEUES.judge(name, path, called, facts)
